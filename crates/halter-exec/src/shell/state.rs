//! What has to be known about a shell to go on with it: small, plain data
//! with a byte encoding of its own, so that a daemon can leave it with
//! somebody who survives it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::host::Bystanders;
use super::traps::TrapTalk;
use crate::error::ExecError;

/// A shell between two moments. Together with its
/// [files](super::ShellFiles), its process and its configuration, this is
/// all of it. The lines of a running command may hold its text.
#[derive(Clone, PartialEq, Eq)]
pub struct ShellState {
    /// The program of the running shell, or of the last one.
    pub(super) program: PathBuf,
    /// Whether the running shell reads its lines as a script, and has an empty
    /// input.
    pub(super) script: bool,
    /// Where the shell is, as it names the place.
    pub(super) cwd: PathBuf,
    /// Where it belongs after a command that was sent elsewhere.
    pub(super) return_to: Option<PathBuf>,
    /// How the last command ended: what the next one finds in `$?`.
    pub(super) last_status: i32,
    /// The number of the next snapshot.
    pub(super) next_turn: u64,
    /// What was said about traps.
    pub(super) traps: TrapTalk,
    /// Whether the running shell may have functions or aliases that are not
    /// ours.
    pub(super) code: bool,
    /// Whether the shell has been told to exit, to be followed by another.
    pub(super) leaving: bool,
    /// The command that has the shell.
    pub(super) running: Option<RunningState>,
}

/// A command that has been, or is about to be, given to the shell.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RunningState {
    /// What the record of its end must say.
    pub nonce: String,
    /// Where it was sent.
    pub sent_to: Option<PathBuf>,
    /// Whether it leaves the shell's state as it was.
    pub keeps_state: bool,
    /// Whether it may leave processes behind.
    pub starts_processes: bool,
    /// Whether a syntax error in it may leave the shell damaged.
    pub may_damage: bool,
    /// Whether it met a shell that had lost state.
    pub state_lost: bool,
    /// What an interrupt of it leaves alone.
    pub bystanders: Bystanders,
    /// What the shell is told.
    pub lines: Vec<u8>,
}

impl ShellState {
    pub(super) fn new(cwd: PathBuf) -> Self {
        Self {
            program: PathBuf::new(),
            script: false,
            cwd,
            return_to: None,
            last_status: 0,
            next_turn: 1,
            traps: TrapTalk::None,
            code: false,
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

    /// The state as bytes; see [`decode`](Self::decode).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let lines = self
            .running
            .as_ref()
            .map_or(0, |running| running.lines.len());
        let mut writer = Writer(Vec::with_capacity(lines + ROOM));
        writer.0.push(VERSION);
        writer.bytes(self.program.as_os_str().as_bytes());
        writer.flag(self.script);
        writer.bytes(self.cwd.as_os_str().as_bytes());
        writer.optional_path(self.return_to.as_deref());
        writer.number(i64::from(self.last_status).cast_unsigned());
        writer.number(self.next_turn);
        writer.flag(self.traps >= TrapTalk::Some);
        writer.flag(self.traps == TrapTalk::Debug);
        writer.flag(self.code);
        writer.flag(self.leaving);
        match &self.running {
            None => writer.flag(false),
            Some(running) => {
                writer.flag(true);
                running.encode(&mut writer);
            }
        }
        writer.0
    }

    /// The state of these bytes.
    ///
    /// # Errors
    /// If they are not what [`encode`](Self::encode) of this version writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, ExecError> {
        let mut reader = Reader(bytes);
        Self::read(&mut reader)
            .filter(|_| reader.0.is_empty())
            .ok_or_else(|| {
                ExecError::invalid(
                    "the stored state of a shell",
                    "it is damaged or of another version; start a new shell",
                )
            })
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        if reader.byte()? != VERSION {
            return None;
        }
        Some(Self {
            program: reader.path()?,
            script: reader.flag()?,
            cwd: reader.path()?,
            return_to: reader.optional_path()?,
            last_status: i32::try_from(reader.number()?.cast_signed()).ok()?,
            next_turn: reader.number()?,
            traps: match (reader.flag()?, reader.flag()?) {
                (false, false) => TrapTalk::None,
                (true, false) => TrapTalk::Some,
                (true, true) => TrapTalk::Debug,
                (false, true) => return None,
            },
            code: reader.flag()?,
            leaving: reader.flag()?,
            running: if reader.flag()? {
                Some(RunningState::read(reader)?)
            } else {
                None
            },
        })
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

    fn encode(&self, writer: &mut Writer) {
        writer.bytes(self.nonce.as_bytes());
        writer.optional_path(self.sent_to.as_deref());
        writer.flag(self.keeps_state);
        writer.flag(self.starts_processes);
        writer.flag(self.may_damage);
        writer.flag(self.state_lost);
        writer.number(self.bystanders.processes.len() as u64);
        for (pid, start_time) in &self.bystanders.processes {
            writer.number(i64::from(*pid).cast_unsigned());
            writer.number(*start_time);
        }
        writer.bytes(&self.lines);
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            nonce: String::from_utf8(reader.bytes()?.to_vec()).ok()?,
            sent_to: reader.optional_path()?,
            keeps_state: reader.flag()?,
            starts_processes: reader.flag()?,
            may_damage: reader.flag()?,
            state_lost: reader.flag()?,
            bystanders: {
                let mut bystanders = Bystanders::default();
                for _ in 0..reader.number()? {
                    let pid = i32::try_from(reader.number()?.cast_signed()).ok()?;
                    bystanders.processes.insert((pid, reader.number()?));
                }
                bystanders
            },
            lines: reader.bytes()?.to_vec(),
        })
    }
}

/// Grows with every change of the encoding.
const VERSION: u8 = 3;

/// Most states fit into so many bytes, but for the lines of the command.
const ROOM: usize = 256;

struct Writer(Vec<u8>);

impl Writer {
    fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn optional_path(&mut self, value: Option<&Path>) {
        self.flag(value.is_some());
        if let Some(path) = value {
            self.bytes(path.as_os_str().as_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.take(count)
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(OsString::from_vec(self.bytes()?.to_vec()).into())
    }

    fn optional_path(&mut self) -> Option<Option<PathBuf>> {
        if self.flag()? {
            self.path().map(Some)
        } else {
            Some(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> ShellState {
        ShellState {
            program: "/bin/bash".into(),
            script: true,
            cwd: OsString::from_vec(b"/tmp/\xff\n".to_vec()).into(),
            return_to: Some("/home".into()),
            last_status: -1,
            next_turn: 7,
            traps: TrapTalk::Debug,
            code: true,
            leaving: true,
            running: Some(RunningState {
                nonce: "n0nce".to_owned(),
                sent_to: Some("/srv".into()),
                keeps_state: true,
                starts_processes: true,
                may_damage: false,
                state_lost: false,
                bystanders: Bystanders {
                    processes: [(12, 345), (13, u64::MAX)].into(),
                },
                lines: b"echo s3cret\n".to_vec(),
            }),
        }
    }

    #[test]
    fn a_state_survives_its_encoding() {
        for state in [ShellState::new("/".into()), busy()] {
            assert_eq!(ShellState::decode(&state.encode()).unwrap(), state);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let whole = busy().encode();
        for end in 0..whole.len() {
            let error = ShellState::decode(whole.get(..end).unwrap()).unwrap_err();
            assert_eq!(error.code(), "invalid_input");
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(ShellState::decode(&longer).is_err());
        let mut other_version = whole;
        other_version[0] = VERSION + 1;
        assert!(ShellState::decode(&other_version).is_err());
    }

    #[test]
    fn debug_shows_neither_the_text_nor_the_nonce() {
        let shown = format!("{:?}", busy());
        assert!(!shown.contains("s3cret") && !shown.contains("n0nce"));
    }
}
