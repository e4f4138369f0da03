//! The harness as an embedding program sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod approvals;
mod asked_while_running;
mod builder;
mod commands;
mod consumers;
mod deferred;
mod examples;
mod guest_script;
mod late_hooks;
#[cfg(feature = "mcp")]
mod mcp_directories;
mod native;
#[cfg(feature = "sqlite")]
mod own_files;
mod prefix;
mod prices;
mod promises;
mod reach;
mod resources;
mod seed_programs;
mod services;
mod skills;
mod streams;
mod support;
mod troubleshooting;
