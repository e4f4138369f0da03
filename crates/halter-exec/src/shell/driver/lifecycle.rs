//! The shell processes of a driver: started, sent away, followed by others.

use std::path::PathBuf;

use super::{ShellDriver, no_shell};
use crate::environment::Environment;
use crate::error::ExecError;
use crate::limits::SHELL_CLOSE_GRACE;
use crate::shell::dialect::Dialect;
use crate::shell::host::{ShellHost, ShellLaunch, ShellProcess};
use crate::shell::live::LiveShell;
use crate::shell::snapshot::Snapshots;
use crate::sys::Signal;

impl<H: ShellHost> ShellDriver<H> {
    /// Makes sure that a shell is running.
    pub(in crate::shell) async fn make_live(&mut self) -> Result<(), ExecError> {
        let lives = |live: &LiveShell<H::Process>| !live.process.has_exited();
        if !self.state.leaving && self.live.as_ref().is_some_and(lives) {
            return Ok(());
        }
        // Apart, so that nobody carries it about who does not need it.
        Box::pin(self.replace()).await
    }

    async fn replace(&mut self) -> Result<(), ExecError> {
        self.wait_for_exit().await;
        match self.live.take() {
            Some(live) if !live.process.has_exited() => {
                self.live = Some(live);
                return Ok(());
            }
            Some(dead) => {
                self.live = Some(dead);
                self.check_held()?;
                match self.retire_dead() {
                    Some(cwd) => self.state.cwd = cwd,
                    None => self.state_lost = true,
                }
            }
            None => {}
        }
        let files = match self.snapshots.take() {
            Some(known) => known,
            None => Snapshots::new(self.host.files().await?),
        };
        let launched = self.launch(&files).await;
        self.snapshots = Some(files);
        self.live = Some(launched?);
        Ok(())
    }

    /// A new shell with the newest state there is.
    async fn launch(&mut self, snapshots: &Snapshots) -> Result<LiveShell<H::Process>, ExecError> {
        let program = self.host.find_shell(&self.config)?;
        let dialect = Dialect::of(&program);
        let latest = snapshots.latest();
        let empty = Environment::new();
        // A shell that is given its state gets every variable from there,
        // and lacks those that were unset.
        let (environment, cwd) = match &latest {
            Some(_) => (&empty, self.existing()?),
            None => (&self.config.environment, self.config.cwd.clone()),
        };
        let state = latest.as_ref().map(|latest| latest.script.as_slice());
        let prologue = dialect.prologue(state, &self.config.options, snapshots.exit_path());
        let mailbox = snapshots.mailbox();
        mailbox
            .write(&prologue)
            .map_err(|source| ExecError::io("preparing the shell", source))?;
        let mut failure = no_shell();
        for invocation in dialect.invocations() {
            let arguments = dialect.arguments(&program, *invocation);
            let launch = ShellLaunch {
                program: &program,
                arguments: &arguments,
                environment,
                cwd: &cwd,
            };
            let process = self.host.launch(&launch).await?;
            let mut live = LiveShell::new(process, dialect);
            match live.prepare(&program, mailbox.path(), *invocation).await {
                Ok(record) => {
                    self.state.cwd = record.cwd;
                    self.state.program = program;
                    return Ok(live);
                }
                Err(error) => failure = error,
            }
            let exited = live.process.has_exited();
            self.host.end(live.process).await;
            if !exited {
                break;
            }
        }
        Err(failure)
    }

    /// Where a shell with a past starts: where it was, or where the first one
    /// did. Nowhere else, since a command may name its files from there.
    fn existing(&self) -> Result<PathBuf, ExecError> {
        [&self.state.cwd, &self.config.cwd]
            .into_iter()
            .find(|path| self.host.directory(path).is_ok())
            .cloned()
            .ok_or_else(|| ExecError::WorkingDirectoryGone {
                path: self.state.cwd.clone(),
            })
    }

    /// Has the shell exit, which writes its state down; the next command
    /// meets another.
    pub(super) fn ask_to_exit(&mut self) {
        if let Some(live) = &self.live {
            let _ = live.send(&live.dialect.exit_line());
            self.state.leaving = true;
        }
    }

    /// Waits for a shell that was sent away, but not forever.
    async fn wait_for_exit(&mut self) {
        if let (true, Some(live)) = (self.state.leaving, &self.live) {
            let gone = live.process.exited();
            if tokio::time::timeout(SHELL_CLOSE_GRACE, gone).await.is_err() {
                live.process.signal(Signal::KILL);
                live.process.exited().await;
            }
        }
        self.state.leaving = false;
    }

    /// Retires a shell that has ended, and returns where it was if it left
    /// its state.
    pub(in crate::shell) fn retire_dead(&mut self) -> Option<PathBuf> {
        // A lost one may be writing its state down right now.
        self.check_held().ok()?;
        if let Some(dead) = self.live.take() {
            self.host.retire(dead.process);
        }
        self.keep_exit_state()
    }

    /// Makes the state that the dead shell left at its exit the newest one,
    /// and returns where the shell was.
    fn keep_exit_state(&mut self) -> Option<PathBuf> {
        let turn = self.state.next_turn;
        let kept = self.snapshots.as_ref()?.keep_exit(turn)?;
        self.state.next_turn += 1;
        Some(kept.cwd)
    }
}
