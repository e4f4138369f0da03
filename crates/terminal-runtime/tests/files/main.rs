//! The file tools of `halter-tools` on files of a runtime: the tests are those
//! that `halter-tools` has for its own files.
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
#[path = "../place/engine.rs"]
#[allow(dead_code, reason = "its own tests use all of it")]
mod engine;
#[path = "../place/place.rs"]
#[allow(dead_code, reason = "its own tests use all of it")]
mod place;
#[path = "../../../halter-tools/tests/it/support.rs"]
#[allow(dead_code, unexpected_cfgs, reason = "its own tests use all of it")]
mod support;

/// Tools use the files of the runtime, whatever those are.
const FILES_ELSEWHERE: bool = true;

mod faults;
mod other_files;

#[path = "../../../halter-tools/tests/it/apply_patch.rs"]
mod apply_patch;
#[path = "../../../halter-tools/tests/it/ast_grep.rs"]
mod ast_grep;
#[path = "../../../halter-tools/tests/it/edit.rs"]
mod edit;
#[path = "../../../halter-tools/tests/it/glob.rs"]
mod glob;
#[path = "../../../halter-tools/tests/it/grep.rs"]
mod grep;
#[path = "../../../halter-tools/tests/it/image.rs"]
mod image;
#[path = "../../../halter-tools/tests/it/multi_edit.rs"]
mod multi_edit;
#[path = "../../../halter-tools/tests/it/names.rs"]
mod names;
#[path = "../../../halter-tools/tests/it/notebook_edit.rs"]
mod notebook_edit;
#[path = "../../../halter-tools/tests/it/read.rs"]
mod read;
#[path = "../../../halter-tools/tests/it/read_media.rs"]
mod read_media;
#[path = "../../../halter-tools/tests/it/write.rs"]
mod write;
