//! One running process, held by handle, with its tree.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;

use crate::command::CommandOutcome;
use crate::environment::Environment;
use crate::error::ExecError;
use crate::exit::{Exit, ExitStatus, ResourceUsage};
use crate::limits::{DEFAULT_GRACE, KILL_WAIT, MAX_STDIN_BYTES, RELEASE_WAIT};
use crate::output::OutputLimits;
use crate::sandbox::{LimitReport, Sandbox, SandboxSpec};
use crate::spawn::{self, SpawnRequest};
use crate::streams::{self, ProcessStreams};
use crate::sys::{self, PidFd, Signal};
use crate::terminal::{Terminal, TerminalSize};
use crate::tree::{OwnSandbox, ProcessTree, Spared, TreeControl, polling};

/// What a process reads on standard input.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Stdin {
    /// Nothing: the end of input at once.
    #[default]
    Null,
    /// These bytes, then the end of input.
    Bytes(Bytes),
    /// What is written to [`ProcessStreams::stdin`]. Not for a command that is
    /// run to its end by one call.
    Streamed,
}

impl fmt::Debug for Stdin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("Null"),
            Self::Streamed => formatter.write_str("Streamed"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({} bytes)", bytes.len()),
        }
    }
}

impl Stdin {
    pub(crate) fn check(&self) -> Result<(), ExecError> {
        match self {
            Self::Bytes(bytes) if bytes.len() > MAX_STDIN_BYTES => Err(ExecError::LimitExceeded {
                what: "standard input",
                limit: MAX_STDIN_BYTES,
                actual: bytes.len(),
            }),
            _ => Ok(()),
        }
    }

    /// The same for a command nobody can write to while it runs.
    pub(crate) fn check_given(&self) -> Result<(), ExecError> {
        match self {
            Self::Streamed => Err(ExecError::invalid(
                "streamed standard input",
                "nobody could write it; start the process by handle",
            )),
            given => given.check(),
        }
    }
}

/// One program to run, without a shell in between.
#[derive(Debug, Clone)]
pub struct Command {
    /// A path, or a name searched in the `PATH` of [`environment`](Self::environment).
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub args: Vec<OsString>,
    /// All the variables it sees.
    pub environment: Environment,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// What it reads.
    pub stdin: Stdin,
    /// The size of the terminal it runs in; `None` for pipes. A terminal has
    /// one output, which arrives as standard output.
    pub terminal: Option<TerminalSize>,
    /// Whether standard error is the same pipe as standard output, so that
    /// what comes first is read first.
    pub joined_output: bool,
    /// How long it may run, counted from its start; `None` for as long as it
    /// likes.
    pub deadline: Option<Duration>,
    /// How long its tree gets between TERM and KILL.
    pub grace: Duration,
    /// How much of its output is kept.
    pub output: OutputLimits,
    /// What it and everything it starts may reach and use.
    pub sandbox: SandboxSpec,
}

impl Command {
    /// A program in a directory: no arguments, empty environment, no input,
    /// no deadline, default bounds.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Environment::new(),
            cwd: cwd.into(),
            stdin: Stdin::Null,
            terminal: None,
            joined_output: false,
            deadline: None,
            grace: DEFAULT_GRACE,
            output: OutputLimits::default(),
            sandbox: SandboxSpec::default(),
        }
    }

    /// With these further arguments.
    #[must_use]
    pub fn args<Arg: Into<OsString>>(mut self, args: impl IntoIterator<Item = Arg>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// With this environment.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// With these bytes on standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Bytes>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// With standard input that is written while it runs.
    #[must_use]
    pub fn streamed_stdin(mut self) -> Self {
        self.stdin = Stdin::Streamed;
        self
    }

    /// In a terminal of this size.
    #[must_use]
    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    /// With both output streams in one, which arrives as standard output.
    #[must_use]
    pub fn joined_output(mut self) -> Self {
        self.joined_output = true;
        self
    }

    /// With a deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// With another time between TERM and KILL.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// In a sandbox.
    #[must_use]
    pub fn sandbox(mut self, sandbox: SandboxSpec) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// With other output bounds.
    #[must_use]
    pub fn output_limits(mut self, output: OutputLimits) -> Self {
        self.output = output;
        self
    }

    /// Runs it to its end and returns what it wrote: [`run`](crate::run)
    /// without a sink and without a way to cancel.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use halter_exec::Command;
    ///
    /// let outcome = Command::new("/bin/echo", "/").args(["hello"]).output().await?;
    /// assert_eq!(outcome.stdout.to_text(), "hello\n");
    /// # Ok::<(), halter_exec::ExecError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the program could not be started.
    pub async fn output(self) -> Result<CommandOutcome, ExecError> {
        crate::run(self, &CancellationToken::new(), &()).await
    }
}

/// How long a killed process is waited for before it is killed again.
const COLLECT_PAUSE: Duration = Duration::from_millis(5);

/// A process and its tree. Dropping it kills the tree; a thread of its own
/// collects what was killed.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    pidfd: AsyncFd<PidFd>,
    tree: Option<ProcessTree>,
    terminal: Option<Terminal>,
    started: Instant,
    exit: Option<Exit>,
}

impl Process {
    /// Starts the program of `spec` and hands out its streams. Its deadline
    /// and output bounds are the business of [`run`](crate::run), not of the
    /// bare process. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the program could not be started.
    pub fn spawn(spec: &Command) -> Result<(Self, ProcessStreams), ExecError> {
        Self::spawn_by(spec, None)
    }

    /// The same in a sandbox that exists, in place of that of `spec`.
    ///
    /// # Errors
    /// If the program could not be started.
    pub fn spawn_in(
        spec: &Command,
        sandbox: Arc<Sandbox>,
    ) -> Result<(Self, ProcessStreams), ExecError> {
        Self::spawn_by(spec, Some(sandbox))
    }

    fn spawn_by(
        spec: &Command,
        sandbox: Option<Arc<Sandbox>>,
    ) -> Result<(Self, ProcessStreams), ExecError> {
        spec.stdin.check()?;
        let (child, ours, terminal) = streams::make(spec)
            .map_err(|source| ExecError::io("making the process's streams", source))?;
        let request = SpawnRequest {
            program: &spec.program,
            args: &spec.args,
            environment: &spec.environment,
            cwd: &spec.cwd,
            fds: child.descriptors(),
            terminal: child.terminal(),
        };
        let mut process = if let Some(shared) = sandbox {
            Self::start_in(&request, Some(OwnSandbox::Shared(shared)))?
        } else if spec.sandbox == SandboxSpec::default() {
            Self::start_in(&request, None)?
        } else {
            let sandbox = Sandbox::establish(spec.sandbox.clone(), &sys::numbered_name())?;
            Self::start_in(&request, Some(OwnSandbox::Alone(Box::new(sandbox))))?
        };
        process.terminal = terminal;
        Ok((process, ours))
    }

    pub(crate) fn start_in(
        request: &SpawnRequest<'_>,
        sandbox: Option<OwnSandbox>,
    ) -> Result<Self, ExecError> {
        let started = Instant::now();
        let (launched, tracking) =
            spawn::spawn(request, sandbox.as_ref().map(OwnSandbox::sandbox))?;
        let pid = launched.pid;
        let tree = ProcessTree::new(pid, tracking, sandbox);
        match sys::watch_process(launched.pidfd) {
            Ok(pidfd) => Ok(Self {
                pid,
                pidfd,
                tree: Some(tree),
                terminal: None,
                started,
                exit: None,
            }),
            Err(error) => {
                let (pidfd, source) = error.into_parts();
                AbandonedTree { pidfd, tree }.kill();
                Err(ExecError::io("watching the process", source))
            }
        }
    }

    /// Its number. It stays its own until the process has been waited for.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Which mechanism keeps each limit of its sandbox.
    #[must_use]
    pub fn limits(&self) -> &[LimitReport] {
        self.tree.as_ref().map_or(&[], ProcessTree::limits)
    }

    /// How its tree is held together.
    #[must_use]
    pub fn tree_control(&self) -> TreeControl {
        self.tree
            .as_ref()
            .map_or(TreeControl::GroupAndWalk, ProcessTree::control)
    }

    /// When it was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn tree(&self) -> Option<&ProcessTree> {
        self.tree.as_ref()
    }

    /// Sends a signal to the process alone.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.exit.is_none() {
            // It may have ended meanwhile; the handle keeps this harmless.
            let _ = self.pidfd.get_ref().send(signal);
        }
    }

    /// Changes the size of its terminal; the programs in it are told.
    ///
    /// # Errors
    /// If it has none, or has ended and left it.
    pub fn resize(&self, size: TerminalSize) -> Result<(), ExecError> {
        let Some(terminal) = &self.terminal else {
            return Err(ExecError::invalid(
                "a terminal's size",
                "this process has no terminal; start it with one",
            ));
        };
        terminal
            .resize(size)
            .map_err(|source| ExecError::io("resizing the terminal", source))
    }

    /// Sends a signal to every process of the tree.
    pub fn signal_tree(&self, signal: Signal) {
        if let Some(tree) = &self.tree {
            tree.signal(signal, &Spared::nobody());
        }
    }

    /// Returns when the process has ended, whoever else may still run. It is
    /// not collected yet.
    pub async fn exited(&self) {
        if self.exit.is_none() {
            // An error means that the runtime is shutting down: nobody will
            // look at the answer.
            let _ = self.pidfd.readable().await;
        }
    }

    /// Whether the process has ended.
    pub(crate) fn has_exited(&self) -> bool {
        self.exit.is_some() || self.pidfd.get_ref().has_ended(Duration::ZERO)
    }

    /// TERM to the whole tree, KILL after `grace` to what is left of it.
    /// Returns when nothing of it runs any more.
    pub async fn terminate(&self, grace: Duration) {
        let Some(tree) = &self.tree else { return };
        tree.signal(Signal::TERM, &Spared::nobody());
        // A stopped process acts on TERM only after it is continued.
        tree.signal(Signal::CONT, &Spared::nobody());
        if !tree.gone_within(grace, &Spared::nobody()).await {
            tree.kill_until_gone(&Spared::nobody()).await;
        }
    }

    /// Waits for the process, kills what it left running, and collects it.
    ///
    /// # Errors
    /// If other code of this program took the exit status.
    pub async fn wait(&mut self) -> Result<(ExitStatus, ResourceUsage), ExecError> {
        self.exited().await;
        if let Some(tree) = &mut self.tree {
            tree.kill_until_gone(&Spared::nobody()).await;
            // The last member may be between its death and leaving.
            polling::comes_true_within(RELEASE_WAIT, || tree.release()).await;
        }
        let exit = self.collect()?;
        self.tree = None;
        Ok((exit.status, exit.usage))
    }

    /// How the ended process ended, without collecting it.
    pub(crate) fn peek(&self) -> Result<ExitStatus, ExecError> {
        match self.pidfd.get_ref().peek() {
            Ok(Some(exit)) => Ok(exit.status),
            Ok(None) | Err(_) => Err(ExecError::StatusLost { pid: self.pid }),
        }
    }

    /// Collects the ended process if nothing of its tree runs any more.
    pub(crate) fn collect_if_gone(&mut self) -> bool {
        let gone = self.has_exited()
            && self
                .tree
                .as_mut()
                .is_none_or(|tree| tree.is_gone(&Spared::nobody()) && tree.release());
        if gone {
            let _ = self.collect();
            self.tree = None;
        }
        gone
    }

    fn collect(&mut self) -> Result<Exit, ExecError> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        match self.pidfd.get_ref().reap() {
            Ok(Some(exit)) => {
                self.exit = Some(exit);
                Ok(exit)
            }
            Ok(None) | Err(_) => Err(ExecError::StatusLost { pid: self.pid }),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(tree) = self.tree.take() else { return };
        // A second handle for the one that is about to leave the runtime.
        if let Ok(pidfd) = self.pidfd.get_ref().try_clone() {
            AbandonedTree { pidfd, tree }.kill();
        }
    }
}

/// A tree nobody waits for any more.
struct AbandonedTree {
    pidfd: PidFd,
    tree: ProcessTree,
}

impl AbandonedTree {
    /// Kills it, and has a thread of its own collect it: whoever drops a
    /// process may be the only thread of a runtime, which must not wait.
    fn kill(mut self) {
        if self.try_collect() {
            return;
        }
        let thread = std::thread::Builder::new().name("halter-exec-reaper".to_owned());
        let spawned = thread.spawn(move || {
            let until = Instant::now() + KILL_WAIT;
            while !self.try_collect() {
                if Instant::now() >= until {
                    let pid = self.tree.leader().pid;
                    tracing::warn!(pid, "process tree does not die");
                    return;
                }
                if self.pidfd.has_ended(COLLECT_PAUSE) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to collect a killed process tree");
        }
    }

    /// Kills what is left; `true` if nothing was, and all is collected.
    fn try_collect(&mut self) -> bool {
        let nobody = Spared::nobody();
        self.tree.kill(&nobody);
        let gone = self.pidfd.has_ended(Duration::ZERO)
            && self.tree.is_gone(&nobody)
            && self.tree.release();
        if gone {
            let _ = self.pidfd.reap();
        }
        gone
    }
}
