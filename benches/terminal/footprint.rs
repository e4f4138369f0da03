//! What a runtime takes without commands: its file, its start, its answers,
//! its sessions.

use crate::{ROUNDS, Setting, compare, rate};
use halter_bench::cost::tree_cpu;
use halter_bench::measure::{cpu_time, median};
use halter_bench::report::{Claim, Goal, print, remark};
use halter_bench::runtime::{Line, Runtime, request};
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STARTS: usize = 15;
const PINGS: u32 = 20_000;
const SESSIONS: u32 = 10_000;

/// The program without its symbols.
pub fn binary(setting: &Setting) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let stripped = directory.path().join("stripped");
    let strip = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(&setting.program)
        .status();
    let measured = match strip {
        Ok(status) if status.success() => &stripped,
        _ => {
            remark("there is no `strip` here: the size is with symbols");
            &setting.program
        }
    };
    print(&Claim {
        what: "the program, stripped",
        value: measured.metadata()?.len() as f64 / 1024.0 / 1024.0,
        limit: 8.0,
        unit: "MiB",
    });
    Ok(())
}

/// From the start of the process to the answer of the first ping.
pub fn start(setting: &Setting) -> anyhow::Result<()> {
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let started = Instant::now();
        let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
        runtime.connect()?.call("system.ping", json!({}))?;
        wall.push(started.elapsed().as_secs_f64() * 1000.0);
        cpu.push(runtime.cpu().as_secs_f64() * 1000.0);
    }
    remark(&format!(
        "CPU time of daemon and holder until then: {:.0} ms, in steps of 10",
        median(cpu)
    ));
    print(&Claim {
        what: "from start to first ping",
        value: median(wall),
        limit: 30.0,
        unit: "ms",
    });
    Ok(())
}

/// Round trips of one connection, against a server that sends back what it
/// is sent. The time of both sides counts: they take turns.
pub fn ping(setting: &Setting) -> anyhow::Result<()> {
    let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("echo");
    let mut echo = Command::new(std::env::current_exe()?)
        .args(["--child", "echo"])
        .arg(&socket)
        .spawn()?;
    let mut ours = runtime.connect()?;
    let mut floor = loop {
        match Line::connect(&socket) {
            Ok(line) => break line,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let bare = pings(&mut floor, || tree_cpu(&[echo.id()]))?;
        let served = pings(&mut ours, || runtime.cpu())?;
        let of = |time: Duration| rate(PINGS.into(), time);
        cpu.push((of(served.0), of(bare.0)));
        wall.push((of(served.1), of(bare.1)));
    }
    echo.kill()?;
    echo.wait()?;
    let what = "ping of one connection, against a bare tokio echo";
    compare(what, "/CPU s", &cpu, Goal::AtLeast(70.0));
    compare(what, "/s", &wall, Goal::AtLeast(70.0));
    Ok(())
}

fn pings(line: &mut Line, server: impl Fn() -> Duration) -> anyhow::Result<(Duration, Duration)> {
    let ping = request("system.ping", json!({}));
    let (used, own, started) = (server(), cpu_time(), Instant::now());
    for _ in 0..PINGS {
        line.ask(&ping)?;
    }
    // Before the server is looked at, which takes time as well.
    let (wall, own) = (started.elapsed(), cpu_time() - own);
    Ok((server() - used + own, wall))
}

/// Sends back what it is sent, to one client after the other.
pub async fn echo(socket: &str) -> anyhow::Result<()> {
    let listener = tokio::net::UnixListener::bind(socket)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut buffer = vec![0; 4096];
        while let Ok(count) = stream.read(&mut buffer).await {
            let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
                break;
            };
            stream.write_all(read).await?;
        }
    }
}

/// What the daemon grows by with each session that has run nothing.
pub fn sessions(setting: &Setting) -> anyhow::Result<()> {
    let mut sizes = Vec::new();
    for _ in 0..ROUNDS {
        let most = [("TRL_MAX_SESSIONS", "20000")];
        let runtime = Runtime::start(&mut Command::new(&setting.program), &most)?;
        let mut line = runtime.connect()?;
        // The first ones pay for what all share.
        open(&mut line, 100)?;
        let before = runtime.memory_kib("VmRSS")?;
        open(&mut line, SESSIONS)?;
        let grown = runtime.memory_kib("VmRSS")?.saturating_sub(before);
        sizes.push(grown as f64 / f64::from(SESSIONS));
    }
    print(&Claim {
        what: "memory of an idle session, of 10,000",
        value: median(sizes),
        limit: 4.0,
        unit: "KiB",
    });
    Ok(())
}

fn open(line: &mut Line, count: u32) -> anyhow::Result<()> {
    for _ in 0..count {
        line.session()?;
    }
    Ok(())
}
