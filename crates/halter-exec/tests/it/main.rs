//! Behaviour of the crate against the real system.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

#[cfg(all(target_os = "linux", not(halter_portable)))]
mod cgroups;
mod contained;
#[cfg(all(target_os = "linux", not(halter_portable)))]
mod container_mounts;
// Hundreds of commands, each with a look at `ps` there.
#[cfg(all(target_os = "linux", not(halter_portable)))]
mod differential;
mod input;
mod launch;
mod limits;
mod output;
mod own_network;
#[cfg(all(target_os = "linux", not(halter_portable)))]
mod privileges;
mod processes;
mod run;
mod sandbox;
mod shell;
mod shell_edges;
mod shell_host;
mod shell_report;
mod spool;
mod support;
mod terminal;
#[cfg(all(target_os = "linux", not(halter_portable)))]
mod walking;

/// Those that are run again with fewer rights.
#[cfg(all(target_os = "linux", not(halter_portable)))]
const CONFINEMENT_TESTS: &[&str] = &["sandbox::", "contained::", "run::", "launch::"];
