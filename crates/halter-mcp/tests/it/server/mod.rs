//! An agent, served to hosts.

mod bad_input;
mod host;
mod http;
mod questions;
mod tasks;
