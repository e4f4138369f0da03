//! CPU time and memory of processes by number, as Linux shows them.

use anyhow::Context;
use std::collections::HashSet;
use std::time::Duration;

/// Ticks of CPU time in a second, as every Linux shows them to programs.
const TICKS_PER_SECOND: u64 = 100;

/// One process, as `/proc/<pid>/stat` has it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    pid: u32,
    parent: u32,
    /// Its own time and that of children it has collected.
    cpu: Duration,
}

impl Entry {
    fn read(pid: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain anything, and ends at the last parenthesis.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let ticks: u64 = [11, 12, 13, 14].into_iter().filter_map(number).sum();
        Some(Self {
            pid,
            parent: u32::try_from(number(1)?).ok()?,
            cpu: Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND),
        })
    }
}

fn all_pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// CPU time this process and the children it has collected have used. In
/// steps of ten milliseconds.
pub fn own_cpu() -> anyhow::Result<Duration> {
    let entry = Entry::read(std::process::id()).context("/proc/self/stat")?;
    Ok(entry.cpu)
}

/// CPU time of these processes, of all that descend from them, and of those
/// that any of these have collected. In steps of ten milliseconds each.
pub fn tree_cpu(roots: &[u32]) -> Duration {
    let entries: Vec<Entry> = all_pids().into_iter().filter_map(Entry::read).collect();
    let mut members: HashSet<u32> = roots.iter().copied().collect();
    loop {
        let before = members.len();
        let children = entries
            .iter()
            .filter(|entry| members.contains(&entry.parent))
            .map(|entry| entry.pid);
        let found: Vec<u32> = children.collect();
        members.extend(found);
        if members.len() == before {
            break;
        }
    }
    let counted = entries.iter().filter(|entry| members.contains(&entry.pid));
    counted.map(|entry| entry.cpu).sum()
}

/// Processes with this text in their arguments.
pub fn find_by_argument(text: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(text)
    };
    all_pids().into_iter().filter(has).collect()
}

/// A line of `/proc/<pid>/status`, in KiB.
pub fn memory_kib_of(pid: u32, field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .with_context(|| format!("no {field} in /proc/{pid}/status"))?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
