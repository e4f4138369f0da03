//! Behaviour of the tools, each against a temporary workspace.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod bounds;
mod place;
mod relay;
mod support;

mod apply_patch;
mod asked_files;
mod asked_hosts;
#[cfg(feature = "ast-tools")]
mod ast_grep;
#[cfg(feature = "browser-tools")]
mod browser;
#[cfg(feature = "browser-tools")]
mod browser_elsewhere;
#[cfg(feature = "browser-tools")]
mod browser_fields;
#[cfg(feature = "browser-tools")]
mod chromium;
mod dispatch;
mod edit;
mod exec;
mod glob;
mod grep;
#[cfg(feature = "image-tools")]
mod image;
mod job_waits;
mod jobs;
mod multi_edit;
mod names;
mod network;
mod notebook_edit;
mod policy;
#[path = "../../../halter-exec/tests/it/privileges.rs"]
mod privileges;
mod process;
#[cfg(feature = "profiling")]
mod profile;
#[cfg(feature = "pty")]
mod pty;
mod public_work;
mod read;
mod read_media;
mod sandbox;
mod sandbox_background;
mod sandbox_hand_over;
mod sandbox_places;
mod sandbox_repositories;
mod session;
mod shell;
mod specs;
mod task;
mod typed;
mod web_fetch;
mod web_search;
mod web_server;
mod write;

/// Those that are run again with fewer rights, toolchains among them.
const CONFINEMENT_TESTS: &[&str] = &["sandbox::", "sandbox_repositories::"];
