//! What each method is given.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::data::{Encoding, StreamName};
use super::is_false;

/// Variables of an environment. Their values are secrets: `Debug` shows the
/// names only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Variables(pub BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Variables {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `hello`: agrees on what a connection may carry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HelloParams {
    /// Whether the client reads binary frames.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frames: bool,
}

/// `session.create`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CreateParams {
    /// The shell; `/bin/sh` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Variables for its commands, on top of those of the runtime.
    #[serde(default, skip_serializing_if = "Variables::is_empty")]
    pub env: Variables,
    /// Whether its commands have none of the runtime's variables.
    #[serde(default, skip_serializing_if = "is_false")]
    pub clean_env: bool,
    /// Whether its commands have of the runtime's variables only those that a
    /// session of tools would: no secrets, and nothing that steers shells and
    /// loaders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_env: Option<EnvFilterParams>,
    /// Where its first command starts; `/tmp` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The timeout of its commands in seconds; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// The root directory of its commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chroot: Option<String>,
    /// What its commands may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitParams>,
    /// The container its commands run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docker: Option<DockerParams>,
    /// What the kernel holds its commands to; not with a root or a container
    /// of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxParams>,
    /// Seconds after which it ends, with all it runs, unless `session.renew`
    /// names it; without it, it is kept as long as the runtime keeps sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<f64>,
}

/// Which of the runtime's variables the commands of a session do not have,
/// besides those that hold secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvFilterParams {
    /// Their names; one may end in `*`.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// What the commands of a session may change, execute and reach. They read
/// everything that is not hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SandboxParams {
    /// Files, and directories with all below, that may be changed.
    #[serde(default)]
    pub writable: Vec<String>,
    /// Files, and directories with all below, that cannot be read.
    #[serde(default)]
    pub hidden: Vec<String>,
    /// Paths below writable ones that cannot be changed, nor made if they do
    /// not exist; held by name spaces only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// The only files, or files below directories, that can be executed; all
    /// without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executables: Option<Vec<String>>,
    /// Whether the network can be reached.
    #[serde(default)]
    pub network: bool,
    /// Whether it is held by name spaces, with a fresh `/tmp`, other processes
    /// and their sockets out of sight; otherwise by Landlock.
    #[serde(default, skip_serializing_if = "is_false")]
    pub namespaces: bool,
}

/// What the commands of a session may use. A limit that is absent is the
/// runtime's; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitParams {
    /// Bytes of memory of all processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Seconds of CPU time of one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
}

/// The container of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DockerParams {
    /// The image it is made from.
    pub image: String,
    /// What of this machine is seen inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountParams>,
    /// Absolute paths of this machine at which nothing may be made while the
    /// container is up: where nothing is, an empty directory takes the place,
    /// and is removed with the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placeholders: Vec<String>,
    /// Whether it has no network; otherwise the engine's own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_network: bool,
    /// Whether its commands have the user of the runtime, so that files they
    /// make are that user's; otherwise the image's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_user: bool,
}

/// Something of this machine inside a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MountParams {
    /// What is seen, an absolute path that exists; without it, an empty
    /// directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it is inside, an absolute path.
    pub target: String,
    /// Whether it cannot be changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
}

/// `session.info` and `session.renew`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionParams {
    /// The session.
    pub session_id: String,
}

/// `session.destroy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DestroyParams {
    /// The session.
    pub session_id: String,
    /// Whether a running command is killed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// `exec.run` and `exec.stream`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExecParams {
    /// The session.
    pub session_id: String,
    /// A line for the session's shell; or else `argv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Seconds it may run; 0 for as long as it likes; without it the
    /// session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// What it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Whether `exec.write` may give it input.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open_stdin: bool,
    /// Variables for this command only.
    #[serde(default, skip_serializing_if = "Variables::is_empty")]
    pub env: Variables,
    /// The directory for this command only, an absolute path. Without it a
    /// command of the session's shell runs where that is, any other where the
    /// session started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether it runs beside the session's other commands, without waiting
    /// for its turn: for `argv`, `fresh` and `pty`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub beside: bool,
    /// A name chosen by the client: the same request with the same name runs
    /// once, and the command outlives the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// Whether a new `shell -c` runs it instead of the session's shell.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fresh: bool,
    /// Whether it waits for its turn in a busy session.
    #[serde(default, skip_serializing_if = "is_false")]
    pub queue: bool,
    /// A terminal instead of pipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<PtyParams>,
    /// Absolute paths that the session's commands cannot change from this one
    /// on, besides those it was made with; held by name spaces and containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
}

impl fmt::Debug for ExecParams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExecParams")
            .field("session_id", &self.session_id)
            .field("exec_id", &self.exec_id)
            .field("env", &self.env)
            .finish_non_exhaustive()
    }
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PtyParams {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// `exec.wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitParams {
    /// The command.
    pub exec_id: String,
    /// How long to wait for its end, in seconds; 0 looks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// `exec.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReadParams {
    /// The command.
    pub exec_id: String,
    /// The first byte wanted.
    #[serde(default)]
    pub offset: u64,
    /// Which stream; standard output without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamName>,
    /// The most bytes wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// How long to wait for the first byte, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// `exec.attach`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttachParams {
    /// The command.
    pub exec_id: String,
    /// The first byte of standard output wanted.
    #[serde(default)]
    pub offset: u64,
    /// The first byte of standard error wanted.
    #[serde(default)]
    pub stderr_offset: u64,
}

/// `exec.write`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WriteParams {
    /// The command.
    pub exec_id: String,
    /// The input.
    #[serde(default)]
    pub data: String,
    /// How `data` stands for the bytes; text without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// The number of its first byte: what was accepted before is not given
    /// twice. Without it the data follows what was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Whether the input ends here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub eof: bool,
}

impl fmt::Debug for WriteParams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WriteParams")
            .field("exec_id", &self.exec_id)
            .field("data", &format_args!("({} bytes)", self.data.len()))
            .field("offset", &self.offset)
            .field("eof", &self.eof)
            .finish_non_exhaustive()
    }
}

/// `exec.resize`. One of `exec_id` and `session_id` names the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResizeParams {
    /// The command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// The session whose running command is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// A signal by name, with or without `SIG`, or by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SignalSpec {
    /// By number.
    Number(i32),
    /// By name.
    Name(String),
}

/// Whom a signal goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SignalScope {
    /// The command's first process.
    Leader,
    /// Its process group.
    #[default]
    Group,
    /// Everything it started.
    Tree,
}

/// `exec.signal`. One of `exec_id` and `session_id` names the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SignalParams {
    /// The command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// The session whose running command is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The signal.
    pub signal: SignalSpec,
    /// Whom it goes to.
    #[serde(default)]
    pub scope: SignalScope,
}

/// `exec.cancel`. One of `exec_id` and `session_id` names the command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CancelParams {
    /// The command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// The session whose running command is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The first signal it gets; an interrupt without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalSpec>,
}
