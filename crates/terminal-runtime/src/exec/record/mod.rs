//! What the holder is given to keep about sessions, shells and commands: all
//! that a restarted daemon needs to go on. Held in memory only, since it has
//! the variables of sessions in it.

mod encoding;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::order::{ExecEnd, ExecId, ExecWhat, SessionSpec};
use crate::holder::Key;
use crate::session::SessionId;

/// One record.
#[derive(Debug, Clone)]
pub(super) enum Record {
    Session(SessionRecord),
    Count(CountRecord),
    Shell(ShellRecord),
    ShellProcess(ShellProcessRecord),
    Exec(ExecRecord),
}

impl Record {
    /// The session it is about.
    pub(super) fn session(&self) -> SessionId {
        match self {
            Self::Session(record) => record.id,
            Self::Count(record) => record.session,
            Self::Shell(record) => record.session,
            Self::ShellProcess(record) => record.session,
            Self::Exec(record) => record.session,
        }
    }
}

/// A session that is open.
#[derive(Debug, Clone)]
pub(super) struct SessionRecord {
    pub id: SessionId,
    pub spec: SessionSpec,
}

/// How many commands a session was given.
#[derive(Debug, Clone)]
pub(super) struct CountRecord {
    pub session: SessionId,
    pub commands: u64,
}

/// The persistent shell of a session, whichever process it is.
#[derive(Debug, Clone)]
pub(super) struct ShellRecord {
    pub session: SessionId,
    /// Which of this and the shell's journal is newer: the larger number.
    pub sequence: u64,
    /// The encoded state of its driver; empty before its first command.
    pub state: Vec<u8>,
}

/// A process of a persistent shell.
#[derive(Debug, Clone)]
pub(super) struct ShellProcessRecord {
    pub session: SessionId,
    /// The shell it is or was.
    pub shell: Key,
    pub grip: Grip,
    /// Whether it has ended, and only what it left running is of interest.
    pub retired: bool,
}

/// How the tree of a process is found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grip {
    /// By a control group of this name in the session's.
    Cgroup(Arc<str>),
    /// By the value of a variable.
    Marker(Arc<str>),
}

/// A command.
#[derive(Debug, Clone)]
pub(super) struct ExecRecord {
    pub id: ExecId,
    pub session: SessionId,
    pub what: ExecWhat,
    pub note: Bytes,
    /// Milliseconds since 1970.
    pub started_ms: u64,
    /// Microseconds on the monotonic clock.
    pub started_us: u64,
    pub timeout: Option<Duration>,
    /// The shell it was given to, or the tree of its own.
    pub place: Place,
    pub stop: Option<StopReason>,
    /// Whether its input ends with what was accepted.
    pub input_ended: bool,
    /// Whether nobody will ask for its result any more.
    pub forgotten: bool,
    pub end: Option<ExecEnd>,
}

impl ExecRecord {
    /// Whether it runs in a persistent shell, which nothing else can then.
    pub(super) fn has_shell(&self) -> bool {
        self.end.is_none() && matches!(self.place, Place::Shell(_))
    }
}

/// Where a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Shell(Key),
    Process(Grip),
}

/// Why a command was brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum StopReason {
    TimedOut = 1,
    Cancelled = 2,
}
