//! Giving a shell its next command.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Handover, ShellDriver, no_shell};
use crate::environment::Environment;
use crate::error::ExecError;
use crate::limits::{MAX_COMMAND_BYTES, SHELL_START_DEADLINE};
use crate::shell::dialect::{Dialect, Handling, Needs, Script};
use crate::shell::host::{CommandStreams, ShellHost, ShellProcess};
use crate::shell::quiet::Effects;
use crate::shell::snapshot::Snapshots;
use crate::shell::state::RunningState;
use crate::shell::traps::TrapWatch;
use crate::sys::Signal;

/// How long a shell that was interrupted may take to answer, before it is
/// asked again.
const CALM_LOOK: Duration = Duration::from_millis(250);

/// One command, as the shell sees it.
#[derive(Clone, Copy)]
pub struct CommandText<'a> {
    /// What the shell evaluates.
    pub text: &'a str,
    /// The directory for this command only; see
    /// [`ShellCommand::cwd`](crate::ShellCommand::cwd).
    pub cwd: Option<&'a Path>,
    /// Variables for this command only.
    pub environment: &'a Environment,
}

impl CommandText<'_> {
    fn check(&self) -> Result<(), ExecError> {
        if self.text.len() > MAX_COMMAND_BYTES {
            return Err(ExecError::LimitExceeded {
                what: "the command",
                limit: MAX_COMMAND_BYTES,
                actual: self.text.len(),
            });
        }
        if self.text.contains('\0') {
            return Err(ExecError::invalid(
                "the command",
                "it contains a NUL byte; remove it",
            ));
        }
        Ok(())
    }
}

impl<H: ShellHost> ShellDriver<H> {
    /// Gives the shell a command whose streams it opens at these paths; they
    /// must be there until it has. Starts a shell if none is running.
    ///
    /// # Errors
    /// If the shell cannot be started or is busy, or the command cannot be
    /// given to it. It has then not run.
    pub async fn start(
        &mut self,
        command: &CommandText<'_>,
        streams: &CommandStreams<'_>,
    ) -> Result<(), ExecError> {
        command.check()?;
        if self.state.is_running() {
            return Err(ExecError::invalid(
                "the shell",
                "a command is running in it; wait for its end",
            ));
        }
        self.make_live().await?;
        if std::mem::take(&mut self.disturbed) {
            Box::pin(self.calm_down()).await?;
        }
        let sent_to = self.directory_for(command.cwd)?;
        let effects = Effects::of(command.text);
        self.state.running = Some(self.running(command, effects, sent_to, streams)?);
        self.state.traps = self.state.traps.and(command.text);
        self.state.code |= effects.defines_code;
        self.handover = Handover::Certain;
        self.deaf_looks = 0;
        self.host.remember(&self.state);
        self.give().map_err(failed)
    }

    /// The command with the lines that run it, and what is known about it.
    fn running(
        &mut self,
        command: &CommandText<'_>,
        effects: Effects,
        sent_to: Option<PathBuf>,
        streams: &CommandStreams<'_>,
    ) -> Result<RunningState, ExecError> {
        let (Some(live), Some(snapshots)) = (&self.live, &self.snapshots) else {
            return Err(no_shell());
        };
        if self.exit_state_left {
            snapshots.clear_exit();
            self.exit_state_left = false;
        }
        let dialect = live.dialect;
        let script =
            dialect.command_script(command.text, sent_to.as_deref(), command.environment)?;
        let nonce = self.names.next()?;
        let script = if script.len() <= Script::MAX_INLINE_BYTES {
            Script::Inline(&script)
        } else {
            let mailbox = snapshots.mailbox();
            mailbox.write(&script).map_err(failed)?;
            Script::Mailbox(mailbox.path())
        };
        let handling = self.handling(command.text, effects, streams.stdin);
        let lines = dialect.command_lines(&nonce, &script, streams, &handling);
        let bystanders = match self.followers.take() {
            Some(known) => known,
            None => live.process.followers(),
        };
        let is_bash = dialect == Dialect::Bash;
        // Other shells do not say what functions they have.
        let literal = is_bash || !self.state.code;
        Ok(RunningState {
            nonce,
            sent_to,
            keeps_state: literal && command.cwd.is_none() && effects.keeps_state,
            starts_processes: effects.starts_processes,
            may_damage: is_bash && effects.may_damage,
            state_lost: self.state_lost,
            bystanders,
            lines,
        })
    }

    /// The directory to go to before the command, if it is not where the
    /// shell is. Looked at beforehand, so that the error can name it.
    fn directory_for(&self, wanted: Option<&Path>) -> Result<Option<PathBuf>, ExecError> {
        let wanted = match (wanted, &self.state.return_to) {
            (Some(wanted), _) => self.cwd().join(wanted),
            (None, Some(home)) => home.clone(),
            (None, None) => return Ok(None),
        };
        match self.host.directory(&wanted) {
            Ok(_) => Ok(Some(wanted)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ExecError::WorkingDirectoryGone { path: wanted })
            }
            Err(source) => Err(ExecError::WorkingDirectoryUnusable {
                path: wanted,
                source,
            }),
        }
    }

    /// How a command is to be treated, by what it may do.
    fn handling(&self, text: &str, effects: Effects, stdin: &Path) -> Handling {
        Handling {
            last_status: self.state.last_status,
            traps: if effects.starts_processes {
                TrapWatch::of(text, self.state.traps)
            } else {
                TrapWatch::None
            },
            needs: self.needs(effects, stdin),
        }
    }

    /// What a command must be given or kept from, by what it may do.
    fn needs(&self, effects: Effects, stdin: &Path) -> Needs {
        // Words that mean what they usually mean cannot have moved the
        // shell's own descriptors, which are as they were.
        let literal = self.snapshots.as_ref().is_some_and(Snapshots::is_literal);
        if !(self.state.script && literal && effects.keeps_state) {
            return Needs::ALL;
        }
        Needs {
            own_input: stdin == Path::new("/dev/null"),
            hides_records: effects.starts_processes,
        }
    }

    /// Waits until a shell that was interrupted has answered something said
    /// after that: an interrupt that reaches it late makes it drop lines it
    /// has read already.
    async fn calm_down(&mut self) -> Result<(), ExecError> {
        let until = tokio::time::Instant::now() + SHELL_START_DEADLINE;
        while let Some(live) = &mut self.live {
            let nonce = self.names.next()?;
            let question = live.dialect.calm_lines(&nonce);
            // One that cannot be asked is dead, which shows below.
            let _ = live.send(&question);
            match tokio::time::timeout(CALM_LOOK, live.ended(&nonce)).await {
                Ok(Some(record)) if !record.interrupted => return Ok(()),
                Ok(None) => break,
                // Once more in between, or still.
                _ if tokio::time::Instant::now() < until => {}
                _ => {
                    live.process.signal(Signal::KILL);
                    live.process.exited().await;
                    break;
                }
            }
        }
        self.make_live().await
    }

    /// Says the lines of the command to the shell.
    pub(super) fn give(&mut self) -> io::Result<()> {
        let (Some(live), Some(running)) = (&self.live, &self.state.running) else {
            return Ok(());
        };
        let given = live.send(&running.lines);
        // A shell that has just died is found dead by whoever waits for it.
        if given.is_err() && !live.process.has_exited() {
            self.state.running = None;
            self.host.remember(&self.state);
            return given;
        }
        Ok(())
    }
}

fn failed(source: io::Error) -> ExecError {
    ExecError::io("giving the command to the shell", source)
}
