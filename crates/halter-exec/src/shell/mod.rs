//! A shell that lives across commands.
//!
//! One shell process runs one command after the other, so `cd`, `export`,
//! functions, aliases and options survive. Each command has streams of its
//! own; its end is reported on a private channel, never within the output. A
//! shell that ends (by `exit`, `exec`, a kill) is followed by a new one with
//! the state of the last snapshot.

mod dialect;
mod interrupt;
mod live;
mod quiet;
mod running;
mod snapshot;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::dialect::Dialect;
use self::interrupt::interrupt;
use self::live::{LiveShell, ShellStart};
use self::quiet::runs_only_programs;
use self::running::RunningCommand;
use self::snapshot::Snapshots;
use crate::command::{CommandOutcome, Stop, first_stop};
use crate::environment::Environment;
use crate::error::ExecError;
use crate::exit::ExitStatus;
use crate::limits::{DEFAULT_GRACE, MAX_COMMAND_BYTES, SHELL_CLOSE_GRACE};
use crate::output::{OutputLimits, OutputPipe, OutputSink};
use crate::process::{Process, Stdin};
use crate::spawn::find_program;
use crate::tree::{Spared, TreeControl};

/// How a persistent shell is started.
#[derive(Debug, Clone)]
pub struct ShellConfig {
    /// The shell; `None` for `bash`, or `sh` where there is none, from the
    /// environment's `PATH`. A program not called `bash` is spoken to in
    /// POSIX shell language.
    pub program: Option<PathBuf>,
    /// All the variables the shell starts with.
    pub environment: Environment,
    /// The directory it starts in.
    pub cwd: PathBuf,
}

impl ShellConfig {
    /// The default shell with this environment in this directory.
    pub fn new(environment: Environment, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: None,
            environment,
            cwd: cwd.into(),
        }
    }
}

/// One command for a persistent shell.
#[derive(Clone)]
pub struct ShellCommand {
    /// What the shell evaluates.
    pub text: String,
    /// The directory for this command; relative ones start at the shell's.
    /// Afterwards the shell is back where it was, unless the command itself
    /// went elsewhere. `None` for where the shell is.
    pub cwd: Option<PathBuf>,
    /// Variables for this command only.
    pub environment: Environment,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may run; `None` for as long as it likes.
    pub deadline: Option<Duration>,
    /// How long it gets between TERM and KILL when it is stopped.
    pub grace: Duration,
    /// How much of its output is kept.
    pub output: OutputLimits,
}

impl ShellCommand {
    /// A command where the shell is: no input, no deadline, default bounds.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            cwd: None,
            environment: Environment::new(),
            stdin: Stdin::Null,
            deadline: None,
            grace: DEFAULT_GRACE,
            output: OutputLimits::default(),
        }
    }

    fn check(&self) -> Result<(), ExecError> {
        self.stdin.check()?;
        if self.text.len() > MAX_COMMAND_BYTES {
            return Err(ExecError::LimitExceeded {
                what: "the command",
                limit: MAX_COMMAND_BYTES,
                actual: self.text.len(),
            });
        }
        if self.text.contains('\0') {
            return Err(ExecError::invalid(
                "the command",
                "it contains a NUL byte; remove it",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for ShellCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ShellCommand")
            .field("text", &format_args!("({} bytes)", self.text.len()))
            .field("cwd", &self.cwd)
            .field("environment", &self.environment)
            .field("stdin", &self.stdin)
            .field("deadline", &self.deadline)
            .field("grace", &self.grace)
            .field("output", &self.output)
            .finish()
    }
}

/// A shell whose state survives from command to command. The process is
/// started with the first command. Dropping this kills the shell and
/// everything it started.
#[derive(Debug)]
pub struct PersistentShell {
    config: ShellConfig,
    live: Option<LiveShell>,
    snapshots: Option<Snapshots>,
    /// Where the shell is, as it names the place.
    cwd: PathBuf,
    /// Where it belongs after a command that was sent elsewhere.
    return_to: Option<PathBuf>,
    /// Shells that ended while something they started still runs.
    retired: Vec<Process>,
    /// Readers of pipes that background processes still hold, so that these
    /// can go on writing.
    background: JoinSet<()>,
}

impl PersistentShell {
    /// A shell that is started when it is first needed.
    #[must_use]
    pub fn new(config: ShellConfig) -> Self {
        Self {
            cwd: config.cwd.clone(),
            config,
            live: None,
            snapshots: None,
            return_to: None,
            retired: Vec::new(),
            background: JoinSet::new(),
        }
    }

    /// Where the next command runs.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        self.return_to.as_deref().unwrap_or(&self.cwd)
    }

    /// The shell's process number, while one is running.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        let live = self.live.as_ref()?;
        (!live.process.has_exited()).then(|| live.process.pid())
    }

    /// Runs a command to its end. It is done when the shell says so; what it
    /// put into the background goes on. A deadline or cancellation interrupts
    /// everything the command started (INT, TERM, KILL) and keeps the shell;
    /// it is an outcome with the output so far. Dropping the future instead
    /// kills the shell and all it started, and the next command meets a new
    /// shell with the state of the last snapshot.
    ///
    /// # Errors
    /// If the shell cannot be started, or the command cannot be given to it.
    pub async fn run(
        &mut self,
        command: ShellCommand,
        cancel: &CancellationToken,
        sink: &dyn OutputSink,
    ) -> Result<CommandOutcome, ExecError> {
        command.check()?;
        self.tidy();
        let (mut live, mut restarted) = self.take_live().await?;
        if let Some(snapshots) = &self.snapshots {
            snapshots.clear_exit();
        }
        let started = Instant::now();
        let given = self.directory_for(&command).and_then(|go_to| {
            let running = RunningCommand::start(&live, &command, go_to.as_deref(), sink)?;
            Ok((go_to, running))
        });
        // From here the shell is ours: if this future is dropped, so is it.
        let (go_to, mut running) = match given {
            Ok(given) => given,
            Err(error) => {
                self.live = Some(live);
                return Err(error);
            }
        };
        let mut ended = None;
        let stop = running
            .pump
            .run_until(first_stop(
                async { ended = Some(live.ended(&running.nonce).await) },
                command.deadline,
                cancel,
            ))
            .await;
        let ended = match ended {
            Some(ended) => ended,
            None => {
                let stopping = interrupt(&mut live, &running.nonce, &running.spared, command.grace);
                running.pump.run_until(stopping).await
            }
        };
        let duration = started.elapsed();
        let tree_control = live.process.tree_control();
        let (stdout, stderr, open) = running.finish().await?;
        self.keep_reading(open);
        let status = match ended {
            Some((status, cwd)) => {
                self.settle(cwd, go_to.as_deref());
                self.save_state(&live, &command, stop);
                self.live = Some(live);
                ExitStatus::from_shell_code(status)
            }
            None => {
                let (status, state_kept) = self.follow_up(live, go_to.as_deref()).await?;
                restarted |= !state_kept;
                status
            }
        };
        Ok(CommandOutcome {
            status,
            stdout,
            stderr,
            duration,
            usage: None,
            timed_out: stop == Stop::TimedOut,
            cancelled: stop == Stop::Cancelled,
            cwd: self.cwd().to_owned(),
            shell_restarted: restarted,
            tree_control,
        })
    }

    /// Ends the shell: it may leave by itself for a moment (its EXIT trap
    /// runs), then it and everything it started is killed.
    pub async fn close(mut self) {
        self.background.abort_all();
        if let Some(mut live) = self.live.take() {
            if live.send(&live.dialect.exit_line()).is_ok() {
                let leaving = live.process.exited();
                let _ = tokio::time::timeout(SHELL_CLOSE_GRACE, leaving).await;
            }
            live.process.terminate(Duration::ZERO).await;
            let _ = live.process.wait().await;
        }
        for mut shell in self.retired.drain(..) {
            let _ = shell.wait().await;
        }
        while self.background.join_next().await.is_some() {}
    }

    /// The running shell, or a new one; and whether state may have been lost
    /// between the last command and now.
    async fn take_live(&mut self) -> Result<(LiveShell, bool), ExecError> {
        match self.live.take() {
            Some(live) if !live.process.has_exited() => Ok((live, false)),
            Some(dead) => {
                self.retire(dead.process);
                let state_kept = self.keep_exit_state();
                Ok((self.start().await?, !state_kept))
            }
            None => {
                // Without a shell but with snapshots: the last one was lost
                // together with a dropped future, or could not be followed.
                let lost = self.snapshots.is_some();
                Ok((self.start().await?, lost))
            }
        }
    }

    /// A new shell with the newest state there is.
    async fn start(&mut self) -> Result<LiveShell, ExecError> {
        let program = self.program()?;
        let snapshots = match &mut self.snapshots {
            Some(snapshots) => snapshots,
            none => none.insert(
                Snapshots::new()
                    .map_err(|source| ExecError::io("preparing the shell's state", source))?,
            ),
        };
        let snapshot = snapshots.latest();
        let empty = Environment::new();
        // A shell that is given its state gets every variable from there,
        // and lacks those that were unset.
        let (environment, cwd) = match &snapshot {
            Some(_) => (&empty, existing(&[&self.cwd, &self.config.cwd])),
            None => (&self.config.environment, self.config.cwd.as_path()),
        };
        let (live, cwd) = LiveShell::start(&ShellStart {
            program: &program,
            environment,
            cwd,
            snapshot: snapshot.as_deref(),
            exit_snapshot: &snapshots.exit_path(),
        })
        .await?;
        self.cwd = cwd;
        Ok(live)
    }

    fn program(&self) -> Result<PathBuf, ExecError> {
        let ShellConfig {
            program,
            environment,
            cwd,
        } = &self.config;
        if let Some(program) = program {
            return find_program(program.as_os_str(), environment, cwd);
        }
        find_program(OsStr::new("bash"), environment, cwd)
            .or_else(|_| find_program(OsStr::new("sh"), environment, cwd))
    }

    /// The directory to go to before the command, if it is not where the
    /// shell is. Looked at beforehand, so that the error can name it.
    fn directory_for(&self, command: &ShellCommand) -> Result<Option<PathBuf>, ExecError> {
        let wanted = match &command.cwd {
            Some(cwd) => self.cwd().join(cwd),
            None => match &self.return_to {
                Some(path) => path.clone(),
                None => return Ok(None),
            },
        };
        match std::fs::metadata(&wanted) {
            Ok(found) if found.is_dir() => Ok(Some(wanted)),
            Ok(_) => Err(ExecError::WorkingDirectoryUnusable {
                path: wanted,
                source: std::io::ErrorKind::NotADirectory.into(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ExecError::WorkingDirectoryGone { path: wanted })
            }
            Err(source) => Err(ExecError::WorkingDirectoryUnusable {
                path: wanted,
                source,
            }),
        }
    }

    /// Notes where the shell is after a command that was sent to `sent_to`.
    fn settle(&mut self, cwd: PathBuf, sent_to: Option<&Path>) {
        let home = self.cwd().to_owned();
        self.return_to = match sent_to {
            Some(place) if place != home && same_place(place, &cwd) => Some(home),
            _ => None,
        };
        self.cwd = cwd;
    }

    /// Has the shell write its state down, unless the command cannot have
    /// changed it; it does so after it has answered.
    fn save_state(&mut self, live: &LiveShell, command: &ShellCommand, stop: Stop) {
        if let Some(snapshots) = &mut self.snapshots {
            let undisturbed = stop == Stop::Ended
                && live.dialect == Dialect::Bash
                && command.cwd.is_none()
                && self.return_to.is_none();
            if undisturbed && runs_only_programs(&command.text) && !snapshots.define_code() {
                return;
            }
            let (tag, path) = snapshots.next_turn();
            // A shell that died in this moment is found dead next time.
            let _ = live.send(&live.dialect.save_line(&tag, &path));
        }
    }

    /// Makes the state the dead shell left at its exit the newest one;
    /// `false` if it left none.
    fn keep_exit_state(&mut self) -> bool {
        let Some(snapshots) = &mut self.snapshots else {
            return false;
        };
        match snapshots.take_exit() {
            Some(state) => snapshots.keep(&state).is_ok(),
            None => false,
        }
    }

    /// After the shell has ended under a command: its status, and whether
    /// its successor has all of its state.
    async fn follow_up(
        &mut self,
        dead: LiveShell,
        sent_to: Option<&Path>,
    ) -> Result<(ExitStatus, bool), ExecError> {
        let status = dead.process.peek()?;
        self.retire(dead.process);
        let state_kept = self.keep_exit_state();
        let home = self.cwd().to_owned();
        match self.start().await {
            Ok(live) => {
                let cwd = self.cwd.clone();
                self.cwd = home;
                self.return_to = None;
                self.settle(cwd, sent_to);
                self.live = Some(live);
            }
            // The command's outcome is known; the next one will meet, and
            // report, the same error.
            Err(error) => tracing::warn!(%error, "no shell to follow the last one"),
        }
        Ok((status, state_kept))
    }

    /// Keeps an ended shell for as long as something it started still runs:
    /// its uncollected number is what their session is known by.
    fn retire(&mut self, shell: Process) {
        self.retired.push(shell);
        self.tidy();
    }

    fn tidy(&mut self) {
        self.retired.retain_mut(|shell| !shell.collect_if_gone());
        while self.background.try_join_next().is_some() {}
    }

    fn keep_reading(&mut self, pipes: Vec<OutputPipe>) {
        for mut pipe in pipes {
            self.background
                .spawn(async move { while let Ok(Some(_)) = pipe.read().await {} });
        }
    }

    /// How the shell's tree is held together, while a shell is running.
    #[must_use]
    pub fn tree_control(&self) -> Option<TreeControl> {
        self.live.as_ref().map(|live| live.process.tree_control())
    }
}

/// Whether both names are of one directory.
fn same_place(left: &Path, right: &Path) -> bool {
    let identity = |path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (identity(left), identity(right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => left == right,
    }
}

/// The first of these that is still a directory, or the root.
fn existing<'a>(candidates: &[&'a Path]) -> &'a Path {
    candidates
        .iter()
        .copied()
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/"))
}

/// Everything that runs in the shell's tree before a command: an interrupt
/// of the command passes it by.
fn running_before(live: &LiveShell) -> Spared {
    let earlier = live.process.tree().map_or_else(Default::default, |tree| {
        tree.followers()
            .into_iter()
            .map(|member| (member.pid, member.start_time))
            .collect()
    });
    Spared {
        leader: true,
        earlier,
    }
}
