//! Samples by `perf`, which runs beside the sandbox: the kernel refuses its
//! calls inside. What it records goes to memory that no process inside can
//! open.

use crate::exec::{Environment, RunningSampling, StackSamples};
use crate::limits::{PROFILE_ATTACH_TIME, PROFILE_READ_TIME};
use anyhow::{Context as _, anyhow, bail};
use async_trait::async_trait;
use halter_exec::{Command, OutputPipe, Process, Signal, find_program};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio_util::task::AbortOnDropHandle;

/// How long perf may take to write down what it has.
const END_TIME: Duration = Duration::from_secs(10);

/// Bytes of what perf complains about that are kept.
const COMPLAINT_BYTES: usize = 2_000;

/// The longest line of its listing that is read.
const LINE_BYTES: usize = 64 * 1024;

/// perf at work. Dropping it kills perf.
pub(super) struct Perf {
    program: PathBuf,
    environment: Environment,
    process: Process,
    data: OwnedFd,
    _output: Vec<AbortOnDropHandle<Vec<u8>>>,
}

/// Has perf sample these processes and what they start from now on. Fails with
/// the reason, for a person to read.
pub(super) async fn start(
    environment: &Environment,
    pids: &[i32],
    hertz: u32,
) -> anyhow::Result<Perf> {
    let program = find_program(OsStr::new("perf"), environment, Path::new("/"))
        .map_err(|_| anyhow!("perf is not installed (package `linux-perf`)"))?;
    let data = memfd_create("halter-profile", MemfdFlags::CLOEXEC)?;
    // What it answers on says when it has begun.
    let (orders, order) = pipe_with(PipeFlags::CLOEXEC)?;
    let (answer, answers) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    rustix::io::write(&order, b"enable\n")?;
    let answer = Receiver::from_owned_fd(answer)?;
    let control = format!("fifo:{},{}", name_of(&orders), name_of(&answers));
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    let mut environment = environment.clone();
    environment.set("LC_ALL", "C");
    let command = Command::new(&program, "/")
        .args(["record", "-e", "cpu-clock", "-g", "-F", &hertz.to_string()])
        .args(["-D", "-1", "--control", &control])
        .args(["-o", &name_of(&data), "-p", &pids.join(",")])
        .environment(environment.clone());
    let (process, streams) = Process::spawn(&command)?;
    let mut output = vec![kept(streams.stdout)];
    output.extend(streams.stderr.map(kept));
    let begun = tokio::select! {
        biased;
        said = answer.readable() => said.is_ok(),
        () = process.exited() => false,
        () = tokio::time::sleep(PROFILE_ATTACH_TIME) => false,
    };
    if begun {
        return Ok(Perf {
            program,
            environment,
            process,
            data,
            _output: output,
        });
    }
    process.terminate(Duration::ZERO).await;
    let mut words = String::new();
    for said in output {
        let said = said.await.unwrap_or_default();
        words.push_str(&String::from_utf8_lossy(&said));
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    let words: String = words.join(" ").chars().take(300).collect();
    bail!(
        "perf does not work here ({words}); `sysctl kernel.perf_event_paranoid=2` or lower lets \
         users sample their own processes"
    )
}

/// A name that perf finds the memory by; nobody in a sandbox does.
fn name_of(data: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), data.as_raw_fd())
}

/// Reads a stream to its end, and keeps its start.
fn kept(mut pipe: OutputPipe) -> AbortOnDropHandle<Vec<u8>> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok(Some(chunk)) = pipe.read().await {
            let room = COMPLAINT_BYTES.saturating_sub(kept.len());
            kept.extend(chunk.iter().take(room));
        }
        kept
    }))
}

#[async_trait]
impl RunningSampling for Perf {
    async fn over(&mut self) {
        self.process.exited().await;
    }

    async fn finish(mut self: Box<Self>) -> anyhow::Result<StackSamples> {
        self.process.signal_tree(Signal::INT);
        if tokio::time::timeout(END_TIME, self.process.exited())
            .await
            .is_err()
        {
            self.process.terminate(Duration::ZERO).await;
        }
        self.process.wait().await?;
        let listing = Command::new(&self.program, "/")
            .args(["script", "-f", "--no-inline", "-F", "comm,pid,ip,sym,dso"])
            .args(["-i", &name_of(&self.data)])
            .environment(self.environment.clone());
        let (mut process, streams) = Process::spawn(&listing)?;
        let complaints = streams.stderr.map(kept);
        let read = read(streams.stdout);
        let mut samples = tokio::time::timeout(PROFILE_READ_TIME, read)
            .await
            .with_context(|| {
                let seconds = PROFILE_READ_TIME.as_secs();
                format!(
                    "perf did not list what it saw within {seconds} s; sample for a shorter time"
                )
            })?;
        let (status, _) = process.wait().await?;
        if !status.success() && samples.count() == 0 {
            let words = match complaints {
                Some(said) => said.await.unwrap_or_default(),
                None => Vec::new(),
            };
            bail!(
                "perf cannot read what it recorded: {}",
                String::from_utf8_lossy(&words).trim()
            );
        }
        if samples.count() == 0 {
            samples.note = Some("the processes did not use a processor meanwhile".to_owned());
        }
        Ok(samples)
    }
}

async fn read(mut pipe: OutputPipe) -> StackSamples {
    let mut listing = Listing::new();
    let mut line = Vec::new();
    while let Ok(Some(chunk)) = pipe.read().await {
        for byte in chunk.iter().copied() {
            match byte {
                b'\n' => {
                    listing.line(&String::from_utf8_lossy(&line));
                    line.clear();
                }
                _ if line.len() < LINE_BYTES => line.push(byte),
                _ => {}
            }
        }
    }
    listing.end()
}

/// What `perf script` prints: a line for each sample, one for each function of
/// its stack, innermost first, and an empty one.
struct Listing {
    samples: StackSamples,
    /// The program of the sample that is being read.
    program: Option<String>,
    stack: Vec<String>,
}

impl Listing {
    fn new() -> Self {
        Self {
            samples: StackSamples::new("perf"),
            program: None,
            stack: Vec::new(),
        }
    }

    fn line(&mut self, line: &str) {
        if line.trim().is_empty() {
            self.close();
        } else if line.starts_with([' ', '\t']) {
            self.stack.extend(function(line.trim()));
        } else {
            self.close();
            let program = line.trim().rsplit_once(' ').map_or(line, |(name, _)| name);
            self.program = Some(program.trim().to_owned());
        }
    }

    fn close(&mut self) {
        let mut stack = std::mem::take(&mut self.stack);
        if let Some(program) = self.program.take() {
            stack.push(program);
            self.samples.add(stack);
        }
    }

    fn end(mut self) -> StackSamples {
        self.close();
        self.samples
    }
}

/// The name of `ip symbol (file)`; that of the file if there is no symbol.
fn function(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(' ')?;
    let rest = rest.strip_suffix(" (deleted))").unwrap_or(rest);
    let (symbol, file) = rest.rsplit_once(" (").unwrap_or((rest, ""));
    if symbol != "[unknown]" {
        return Some(symbol.to_owned());
    }
    let file = file.strip_suffix(')').unwrap_or(file);
    let name = file.rsplit('/').next().unwrap_or(file);
    Some(match name {
        "" | "[unknown]" => "[unknown]".to_owned(),
        name => format!("[{name}]"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_sample_by_sample() {
        let text = "python3 12 \n\t  1a x_add (/lib/libpython.so)\n\t  2b [unknown] (/bin/py (deleted))\n\
                    \n\nmy prog 7 \n\t 3c std::vec<int, std::allocator<int> >::push (/a b/c)\n\
                    \t 4d [unknown] ([unknown])\n\npython3 12 \n\t  1a x_add (/lib/libpython.so)\n\
                    \t  2b [unknown] (/bin/py (deleted))\n";
        let mut listing = Listing::new();
        for line in text.lines() {
            listing.line(line);
        }
        let samples = listing.end();
        let stacks: Vec<(String, u64)> = samples
            .stacks()
            .into_iter()
            .map(|(stack, seen)| (stack.join(";"), seen))
            .collect();
        assert_eq!(
            stacks,
            [
                (
                    "my prog;[unknown];std::vec<int, std::allocator<int> >::push".to_owned(),
                    1
                ),
                ("python3;[py];x_add".to_owned(), 2),
            ]
        );
    }

    #[test]
    fn what_is_no_listing_gives_no_samples() {
        let mut listing = Listing::new();
        for line in ["", "\t 1a x (y)", "   "] {
            listing.line(line);
        }
        assert_eq!(listing.end().count(), 0);
    }

    /// A directory with this instead of perf, and an environment that has it
    /// found.
    fn instead_of_perf(script: &str) -> (tempfile::TempDir, Environment) {
        use std::os::unix::fs::PermissionsExt;
        let programs = tempfile::tempdir().unwrap();
        let perf = programs.path().join("perf");
        std::fs::write(&perf, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&perf, PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", programs.path().display());
        (programs, Environment::new().with("PATH", path))
    }

    #[tokio::test(start_paused = true)]
    async fn a_perf_that_does_not_begin_is_given_up() {
        let (_programs, environment) = instead_of_perf("exec sleep 1000");
        let begun = tokio::time::Instant::now();
        let Err(error) = start(&environment, &[1], 99).await else {
            panic!("it began");
        };
        assert!(error.to_string().contains("perf_event_paranoid"), "{error}");
        assert!(begun.elapsed() >= PROFILE_ATTACH_TIME);
    }

    #[tokio::test]
    async fn a_perf_that_does_not_list_what_it_saw_is_given_up() {
        let script = "for it; do case $it in fifo:*) echo ack >\"${it##*,}\"; exit ;; esac; done
            exec sleep 1000";
        let (_programs, environment) = instead_of_perf(script);
        let mut perf = start(&environment, &[1], 99).await.unwrap();
        perf.over().await;
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        let error = Box::new(perf).finish().await.unwrap_err();
        assert!(error.to_string().contains("a shorter time"), "{error}");
        assert!(begun.elapsed() >= PROFILE_READ_TIME);
    }
}
