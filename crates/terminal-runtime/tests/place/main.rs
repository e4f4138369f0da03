//! The tools of `halter-tools` with a runtime as the place where they work:
//! the tests are those that `halter-tools` has for its own place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../halter-tools/tests/it/relay.rs"]
mod relay;
#[path = "../../../halter-tools/tests/it/support.rs"]
#[allow(dead_code, unexpected_cfgs, reason = "its own tests use all of it")]
mod support;

/// Tools use the files of this machine, which the runtimes have as well.
const FILES_ELSEWHERE: bool = false;

mod containers;
mod engine;
mod guarded;
mod lease;
#[allow(dead_code, reason = "tests of files use more of it")]
mod place;
mod restart;
mod same_task;
mod silence;

#[path = "../../../halter-tools/tests/it/jobs.rs"]
mod jobs;
#[path = "../../../halter-tools/tests/it/process.rs"]
mod process;
#[path = "../../../halter-tools/tests/it/pty.rs"]
mod pty;
#[path = "../../../halter-tools/tests/it/sandbox.rs"]
mod sandbox;
#[path = "../../../halter-tools/tests/it/shell.rs"]
mod shell;
