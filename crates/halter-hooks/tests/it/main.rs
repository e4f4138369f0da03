//! Behaviour of hooks as a runtime sees it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod cancelling;
mod detached;
mod failing;
mod files;
mod merging;
mod properties;
mod seed;
mod sessions;
mod support;
