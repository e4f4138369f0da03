//! What a warm command of a session's tools costs where it runs: as a child of
//! this process, and by a runtime behind its socket.

use crate::{ROUNDS, Setting};
use halter_bench::measure::median;
use halter_bench::report::{Claim, print, remark};
use halter_bench::runtime::Runtime;
use halter_policy::{SandboxBounds, SandboxMode};
use halter_tools::ScratchDir;
use halter_tools::exec::{
    Environment, ExecBackend, ExecCommand, ExecSession, ExecSessionSpec, LocalExec,
};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::client::Target;
use tokio_util::sync::CancellationToken;

/// Commands of one round.
const COMMANDS: usize = 200;

/// How long a command may run.
const DEADLINE: Duration = Duration::from_secs(60);

/// Both in one run, round by round: the middle of all commands, with and without
/// the session's sandbox.
pub async fn warm(setting: &Setting) -> anyhow::Result<()> {
    let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
    let target = Target::Socket(runtime.socket().to_owned());
    let there = RuntimeExec::new(target, RuntimeExecSettings::default());
    let directory = tempfile::tempdir()?;
    for (mode, name) in [(SandboxMode::Off, ""), (SandboxMode::Prefer, ", sandboxed")] {
        let here = open(&LocalExec, directory.path(), "here", mode);
        let socket = open(&there, directory.path(), "there", mode);
        let (mut local, mut remote) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let times = (times(&here).await?, times(&socket).await?);
            // The first one makes shells and sandboxes.
            if round > 0 {
                local.extend(times.0);
                remote.extend(times.1);
            }
        }
        let (local, remote) = (median(local), median(remote));
        remark(&format!(
            "a warm shell command{name}, middle: local {local:.3} ms, by the socket {remote:.3} ms"
        ));
        print(&Claim {
            what: &format!("a warm shell command by the socket, over local{name}"),
            value: remote - local,
            limit: 1.0,
            unit: "ms",
        });
        here.close().await;
        socket.close().await;
    }
    Ok(())
}

fn open(
    place: &dyn ExecBackend,
    directory: &Path,
    name: &str,
    mode: SandboxMode,
) -> Arc<dyn ExecSession> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let environment = Environment::new().with("PATH", path);
    let scratch = Arc::new(ScratchDir::new(directory.join(name)));
    let mut spec = ExecSessionSpec::new(directory, environment, scratch);
    spec.sandbox = SandboxBounds {
        mode,
        writable: vec![directory.to_owned()],
        ..SandboxBounds::default()
    };
    place.open(spec)
}

/// What each command of a round took, in milliseconds.
async fn times(session: &Arc<dyn ExecSession>) -> anyhow::Result<Vec<f64>> {
    let cancel = CancellationToken::new();
    let mut times = Vec::with_capacity(COMMANDS);
    for _ in 0..COMMANDS {
        let started = Instant::now();
        let command = ExecCommand::new("true", DEADLINE);
        let done = session.run(command, &cancel, &|_| {}).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(done.status.success(), "{done:?}");
    }
    Ok(times)
}
