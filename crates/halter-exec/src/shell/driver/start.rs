//! Giving a shell its next command.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ShellDriver, no_shell};
use crate::environment::Environment;
use crate::error::ExecError;
use crate::limits::{MAX_COMMAND_BYTES, SHELL_START_DEADLINE};
use crate::nonce;
use crate::shell::dialect::{Dialect, Handling, Script};
use crate::shell::host::{CommandStreams, ShellHost, ShellProcess};
use crate::shell::state::RunningState;
use crate::shell::traps::TrapWatch;
use crate::sys::Signal;

/// How long a shell that was interrupted may take to answer, before it is
/// asked again.
const SETTLE_LOOK: Duration = Duration::from_millis(250);

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
        self.check_idle()?;
        self.make_live().await?;
        if std::mem::take(&mut self.unsettled) {
            Box::pin(self.settle_after_interrupt()).await?;
        }
        let sent_to = self.directory_for(command.cwd)?;
        self.state.running = Some(self.running(command, sent_to, streams)?);
        self.state.traps = self.state.traps.and(command.text);
        self.silent_looks = 0;
        self.host.remember(&self.state);
        self.give().map_err(failed)
    }

    /// The command with the lines that run it, and what is known about it.
    fn running(
        &mut self,
        command: &CommandText<'_>,
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
        let nonce = nonce::short()?;
        let script = if script.len() <= Script::MAX_INLINE_BYTES {
            Script::Inline(&script)
        } else {
            let mailbox = snapshots.mailbox();
            mailbox.write(&script).map_err(failed)?;
            Script::Mailbox(mailbox.path())
        };
        let handling = Handling {
            last_status: self.state.last_status,
            traps: TrapWatch::of(command.text, self.state.traps),
        };
        let lines = dialect.command_lines(&nonce, &script, streams, &handling);
        Ok(RunningState {
            nonce,
            sent_to,
            may_damage: dialect == Dialect::Bash && has_unclosed_substitution(command.text),
            state_lost: self.state_lost,
            earlier: live.process.followers(),
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

    /// Waits until a shell that was interrupted has answered something said
    /// after that: an interrupt that reaches it late makes it drop lines it
    /// has read already.
    pub(in crate::shell) async fn settle_after_interrupt(&mut self) -> Result<(), ExecError> {
        let until = tokio::time::Instant::now() + SHELL_START_DEADLINE;
        while let Some(live) = &mut self.live {
            let nonce = nonce::short()?;
            let question = live.dialect.settle_lines(&nonce);
            // One that cannot be asked is dead, which shows below.
            let _ = live.send(&question);
            match tokio::time::timeout(SETTLE_LOOK, live.ended(&nonce)).await {
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
    fn give(&mut self) -> io::Result<()> {
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

/// Whether a substitution may lack its end: after such a syntax error Bash's
/// memory is damaged (seen in 5.2), so that the shell is replaced. Quotes are
/// not looked at: a shell that is replaced for nothing costs a start.
fn has_unclosed_substitution(text: &str) -> bool {
    let count = |byte: char| text.matches(byte).count();
    let opens = ["$(", "<(", ">("].iter().any(|open| text.contains(open));
    opens && count('(') > count(')')
}

fn failed(source: io::Error) -> ExecError {
    ExecError::io("giving the command to the shell", source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unclosed_substitution_is_seen() {
        for (text, unclosed) in [
            ("echo $(echo a", true),
            ("cat <(echo a", true),
            ("echo $(echo $(echo a)", true),
            ("echo $(echo a)", false),
            ("(echo a", false),
            ("echo a", false),
        ] {
            assert_eq!(has_unclosed_substitution(text), unclosed, "{text}");
        }
    }
}
