//! `process.*`: the processes of a session.

use serde::{Deserialize, Serialize};

use super::params::SignalSpec;

/// `process.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessListParams {
    /// The session.
    pub session_id: String,
    /// The process whose descendants are wanted; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<i32>,
}

/// `process.signal`: a process of the session and all below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessSignalParams {
    /// The session.
    pub session_id: String,
    /// The process, as the session numbers it.
    pub pid: i32,
    /// The signal.
    pub signal: SignalSpec,
}

/// `process.list`. Processes have the numbers that they have for the commands
/// of the session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessListing {
    /// The process that was asked for, or the session's shell while that is
    /// idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<i32>,
    /// The commands that run as processes of their own.
    pub commands: Vec<CommandProcess>,
    /// The processes, without the root.
    pub processes: Vec<ListedProcess>,
}

/// The process of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CommandProcess {
    /// The command.
    pub exec_id: String,
    /// Its first process.
    pub pid: i32,
}

/// One process of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListedProcess {
    /// Its number.
    pub pid: i32,
    /// Its parent's number; 0 if that is not in the session.
    pub ppid: i32,
    /// Its command line, or its name in brackets if it has none.
    pub command: String,
    /// Its state, by the letter that the system has for it.
    pub state: char,
    /// Clock ticks between boot and its start.
    pub start_time: u64,
}

/// `process.signal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessSignalled {
    /// What became of the signal to each process.
    pub outcomes: Vec<SignalledProcess>,
}

/// The signal to one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SignalledProcess {
    /// The process.
    pub pid: i32,
    /// `signalled`, `already_gone` or `refused`.
    pub result: SignalOutcome,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SignalOutcome {
    /// It was delivered.
    Signalled,
    /// The process had ended before.
    AlreadyGone,
    /// The system refused.
    Refused,
}
