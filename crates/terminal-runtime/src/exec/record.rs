//! What a session's holder is given to keep about it, its shell and its
//! commands: all that a restarted daemon needs to go on. Encoded with `postcard`; the holder's
//! [`VERSION`](crate::holder::VERSION) covers these types too.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use halter_exec::host::{ShellState, Spool, os_bytes};
use serde::{Deserialize, Serialize};

use crate::exec::types::{ExecEnd, ExecId, ExecWhat, SessionSpec};
use crate::holder::Key;

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Record {
    Session(Box<SessionSpec>),
    Count(CountRecord),
    Shell(ShellRecord),
    ShellProcess(ShellProcessRecord),
    Exec(Box<ExecRecord>),
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        // Plain data always has an encoding.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// # Errors
    /// If the bytes are not a record of this version.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        match postcard::take_from_bytes(bytes)? {
            (record, []) => Ok(record),
            _ => Err(postcard::Error::DeserializeBadEncoding),
        }
    }
}

/// What changes with every command of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CountRecord {
    /// How many commands it was given.
    pub commands: u64,
    /// The directory of its control group.
    #[serde(with = "os_bytes::optional_path")]
    pub group: Option<PathBuf>,
}

/// The persistent shell of a session, whichever process it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ShellRecord {
    /// The state of its driver; `None` before its first command.
    pub state: Option<ShellState>,
}

/// A process of a persistent shell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ShellProcessRecord {
    /// The shell it is or was.
    pub shell: Key,
    pub tree: TreeId,
    /// Whether it has ended, and only what it left running is of interest.
    pub retired: bool,
}

/// How the tree of a process is found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TreeId {
    /// By the directory of its control group. The whole path: a daemon that
    /// is started again may be in another group than this one.
    Cgroup(#[serde(with = "os_bytes::path")] PathBuf),
    /// By the value of a variable.
    Marker(Arc<str>),
}

/// A command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ExecRecord {
    pub id: ExecId,
    pub what: ExecWhat,
    /// The directory that was asked for.
    #[serde(with = "os_bytes::optional_path")]
    pub cwd: Option<PathBuf>,
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
    /// How much of its output is in files, once all of it is and nobody has
    /// anything open for it.
    pub closed: Option<ClosedStreams>,
}

/// Streams that were closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClosedStreams {
    pub stdout: StreamSize,
    /// `None` on a terminal.
    pub stderr: Option<StreamSize>,
}

/// The bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StreamSize {
    /// Those that are kept.
    pub stored: u64,
    /// Those that came.
    pub total: u64,
}

impl StreamSize {
    pub(super) fn of(spool: &Spool) -> Self {
        let progress = spool.progress();
        Self {
            stored: progress.stored,
            total: progress.total,
        }
    }
}

impl ExecRecord {
    /// Whether it runs in a persistent shell, which nothing else can then.
    pub(super) fn has_shell(&self) -> bool {
        self.end.is_none() && matches!(self.place, Place::Shell(_))
    }
}

/// Where a command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    Shell(Key),
    Process(TreeId),
}

/// Why a command was brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StopReason {
    TimedOut,
    Cancelled,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use halter_exec::Environment;

    use super::*;
    use crate::exec::types::{CommandUsage, Limits};

    fn exec(what: ExecWhat, place: Place, end: Option<ExecEnd>) -> Record {
        Record::Exec(Box::new(ExecRecord {
            cwd: None,
            id: ExecId::parse("e-1").unwrap(),
            what,
            note: Bytes::from_static(b"note"),
            started_ms: 1,
            started_us: u64::MAX,
            timeout: Some(Duration::from_millis(1500)),
            place,
            stop: Some(StopReason::Cancelled),
            input_ended: true,
            forgotten: false,
            end,
            closed: Some(ClosedStreams {
                stdout: StreamSize {
                    stored: 1,
                    total: 2,
                },
                stderr: None,
            }),
        }))
    }

    fn records() -> Vec<Record> {
        let odd = PathBuf::from(OsString::from_vec(b"/tmp/\xff".to_vec()));
        let end = ExecEnd {
            shell_restarted: false,
            exit_code: None,
            signal: Some(9),
            timed_out: false,
            cancelled: true,
            duration: Duration::from_micros(17),
            usage: Some(CommandUsage {
                user_time: Duration::from_micros(1),
                system_time: Duration::from_micros(2),
                max_resident_bytes: 3,
            }),
            cwd: Some(odd.clone()),
            limit: None,
        };
        let argv = ExecWhat::Argv(["a".to_owned(), String::new()].into());
        vec![
            Record::Session(Box::new(SessionSpec {
                clean_environment: false,
                environment_filter: Some(vec!["A*".to_owned()]),
                container: Default::default(),
                sandbox: None,
                lease: Some(Duration::from_secs(30)),
                shell: "/bin/bash".into(),
                environment: Environment::new().with("A", "x y").with("B", ""),
                working_dir: odd.clone(),
                chroot: Some("/srv".into()),
                limits: Limits {
                    memory_bytes: Some(1 << 40),
                    processes: None,
                    cpu_seconds: Some(3),
                },
                container_image: Some("image".to_owned()),
                note: Bytes::from_static(b"note"),
            })),
            Record::Count(CountRecord {
                commands: 300,
                group: Some(odd.clone()),
            }),
            Record::Shell(ShellRecord { state: None }),
            Record::ShellProcess(ShellProcessRecord {
                shell: 5,
                tree: TreeId::Marker("m".into()),
                retired: true,
            }),
            exec(argv, Place::Process(TreeId::Cgroup(odd)), Some(end)),
            exec(ExecWhat::Command("ls".into()), Place::Shell(u64::MAX), None),
        ]
    }

    #[test]
    fn records_survive_their_encoding_and_a_cut_one_is_refused() {
        for record in records() {
            let bytes = record.encode();
            let found = Record::decode(&bytes).unwrap();
            assert_eq!(found.encode(), bytes);
            assert_eq!(format!("{found:?}"), format!("{record:?}"));
            for end in 0..bytes.len() {
                assert!(Record::decode(&bytes[..end]).is_err());
            }
            let longer = [bytes, vec![0]].concat();
            assert!(Record::decode(&longer).is_err());
        }
    }
}
