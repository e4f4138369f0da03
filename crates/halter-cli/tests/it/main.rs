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
mod asked_hosts;
mod attach;
#[path = "../../../halter-mcp/tests/it/authorization.rs"]
#[allow(dead_code)] // Shared: others use the rest.
mod authorization;
mod bad_input;
mod budget;
mod cassettes;
mod check_path;
#[path = "../../../halter-tools/tests/it/chromium.rs"]
#[allow(dead_code, reason = "its own tests use all of it")]
mod chromium;
mod compaction;
mod config;
mod disk;
mod doctor;
mod documents;
mod every_tool;
mod exits;
mod file_tools;
mod hook_events;
mod hook_files;
mod hook_origins;
#[path = "../../../halter-mcp/tests/it/http_fixture.rs"]
#[allow(dead_code)] // Shared: others use the rest.
mod http_fixture;
mod instructions;
mod language_servers;
#[path = "../../src/limits.rs"]
#[allow(dead_code, reason = "each limit is used where it is tested")]
mod limits;
mod marked_texts;
mod mcp;
#[path = "../../../halter-mcp/tests/it/fixture.rs"]
mod mcp_fixture;
mod mcp_http;
mod mcp_kills;
mod mcp_late;
mod mcp_messages;
mod mcp_real;
mod mcp_reports;
mod mcp_rust_server;
mod mcp_sandbox;
mod mcp_serve;
mod mcp_sources;
mod mock;
mod models;
mod optional_tools;
mod permissions;
mod place;
mod plugins;
mod policy_check;
mod run;
mod runtime_place;
mod sandbox;
mod sandbox_missing;
mod scenarios;
mod screen;
mod sessions;
mod signals;
mod terminal;
mod tool_turn;
mod tools;
mod watch;
mod web;
