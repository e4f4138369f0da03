//! What can go wrong with a command, short of the command itself failing.

use halter_exec::ExecError;

use crate::exec::types::ExecId;
use crate::session::SessionId;

/// Which step of starting a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartFailure {
    /// The program or shell does not exist.
    ProgramNotFound,
    /// The program or shell exists, but cannot be run.
    ProgramUnusable,
    /// The working directory does not exist (any more).
    WorkingDirectoryGone,
    /// The working directory cannot be entered.
    WorkingDirectoryUnusable,
    /// An isolation that was asked for is not available here.
    IsolationUnavailable,
    /// Something that is to be protected or hidden is new and stays open.
    NotCovered,
    /// What was given cannot be handed to a process.
    InvalidInput,
    /// The system refused.
    System,
}

impl StartFailure {
    /// The stable name of this failure.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::ProgramNotFound => "program_not_found",
            Self::ProgramUnusable => "program_unusable",
            Self::WorkingDirectoryGone => "working_directory_gone",
            Self::WorkingDirectoryUnusable => "working_directory_unusable",
            Self::IsolationUnavailable => "isolation_unavailable",
            Self::NotCovered => "not_covered",
            Self::InvalidInput => "invalid_input",
            Self::System => "system",
        }
    }
}

/// Why something could not be done with a session or a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// No such session is open.
    #[error("session {id} does not exist; create one first")]
    SessionUnknown {
        /// The session asked for.
        id: SessionId,
    },

    /// A command of that name exists already.
    #[error("a command with exec_id `{id}` exists already; choose another id")]
    ExecExists {
        /// The name asked for.
        id: ExecId,
    },

    /// The command could not be started.
    #[error("{message}")]
    StartFailed {
        /// Which step failed.
        reason: StartFailure,
        /// What happened, to what, and what to do next.
        message: String,
    },

    /// No process of the session has this number.
    #[error("process {pid} is not one of this session")]
    ProcessUnknown {
        /// The number asked for.
        pid: i32,
    },

    /// The command takes no input (any more).
    #[error("the command's standard input is closed; it takes no more data")]
    StdinClosed,

    /// Input was offered that does not follow what was accepted before.
    #[error("input at offset {offset} leaves a gap: the next byte is number {expected}")]
    StdinGap {
        /// The offset that was given.
        offset: u64,
        /// The first byte that has not been accepted yet.
        expected: u64,
    },

    /// The command has no terminal.
    #[error("the command has no terminal; start it with `pty` to resize it")]
    NoTerminal,

    /// The command has ended.
    #[error("the command has ended")]
    Ended,

    /// The runtime itself failed.
    #[error("{message}")]
    Internal {
        /// What happened, to what, and what to do next.
        message: String,
    },
}

impl CoreError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::SessionUnknown { .. } => "session_unknown",
            Self::ExecExists { .. } => "exec_exists",
            Self::StartFailed { reason, .. } => reason.code(),
            Self::ProcessUnknown { .. } => "process_unknown",
            Self::StdinClosed => "stdin_closed",
            Self::StdinGap { .. } => "stdin_gap",
            Self::NoTerminal => "no_terminal",
            Self::Ended => "ended",
            Self::Internal { .. } => "internal",
        }
    }
}

impl From<ExecError> for CoreError {
    fn from(error: ExecError) -> Self {
        let reason = match &error {
            ExecError::ProgramNotFound { .. } => StartFailure::ProgramNotFound,
            ExecError::ProgramDenied { .. } | ExecError::ProgramUnusable { .. } => {
                StartFailure::ProgramUnusable
            }
            ExecError::WorkingDirectoryGone { .. } => StartFailure::WorkingDirectoryGone,
            ExecError::WorkingDirectoryUnusable { .. } => StartFailure::WorkingDirectoryUnusable,
            ExecError::SandboxUnavailable { .. } => StartFailure::IsolationUnavailable,
            ExecError::ArgumentsTooLong { .. }
            | ExecError::InvalidInput { .. }
            | ExecError::LimitExceeded { .. } => StartFailure::InvalidInput,
            _ => StartFailure::System,
        };
        let message = match &error {
            ExecError::ShellStart { program, .. } => format!(
                "{error}; or send `fresh: true` with each command, which runs it in a new `{} -c`",
                program.display()
            ),
            _ => error.to_string(),
        };
        Self::StartFailed { reason, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_as_a_shell_can_be_one_for_each_command() {
        let error = CoreError::from(ExecError::ShellStart {
            program: "/usr/bin/odd".into(),
            reason: "no answer within 10 s; it must be a POSIX shell".to_owned(),
        });
        assert_eq!(
            error.to_string(),
            "shell `/usr/bin/odd` did not start: no answer within 10 s; it must be a POSIX shell; \
             or send `fresh: true` with each command, which runs it in a new `/usr/bin/odd -c`"
        );
    }
}
