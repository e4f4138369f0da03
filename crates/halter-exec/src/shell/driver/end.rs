//! The end of a command: waited for or brought about, and what it leaves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ShellDriver, no_shell};
use crate::error::ExecError;
use crate::exit::ExitStatus;
use crate::limits::SHELL_ANSWER_LOOK;
use crate::shell::dialect::Dialect;
use crate::shell::host::{ShellHost, ShellProcess};
use crate::shell::interrupt::interrupt;
use crate::shell::record::EndRecord;
use crate::sys::Signal;
use crate::tree::TreeControl;

/// The status of a command that Bash could not parse.
const SYNTAX_ERROR: i32 = 2;

/// How a command in a shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandEnd {
    /// Its status; with a signal if the shell itself was killed under it.
    pub status: ExitStatus,
    /// Where the next command runs.
    pub cwd: PathBuf,
    /// Whether state was lost: the next command meets, or this one met, a
    /// shell with the state of an earlier snapshot.
    pub shell_restarted: bool,
    /// How the shell's tree was held together.
    pub tree_control: TreeControl,
}

impl<H: ShellHost> ShellDriver<H> {
    /// Waits for the end of the running command. What it put into the
    /// background goes on. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If no command is running, or nobody knows how the shell ended.
    pub async fn ended(&mut self) -> Result<CommandEnd, ExecError> {
        let ended = loop {
            let (Some(live), Some(running)) = (&mut self.live, &self.state.running) else {
                break None;
            };
            let record = live.ended(&running.nonce);
            match tokio::time::timeout(SHELL_ANSWER_LOOK, record).await {
                Ok(record) => break record,
                Err(_) => self.check_for_silence(),
            }
        };
        self.finish(ended)
    }

    /// A shell that has read the line that reports the end, and reports
    /// nothing, has been told to ignore everything (`set -n`, a DEBUG trap):
    /// it is asked to exit, and then killed.
    fn check_for_silence(&mut self) {
        let Some(live) = &self.live else { return };
        // Only Bash reads no further than it has to.
        let reads_ahead = live.dialect != Dialect::Bash;
        if reads_ahead || live.process.unread().is_ok_and(|unread| unread > 0) {
            self.silent_looks = 0;
            return;
        }
        self.silent_looks += 1;
        match self.silent_looks {
            0..=2 => {}
            3 => live.process.signal(Signal::TERM),
            _ => live.process.signal(Signal::KILL),
        }
    }

    /// Interrupts everything the command started (INT, TERM, and KILL after
    /// `grace`) and keeps the shell if it can.
    ///
    /// # Errors
    /// As [`ended`](Self::ended).
    pub async fn interrupt(&mut self, grace: Duration) -> Result<CommandEnd, ExecError> {
        let ended = match (&mut self.live, &self.state.running) {
            (Some(live), Some(running)) => interrupt(live, running, grace).await,
            _ => None,
        };
        self.exit_state_left = true;
        self.unsettled = true;
        self.finish(ended)
    }

    /// After the command: what it was, and where the shell stands now.
    fn finish(&mut self, ended: Option<EndRecord>) -> Result<CommandEnd, ExecError> {
        let running = self.state.running.take().ok_or_else(no_command)?;
        let mut restarted = running.state_lost;
        self.state_lost = false;
        let live = self.live.as_ref().ok_or_else(no_shell)?;
        let tree_control = live.process.tree_control();
        let status = match ended {
            Some(record) => {
                self.state.last_status = record.status;
                self.unsettled |= record.interrupted;
                self.settle(record.cwd, running.sent_to.as_deref());
                if running.may_damage && record.status == SYNTAX_ERROR {
                    self.ask_to_exit();
                } else {
                    self.save_state();
                }
                ExitStatus::from_shell_code(record.status)
            }
            None => {
                let status = live.process.exit_status();
                match self.retire_dead() {
                    Some(cwd) => self.settle(cwd, running.sent_to.as_deref()),
                    None => restarted = true,
                }
                let status = status?;
                self.state.last_status = status.shell_code();
                status
            }
        };
        self.host.remember(&self.state);
        Ok(CommandEnd {
            status,
            cwd: self.cwd().to_owned(),
            shell_restarted: restarted,
            tree_control,
        })
    }

    /// Notes where the shell is after a command that was sent to `sent_to`.
    fn settle(&mut self, cwd: PathBuf, sent_to: Option<&Path>) {
        self.state.return_to = match sent_to {
            Some(place) if place != self.cwd() && self.same_place(place, &cwd) => {
                Some(self.cwd().to_owned())
            }
            _ => None,
        };
        // A command may have unset the variable that the shell answers from.
        if cwd.is_absolute() {
            self.state.cwd = cwd;
        }
    }

    /// Whether both names are of one directory.
    fn same_place(&self, left: &Path, right: &Path) -> bool {
        match (self.host.directory(left), self.host.directory(right)) {
            (Ok(Some(left)), Ok(Some(right))) => left == right,
            _ => left == right,
        }
    }

    /// Has the shell write its state down; it does so after it has answered.
    fn save_state(&mut self) {
        let (Some(live), Some(snapshots)) = (&self.live, &self.snapshots) else {
            return;
        };
        let turn = self.state.next_turn;
        self.state.next_turn += 1;
        // A shell that died in this moment is found dead next time.
        let line = live.dialect.save_line(turn, snapshots.turn_path(turn));
        let _ = live.process.send_later(&line);
    }
}

fn no_command() -> ExecError {
    ExecError::invalid("the shell", "no command is running in it")
}
