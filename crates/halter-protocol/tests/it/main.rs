//! The contract of the event stream, held against what is checked in.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod arbitrary;
mod coverage;
mod fixtures;
mod fuzz_bodies;
mod golden;
mod media;
mod properties;
mod schema;
