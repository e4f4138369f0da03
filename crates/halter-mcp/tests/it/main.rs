//! Behaviour of servers and hosts of the protocol.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod authorization;
mod directories;
mod fixture;
mod http;
mod http_fixture;
mod oauth;
mod requests;
mod resources;
mod server;
mod servers;
mod support;
