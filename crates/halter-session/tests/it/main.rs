//! What the stores, the log and the traces promise, tested from outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod concurrency;
mod durability;
mod log;
mod properties;
mod sqlite_file;
mod stores;
mod traces;
