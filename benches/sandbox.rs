//! What the sandbox adds to the first command of a session, and to the ones
//! that follow. To the first belongs all that is done for it: the search for
//! files to hide and protect, below the home directory too, and the trial of
//! the sandbox that is made.
//!
//! Sessions with it and without take turns, so that both meet the same machine.

use halter_bench::measure::{block_on, median};
use halter_bench::report::{Claim, Goal, Ratio, print, remark};
use halter_exec::Environment;
use halter_policy::{PolicySettings, SandboxMode, SessionScope, StandardPolicy, ToolPolicy as _};
use halter_tools::ScratchDir;
use halter_tools::exec::{
    ExecBackend as _, ExecCommand, ExecSession, ExecSessionSpec, LocalExec, probe_sandbox,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Pairs of sessions, and commands of each that follow the first.
const ROUNDS: usize = 15;
const WARM: usize = 40;

/// What each command does: one program, as most do.
const COMMAND: &str = "/bin/true";

fn main() -> anyhow::Result<()> {
    block_on(bench())
}

async fn bench() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let (mut first, mut bare, mut contained, mut ratios) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let (bare_first, bare_warm) = session(directory.path(), SandboxMode::Off).await?;
        let (own_first, own_warm) = session(directory.path(), SandboxMode::Prefer).await?;
        first.push((own_first - bare_first) * 1e3);
        bare.push(bare_warm * 1e6);
        contained.push(own_warm * 1e6);
        ratios.push(100.0 * own_warm / bare_warm);
    }
    print(&Claim {
        what: "what the sandbox adds to the first command of a session",
        value: median(first),
        limit: 25.0,
        unit: "ms",
    });
    Ratio {
        what: "a command that follows, against one without a sandbox",
        measured: median(contained),
        floor: median(bare),
        unit: "us",
        percent: median(ratios),
        goal: Goal::AtMost(110.0),
    }
    .print();
    // Afterwards: what it learns of this machine would spare the first round.
    let status = probe_sandbox(
        &bounds(directory.path(), SandboxMode::Prefer)?,
        &environment(),
    );
    remark(&format!(
        "sandbox: {}",
        status
            .active
            .unwrap_or("none, so that nothing was compared")
    ));
    Ok(())
}

/// Seconds of the first command, and of the middle one that follows.
async fn session(directory: &Path, mode: SandboxMode) -> anyhow::Result<(f64, f64)> {
    let scratch = tempfile::tempdir()?;
    let scratch = Arc::new(ScratchDir::new(scratch.path().join("scratch")));
    let mut spec = ExecSessionSpec::new(directory, environment(), scratch);
    let started = Instant::now();
    spec.sandbox = bounds(directory, mode)?;
    let session = LocalExec.open(spec);
    command(&*session).await?;
    let first = started.elapsed().as_secs_f64();
    let mut warm = Vec::new();
    for _ in 0..WARM {
        warm.push(command(&*session).await?);
    }
    session.close().await;
    Ok((first, median(warm)))
}

async fn command(session: &dyn ExecSession) -> anyhow::Result<f64> {
    let command = ExecCommand::new(COMMAND, Duration::from_secs(60));
    let started = Instant::now();
    let finished = session
        .run(command, &CancellationToken::new(), &|_: &str| {})
        .await?;
    let seconds = started.elapsed().as_secs_f64();
    anyhow::ensure!(finished.status.success(), "the command failed");
    Ok(seconds)
}

fn environment() -> Environment {
    Environment::new().with("PATH", "/usr/bin:/bin")
}

/// What a session of the default policy asks for.
fn bounds(directory: &Path, mode: SandboxMode) -> anyhow::Result<halter_policy::SandboxBounds> {
    let settings = PolicySettings {
        sandbox: mode,
        ..PolicySettings::default()
    };
    let scope = SessionScope {
        working_dir: directory.to_owned(),
        ..SessionScope::default()
    };
    let home = std::env::var_os("HOME").map(PathBuf::from);
    Ok(StandardPolicy::bind(settings, scope)?.sandbox(home.as_deref()))
}
