//! The turn machine and its drivers, prompt assembly and session ownership.

pub mod driver;
pub mod engine;
pub mod hub;
pub mod limits;
