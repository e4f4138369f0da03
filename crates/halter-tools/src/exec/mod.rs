//! The place where commands run, as a trait.
//!
//! [`ExecBackend`] is one place for all sessions of a harness, [`ExecSession`]
//! is what one session has there: a shell whose state survives from command to
//! command, and the processes that its commands leave running. Requests and
//! answers are data: no process handle, file handle or local process number
//! has a meaning outside the implementation, so that a place on another
//! machine is possible. [`LocalExec`] runs commands as children of this
//! process; an embedder replaces it through
//! [`ToolSessionStore::with_exec`](crate::ToolSessionStore::with_exec).
//!
//! The place decides nothing about permission, with one exception: it refuses
//! to look at or signal processes that its session did not start.

mod background;
mod kept;
mod local;
mod sampling;
mod sandbox;

use crate::builtin::blocking;
use crate::context::ToolContext;
use crate::limits::{SHELL_KEPT_FILE_BYTES, SHELL_KEPT_FILES, SHELL_RESULT_BYTES};
use crate::network::{HostQuestions, HostResolver, SystemResolver};
use crate::scratch::ScratchDir;
use crate::session::{ToolSessionState, ToolSessionStore};
use async_trait::async_trait;
pub use background::{
    BackgroundCommand, BackgroundEnd, BackgroundProgress, OutputPiece, RunningCommand,
    StartedCommand,
};
pub use halter_exec::{
    Environment, ExecError, ExitStatus, KillOutcome, ProcessInfo, SignalResult, TerminalSize,
};
use halter_policy::shell::git_environment;
use halter_policy::{HostRefusal, NetworkPolicy, SandboxBounds, SessionFiles};
pub use kept::KeptOutput;
pub use local::{LocalExec, own_temporary};
pub use sampling::{RunningSampling, StackSamples};
pub use sandbox::{
    AttachedProgram, CHANGES_REPORTED, NamedSandbox, RungStatus, SandboxRequired, SandboxStatus,
    SandboxWatch, SeenChanges, ServedNetwork, SessionSandbox, containment, not_held,
    partly_searched_workspace, probe_sandbox,
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Takes the text that a command prints, as it appears.
pub type TextListener<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// A place where sessions run commands.
#[async_trait]
pub trait ExecBackend: Send + Sync + std::fmt::Debug {
    /// Opens a session. Nothing is started before its first command.
    fn open(&self, spec: ExecSessionSpec) -> Arc<dyn ExecSession>;

    /// Whether commands can run there, in this directory, for a policy with these
    /// bounds, and what
    /// the place does not do that this program would: one sentence each, for
    /// people, before a session starts.
    ///
    /// # Errors
    /// Why no command can run there.
    async fn check(
        &self,
        _directory: &Path,
        _bounds: &SandboxBounds,
    ) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Whether [`ExecSession::sample`] works there.
    fn samples_processes(&self) -> bool {
        false
    }

    /// Where the files of a session in this directory are, if those that its
    /// commands see are not this machine's. Asked before the session's policy is
    /// bound, which then opens files there.
    ///
    /// # Errors
    /// The place cannot be reached, has no such directory, or has other files
    /// and does not give them to tools.
    async fn files(&self, _directory: &Path) -> anyhow::Result<Option<SessionFiles>> {
        Ok(None)
    }
}

/// What is not from there, for people, where the files of a session are those of
/// the place where its commands run.
pub const NOT_FROM_ELSEWHERE: [&str; 3] = [
    "tools use the files there; hooks, MCP servers, language servers, browsers and worktrees of \
     subagents stay on this machine",
    "what a user attaches, user-wide instructions, skills and the rest of the configuration are \
     this machine's",
    "nobody is asked about files beyond the session's directories there: name them in \
     policy.allowed_read_roots or policy.allowed_write_roots",
];

/// What one session has at the place where its commands run.
///
/// Dropping it ends what it runs, like [`close`](Self::close), without waiting.
#[async_trait]
pub trait ExecSession: Send + Sync {
    /// Runs a command line in the session's shell, to its end. A deadline or a
    /// cancellation stops everything the command started and keeps the shell;
    /// both are results with the output so far. One command runs at a time,
    /// others wait.
    ///
    /// `output` gets the text of both streams as it appears and must not block.
    async fn run(
        &self,
        command: ExecCommand,
        cancel: &CancellationToken,
        output: &TextListener<'_>,
    ) -> anyhow::Result<FinishedCommand>;

    /// Starts a command line in a shell of its own, beside the session's, and
    /// does not wait for it. It runs until it ends or the session does.
    ///
    /// # Errors
    /// If it cannot be started, or the place has no such commands.
    async fn start(&self, _command: BackgroundCommand) -> anyhow::Result<StartedCommand> {
        anyhow::bail!("commands cannot run in the background here; run it without")
    }

    /// Where the next command runs; absent: where the session started. Files
    /// that a command names are judged from there, so a place whose shell is
    /// kept between commands has to say it.
    fn directory(&self) -> Option<PathBuf> {
        None
    }

    /// The processes below `root`, or all that the session's shell and its
    /// background commands have started.
    ///
    /// # Errors
    /// [`PolicyError::ProcessOutsideTree`](crate::PolicyError::ProcessOutsideTree)
    /// if `root` is neither the session's shell or a background command, nor below
    /// one.
    async fn processes(&self, root: Option<i32>) -> anyhow::Result<SessionProcesses>;

    /// Sends a signal to a process of the session and everything below it.
    ///
    /// # Errors
    /// As [`processes`](Self::processes); also if the signal does not exist.
    async fn signal_tree(&self, root: i32, signal: i32) -> anyhow::Result<Vec<KillOutcome>>;

    /// Samples what a process of the session and everything below it does, so
    /// often in a second. Returns once that has begun.
    ///
    /// # Errors
    /// As [`processes`](Self::processes); also where nobody can look.
    async fn sample(&self, _root: i32, _hertz: u32) -> anyhow::Result<Box<dyn RunningSampling>> {
        anyhow::bail!("processes cannot be sampled here")
    }

    /// Ends the shell and everything the session started. A running command
    /// ends as cancelled, later ones fail.
    async fn close(&self);
}

/// What a session is given when it is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecSessionSpec {
    /// Where the shell starts.
    pub working_dir: PathBuf,
    /// All variables the shell starts with.
    pub environment: Environment,
    /// Where output that does not fit in a result is kept, for `read`.
    pub scratch: Arc<ScratchDir>,
    /// How much output is returned and kept.
    pub output: OutputBounds,
    /// What the kernel should enforce for its commands.
    pub sandbox: SandboxBounds,
    /// What its commands reach in a sandbox that can hold that.
    pub network: NetworkPolicy,
    /// Who looks up the hosts they reach.
    pub resolver: Arc<dyn HostResolver>,
}

impl ExecSessionSpec {
    /// A session in this directory, with the default bounds.
    pub fn new(
        working_dir: impl Into<PathBuf>,
        environment: Environment,
        scratch: Arc<ScratchDir>,
    ) -> Self {
        Self {
            working_dir: working_dir.into(),
            environment,
            scratch,
            output: OutputBounds::default(),
            sandbox: SandboxBounds::default(),
            network: NetworkPolicy::closed(),
            resolver: Arc::new(SystemResolver),
        }
    }
}

/// How much of the output of commands is returned and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBounds {
    /// Bytes of each stream in a result: half from the start, half from the
    /// end.
    pub result_bytes: usize,
    /// Bytes of one stream that are kept in a file.
    pub kept_file_bytes: u64,
    /// Files of kept output; the oldest is removed.
    pub kept_files: usize,
}

impl Default for OutputBounds {
    fn default() -> Self {
        Self {
            result_bytes: SHELL_RESULT_BYTES,
            kept_file_bytes: SHELL_KEPT_FILE_BYTES,
            kept_files: SHELL_KEPT_FILES,
        }
    }
}

/// One command line for a session's shell.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecCommand {
    /// What the shell evaluates.
    pub text: String,
    /// The directory for this command only; `None` for where the shell is.
    pub cwd: Option<PathBuf>,
    /// Variables for this command only.
    pub environment: Environment,
    /// How long it may run.
    pub deadline: Duration,
    /// Where it runs, if the session has a sandbox.
    pub place: ExecPlace,
    /// Who is asked about hosts that it may not reach, where the place sees
    /// that while it runs; absent: they are refused.
    pub hosts: Option<HostQuestions>,
}

/// Where a command of a session with a sandbox runs. Elsewhere than with all
/// others it has a shell of its own, which is given what can be believed of the
/// state of the session's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecPlace {
    /// In the session's sandbox.
    #[default]
    Session,
    /// In a sandbox of other bounds, which open more.
    Opened(Box<SandboxBounds>),
    /// In none: it was asked for, and a person said yes.
    Outside,
}

impl ExecCommand {
    /// A command where the shell is, without variables of its own.
    pub fn new(text: impl Into<String>, deadline: Duration) -> Self {
        Self {
            text: text.into(),
            cwd: None,
            environment: Environment::new(),
            deadline,
            place: ExecPlace::Session,
            hosts: None,
        }
    }
}

/// A command that has ended, and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedCommand {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: FinishedOutput,
    /// Its standard error.
    pub stderr: FinishedOutput,
    /// The deadline stopped it.
    pub timed_out: bool,
    /// A cancellation stopped it.
    pub cancelled: bool,
    /// The shell was restarted: variables, functions or the directory
    /// may be those of an earlier command.
    pub shell_restarted: bool,
    /// What there is to say about the sandbox it ran in, or about having none
    /// where one was wanted.
    pub sandbox_note: Option<String>,
    /// Hosts that it did not reach because the network policy refused.
    pub refused_hosts: Vec<HostRefusal>,
}

/// One stream of a finished command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinishedOutput {
    /// The text, with a note where bytes are left out.
    pub text: String,
    /// Bytes that the text leaves out.
    pub omitted_bytes: u64,
    /// The file with the whole stream, if bytes are left out.
    pub kept_file: Option<PathBuf>,
    /// What the file lacks and why, or why there is none.
    pub kept_note: Option<String>,
}

/// The processes below one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionProcesses {
    /// The process; `None` if the session has no shell.
    pub root: Option<i32>,
    /// All processes below it, by parent links.
    pub descendants: Vec<ProcessInfo>,
}

/// A session's [`ExecSession`] among the other state of its tools.
pub(crate) struct OpenExec(pub(crate) Arc<dyn ExecSession>);

#[async_trait]
impl ToolSessionState for OpenExec {
    async fn close(&self) {
        self.0.close().await;
    }
}

impl ToolSessionStore {
    /// Where the session's shell is, if it has one and has left the directory
    /// it started in.
    pub fn shell_directory(&self) -> Option<PathBuf> {
        self.get::<OpenExec>()?.0.directory()
    }
}

impl ToolContext {
    /// The session at the place where its commands run, opened by first use.
    ///
    /// # Errors
    /// If the session is closed, or what its sandbox is to hold cannot be found.
    pub async fn exec(&self) -> anyhow::Result<Arc<dyn ExecSession>> {
        let store = &self.tool_sessions;
        if let Some(opened) = store.get::<OpenExec>() {
            return Ok(Arc::clone(&opened.0));
        }
        let base = Arc::clone(store.base_environment());
        let policy = Arc::clone(&self.policy);
        // Directories are searched. Calls at once may both do so; one is used.
        let sandbox = blocking(move || {
            let home = base.get(OsStr::new("HOME")).map(Path::new);
            Ok(policy.sandbox(home))
        })
        .await?;
        let opened = store.get_or_insert_with(|| {
            let mut environment: Environment = store
                .base_environment()
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            // A repository must not make git run programs, whoever starts it.
            environment.extend(git_environment());
            // `cd src` goes to the directory of that name here, or nowhere.
            environment.remove("CDPATH");
            let scratch = Arc::clone(store.scratch());
            let mut spec = ExecSessionSpec::new(self.working_dir.clone(), environment, scratch);
            spec.sandbox = sandbox;
            spec.network = self.policy.network().for_session();
            spec.resolver = Arc::clone(store.resolver());
            OpenExec(store.exec_backend().open(spec))
        })?;
        Ok(Arc::clone(&opened.0))
    }
}
