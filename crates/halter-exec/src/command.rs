//! Running one program to its end, its deadline or its cancellation.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::ExecError;
use crate::exit::{ExitStatus, ResourceUsage};
use crate::output::{CapturedOutput, OutputSink, Pump};
use crate::pause::DeadlinePause;
use crate::process::{Command, Process};
use crate::sandbox::Sandbox;
use crate::streams::ProcessStreams;
use crate::tree::TreeControl;

/// A command that was started, however it ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// How it ended. A command stopped by deadline or cancellation has the
    /// status it died with.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: CapturedOutput,
    /// What it wrote to standard error.
    pub stderr: CapturedOutput,
    /// From its start to its end.
    pub duration: Duration,
    /// What it used; `None` for a command inside a living shell, which the
    /// system does not account for separately.
    pub usage: Option<ResourceUsage>,
    /// Whether its deadline passed; the output is what came until then.
    pub timed_out: bool,
    /// Whether it was cancelled; the output is what came until then.
    pub cancelled: bool,
    /// The directory afterwards: the shell's, or the one the program was
    /// started in.
    pub cwd: PathBuf,
    /// Whether the shell this ran in died and the next command meets a new
    /// one, with the state of the last snapshot.
    pub shell_restarted: bool,
    /// How the tree was held together.
    pub tree_control: TreeControl,
}

/// Why a command is brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Ended,
    TimedOut,
    Cancelled,
}

/// The first of: the command ends, its deadline passes, it is cancelled.
pub(crate) async fn first_stop(
    ended: impl Future<Output = ()>,
    (deadline, pause): (Option<Duration>, &DeadlinePause),
    cancel: &CancellationToken,
) -> Stop {
    let late = async {
        match deadline {
            Some(deadline) => pause.sleep(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = ended => Stop::Ended,
        () = cancel.cancelled() => Stop::Cancelled,
        () = late => Stop::TimedOut,
    }
}

/// Runs a program. It is done when the process has ended, even if something
/// it left running still holds its pipes; what it left running is killed. A
/// deadline or cancellation ends the whole tree (TERM, grace, KILL) and is an
/// outcome with the output so far. Dropping the future kills the tree.
///
/// # Errors
/// If the program could not be started or its status was taken by others.
pub async fn run(
    spec: Command,
    cancel: &CancellationToken,
    sink: &dyn OutputSink,
) -> Result<CommandOutcome, ExecError> {
    spec.stdin.check_given()?;
    let started = Process::spawn(&spec)?;
    run_process(spec, started, cancel, sink).await
}

/// The same in a sandbox that exists, in place of that of `spec`.
///
/// # Errors
/// As [`run`].
pub async fn run_in(
    spec: Command,
    sandbox: Arc<Sandbox>,
    cancel: &CancellationToken,
    sink: &dyn OutputSink,
) -> Result<CommandOutcome, ExecError> {
    spec.stdin.check_given()?;
    let started = Process::spawn_in(&spec, sandbox)?;
    run_process(spec, started, cancel, sink).await
}

async fn run_process(
    spec: Command,
    (mut process, streams): (Process, ProcessStreams),
    cancel: &CancellationToken,
    sink: &dyn OutputSink,
) -> Result<CommandOutcome, ExecError> {
    let mut pump = Pump::new(
        streams.stdout,
        streams.stderr,
        streams.stdin,
        &spec.output,
        sink,
    );

    let stop = pump
        .run_until(first_stop(
            process.exited(),
            (spec.deadline, &DeadlinePause::default()),
            cancel,
        ))
        .await;
    if stop != Stop::Ended {
        pump.run_until(process.terminate(spec.grace)).await;
    }
    let duration = process.started().elapsed();
    pump.drain()
        .await
        .map_err(|source| ExecError::io("reading the command's output", source))?;
    let tree_control = process.tree_control();
    let (status, usage) = process.wait().await?;
    let (stdout, stderr, _) = pump.finish().await;
    Ok(CommandOutcome {
        status,
        stdout,
        stderr,
        duration,
        usage: Some(usage),
        timed_out: stop == Stop::TimedOut,
        cancelled: stop == Stop::Cancelled,
        cwd: spec.cwd,
        shell_restarted: false,
        tree_control,
    })
}
