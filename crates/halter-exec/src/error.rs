//! What can go wrong before or beside a command. A command that ran and
//! failed, timed out or was cancelled is an outcome, not an error.

use std::io;
use std::path::PathBuf;

/// Why a command could not be started, supervised or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// No file of that name in the child's search path, or none at that path.
    #[error(
        "program `{program}` was not found (searched: {searched}); \
         check its name, or give its full path"
    )]
    ProgramNotFound {
        /// The program as it was asked for.
        program: String,
        /// The directories looked into, or the path tried.
        searched: String,
    },

    /// The program exists, but may not be executed.
    #[error(
        "program `{path}` may not be executed: permission denied; \
         check its mode and the directories above it"
    )]
    ProgramDenied {
        /// The file that was found.
        path: PathBuf,
    },

    /// The program exists, but the system cannot run it.
    #[error(
        "program `{path}` cannot be run: {source}; \
         check that it is a binary for this machine or that its `#!` interpreter exists"
    )]
    ProgramUnusable {
        /// The file that was found.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The working directory does not exist (any more).
    #[error(
        "working directory `{path}` does not exist; \
         create it or choose another one"
    )]
    WorkingDirectoryGone {
        /// The directory asked for.
        path: PathBuf,
    },

    /// The working directory exists, but cannot be entered.
    #[error(
        "working directory `{path}` cannot be entered: {source}; \
         check that it is a directory and its permissions"
    )]
    WorkingDirectoryUnusable {
        /// The directory asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Arguments and environment together are larger than the system accepts.
    #[error(
        "the arguments and environment of `{program}` are too long for this system; \
         pass large data on standard input or in a file"
    )]
    ArgumentsTooLong {
        /// The program as it was asked for.
        program: String,
    },

    /// Something given cannot be handed to a process at all.
    #[error("{what} is not usable: {reason}")]
    InvalidInput {
        /// Which input, by its name and never by its value.
        what: String,
        /// Why, and what would be accepted.
        reason: String,
    },

    /// Something given is larger than a named limit of this crate.
    #[error("{what} has {actual} bytes, the limit is {limit}; split it or use a file")]
    LimitExceeded {
        /// Which input.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
        /// The size given, in bytes.
        actual: usize,
    },

    /// The process could not be created.
    #[error("starting `{program}` failed while {step}: {source}")]
    Spawn {
        /// The program as it was asked for.
        program: String,
        /// What was being done when it failed.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// A level of isolation that was asked for cannot be had, so nothing was
    /// started.
    #[error(
        "the sandbox level `{level}` is not available: {reason}; \
         ask for less, or run where it is"
    )]
    SandboxUnavailable {
        /// Which level.
        level: &'static str,
        /// Why it is missing.
        reason: String,
    },

    /// A system call outside the child failed.
    #[error("{action} failed: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// Something else in this program collected the exit status first.
    #[error(
        "the exit status of process {pid} was taken by other code in this program; \
         nothing else may wait for all children or ignore SIGCHLD"
    )]
    StatusLost {
        /// The process in question.
        pid: i32,
    },

    /// The persistent shell did not come up.
    #[error("shell `{program}` did not start: {reason}")]
    ShellStart {
        /// The shell program.
        program: PathBuf,
        /// What it did instead.
        reason: String,
    },

    /// There is no process with that number, or it has ended.
    #[error("there is no process {pid}; list the processes again")]
    NoSuchProcess {
        /// The number asked for.
        pid: i32,
    },
}

impl ExecError {
    /// A stable name for this kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ProgramNotFound { .. } => "program_not_found",
            Self::ProgramDenied { .. } => "program_denied",
            Self::ProgramUnusable { .. } => "program_unusable",
            Self::WorkingDirectoryGone { .. } => "working_directory_gone",
            Self::WorkingDirectoryUnusable { .. } => "working_directory_unusable",
            Self::ArgumentsTooLong { .. } => "arguments_too_long",
            Self::InvalidInput { .. } => "invalid_input",
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::Spawn { .. } => "spawn_failed",
            Self::SandboxUnavailable { .. } => "sandbox_unavailable",
            Self::Io { .. } => "io",
            Self::StatusLost { .. } => "status_lost",
            Self::ShellStart { .. } => "shell_start",
            Self::NoSuchProcess { .. } => "no_such_process",
        }
    }

    pub(crate) fn io(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            source: source.into(),
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }
}
