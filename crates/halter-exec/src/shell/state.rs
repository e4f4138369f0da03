//! What has to be known about a shell to go on with it: small, plain data,
//! so that a daemon can leave it with a process that outlives it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::host::EarlierProcesses;
use super::traps::TrapMentions;
use crate::host::os_bytes;

/// A shell between two moments. Together with its
/// [files](super::ShellFiles), its process and its configuration, this is
/// all of it. The lines of a running command may hold its text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellState {
    /// The program of the running shell, or of the last one.
    #[serde(with = "os_bytes::path")]
    pub(super) program: PathBuf,
    /// Where the shell is, as it names the place.
    #[serde(with = "os_bytes::path")]
    pub(super) cwd: PathBuf,
    /// Where it belongs after a command that was sent elsewhere.
    #[serde(with = "os_bytes::optional_path")]
    pub(super) return_to: Option<PathBuf>,
    /// How the last command ended: what the next one finds in `$?`.
    pub(super) last_status: i32,
    /// The number of the next snapshot.
    pub(super) next_turn: u64,
    /// What was said about traps.
    pub(super) traps: TrapMentions,
    /// Whether the shell has been told to exit, to be followed by another.
    pub(super) leaving: bool,
    /// The command that has the shell.
    pub(super) running: Option<RunningState>,
}

/// A command that has been, or is about to be, given to the shell.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningState {
    /// What the record of its end must say.
    pub nonce: String,
    /// Where it was sent.
    #[serde(with = "os_bytes::optional_path")]
    pub sent_to: Option<PathBuf>,
    /// Whether a syntax error in it may leave the shell damaged.
    pub may_damage: bool,
    /// Whether it met a shell that had lost state.
    pub state_lost: bool,
    /// What an interrupt of it leaves alone.
    pub earlier: EarlierProcesses,
    /// What the shell is told.
    pub lines: Vec<u8>,
}

impl ShellState {
    pub(super) fn new(cwd: PathBuf) -> Self {
        Self {
            program: PathBuf::new(),
            cwd,
            return_to: None,
            last_status: 0,
            next_turn: 1,
            traps: TrapMentions::None,
            leaving: false,
            running: None,
        }
    }

    /// Where the next command runs.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        self.return_to.as_deref().unwrap_or(&self.cwd)
    }

    /// Whether a command has the shell.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

/// Shows neither the command nor its name.
impl std::fmt::Debug for ShellState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ShellState")
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .field("return_to", &self.return_to)
            .field("last_status", &self.last_status)
            .field("next_turn", &self.next_turn)
            .field("leaving", &self.leaving)
            .field("running", &self.is_running())
            .finish()
    }
}

impl RunningState {
    /// The line that makes the shell report the end.
    pub(super) fn last_line(&self) -> &[u8] {
        let lines = self.lines.as_slice();
        let before = lines.strip_suffix(b"\n").unwrap_or(lines);
        let start = before.iter().rposition(|byte| *byte == b'\n');
        lines
            .get(start.map_or(0, |start| start + 1)..)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn busy() -> ShellState {
        ShellState {
            program: "/bin/bash".into(),
            cwd: OsString::from_vec(b"/tmp/\xff\n".to_vec()).into(),
            return_to: Some("/home".into()),
            last_status: -1,
            next_turn: 7,
            traps: TrapMentions::Debug,
            leaving: true,
            running: Some(RunningState {
                nonce: "n0nce".to_owned(),
                sent_to: Some("/srv".into()),
                may_damage: false,
                state_lost: false,
                earlier: EarlierProcesses {
                    processes: [(12, 345), (13, u64::MAX)].into(),
                },
                lines: b"echo s3cret\n".to_vec(),
            }),
        }
    }

    #[test]
    fn a_state_survives_its_encoding_also_with_a_path_that_is_not_text() {
        for state in [ShellState::new("/".into()), busy()] {
            let bytes = postcard::to_stdvec(&state).unwrap();
            assert_eq!(postcard::from_bytes::<ShellState>(&bytes).unwrap(), state);
        }
    }

    #[test]
    fn debug_shows_neither_the_text_nor_the_nonce() {
        let shown = format!("{:?}", busy());
        assert!(!shown.contains("s3cret") && !shown.contains("n0nce"));
    }
}
