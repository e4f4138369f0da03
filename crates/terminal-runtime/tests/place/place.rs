//! A daemon of its own for each test.

use std::sync::Arc;

use halter_tools::exec::{ExecBackend, ExecSession, ExecSessionSpec};
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::client::Target;

use crate::common::Daemon;

/// A runtime that lives as long as this.
#[derive(Debug)]
pub struct DaemonExec {
    exec: RuntimeExec,
    daemon: Daemon,
}

impl DaemonExec {
    pub fn start() -> Self {
        // The tests look at processes by the numbers that commands print.
        let daemon = Daemon::start_with(&[("TRL_PID_NAMESPACE", "0")]);
        let target = Target::Socket(daemon.socket());
        Self {
            exec: RuntimeExec::new(target, RuntimeExecSettings::default()),
            daemon,
        }
    }

    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }
}

impl ExecBackend for DaemonExec {
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession> {
        self.exec.open(spec)
    }
}

/// Where the commands of the tests run.
pub fn here() -> Arc<dyn ExecBackend> {
    Arc::new(DaemonExec::start())
}
