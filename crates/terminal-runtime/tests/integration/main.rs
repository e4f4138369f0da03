//! Behaviour of the runtime as its users see it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod adoption;
mod core;
mod holder;
mod support;
