//! The data that goes in and out of the core.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use halter_exec::host::os_bytes;
use halter_exec::{Containment, ContainmentRung, Environment, NetworkAccess};
use serde::{Deserialize, Serialize};

use crate::session::SessionId;

/// The longest name of a command, in bytes.
const MAX_EXEC_ID_BYTES: usize = 64;

/// The name of a command, chosen by a client or made by the runtime. It is
/// also the name of files, so it holds letters, digits, `.`, `_` and `-` only
/// and does not start with a dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecId(Arc<str>);

impl ExecId {
    /// Reads a name; `None` if it is too long or has other characters.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let fits = (1..=MAX_EXEC_ID_BYTES).contains(&name.len());
        (fits && !name.starts_with('.') && name.bytes().all(allowed)).then(|| Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExecId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What the core is started with.
#[derive(Debug, Clone)]
pub struct CoreSettings {
    /// A private directory of this runtime: the holder's socket and the
    /// spools. A restarted runtime is given the same one.
    pub state_dir: PathBuf,
    /// The variables every session starts from, without `TRL_*`.
    pub environment: Environment,
    /// Bytes of one stream that are kept; beyond them is a gap.
    pub spool_quota_bytes: u64,
    /// How long a command gets between TERM and KILL.
    pub grace: Duration,
    /// How containers are made.
    pub docker: DockerSettings,
    /// Whether each session gets a PID namespace, where the system lets it.
    pub pid_namespace: bool,
    /// This program, which is also the holder's.
    pub program: PathBuf,
}

/// How containers are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerSettings {
    /// The `docker`-compatible program.
    pub program: PathBuf,
}

/// What every process of a session may use; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory of the session's processes together.
    pub memory_bytes: Option<u64>,
    /// How many processes and threads at a time.
    pub processes: Option<u64>,
    /// Seconds of CPU time of one process.
    pub cpu_seconds: Option<u64>,
}

/// How a container is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerOptions {
    /// What of this machine is seen inside.
    pub mounts: Vec<ContainerMount>,
    /// Where an empty directory takes the place of what may not be made.
    #[serde(with = "os_bytes::paths")]
    pub placeholders: Vec<PathBuf>,
    /// Whether it has no network.
    pub no_network: bool,
    /// Whether its commands have the user of this program.
    pub own_user: bool,
}

impl ContainerOptions {
    /// The directory around a path that can be changed inside, and has the same
    /// name there.
    pub(crate) fn writable_root(&self, path: &Path) -> Option<&Path> {
        let writable = self.mounts.iter().filter(|mount| {
            let is_same = mount.source.as_ref() == Some(&mount.target);
            is_same && !mount.read_only && path.starts_with(&mount.target)
        });
        let around = writable.map(|mount| mount.target.as_path());
        around.min_by_key(|root| root.components().count())
    }
}

/// Something of this machine inside a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerMount {
    /// What is seen; `None` for an empty directory.
    #[serde(with = "os_bytes::optional_path")]
    pub source: Option<PathBuf>,
    /// Where it is inside.
    #[serde(with = "os_bytes::path")]
    pub target: PathBuf,
    /// Whether it cannot be changed.
    pub read_only: bool,
}

/// What the commands of a session may change, execute and reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRules {
    /// What may be changed.
    #[serde(with = "os_bytes::paths")]
    pub writable: Vec<PathBuf>,
    /// What cannot be read.
    #[serde(with = "os_bytes::paths")]
    pub hidden: Vec<PathBuf>,
    /// What below writable directories cannot be changed.
    #[serde(with = "os_bytes::paths")]
    pub protected: Vec<PathBuf>,
    /// Whether only `executables` can be executed.
    pub lists_executables: bool,
    /// The only files that can be executed, if they are listed.
    #[serde(with = "os_bytes::paths")]
    pub executables: Vec<PathBuf>,
    /// Whether the network can be reached.
    pub network: bool,
    /// Whether name spaces hold it; otherwise Landlock does.
    pub namespaces: bool,
}

impl SandboxRules {
    /// The same in the terms of the library that holds it.
    #[must_use]
    pub fn containment(&self) -> Containment {
        let mut containment = Containment::new(match self.namespaces {
            true => ContainmentRung::Namespaces,
            false => ContainmentRung::Landlock,
        });
        containment.writable.clone_from(&self.writable);
        containment.hidden.clone_from(&self.hidden);
        containment.protected.clone_from(&self.protected);
        containment.executables = self.lists_executables.then(|| self.executables.clone());
        if self.network {
            containment.network = NetworkAccess::Host;
        }
        containment
    }
}

/// How a session's commands are run.
#[derive(Clone, Serialize, Deserialize)]
pub struct SessionSpec {
    /// The shell, a path or a name in `PATH`.
    #[serde(with = "os_bytes::path")]
    pub shell: PathBuf,
    /// Variables on top of those of the runtime.
    pub environment: Environment,
    /// Whether its commands have none of the runtime's variables.
    pub clean_environment: bool,
    /// Whether they have none that hold secrets or are named here.
    pub environment_filter: Option<Vec<String>>,
    /// Where the first command starts; within `chroot` if there is one.
    #[serde(with = "os_bytes::path")]
    pub working_dir: PathBuf,
    /// The root directory of its commands.
    #[serde(with = "os_bytes::optional_path")]
    pub chroot: Option<PathBuf>,
    /// What its commands may use.
    pub limits: Limits,
    /// The image of the container its commands run in.
    pub container_image: Option<String>,
    /// How that container is made.
    pub container: ContainerOptions,
    /// What the kernel holds its commands to.
    pub sandbox: Option<SandboxRules>,
    /// How long it goes on when nobody renews its lease; `None` for as long as
    /// the runtime keeps sessions.
    pub lease: Option<Duration>,
    /// Opaque to the core; given back when the session is adopted.
    pub note: Bytes,
}

impl fmt::Debug for SessionSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionSpec")
            .field("shell", &self.shell)
            .field("environment", &self.environment)
            .field("working_dir", &self.working_dir)
            .field("chroot", &self.chroot)
            .field("limits", &self.limits)
            .field("container_image", &self.container_image)
            .finish_non_exhaustive()
    }
}

/// A session found alive by a restarted runtime.
#[derive(Debug)]
pub struct AdoptedSession {
    /// Its name.
    pub id: SessionId,
    /// What it was opened with.
    pub spec: SessionSpec,
    /// How many commands it was given so far.
    pub commands: u64,
    /// Its commands, running and ended, that nobody has acknowledged.
    pub execs: Vec<super::Exec>,
}

/// What is run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecWhat {
    /// A line for the session's persistent shell.
    Command(Arc<str>),
    /// A line for a new shell: `shell -c`.
    Fresh(Arc<str>),
    /// A program with its arguments, without a shell.
    Argv(Arc<[String]>),
}

impl fmt::Debug for ExecWhat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(text) => write!(formatter, "Command({} bytes)", text.len()),
            Self::Fresh(text) => write!(formatter, "Fresh({} bytes)", text.len()),
            Self::Argv(words) => write!(formatter, "Argv({} words)", words.len()),
        }
    }
}

/// What a command reads.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum ExecStdin {
    /// Nothing: the end of input at once.
    #[default]
    Null,
    /// These bytes, then the end of input.
    Bytes(Bytes),
    /// What is [written](super::Exec::write) to it, until that says it ends.
    Open,
}

impl fmt::Debug for ExecStdin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("Null"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({} bytes)", bytes.len()),
            Self::Open => formatter.write_str("Open"),
        }
    }
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// One command to run.
#[derive(Debug, Clone)]
pub struct ExecOrder {
    /// Its name, used by no other command.
    pub id: ExecId,
    /// What is run.
    pub what: ExecWhat,
    /// Variables for this command only.
    pub environment: Environment,
    /// What it reads; with a terminal always [`ExecStdin::Open`].
    pub stdin: ExecStdin,
    /// How long it may run; `None` for as long as it likes.
    pub timeout: Option<Duration>,
    /// A terminal of this size instead of pipes.
    pub pty: Option<TerminalSize>,
    /// The directory for this command only.
    pub cwd: Option<PathBuf>,
    /// What the session's commands cannot change from this one on, besides
    /// what it was opened with.
    pub protect: Vec<PathBuf>,
    /// Opaque to the core; given back when the command is adopted.
    pub note: Bytes,
}

/// Which of a command's streams. A terminal has only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output, or the terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whom a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The command's first process.
    Leader,
    /// Its process group.
    Group,
    /// Everything it started, wherever that went.
    Tree,
}

/// Where a command is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecState {
    /// It runs.
    Running,
    /// It has ended, or could not be started.
    Ended,
}

/// What is known about a command.
#[derive(Debug, Clone)]
pub struct ExecInfo {
    /// Its name.
    pub id: ExecId,
    /// The session it runs in.
    pub session: SessionId,
    /// What is run.
    pub what: ExecWhat,
    /// Where it is in its life.
    pub state: ExecState,
    /// When it was started.
    pub started: SystemTime,
    /// Its first process, where that is known.
    pub pid: Option<i32>,
    /// Whether it has a terminal.
    pub pty: bool,
    /// What its order's note said.
    pub note: Bytes,
}

/// What a command and the children it waited for have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandUsage {
    /// CPU time in user mode.
    pub user_time: Duration,
    /// CPU time in the kernel.
    pub system_time: Duration,
    /// The largest resident set of any one of them, in bytes.
    pub max_resident_bytes: u64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecEnd {
    /// The code it exited with.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether its time was up.
    pub timed_out: bool,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// From its start to its end.
    pub duration: Duration,
    /// What it used, where the system accounts for it.
    pub usage: Option<CommandUsage>,
    /// The directory of the session's shell afterwards.
    #[serde(with = "os_bytes::optional_path")]
    pub cwd: Option<PathBuf>,
    /// Whether the session's shell has the state of an earlier command.
    pub shell_restarted: bool,
    /// The limit of its session that was in its way, in words.
    #[serde(skip)]
    pub limit: Option<String>,
}

/// The next piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes, the first of which is number `offset` of the stream.
    Data {
        /// Where they stand.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// Bytes that were counted, but not kept.
    Gap {
        /// The first of them.
        from: u64,
        /// The first after them.
        to: u64,
    },
    /// The command has ended and all it wrote until then was read. What it
    /// left running may still write: a later reader sees that.
    End {
        /// How many bytes the stream has.
        offset: u64,
    },
}

/// Numbers about the runtime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// Commands that run now.
    pub running: u64,
    /// Commands started so far.
    pub total_commands: u64,
    /// Resident memory of the runtime now, in bytes.
    pub memory_rss_bytes: u64,
    /// Its open descriptors.
    pub open_fds: u64,
}
