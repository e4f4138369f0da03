//! Running one program to its end, its deadline or its cancellation.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::ExecError;
use crate::output::{CapturedOutput, InputPipe, OutputPipe, OutputSink, Pump};
use crate::process::{
    CommandSpec, ExitStatus, Process, ResourceUsage, StandardStreams, Stdin, request_for,
};
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
    deadline: Option<Duration>,
    cancel: &CancellationToken,
) -> Stop {
    let late = async {
        match deadline {
            Some(deadline) => tokio::time::sleep(deadline).await,
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
    spec: CommandSpec,
    cancel: &CancellationToken,
    sink: &dyn OutputSink,
) -> Result<CommandOutcome, ExecError> {
    spec.stdin.check()?;
    let streams = StandardStreams::new(&spec.stdin)
        .map_err(|source| ExecError::io("making the command's pipes", source))?;
    let mut process = Process::start(&request_for(&spec, &streams))?;
    let mut pump = pump_for(&spec, streams, sink)
        .map_err(|source| ExecError::io("watching the command's pipes", source))?;

    let stop = pump
        .run_until(first_stop(process.exited(), spec.deadline, cancel))
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

fn pump_for<'sink>(
    spec: &CommandSpec,
    streams: StandardStreams,
    sink: &'sink dyn OutputSink,
) -> std::io::Result<Pump<'sink>> {
    // Dropping the rest of `streams` closes our copies of the child's ends.
    let (stdin, stdout, stderr) = streams.ours;
    let stdin = match (&spec.stdin, stdin) {
        (Stdin::Bytes(bytes), Some(fd)) => Some(InputPipe::new(fd, bytes.clone())?),
        _ => None,
    };
    Ok(Pump::new(
        OutputPipe::new(stdout)?,
        OutputPipe::new(stderr)?,
        stdin,
        &spec.output,
        sink,
    ))
}
