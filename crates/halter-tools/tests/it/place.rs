//! Where the commands of these tests run. `terminal-runtime` runs a part of the
//! tests in places of its own.

use halter_tools::policy::SessionFiles;
use halter_tools::{ExecBackend, LocalExec};
use std::path::Path;
use std::sync::Arc;

/// Variables that commands have there besides those they are given.
pub fn variables() -> &'static [&'static str] {
    &[]
}

/// Whether a process lives that a command in this directory knows by this
/// number.
pub fn is_running(pid: i32, _: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline"));
    line.is_ok_and(|line| !line.is_empty())
}

/// Whether a sandbox there lets commands reach single hosts.
pub fn filters_hosts() -> bool {
    true
}

/// Whether what holds commands there is the sandbox of this machine.
pub fn has_rungs() -> bool {
    true
}

/// The files of these tests are those of this machine.
pub fn files_of(_: &Arc<dyn ExecBackend>, _: &Path) -> Option<SessionFiles> {
    None
}

/// As children of this program.
pub fn here() -> Arc<dyn ExecBackend> {
    Arc::new(LocalExec)
}
