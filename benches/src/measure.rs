//! Time and memory of this process and of children.

use anyhow::Context;
use halter_exec::{Command, Environment, run};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// CPU time this process has used, all threads.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// A line of `/proc/self/status`, in KiB.
pub fn memory_kib(field: &str) -> anyhow::Result<u64> {
    crate::cost::memory_kib_of(std::process::id(), field)
}

/// What a child reported, and what it and its own children cost.
pub struct Measured<T> {
    /// The JSON it printed.
    pub report: T,
    /// User and system time, reaped descendants included.
    pub cpu: Duration,
}

/// Runs this executable again in another role and reads the JSON it prints.
pub async fn run_child<T: DeserializeOwned>(arguments: &[&str]) -> anyhow::Result<Measured<T>> {
    let program = std::env::current_exe()?;
    let spec = Command::new(program, std::env::current_dir()?)
        .args(["--child"].iter().chain(arguments).map(OsString::from))
        .environment(Environment::from_iter(std::env::vars_os()));
    let outcome = run(spec, &CancellationToken::new(), &()).await?;
    anyhow::ensure!(
        outcome.status.success(),
        "child {arguments:?} failed: {}",
        String::from_utf8_lossy(&outcome.stderr.to_bytes())
    );
    let report = serde_json::from_slice(&outcome.stdout.to_bytes())
        .with_context(|| format!("child {arguments:?}"))?;
    let usage = outcome.usage.context("the child's use of the CPU")?;
    Ok(Measured {
        report,
        cpu: usage.user_time + usage.system_time,
    })
}

/// What a child prints for [`run_child`].
pub fn tell(report: &impl Serialize) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, report)?;
    output.flush()?;
    Ok(())
}

/// Does the work on this thread alone.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// The middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
