//! A persistent shell within this program, with its output captured.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::config::{ShellCommand, ShellConfig};
use super::driver::{CommandText, ShellDriver};
use super::host::{CommandStreams, DirectoryIdentity, ShellProcess};
use super::local::{HandedOver, LocalHost};
use super::report::{ShellChange, ShellReport};
use crate::command::{CommandOutcome, Stop, first_stop};
use crate::error::ExecError;
use crate::limits::SHELL_START_DEADLINE;
use crate::output::{OutputPipe, OutputSink, Pump};
use crate::process::Stdin;
use crate::sandbox::Sandbox;
use crate::tree::TreeControl;

/// A shell whose state survives from command to command. The process is
/// started with the first command. Dropping this kills the shell and
/// everything it started.
#[derive(Debug)]
pub struct PersistentShell {
    driver: ShellDriver<LocalHost>,
    /// Readers of pipes that background processes still hold, so that these
    /// can go on writing.
    background: JoinSet<()>,
}

impl PersistentShell {
    /// A shell that is started when it is first needed.
    #[must_use]
    pub fn new(config: ShellConfig) -> Self {
        Self {
            driver: ShellDriver::new(LocalHost::new(), config),
            background: JoinSet::new(),
        }
    }

    /// A shell in this sandbox, together with whatever else is in it.
    ///
    /// # Errors
    /// If there are no more descriptors to be had.
    pub fn in_sandbox(config: ShellConfig, sandbox: Arc<Sandbox>) -> Result<Self, ExecError> {
        let host = LocalHost::in_sandbox(sandbox)?;
        Ok(Self {
            driver: ShellDriver::new(host, config),
            background: JoinSet::new(),
        })
    }

    /// Where the next command runs.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        self.driver.cwd()
    }

    /// The shell's process number, while one is running.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.driver.process().map(ShellProcess::pid)
    }

    /// How the shell's tree is held together, while a shell is running.
    #[must_use]
    pub fn tree_control(&self) -> Option<TreeControl> {
        self.driver.process().map(ShellProcess::tree_control)
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
        command.stdin.check_given()?;
        self.tidy();
        let (mut pump, streams) = Streams::make(&command, sink, self.driver.host())
            .map_err(|source| ExecError::io("making the command's streams", source))?;
        let started = Instant::now();
        let guard = Guard(&mut self.driver);
        let driver = &mut *guard.0;
        driver
            .start(
                &CommandText {
                    text: &command.text,
                    cwd: command.cwd.as_deref(),
                    environment: &command.environment,
                },
                &streams.paths(),
            )
            .await?;
        let mut ended = None;
        let stop = pump
            .run_until(first_stop(
                async { ended = Some(driver.ended().await) },
                (command.deadline, &command.pause),
                cancel,
            ))
            .await;
        let ended = match ended {
            Some(ended) => ended?,
            None => pump.run_until(driver.interrupt(command.grace)).await?,
        };
        drop(guard);
        let duration = started.elapsed();
        // Without our own write ends the streams can come to their end.
        drop(streams);
        pump.drain()
            .await
            .map_err(|source| ExecError::io("reading the command's output", source))?;
        let (stdout, stderr, open) = pump.finish().await;
        self.keep_reading(open);
        Ok(CommandOutcome {
            status: ended.status,
            stdout,
            stderr,
            duration,
            usage: None,
            timed_out: stop == Stop::TimedOut,
            cancelled: stop == Stop::Cancelled,
            cwd: ended.cwd,
            shell_restarted: ended.shell_restarted,
            tree_control: ended.tree_control,
        })
    }

    /// What the shell says of itself; `None` if none is running. Whoever is in
    /// the shell's place can have written it.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn report(&mut self) -> Result<Option<ShellReport>, ExecError> {
        self.driver.report().await
    }

    /// Has the next command meet a new shell, started by this configuration
    /// and with nothing of the present one, which ends. What that has in the
    /// background goes on, but is no job of the next.
    ///
    /// # Errors
    /// If its state cannot be removed.
    pub async fn begin_anew(&mut self, config: ShellConfig) -> Result<(), ExecError> {
        self.driver.begin_anew(config).await
    }

    /// Starts the shell if none is running, and returns which directory it is
    /// in, whatever that is called by now; `None` where that cannot be told.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn make_ready(&mut self) -> Result<Option<DirectoryIdentity>, ExecError> {
        self.driver.make_ready().await?;
        let pid = self.pid();
        let link = pid.map(|pid| format!("/proc/{pid}/cwd"));
        Ok(link.and_then(|link| DirectoryIdentity::of(Path::new(&link)).ok()))
    }

    /// Has the shell take this over, as if a command had said so. A directory
    /// that is not there leaves it where it is.
    ///
    /// # Errors
    /// If a name is none of a variable, or the shell cannot be started.
    pub async fn take_over(&mut self, change: &ShellChange) -> Result<(), ExecError> {
        let text = change.script()?;
        if text.is_empty() {
            return Ok(());
        }
        let mut command = ShellCommand::new(text);
        command.deadline = Some(SHELL_START_DEADLINE);
        self.run(command, &CancellationToken::new(), &()).await?;
        Ok(())
    }

    /// Ends the shell: it may leave by itself for a moment (its EXIT trap
    /// runs), then it and everything it started is killed.
    pub async fn close(mut self) {
        self.background.abort_all();
        self.driver.close().await;
        self.driver.host_mut().close().await;
        while self.background.join_next().await.is_some() {}
    }

    fn tidy(&mut self) {
        self.driver.host_mut().tidy();
        while self.background.try_join_next().is_some() {}
    }

    fn keep_reading(&mut self, pipes: Vec<OutputPipe>) {
        for mut pipe in pipes {
            self.background
                .spawn(async move { while let Ok(Some(_)) = pipe.read().await {} });
        }
    }
}

/// Kills the shell if whoever waits for its command stops waiting.
struct Guard<'a>(&'a mut ShellDriver<LocalHost>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.0.state().is_running() {
            drop(self.0.abandon());
        }
    }
}

/// The child's side of a command's streams.
struct Streams {
    stdin: Option<HandedOver>,
    stdout: HandedOver,
    stderr: HandedOver,
}

impl Streams {
    fn make<'sink>(
        command: &ShellCommand,
        sink: &'sink dyn OutputSink,
        host: &LocalHost,
    ) -> io::Result<(Pump<'sink>, Self)> {
        let stdin = match &command.stdin {
            Stdin::Null | Stdin::Streamed => None,
            Stdin::Bytes(bytes) => Some(host.hand_file(bytes)?),
        };
        let (our_stdout, stdout, stdout_name) = host.hand_pipe()?;
        let (our_stderr, stderr, stderr_name) = host.hand_pipe()?;
        let pump = Pump::new(
            OutputPipe::new(our_stdout)?,
            OutputPipe::new(our_stderr)?,
            None,
            &command.output,
            sink,
        );
        let streams = Self {
            stdin: stdin.map(|(file, name)| HandedOver::new(file, name)),
            stdout: HandedOver::new(stdout, stdout_name),
            stderr: HandedOver::new(stderr, stderr_name),
        };
        Ok((pump, streams))
    }

    fn paths(&self) -> CommandStreams<'_> {
        CommandStreams {
            stdin: self
                .stdin
                .as_ref()
                .map_or(Path::new("/dev/null"), HandedOver::path),
            stdout: self.stdout.path(),
            stderr: self.stderr.path(),
        }
    }
}
