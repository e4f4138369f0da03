//! The state of one shell, for another to go on with.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::dialect::Dialect;
use super::driver::ShellDriver;
use super::host::{ShellHost, ShellProcess};
use super::snapshot::{Snapshot, Snapshots};
use super::traps::TrapMentions;
use super::words::{check_name, quote};
use crate::error::ExecError;
use crate::sys::Signal;

/// What a shell was after its last command: its directory, variables,
/// functions, aliases, options and traps. A shell elsewhere, say in another
/// sandbox, goes on from there.
#[derive(Clone)]
pub struct SavedShell {
    cwd: PathBuf,
    return_to: Option<PathBuf>,
    last_status: i32,
    traps: TrapMentions,
    dialect: Dialect,
    script: Vec<u8>,
    /// Whether this is what the last command left, and not an earlier state.
    complete: bool,
}

impl SavedShell {
    /// Where the next command runs.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        self.return_to.as_deref().unwrap_or(&self.cwd)
    }

    /// Has the next shell export a variable with this value.
    ///
    /// # Errors
    /// If it is no name of a variable.
    pub fn export(&mut self, name: &OsStr, value: &OsStr) -> Result<(), ExecError> {
        check_name(name)?;
        let assignment = [name.as_bytes(), b"=", quote(value).as_bytes()].concat();
        self.add("export ", &assignment);
        Ok(())
    }

    /// Has the next shell lack a variable.
    ///
    /// # Errors
    /// If it is no name of a variable.
    pub fn unset(&mut self, name: &OsStr) -> Result<(), ExecError> {
        check_name(name)?;
        self.add("unset -v ", name.as_bytes());
        Ok(())
    }

    fn add(&mut self, command: &str, words: &[u8]) {
        let line = format!("\n\\{}{command}", self.dialect.builtin());
        self.script.extend_from_slice(line.as_bytes());
        self.script.extend_from_slice(words);
        self.script.push(b'\n');
    }
}

/// Shows no value of a variable.
impl fmt::Debug for SavedShell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SavedShell")
            .field("cwd", &self.cwd)
            .field("return_to", &self.return_to)
            .field("script_bytes", &self.script.len())
            .field("complete", &self.complete)
            .finish()
    }
}

impl<H: ShellHost> ShellDriver<H> {
    /// The state of the shell; `None` before its first command.
    ///
    /// # Errors
    /// If a command is running in it, or a shell that ended meanwhile cannot
    /// be followed by another.
    pub async fn save(&mut self) -> Result<Option<SavedShell>, ExecError> {
        self.check_idle()?;
        if self.live.is_some() {
            // The state is written down after the last answer: one more tells
            // that this is done.
            self.settle_after_interrupt().await?;
        }
        let Some(latest) = self.snapshots.as_ref().and_then(Snapshots::latest) else {
            return Ok(None);
        };
        Ok(Some(SavedShell {
            cwd: self.state.cwd.clone(),
            return_to: self.state.return_to.clone(),
            last_status: self.state.last_status,
            traps: self.state.traps,
            dialect: Dialect::of(&self.state.program),
            complete: latest.turn() == self.state.next_turn.checked_sub(1),
            script: latest.script,
        }))
    }

    /// Has the next command meet a new shell with this state. The present one
    /// ends; what it has in the background goes on, but is no job of the next.
    ///
    /// # Errors
    /// If a command is running in it, or the state cannot be kept.
    pub async fn restore(&mut self, saved: SavedShell) -> Result<(), ExecError> {
        self.check_idle()?;
        if let Some(live) = &self.live {
            // Killed, so that no EXIT trap runs: the next shell has it, too.
            live.process.signal(Signal::KILL);
            live.process.exited().await;
            self.retire_dead();
        }
        self.state.leaving = false;
        self.unsettled = false;
        let files = match self.snapshots.take() {
            Some(known) => known,
            None => Snapshots::new(self.host.files().await?),
        };
        let turn = self.state.next_turn;
        let written =
            Snapshot::of(saved.cwd.clone(), saved.script).write(files.turn_file(turn), turn);
        self.snapshots = Some(files);
        written.map_err(|source| ExecError::io("keeping the shell's state", source))?;
        self.state.next_turn += 1;
        self.state.cwd = saved.cwd;
        self.state.return_to = saved.return_to;
        self.state.last_status = saved.last_status;
        self.state.traps = saved.traps;
        self.state_lost = !saved.complete;
        self.host.remember(&self.state);
        Ok(())
    }
}
