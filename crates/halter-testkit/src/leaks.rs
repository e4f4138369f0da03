//! What a test has left behind: processes, descriptors, files.
//!
//! Reads `/proc`, so it works on Linux only.

use crate::deadline::eventually;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A process, as far as a leak report needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its command line, arguments separated by spaces.
    pub command: String,
}

/// The processes this one started, directly or not, zombies included.
pub fn descendants() -> Vec<Process> {
    let parents: Vec<(i32, i32)> = all_pids()
        .into_iter()
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut family = BTreeSet::from([own_pid()]);
    loop {
        let grown: BTreeSet<i32> = parents
            .iter()
            .filter(|(_, parent)| family.contains(parent))
            .map(|(pid, _)| *pid)
            .chain(family.iter().copied())
            .collect();
        if grown.len() == family.len() {
            break;
        }
        family = grown;
    }
    family.remove(&own_pid());
    family.into_iter().map(describe).collect()
}

/// The processes whose environment holds `NAME=value`, whoever their parent is:
/// finds those that slipped out of the tree. Zombies have no environment and
/// are not found.
pub fn processes_with(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}").into_bytes();
    let has = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|v| v == wanted))
    };
    all_pids()
        .into_iter()
        .filter(|pid| *pid != own_pid())
        .filter(has)
        .map(describe)
        .collect()
}

/// How many descriptors this process has open.
pub fn open_descriptors() -> usize {
    // The directory being read is one of them.
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1))
}

/// Everything directly under a directory; nothing if it does not exist.
pub fn entries_under(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    entries.sort();
    entries
}

/// What was there before, to compare with what is there after.
///
/// Only meaningful in a test binary of its own: other tests of the process open
/// descriptors and start processes too.
#[derive(Debug, Clone)]
pub struct LeakCheck {
    descendants: Vec<Process>,
    descriptors: usize,
}

impl LeakCheck {
    /// Takes note of what is there now.
    pub fn start() -> Self {
        Self {
            descendants: descendants(),
            descriptors: open_descriptors(),
        }
    }

    /// Waits until nothing more is there than at the start, and panics with a
    /// list of what stays.
    pub async fn assert_clean(&self) {
        let start = self.clone();
        eventually("descendant processes are gone", || {
            descendants()
                .iter()
                .all(|it| start.descendants.contains(it))
        })
        .await;
        eventually("file descriptors are closed", || {
            open_descriptors() <= start.descriptors
        })
        .await;
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(i32::MAX)
}

fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The fourth field of `stat`; the second, the name, may hold anything and
/// ends at the last parenthesis.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

fn describe(pid: i32) -> Process {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command)
        .trim_end_matches('\0')
        .replace('\0', " ");
    Process { pid, command }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_by_parent_and_by_environment() {
        let mark = format!("{}-leaks", std::process::id());
        let mut child = Command::new("cat")
            .env("HALTER_TESTKIT_MARK", &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its environment is in place when it answers, and not before.
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        input.write_all(b"x").unwrap();
        output.read_exact(&mut [0]).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(descendants().iter().any(|process| process.pid == pid));
        let marked = processes_with("HALTER_TESTKIT_MARK", &mark);
        assert_eq!(marked.len(), 1);
        assert_eq!(marked[0].pid, pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(descendants().iter().all(|process| process.pid != pid));
        assert!(processes_with("HALTER_TESTKIT_MARK", &mark).is_empty());
    }

    #[test]
    fn entries_of_a_missing_directory_are_none() {
        assert!(entries_under(Path::new("/nowhere-at-all")).is_empty());
    }
}
