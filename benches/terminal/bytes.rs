//! What a byte of output costs, to those who read it and those who do not.

use crate::{Cost, GIB, MIB, ROUNDS, Setting, compare, rate};
use anyhow::Context;
use halter_bench::cost::own_cpu;
use halter_bench::measure::{median, run_child};
use halter_bench::report::{Claim, Goal, print};
use halter_bench::runtime::{Runtime, request};
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use terminal_runtime::client::{Client, OutputEvent, OutputStream};
use terminal_runtime::protocol::{CreateParams, ExecParams};

/// Bytes of one round.
const STREAMED: u64 = 512 * MIB;
const SHARED: u64 = 256 * MIB;

/// Who reads the same output at a time.
const LIVE_READERS: usize = 2;

/// A program that writes so many bytes.
fn writer(bytes: u64) -> Vec<String> {
    ["head", "-c", &bytes.to_string(), "/dev/zero"]
        .map(str::to_owned)
        .to_vec()
}

/// One client that streams, against a bare pipe. Everybody's time counts: that
/// of the program that writes, of the runtime, and of the reader.
pub async fn streaming(setting: &Setting) -> anyhow::Result<()> {
    let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
    let socket = runtime.socket().display().to_string();
    let count = STREAMED.to_string();
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let raw = run_child::<Cost>(&["raw-pipe", &count]).await?.report;
        let before = runtime.cpu();
        let client = run_child::<Cost>(&["stream", &socket, &count])
            .await?
            .report;
        let used = client.cpu + (runtime.cpu() - before);
        let of = |time: Duration| rate((STREAMED / MIB) as f64, time);
        cpu.push((of(used), of(raw.cpu)));
        wall.push((of(client.wall), of(raw.wall)));
    }
    let what = "streaming to one client, replayable, against a bare pipe";
    compare(what, "MiB/CPU s", &cpu, Goal::AtLeast(35.0));
    compare(what, "MiB/s", &wall, Goal::AtLeast(35.0));
    Ok(())
}

/// The floor: a pipe that is read.
pub fn raw_pipe(bytes: u64) -> anyhow::Result<Cost> {
    let (before, started) = (own_cpu()?, Instant::now());
    let words = writer(bytes);
    let (program, arguments) = words.split_first().context("a program")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut buffer = vec![0; 64 * 1024];
    let mut read = 0;
    if let Some(mut stdout) = child.stdout.take() {
        loop {
            match stdout.read(&mut buffer)? {
                0 => break,
                count => read += count as u64,
            }
        }
    }
    child.wait()?;
    anyhow::ensure!(read == bytes, "{read} of {bytes} bytes");
    Ok(Cost {
        cpu: own_cpu()? - before,
        wall: started.elapsed(),
    })
}

/// A client that reads all of it.
pub async fn stream(socket: &str, bytes: u64) -> anyhow::Result<Cost> {
    let client = Client::socket(socket);
    let session = client.create_session(&CreateParams::default()).await?;
    let (before, started) = (own_cpu()?, Instant::now());
    let params = ExecParams {
        session_id: session.session_id,
        argv: Some(writer(bytes)),
        ..ExecParams::default()
    };
    let mut output = client.stream(&params).await?;
    read_rest(&mut output, 0, bytes).await?;
    Ok(Cost {
        cpu: own_cpu()? - before,
        wall: started.elapsed(),
    })
}

/// Readers of the same output, with and without one that has stopped reading.
pub fn stalled(setting: &Setting) -> anyhow::Result<()> {
    let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let without = shared(&runtime, &format!("without-{round}"), false)?;
        let with = shared(&runtime, &format!("with-{round}"), true)?;
        let of = |time: Duration| rate((SHARED / MIB) as f64, time);
        cpu.push((of(with.cpu), of(without.cpu)));
        wall.push((of(with.wall), of(without.wall)));
    }
    let what = "two readers beside a stalled one, against without it";
    compare(what, "MiB/CPU s", &cpu, Goal::AtLeast(90.0));
    compare(what, "MiB/s", &wall, Goal::AtLeast(90.0));
    Ok(())
}

/// The time until all live readers have everything.
fn shared(runtime: &Runtime, exec: &str, stalled: bool) -> anyhow::Result<Cost> {
    let mut control = runtime.connect()?;
    let session = control.session()?;
    let script = format!("read go; exec head -c {SHARED} /dev/zero");
    let mut starting = runtime.connect()?;
    starting.say(&request(
        "exec.run",
        json!({"session_id": session, "exec_id": exec, "open_stdin": true,
               "argv": ["/bin/sh", "-c", script]}),
    ))?;
    // It is known once it has been started.
    let looked = request("exec.wait", json!({"exec_id": exec, "timeout_s": 0}));
    while !control.ask(&looked)?.contains("\"ok\":true") {}
    // It has a name, so it goes on; nobody is to be sent its result.
    drop(starting);
    let attach = || -> anyhow::Result<_> {
        let mut line = runtime.connect()?;
        line.call("hello", json!({"frames": true}))?;
        line.call("exec.attach", json!({"exec_id": exec}))?;
        Ok(line.into_bytes())
    };
    let halted = if stalled { Some(attach()?) } else { None };
    let live = (0..LIVE_READERS).map(|_| attach());
    let live: Vec<_> = live.collect::<Result<_, _>>()?;
    let gate = Barrier::new(LIVE_READERS + 1);
    let before = runtime.cpu();
    let wall = std::thread::scope(|scope| -> anyhow::Result<Duration> {
        let readers: Vec<_> = live
            .into_iter()
            .map(|reader| scope.spawn(|| read_all(reader, &gate)))
            .collect();
        gate.wait();
        let started = Instant::now();
        let go = json!({"exec_id": exec, "data": "\n", "eof": true});
        control.call("exec.write", go)?;
        for reader in readers {
            reader.join().map_err(|_| anyhow::anyhow!("a reader"))??;
        }
        Ok(started.elapsed())
    })?;
    let cpu = runtime.cpu() - before;
    drop(halted);
    control.call(
        "session.destroy",
        json!({"session_id": session, "force": true}),
    )?;
    Ok(Cost { cpu, wall })
}

/// Reads until all the output must have come; there are few frames, and their
/// headers are short.
fn read_all(mut reader: impl Read, gate: &Barrier) -> anyhow::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut left = SHARED;
    gate.wait();
    while left > 0 {
        let count = reader.read(&mut buffer)?;
        anyhow::ensure!(count > 0, "{left} bytes are missing");
        left = left.saturating_sub(count as u64);
    }
    Ok(())
}

/// A reader that pauses at once and goes on when everything has been written.
pub async fn paused(setting: &Setting) -> anyhow::Result<()> {
    let bytes = setting.paused_bytes();
    let mut grown = Vec::new();
    for _ in 0..if bytes > 2 * GIB { 1 } else { 3 } {
        grown.push(paused_once(setting, bytes).await?);
    }
    print(&Claim {
        what: &format!("memory that a paused reader of {} GiB costs", bytes / GIB),
        value: median(grown),
        limit: 8.0,
        unit: "MiB",
    });
    Ok(())
}

async fn paused_once(setting: &Setting, bytes: u64) -> anyhow::Result<f64> {
    let runtime = Runtime::start(&mut Command::new(&setting.program), &[])?;
    let socket = runtime.socket().display().to_string();
    stream(&socket, MIB).await?;
    let before = runtime.memory_kib("VmRSS")?;
    let client = Client::socket(&socket);
    let session = client.create_session(&CreateParams::default()).await?;
    let params = ExecParams {
        session_id: session.session_id.clone(),
        argv: Some(writer(bytes)),
        ..ExecParams::default()
    };
    let mut output = client.stream(&params).await?;
    let mut read = 0;
    loop {
        if let OutputEvent::Data { bytes, .. } = output.next().await? {
            read += bytes.len() as u64;
            break;
        }
    }
    // Its result is not asked for: that would have to be put together.
    let mut line = runtime.connect()?;
    let session = json!({"session_id": session.session_id});
    loop {
        let info = line.call("session.info", session.clone())?;
        if info.get("state").and_then(Value::as_str) == Some("idle") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = runtime.memory_kib("VmHWM")?;
    read_rest(&mut output, read, bytes).await?;
    Ok(after.saturating_sub(before) as f64 / 1024.0)
}

/// Reads to the end, which must come at `bytes`.
async fn read_rest(output: &mut OutputStream, mut read: u64, bytes: u64) -> anyhow::Result<()> {
    loop {
        match output.next().await? {
            OutputEvent::Data { bytes, .. } => read += bytes.len() as u64,
            OutputEvent::Exit(_) => break,
            other => anyhow::bail!("{other:?}"),
        }
    }
    anyhow::ensure!(read == bytes, "{read} of {bytes} bytes");
    Ok(())
}
