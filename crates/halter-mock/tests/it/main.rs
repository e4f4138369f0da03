//! The service over real sockets, spoken to with a plain client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod answers;
mod checks;
mod client;
mod clients;
mod faults;
mod scenarios;
mod sdk;
mod service;
mod speech;
