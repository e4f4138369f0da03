//! The least that drives a warm shell out of band: each command has pipes of
//! its own, which the shell opens by name, and its end is said on a channel
//! that the command does not have.

use crate::Cost;
use halter_bench::cost::own_cpu;
use halter_exec::host::{DescriptorMapping, LaunchPlan, Launched, launch};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

struct Shell {
    child: Launched,
    lines: File,
    records: BufReader<File>,
}

/// Runs a command so many times.
pub fn run(count: u32, command: &str) -> anyhow::Result<Cost> {
    let mut shell = Shell::start()?;
    shell.command(command)?;
    let (before, started) = (own_cpu()?, Instant::now());
    for _ in 0..count {
        shell.command(command)?;
    }
    let wall = started.elapsed();
    // Its time is ours to count once it is collected.
    drop(shell.lines);
    anyhow::ensure!(shell.child.pidfd.has_ended(Duration::from_secs(60)));
    shell.child.pidfd.reap()?;
    Ok(Cost {
        cpu: own_cpu()? - before,
        wall,
    })
}

impl Shell {
    fn start() -> anyhow::Result<Self> {
        let (lines, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        let (records, answers) = pipe_with(PipeFlags::CLOEXEC)?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let mut plan = LaunchPlan::new("/bin/bash", "/tmp").standard_streams();
        plan.arguments
            .extend(["--noprofile", "--norc"].map(Into::into));
        plan.descriptors
            .push(DescriptorMapping { slot: 3, target: 9 });
        let slots = [lines.as_fd(), null.as_fd(), null.as_fd(), answers.as_fd()];
        let child = launch(&plan, &slots)
            .map_err(|failure| anyhow::anyhow!("the shell does not start: {failure:?}"))?;
        Ok(Self {
            child,
            lines: ours.into(),
            records: BufReader::new(records.into()),
        })
    }

    fn command(&mut self, command: &str) -> anyhow::Result<()> {
        let (stdout, to_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, to_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let line = format!(
            "{{ eval '{command}'; }} </dev/null >/proc/{own}/fd/{out} 2>/proc/{own}/fd/{err} 9>&-; \
             printf '%d %s\\0' \"$?\" \"$PWD\" >&9\n",
            own = std::process::id(),
            out = to_stdout.as_raw_fd(),
            err = to_stderr.as_raw_fd(),
        );
        self.lines.write_all(line.as_bytes())?;
        let mut record = Vec::new();
        self.records.read_until(0, &mut record)?;
        anyhow::ensure!(record == b"0 /tmp\0", "{record:?}");
        drop((to_stdout, to_stderr));
        let mut output = Vec::new();
        File::from(stdout).read_to_end(&mut output)?;
        File::from(stderr).read_to_end(&mut output)?;
        anyhow::ensure!(output.is_empty());
        Ok(())
    }
}
