//! Behaviour of servers and hosts of the protocol.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod fixture;
mod server;
mod servers;
mod support;
