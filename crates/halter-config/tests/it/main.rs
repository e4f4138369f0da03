//! Behaviour of the configuration, from files and variables to values and origins.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod available;
mod credentials;
mod document;
mod layers;
mod limits;
mod permissions;
mod properties;
mod schema;
mod secrets;
mod seed;
mod services;
mod support;
mod trust;
mod variables;
