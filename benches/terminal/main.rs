//! The terminal runtime: what its commands, its output and its sessions cost.
//!
//! Ratios are of work per second of CPU time where the work is done by
//! processes that can be told apart, so that a busy machine says the same as
//! an idle one; the time of the client is not the runtime's. Words choose
//! among the claims; `ten-gib` pauses a reader of ten gibibytes instead of two.

mod bytes;
mod commands;
mod footprint;
mod place;
mod raw_shell;

use halter_bench::measure::{block_on, median, tell};
use halter_bench::report::{Goal, Ratio};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

const ROUNDS: usize = 5;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// What a round of one kind took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cost {
    cpu: Duration,
    wall: Duration,
}

/// What the bench was asked for.
struct Setting {
    program: PathBuf,
    words: Vec<String>,
}

impl Setting {
    fn wants(&self, name: &str) -> bool {
        let mut names = self.words.iter().filter(|word| *word != "ten-gib");
        names.clone().next().is_none() || names.any(|word| name.contains(word.as_str()))
    }

    fn paused_bytes(&self) -> u64 {
        match self.words.iter().any(|word| word == "ten-gib") {
            true => 10 * GIB,
            false => 2 * GIB,
        }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", "raw-spawn", count] => tell(&commands::raw_spawn(count.parse()?)?),
        ["--child", "library-spawn", ballast, count] => {
            let spawned = commands::library_spawn(ballast.parse()?, count.parse()?);
            tell(&block_on(spawned)?)
        }
        ["--child", "runtime", ballast] => block_on(commands::runtime(ballast.parse()?)),
        ["--child", "raw-shell", count, command] => tell(&raw_shell::run(count.parse()?, command)?),
        ["--child", "raw-pipe", count] => tell(&bytes::raw_pipe(count.parse()?)?),
        ["--child", "stream", socket, count] => {
            tell(&block_on(bytes::stream(socket, count.parse()?))?)
        }
        ["--child", "echo", socket] => block_on(footprint::echo(socket)),
        words => block_on(bench(words)),
    }
}

async fn bench(words: &[&str]) -> anyhow::Result<()> {
    let chosen = words.iter().filter(|word| !word.starts_with("--"));
    let setting = Setting {
        program: halter_bench::runtime::program()?,
        words: chosen.map(|word| (*word).to_owned()).collect(),
    };
    if setting.wants("binary") {
        footprint::binary(&setting)?;
    }
    if setting.wants("start") {
        footprint::start(&setting)?;
    }
    if setting.wants("ping") {
        footprint::ping(&setting)?;
    }
    if setting.wants("sessions") {
        footprint::sessions(&setting)?;
    }
    if setting.wants("spawn") {
        commands::spawn(&setting).await?;
    }
    if setting.wants("resident") {
        commands::resident(&setting).await?;
    }
    if setting.wants("crowded") {
        commands::crowded(&setting)?;
    }
    if setting.wants("builtin") {
        commands::builtin(&setting).await?;
    }
    if setting.wants("warm-place") {
        place::warm(&setting).await?;
    }
    if setting.wants("stream") {
        bytes::streaming(&setting).await?;
    }
    if setting.wants("stalled") {
        bytes::stalled(&setting)?;
    }
    if setting.wants("paused") {
        bytes::paused(&setting).await?;
    }
    Ok(())
}

/// How much was done in a second.
fn rate(count: f64, time: Duration) -> f64 {
    count / time.as_secs_f64()
}

/// The middle ratio of two rates, round by round: ours and the floor's.
fn percent(rates: &[(f64, f64)]) -> f64 {
    let ratio = |(ours, floor): &(f64, f64)| 100.0 * ours / floor;
    median(rates.iter().map(ratio).collect())
}

/// Prints a claim about two rates.
fn compare(what: &str, unit: &str, rates: &[(f64, f64)], goal: Goal) {
    let middle = |value: fn(&(f64, f64)) -> f64| median(rates.iter().map(value).collect());
    Ratio {
        what,
        measured: middle(|(ours, _)| *ours),
        floor: middle(|(_, floor)| *floor),
        unit,
        percent: percent(rates),
        goal,
    }
    .print();
}
