//! What the harness adds to a step, how that grows, and what it takes.
//!
//! A step is a post to a model server on loopback and one `ls`. The floor is a
//! bare loop that posts the same bytes to the same server and spawns the same
//! command.

use anyhow::Context;
use halter::prelude::*;
use halter_bench::measure::{block_on, median, memory_kib, run_child, tell};
use halter_bench::provider::{Client, LoopbackProvider, StepLog, note_step};
use halter_bench::report::{Claim, print, remark};
use halter_bench::server::{Server, serve};
use halter_bench::turn::one_turn;
use halter_config::{SessionBackend, SessionsConfig};
use std::path::Path;
use std::sync::Arc;

/// Pairs of runs; the medians count.
const ROUNDS: usize = 9;

/// Sessions in one run of a few steps, which would scatter too much alone.
const SHORT_SESSIONS: usize = 6;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", "serve"] => serve(),
        ["--child", "harness", address, steps, database, sessions] => {
            let log = repeat(sessions, || Ok(harness(address, steps.parse()?, database)))?;
            tell(&log)
        }
        ["--child", "floor", address, bodies, sessions] => {
            tell(&repeat(sessions, || Ok(floor(address, bodies)))?)
        }
        _ => block_on(bench()),
    }
}

/// Runs the same several times over and returns the last log.
fn repeat<Work: Future<Output = anyhow::Result<StepLog>>>(
    times: &str,
    work: impl Fn() -> anyhow::Result<Work>,
) -> anyhow::Result<StepLog> {
    block_on(async {
        let mut log = StepLog::default();
        for _ in 0..times.parse()? {
            log = work()?.await?;
        }
        Ok(log)
    })
}

async fn bench() -> anyhow::Result<()> {
    let server = Server::start()?;
    let address = server.address();
    let scratch = tempfile::tempdir()?;
    for store in ["memory", "sqlite"] {
        let (mut at_20, mut first_20) = (Vec::new(), Vec::new());
        let mut growth = Vec::new();
        let mut peaks = Vec::new();
        for round in 0..ROUNDS {
            let run = Run {
                address,
                scratch: scratch.path(),
                store,
                round,
            };
            at_20.push(run.overhead(10, 30).await?);
            first_20.push(run.overhead(0, 20).await?);
            let (grown, peak) = run.growth(300).await?;
            growth.push(grown);
            peaks.push(peak);
        }
        print(&Claim {
            what: &format!("{store}: CPU of a step over the floor's, at step 20"),
            value: median(at_20),
            limit: 2.0,
            unit: "x",
        });
        remark(&format!(
            "{store}: the same over the first 20 steps, the start of the shell included: {:.2} x",
            median(first_20)
        ));
        print(&Claim {
            what: &format!("{store}: last 30 of 300 steps over first 30, over the floor's"),
            value: median(growth),
            limit: 1.15,
            unit: "x",
        });
        print(&Claim {
            what: &format!("{store}: peak memory of a 300-step session"),
            value: median(peaks),
            limit: 40.0,
            unit: "MiB",
        });
    }
    remark("server, harness and floor ran as processes of their own, interleaved");
    Ok(())
}

/// One pair of runs.
struct Run<'a> {
    address: &'a str,
    scratch: &'a Path,
    store: &'a str,
    round: usize,
}

impl Run<'_> {
    /// CPU of the steps after `from` up to `to` over that of the floor,
    /// processes that steps start included.
    async fn overhead(&self, from: usize, to: usize) -> anyhow::Result<f64> {
        let (start, early) = self.harness(from, SHORT_SESSIONS).await?;
        let (end, late) = self.harness(to, SHORT_SESSIONS).await?;
        let (floor_start, _) = self.floor(&early.body_bytes, SHORT_SESSIONS).await?;
        let (floor_end, _) = self.floor(&late.body_bytes, SHORT_SESSIONS).await?;
        Ok((end - start) / (floor_end - floor_start))
    }

    /// How much dearer late steps are than early ones, over the floor's own
    /// growth; and the most memory the harness used, in MiB.
    async fn growth(&self, steps: usize) -> anyhow::Result<(f64, f64)> {
        let (_, log) = self.harness(steps, 1).await?;
        let (_, floor) = self.floor(&log.body_bytes, 1).await?;
        let ratio = late_over_early(&log)? / late_over_early(&floor)?;
        Ok((ratio, log.peak_kib as f64 / 1024.0))
    }

    async fn harness(&self, steps: usize, sessions: usize) -> anyhow::Result<(f64, StepLog)> {
        let database = match self.store {
            "sqlite" => self
                .scratch
                .join(format!("{}-{steps}.db", self.round))
                .display()
                .to_string(),
            _ => String::new(),
        };
        let _ = std::fs::remove_file(&database);
        let (steps, sessions) = (steps.to_string(), sessions.to_string());
        let child = run_child(&["harness", self.address, &steps, &database, &sessions]).await?;
        Ok((child.cpu.as_secs_f64(), child.report))
    }

    async fn floor(&self, bodies: &[usize], sessions: usize) -> anyhow::Result<(f64, StepLog)> {
        let bodies = serde_json::to_string(bodies)?;
        let sessions = sessions.to_string();
        let child = run_child(&["floor", self.address, &bodies, &sessions]).await?;
        Ok((child.cpu.as_secs_f64(), child.report))
    }
}

fn late_over_early(log: &StepLog) -> anyhow::Result<f64> {
    let costs: Vec<u64> = log
        .cpu_nanos
        .windows(2)
        .filter_map(|pair| pair.last()?.checked_sub(*pair.first()?))
        .collect();
    let early: u64 = costs.iter().take(30).sum();
    let late: u64 = costs.iter().rev().take(30).sum();
    anyhow::ensure!(early > 0 && late > 0, "no steps were measured");
    Ok(late as f64 / early as f64)
}

/// A session of so many steps through the whole harness.
async fn harness(address: &str, steps: usize, database: &str) -> anyhow::Result<StepLog> {
    let provider = Arc::new(LoopbackProvider::new(address.parse()?, steps));
    let mut config = HarnessConfig::default();
    if !database.is_empty() {
        config.sessions = SessionsConfig {
            backend: SessionBackend::Sqlite,
            sqlite_path: Some(database.into()),
            ..SessionsConfig::default()
        };
    }
    let workspace = tempfile::tempdir()?;
    let harness = HalterBuilder::new()
        .with_config(config)
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_provider(provider.clone())
        .build()
        .await?;
    one_turn(&harness, workspace.path(), Turn::user("go")).await?;
    let mut log = provider.log();
    anyhow::ensure!(log.body_bytes.len() == steps + 1, "every step was made");
    log.peak_kib = memory_kib("VmHWM")?;
    Ok(log)
}

/// The bare loop: the same bytes to the same server, the same command.
async fn floor(address: &str, bodies: &str) -> anyhow::Result<StepLog> {
    let bodies: Vec<usize> = serde_json::from_str(bodies)?;
    let workspace = tempfile::tempdir()?;
    let mut client = Client::connect(address.parse()?).await?;
    let mut log = StepLog::default();
    let mut body = Vec::new();
    for (step, bytes) in bodies.iter().enumerate() {
        body.resize(*bytes, b'x');
        note_step(&mut log, *bytes);
        client.post(&body).await?;
        if step + 1 < bodies.len() {
            let output = tokio::process::Command::new("ls")
                .args(["-w", "80"])
                .current_dir(workspace.path())
                .stdin(std::process::Stdio::null())
                .output()
                .await
                .context("ls")?;
            anyhow::ensure!(output.status.success(), "ls");
        }
    }
    log.peak_kib = memory_kib("VmHWM")?;
    Ok(log)
}
