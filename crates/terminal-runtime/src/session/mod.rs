//! Sessions: their names, their states, what they are given.

mod ids;

pub use ids::SessionId;
