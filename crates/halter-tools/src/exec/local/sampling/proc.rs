//! Samples by what `/proc` tells of threads: whether they run, and what they
//! wait for in the kernel. Functions of programs are not seen.

use crate::exec::{RunningSampling, StackSamples};
use crate::limits::PROFILE_PROC_HERTZ;
use anyhow::Context as _;
use async_trait::async_trait;
use halter_exec::list_descendants;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How many samples are taken of the processes that were found, before it is
/// looked for others.
const SAMPLES_PER_LOOK: u32 = 10;

/// A thread at work. Dropping it ends that.
pub(super) struct ProcSampling {
    stop: Arc<AtomicBool>,
    taken: Option<JoinHandle<StackSamples>>,
    finished: Option<StackSamples>,
}

impl Drop for ProcSampling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Samples a process and everything below it.
pub(super) fn start(root: i32, hertz: u32, reason: &anyhow::Error) -> ProcSampling {
    let stop = Arc::new(AtomicBool::new(false));
    let note = format!(
        "{reason:#}: these samples tell what threads wait for, not which functions of a program run"
    );
    let pause = Duration::from_secs(1) / hertz.clamp(1, PROFILE_PROC_HERTZ);
    let stopping = Arc::clone(&stop);
    let taken = tokio::task::spawn_blocking(move || {
        let mut samples = StackSamples::new("proc");
        samples.note = Some(note);
        let mut next = Instant::now();
        let mut pids = Vec::new();
        for round in 0.. {
            if stopping.load(Ordering::Relaxed) {
                break;
            }
            if round % SAMPLES_PER_LOOK == 0 {
                pids = vec![root];
                let below = list_descendants(root).unwrap_or_default();
                pids.extend(below.iter().map(|process| process.pid));
            }
            if !std::path::Path::new(&format!("/proc/{root}/stat")).exists() {
                break;
            }
            for pid in &pids {
                take(*pid, &mut samples);
            }
            next += pause;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        samples
    });
    ProcSampling {
        stop,
        taken: Some(taken),
        finished: None,
    }
}

#[async_trait]
impl RunningSampling for ProcSampling {
    async fn over(&mut self) {
        if let Some(taken) = &mut self.taken {
            self.finished = taken.await.ok();
            self.taken = None;
        }
    }

    async fn finish(mut self: Box<Self>) -> anyhow::Result<StackSamples> {
        self.stop.store(true, Ordering::Relaxed);
        self.over().await;
        self.finished.take().context("sampling failed")
    }
}

/// One sample of each thread of a process; none of one that has ended.
fn take(pid: i32, samples: &mut StackSamples) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return;
    };
    let program = read(&format!("/proc/{pid}/comm"));
    for thread in threads.flatten() {
        let path = thread.path();
        let file = |name: &str| read(&path.join(name).display().to_string());
        let stat = file("stat");
        // The name before it may hold anything, also parentheses.
        let state = stat.rsplit(')').next().unwrap_or_default().trim();
        let mut stack = match state.chars().next() {
            None | Some('Z' | 'X') => continue,
            Some('R') => vec!["[on a processor]".to_owned()],
            Some(_) => waiting(&file("stack"), &file("wchan")),
        };
        let name = file("comm");
        if name != program {
            stack.push(name.clone());
        }
        stack.push(program.clone());
        samples.add(stack);
    }
}

fn read(path: &str) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// The functions of the kernel that a thread is in, innermost first: all, if
/// this user may see them, else the one it waits in.
fn waiting(stack: &str, wait_channel: &str) -> Vec<String> {
    let functions = stack.lines().filter_map(|line| {
        let (_, name) = line.split_once("] ")?;
        Some(name.split('+').next().unwrap_or(name).to_owned())
    });
    let functions: Vec<String> = functions.collect();
    match (functions.is_empty(), wait_channel) {
        (false, _) => functions,
        (true, "" | "0") => vec!["[waiting]".to_owned()],
        (true, channel) => vec![channel.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_waits_for_is_read() {
        let stack = "[<0>] do_wait+0x1/0x2\n[<0>] kernel_wait4+0x1/0x2\n";
        assert_eq!(waiting(stack, "x"), ["do_wait", "kernel_wait4"]);
        assert_eq!(waiting("", "pipe_read"), ["pipe_read"]);
        assert_eq!(waiting("", "0"), ["[waiting]"]);
    }

    #[tokio::test]
    async fn a_process_that_waits_is_seen_waiting() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let sampling = start(pid, PROFILE_PROC_HERTZ + 1, &anyhow::anyhow!("no perf"));
        while std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let samples = Box::new(sampling).finish().await.unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(samples.note.as_ref().unwrap().starts_with("no perf: "));
        let limit = u64::from(PROFILE_PROC_HERTZ);
        assert!(
            (1..=limit).contains(&samples.count()),
            "{}",
            samples.count()
        );
        let stacks = samples.stacks();
        assert!(
            stacks.iter().any(|(stack, _)| stack[0] == "sleep"),
            "{stacks:?}"
        );
    }
}
