//! An agent, served to hosts.

mod bad_input;
mod host;
mod questions;
mod tasks;
