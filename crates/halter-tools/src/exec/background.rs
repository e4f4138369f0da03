//! Commands that run beside the session's shell: what they are given, how far
//! they have come, and what they printed.

use super::{Environment, ExecPlace, ExitStatus, TerminalSize};
use async_trait::async_trait;
use halter_policy::HostRefusal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One command line that runs on its own.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BackgroundCommand {
    /// What its shell evaluates.
    pub text: String,
    /// The directory it starts in; `None` for where the session's shell is.
    pub cwd: Option<PathBuf>,
    /// Variables beside those of the session.
    pub environment: Environment,
    /// How long it may run; `None` for as long as the session.
    pub deadline: Option<Duration>,
    /// The size of the terminal it runs in; `None` for pipes.
    pub terminal: Option<TerminalSize>,
    /// Bytes of its output that are kept: half from the start, half from the
    /// end.
    pub kept_bytes: usize,
    /// Where it runs, if the session has a sandbox.
    pub place: ExecPlace,
}

impl BackgroundCommand {
    /// A command where the shell is, without a deadline, a terminal or
    /// variables of its own.
    pub fn new(text: impl Into<String>, kept_bytes: usize) -> Self {
        Self {
            text: text.into(),
            cwd: None,
            environment: Environment::new(),
            deadline: None,
            terminal: None,
            kept_bytes,
            place: ExecPlace::Session,
        }
    }
}

/// A command that was started.
pub struct StartedCommand {
    /// The command.
    pub command: Arc<dyn RunningCommand>,
    /// What there is to say about the sandbox it runs in.
    pub sandbox_note: Option<String>,
}

/// A command that runs, or has ended. What it printed stays until this is
/// dropped, which also ends it.
#[async_trait]
pub trait RunningCommand: Send + Sync {
    /// Its process number, while it runs.
    fn pid(&self) -> Option<i32>;

    /// How far it has come.
    fn progress(&self) -> BackgroundProgress;

    /// What its sandbox seems to have refused, once it has failed.
    fn refusal_note(&self) -> Option<String> {
        None
    }

    /// Hosts that it has not reached so far because the network policy refused,
    /// each once; where there are many, the newest.
    fn refused_hosts(&self) -> Vec<HostRefusal> {
        Vec::new()
    }

    /// Waits until it has printed more than so many bytes, or has ended.
    async fn printed_more_than(&self, bytes: u64) -> BackgroundProgress;

    /// What it printed from an offset on, at most so many bytes.
    async fn read(&self, offset: u64, most: usize) -> anyhow::Result<OutputPiece>;

    /// Gives it input. Does not wait until it is read.
    ///
    /// # Errors
    /// If it has ended, takes no more input, or has not read what it was
    /// given before.
    async fn write(&self, input: &[u8]) -> anyhow::Result<()>;

    /// Ends its input.
    async fn end_input(&self);

    /// Changes the size of its terminal.
    ///
    /// # Errors
    /// If it has ended or has none.
    async fn resize(&self, size: TerminalSize) -> anyhow::Result<()>;

    /// Sends a signal to it and everything it started.
    ///
    /// # Errors
    /// If it has ended, or there is no such signal.
    async fn signal(&self, signal: i32) -> anyhow::Result<()>;

    /// Asks it and everything it started to end, kills what does not, and
    /// waits for that.
    async fn stop(&self);
}

/// How far a command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackgroundProgress {
    /// Bytes it has printed, also those that are not kept.
    pub printed: u64,
    /// How it ended; absent while it runs.
    pub end: Option<BackgroundEnd>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackgroundEnd {
    /// Its status; absent if that was lost.
    pub status: Option<ExitStatus>,
    /// The deadline stopped it.
    pub timed_out: bool,
}

/// A part of what a command printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputPiece {
    /// Where it begins: what was asked for, or after it where those bytes are
    /// not kept.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}
