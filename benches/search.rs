//! What `grep` and `glob` cost on a large tree, against ripgrep on one thread.
//!
//! Each runs in a process of its own, and all it costs counts: starting, walking
//! and reading. Needs `rg`. On an idle machine: `cargo bench -p halter-bench --bench search`.

use anyhow::Context;
use halter_bench::measure::{Measured, block_on, median, run_child, tell};
use halter_bench::report::{Claim, Goal, Ratio, print, remark};
use halter_exec::{Command, Environment, find_program, run};
use halter_protocol::{ResourceSnapshot, ToolCall, ToolResult};
use halter_tools::{
    MemoryChanges, NoEarlierMessages, PathLockMap, PolicySettings, ScratchDir, SessionScope,
    StandardPolicy, ToolContext, ToolEventSink, ToolRuntime, ToolRuntimeEvent, ToolSessionStore,
    builtin_tools,
};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 5;

/// The tree: so many directories with so many files each.
const DIRECTORIES: usize = 1_000;
const FILES: usize = 100;

/// What is in one file of each directory, and what is looked for.
const NEEDLE: &str = "the_needle";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", tool, root] => tell(&block_on(call(tool, Path::new(root)))?),
        _ => block_on(bench()),
    }
}

async fn bench() -> anyhow::Result<()> {
    let environment = Environment::from_iter(std::env::vars_os());
    if find_program(OsStr::new("rg"), &environment, Path::new("/")).is_err() {
        remark("skipped: needs rg (package ripgrep)");
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    plant(directory.path())?;
    let root = directory.path().to_str().context("a path of text")?;
    for (tool, arguments) in [
        ("grep", &["-j1", "--line-number", NEEDLE][..]),
        ("glob", &["-j1", "--files", "--glob", "**/*7.rs"][..]),
    ] {
        let (mut own, mut floor, mut ratios, mut seconds) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let peer = ripgrep(&environment, root, arguments).await?;
            let measured: Measured<f64> = run_child(&[tool, root]).await?;
            own.push(measured.cpu.as_secs_f64() * 1e3);
            floor.push(peer.as_secs_f64() * 1e3);
            ratios.push(100.0 * measured.cpu.as_secs_f64() / peer.as_secs_f64());
            seconds.push(measured.report);
        }
        Ratio {
            what: &format!("CPU of `{tool}` over 100,000 files, against `rg -j1`"),
            measured: median(own),
            floor: median(floor),
            unit: "ms",
            percent: median(ratios),
            goal: Goal::AtMost(200.0),
        }
        .print();
        print(&Claim {
            what: "  time of the call",
            value: median(seconds),
            limit: 3.0,
            unit: "s",
        });
    }
    Ok(())
}

/// The CPU time of ripgrep.
async fn ripgrep(
    environment: &Environment,
    root: &str,
    arguments: &[&str],
) -> anyhow::Result<Duration> {
    let command = Command::new("rg", root)
        .args(arguments.iter().copied())
        .args([root])
        .environment(environment.clone());
    let outcome = run(command, &CancellationToken::new(), &()).await?;
    anyhow::ensure!(outcome.status.success(), "rg failed");
    let usage = outcome.usage.context("what rg used of the CPU")?;
    Ok(usage.user_time + usage.system_time)
}

/// Calls a tool, and returns how long that took, in seconds.
async fn call(tool: &str, root: &Path) -> anyhow::Result<f64> {
    let input = match tool {
        "grep" => json!({"pattern": NEEDLE, "max_matches": 1000}),
        _ => json!({"pattern": "**/*7.rs", "max_results": 1000}),
    };
    let scratch = tempfile::tempdir()?;
    let scope = SessionScope {
        working_dir: root.to_owned(),
        ..SessionScope::default()
    };
    let policy = StandardPolicy::bind(PolicySettings::default(), scope)?;
    let store = ToolSessionStore::new(ScratchDir::new(scratch.path().join("scratch")));
    let call = ToolCall {
        id: "call".into(),
        name: tool.into(),
        arguments: input,
    };
    let context = ToolContext {
        session_id: "ses_bench".into(),
        call_id: "call".into(),
        working_dir: root.to_owned(),
        path_locks: Arc::new(PathLockMap::new()),
        memory: Arc::default(),
        remembered: MemoryChanges::default(),
        earlier: Arc::new(NoEarlierMessages),
        tool_sessions: Arc::new(store),
        asker: Arc::new(halter_tools::NobodyToAsk),
        tools: Arc::new(halter_tools::NoDeferredTools),
        snapshot: Arc::new(ResourceSnapshot::empty()),
        cancel: CancellationToken::new(),
        emit: Arc::new(NoEvents),
        policy: Arc::new(policy),
        shell_timeout_secs: 60,
        subagents: None,
        models: None,
        hosts: None,
    };
    let tools = ToolRuntime::with_tools(builtin_tools());
    let started = Instant::now();
    let result = tools.execute(&call, context).await?;
    let seconds = started.elapsed().as_secs_f64();
    let ToolResult::Json { value } = result else {
        anyhow::bail!("not JSON");
    };
    let found = ["matches", "paths", "files"]
        .iter()
        .find_map(|key| value.get(*key).and_then(Value::as_array));
    anyhow::ensure!(found.is_some_and(|it| it.len() >= 900), "{value}");
    Ok(seconds)
}

struct NoEvents;

impl ToolEventSink for NoEvents {
    fn emit(&self, _event: ToolRuntimeEvent) {}
}

fn plant(root: &Path) -> anyhow::Result<()> {
    let filler = "fn nothing_to_see_here(argument: usize) -> usize { argument + 1 }\n".repeat(20);
    for directory in 0..DIRECTORIES {
        let path = root.join(format!("part{}/dir{directory}", directory % 10));
        std::fs::create_dir_all(&path)?;
        for file in 0..FILES {
            let path = path.join(format!("file{file}.rs"));
            match file {
                50 => std::fs::write(path, format!("{filler}// {NEEDLE}\n"))?,
                _ => std::fs::write(path, &filler)?,
            }
        }
    }
    Ok(())
}
