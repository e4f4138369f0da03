//! The logic of a persistent shell, whoever hosts it.

mod end;
mod lifecycle;
mod start;

use std::path::Path;

use crate::error::ExecError;
use crate::limits::SHELL_CLOSE_GRACE;
use crate::shell::ShellConfig;
use crate::shell::dialect::Dialect;
use crate::shell::host::{ShellFiles, ShellHost, ShellProcess};
use crate::shell::live::LiveShell;
use crate::shell::snapshot::Snapshots;
use crate::shell::state::ShellState;
use crate::sys::Signal;

pub use end::CommandEnd;
pub use start::CommandText;

/// Drives one persistent shell: [`start`](Self::start) gives it a command,
/// [`ended`](Self::ended) waits for the end, [`interrupt`](Self::interrupt)
/// brings it about. Output is none of its business: the shell opens the
/// streams it is told to, and the caller moves the bytes meanwhile.
#[derive(Debug)]
pub struct ShellDriver<H: ShellHost> {
    pub(super) config: ShellConfig,
    pub(super) host: H,
    pub(super) live: Option<LiveShell<H::Process>>,
    pub(super) snapshots: Option<Snapshots>,
    pub(super) state: ShellState,
    /// Whether state was lost that no command has been told of.
    pub(super) state_lost: bool,
    /// Whether an interrupted shell may have left a state for an exit that
    /// did not come.
    exit_state_left: bool,
    /// Whether an interrupt may still be on its way to the shell.
    pub(super) unsettled: bool,
    /// How often in a row it seemed that the shell will not answer.
    silent_looks: u32,
}

impl<H: ShellHost> ShellDriver<H> {
    /// A shell that is started when it is first needed.
    #[must_use]
    pub fn new(host: H, config: ShellConfig) -> Self {
        Self {
            state: ShellState::new(config.cwd.clone()),
            config,
            host,
            live: None,
            snapshots: None,
            state_lost: false,
            exit_state_left: false,
            unsettled: false,
            silent_looks: 0,
        }
    }

    /// Goes on with a shell that another driver left: its state, its files,
    /// and its process if it had one. Records the process has written since
    /// `state` was remembered must be returned by its
    /// [`records`](ShellProcess::records) again. If the state has a running
    /// command, the shell has been given its lines or will be, and it has
    /// [`ended`](Self::ended) or will, with its status.
    #[must_use]
    pub fn adopt(
        host: H,
        config: ShellConfig,
        state: ShellState,
        files: ShellFiles,
        process: Option<H::Process>,
    ) -> Self {
        let live = process.map(|process| LiveShell::new(process, Dialect::of(&state.program)));
        Self {
            config,
            host,
            live,
            snapshots: Some(Snapshots::new(files)),
            state,
            state_lost: false,
            exit_state_left: true,
            unsettled: true,
            silent_looks: 0,
        }
    }

    /// What has to be known to go on with this shell.
    pub fn state(&self) -> &ShellState {
        &self.state
    }

    /// Where the next command runs.
    pub fn cwd(&self) -> &Path {
        self.state.cwd()
    }

    /// Where it runs.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Where it runs.
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// The shell's process, while there is one.
    pub fn process(&self) -> Option<&H::Process> {
        let live = self.live.as_ref()?;
        (!live.process.has_exited()).then_some(&live.process)
    }

    /// Fails if a command is running in the shell.
    pub(super) fn check_idle(&self) -> Result<(), ExecError> {
        match self.state.is_running() {
            true => Err(ExecError::invalid(
                "the shell",
                "a command is running in it; wait for its end",
            )),
            false => Ok(()),
        }
    }

    /// Fails if the shell was lost: what it does and what its files hold is for
    /// another driver.
    pub(in crate::shell) fn check_held(&self) -> Result<(), ExecError> {
        match &self.live {
            Some(live) if live.process.is_lost() => Err(ExecError::StatusLost {
                pid: live.process.pid(),
            }),
            _ => Ok(()),
        }
    }

    /// Signals everything the running command started, and not the shell.
    pub fn signal(&self, signal: Signal) {
        if let (Some(live), Some(running)) = (&self.live, &self.state.running) {
            live.process.signal_others(signal, &running.earlier);
        }
    }

    /// Gives up the shell together with what it runs: the caller gets the
    /// process, to do away with it. The next command meets a new shell with
    /// the state of the last snapshot.
    pub fn abandon(&mut self) -> Option<H::Process> {
        let live = self.live.take()?;
        self.state_lost = true;
        self.state.running = None;
        self.host.remember(&self.state);
        Some(live.process)
    }

    /// Ends the shell: it may leave by itself for a moment (its EXIT trap
    /// runs), then it and everything it started is killed.
    pub async fn close(&mut self) {
        let Some(live) = self.live.take() else { return };
        self.state.running = None;
        if live.send(&live.dialect.exit_line()).is_ok() {
            let leaving = live.process.exited();
            let _ = tokio::time::timeout(SHELL_CLOSE_GRACE, leaving).await;
        }
        self.host.end(live.process).await;
    }
}

fn no_shell() -> ExecError {
    ExecError::invalid("the shell", "it has no process")
}
