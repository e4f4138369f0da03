//! Behaviour of the policy on a real filesystem and on real command lines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]
