//! Roots on disk to snapshots.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod compiling;
mod installed;
mod instructions;
mod limits;
mod plugins;
mod public_formats;
mod revisions;
mod skills;
mod support;
mod trust;
