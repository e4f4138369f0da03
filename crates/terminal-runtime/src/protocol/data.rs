//! What each method returns, and the lines of a stream.

use serde::{Deserialize, Serialize};

use super::error::WireError;

/// How a string stands for bytes that are no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Encoding {
    /// Base64 with padding.
    Base64,
}

/// One of a command's streams. A terminal has only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// `hello`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Greeting {
    /// The version of the runtime.
    pub version: String,
    /// Whether streams of this connection come in binary frames from now on.
    pub frames: bool,
    /// What this runtime can do beyond its first version, by name. One that
    /// does not name something may ignore parameters that ask for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// `system.ping`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ping {
    /// Seconds since the runtime was started.
    pub uptime_s: u64,
    /// The version of the runtime.
    pub version: String,
}

/// `system.stats`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stats {
    /// Sessions there are.
    pub active_sessions: u64,
    /// Commands that run now.
    pub running_commands: u64,
    /// Commands started so far.
    pub total_commands_run: u64,
    /// Seconds since the runtime was started.
    pub uptime_s: u64,
    /// Resident memory of the runtime now.
    pub memory_rss_bytes: u64,
    /// Its open descriptors.
    pub open_fds: u64,
}

/// `session.create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionCreated {
    /// Its name from now on.
    pub session_id: String,
    /// The shell.
    pub shell: String,
    /// Where its first command starts.
    pub working_dir: String,
    /// Its state.
    pub state: String,
    /// When it was created (RFC 3339).
    pub created_at: String,
    /// What was asked for and is kept only in part here, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<String>,
}

/// `session.info`, and one entry of `session.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionInfo {
    /// Its name.
    pub session_id: String,
    /// The name it was given for people.
    pub name: Option<String>,
    /// The shell.
    pub shell: String,
    /// Where its shell is. Commands by `argv` and `fresh` ones have nothing of
    /// the shell's state and start where the session did.
    pub working_dir: String,
    /// `creating`, `idle`, `running` or `terminated`.
    pub state: String,
    /// The command that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningCommand>,
    /// The names of its variables, never their values.
    pub env_keys: Vec<String>,
    /// When it was created (RFC 3339).
    pub created_at: String,
    /// When it was last used (RFC 3339).
    pub last_activity: String,
    /// How many commands it was given.
    pub command_count: u64,
    /// The timeout of its commands in seconds; 0 for none.
    pub timeout_s: f64,
}

/// The command that runs in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunningCommand {
    /// Its name.
    pub exec_id: String,
    /// What it is.
    pub command: String,
    /// When it was started (RFC 3339).
    pub started_at: String,
}

/// `session.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionListing {
    /// All sessions, oldest first.
    pub sessions: Vec<SessionInfo>,
}

/// `session.destroy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionDestroyed {
    /// The session.
    pub session_id: String,
    /// Always `terminated`.
    pub state: String,
}

/// `exec.run`, and the result within `exec.wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExecResult {
    /// The command.
    pub exec_id: String,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// How `stdout` stands for its bytes; absent for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_encoding: Option<Encoding>,
    /// How `stderr` stands for its bytes; absent for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_encoding: Option<Encoding>,
    /// The code it exited with; -1 if a signal ended it.
    pub exit_code: i32,
    /// The number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// From its start to its end.
    pub duration_ms: u64,
    /// Whether its time was up; the output is what came until then.
    pub timed_out: bool,
    /// Whether it was cancelled; the output is what came until then.
    pub cancelled: bool,
    /// Whether output is missing here; `exec.read` has the rest.
    pub truncated: bool,
    /// Where the session's shell is afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What it used, where the system accounts for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageData>,
    /// The limit that was in its way, with its value and its setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// What a command used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsageData {
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// The largest resident set of any one process.
    pub max_rss_bytes: u64,
}

/// `exec.stream` and `exec.attach`; the stream's lines follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StreamStarted {
    /// What the lines of this stream are known by.
    pub stream_id: String,
    /// The command.
    pub exec_id: String,
}

/// One line of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StreamLine {
    /// The stream it belongs to.
    pub stream_id: String,
    /// What happened.
    #[serde(flatten)]
    pub event: StreamEvent,
}

/// What happened in a stream. Exactly one `exit` ends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum StreamEvent {
    /// It wrote to standard output, or its terminal.
    Stdout {
        /// The bytes.
        data: String,
        /// Where the first of them stands.
        offset: u64,
        /// How `data` stands for them; absent for text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// It wrote to standard error.
    Stderr {
        /// The bytes.
        data: String,
        /// Where the first of them stands.
        offset: u64,
        /// How `data` stands for them; absent for text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encoding: Option<Encoding>,
    },
    /// Bytes that were not kept.
    Gap {
        /// Of which stream.
        stream: StreamName,
        /// The first of them.
        from: u64,
        /// The first after them.
        to: u64,
    },
    /// It has ended.
    Exit {
        /// The code it exited with; -1 if a signal ended it.
        exit_code: i32,
        /// The number of the signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// Whether its time was up.
        timed_out: bool,
        /// Whether it was cancelled.
        cancelled: bool,
        /// From its start to its end.
        duration_ms: u64,
        /// The limit that was in its way, with its value and its setting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<String>,
        /// Why it could not be started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<WireError>,
        /// Where the session's shell is afterwards.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// Whether the shell was restarted: its state may be that of an
        /// earlier command.
        #[serde(default, skip_serializing_if = "super::is_false")]
        shell_restarted: bool,
    },
}

/// Bytes that were counted, but not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gap {
    /// The first of them.
    pub from: u64,
    /// The first after them.
    pub to: u64,
}

/// `exec.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReadData {
    /// The bytes.
    pub data: String,
    /// How `data` stands for them; absent for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Where the first of them stands.
    pub offset: u64,
    /// Where to read on.
    pub next_offset: u64,
    /// Whether the command has ended and this was the last of it.
    pub eof: bool,
    /// What was not kept and is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
}

/// `exec.write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Written {
    /// The number of the next byte.
    pub offset: u64,
}

/// Where a command is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExecStatus {
    /// It waits for its turn.
    Queued,
    /// It runs.
    Running,
    /// It has ended, or could not be started.
    Ended,
}

/// `exec.wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitData {
    /// The command.
    pub exec_id: String,
    /// Where it is in its life.
    pub state: ExecStatus,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<ExecResult>>,
    /// Why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
}

/// `exec.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExecListing {
    /// All commands that are kept, oldest first.
    pub execs: Vec<ExecSummary>,
}

/// One command of `exec.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExecSummary {
    /// Its name.
    pub exec_id: String,
    /// The session it belongs to.
    pub session_id: String,
    /// Where it is in its life.
    pub state: ExecStatus,
    /// What it is.
    pub command: String,
    /// When it was started, or queued (RFC 3339).
    pub started_at: String,
    /// Its first process, where that is known, as this machine numbers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Whether it has a terminal.
    pub pty: bool,
}

/// `exec.cancel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cancelled {
    /// The command, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// Whether there was something to cancel.
    pub cancelled: bool,
}

/// `exec.resize` and `exec.signal`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Nothing {}

/// `runtime.describe`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Description {
    /// The version of the runtime.
    pub version: String,
    /// The system it runs on.
    pub platform: String,
    /// Its process number.
    pub pid: u32,
    /// When it was started (RFC 3339).
    pub started_at: String,
    /// How it can be reached.
    pub transports: Vec<DescribedTransport>,
    /// What it can do beyond the first version, as `hello` names it.
    #[serde(default)]
    pub features: Vec<String>,
    /// What holds its sessions together, step by step.
    pub isolation: Vec<DescribedLevel>,
    /// Its limits.
    pub limits: DescribedLimits,
}

/// One way to reach a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum DescribedTransport {
    /// A Unix socket.
    Unix {
        /// Where it is.
        path: String,
    },
    /// HTTP with a bearer token.
    Http {
        /// Address and port.
        address: String,
    },
    /// Standard input and output.
    Stdin {},
}

/// One mechanism that holds sessions together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DescribedLevel {
    /// Its name.
    pub name: String,
    /// `enforced`, `weaker` or `unavailable`.
    pub state: String,
    /// By what it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why it is weaker or unavailable, and what there is instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The limits of a runtime; 0 for none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DescribedLimits {
    /// Sessions at a time.
    pub max_sessions: u64,
    /// Commands of one session.
    pub session_max_commands: u64,
    /// Seconds a command may run unless it says otherwise.
    pub default_timeout_s: f64,
    /// Bytes of each stream in the reply of `exec.run`.
    pub max_output_bytes: u64,
    /// Bytes of each stream that are kept for `exec.read`.
    pub spool_quota_bytes: u64,
    /// Bytes of a file that `fs.write` puts in place.
    #[serde(default)]
    pub max_file_write_bytes: u64,
    /// Bytes of one request.
    pub max_request_bytes: u64,
    /// Seconds after which an idle session is destroyed.
    pub max_idle_s: u64,
    /// Seconds after which a session is destroyed once it is idle.
    pub session_ttl_s: u64,
    /// Bytes of memory of a session's processes.
    pub child_memory_bytes: u64,
    /// Processes of a session.
    pub child_processes: u64,
    /// Seconds of CPU time of one process.
    pub child_cpu_s: u64,
}
