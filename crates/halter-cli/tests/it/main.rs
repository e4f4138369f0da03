//! The whole binary, as people and scripts use it, with the offline model and with
//! scripted model services.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod approvals;
mod attach;
mod bad_input;
mod budget;
mod cassettes;
mod check_path;
mod compaction;
mod config;
mod disk;
mod doctor;
mod documents;
mod exits;
mod file_tools;
mod hook_files;
mod instructions;
mod language_servers;
#[path = "../../src/limits.rs"]
#[allow(dead_code, reason = "each limit is used where it is tested")]
mod limits;
mod mcp;
#[path = "../../../halter-mcp/tests/it/fixture.rs"]
mod mcp_fixture;
mod mcp_serve;
mod mock;
mod models;
mod optional_tools;
mod permissions;
mod place;
mod plugins;
mod policy_check;
mod run;
mod sandbox;
mod scenarios;
mod screen;
mod sessions;
mod signals;
mod terminal;
mod tool_turn;
mod tools;
mod web;
