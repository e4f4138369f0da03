//! The processes of one command in a container, as this machine sees them.

use std::collections::HashSet;
use std::time::Duration;

use halter_exec::Signal;
use halter_exec::host::{EarlierProcesses, PidFd, TREE_MARKER};

use crate::limits::TREE_END_WAIT;
use crate::sys;

/// Everything in a namespace that carries a mark, and what descends from it.
#[derive(Debug)]
pub(in crate::exec) struct ContainerTree {
    /// `None` if the container is not up.
    namespace: Option<u64>,
    marker: Vec<u8>,
}

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    pid: i32,
    parent: i32,
    start_time: u64,
}

impl ContainerTree {
    pub(super) fn new(namespace: Option<u64>, marker: String) -> Self {
        Self {
            namespace,
            marker: format!("{TREE_MARKER}={marker}").into_bytes(),
        }
    }

    fn members(&self) -> Vec<Member> {
        let inside: Vec<Member> = sys::processes()
            .into_iter()
            .filter(|pid| self.is_inside(*pid))
            .filter_map(stat)
            .collect();
        let mut known: HashSet<i32> = inside
            .iter()
            .filter(|member| self.is_marked(member.pid))
            .map(|member| member.pid)
            .collect();
        // Children that have shed the mark.
        loop {
            let before = known.len();
            let children = inside
                .iter()
                .filter(|member| known.contains(&member.parent));
            let children: Vec<i32> = children.map(|member| member.pid).collect();
            known.extend(children);
            if known.len() == before {
                break;
            }
        }
        let belongs = |member: &Member| known.contains(&member.pid);
        inside.into_iter().filter(belongs).collect()
    }

    fn is_inside(&self, pid: i32) -> bool {
        sys::namespace_of(pid).is_ok_and(|found| Some(found) == self.namespace)
    }

    fn is_marked(&self, pid: i32) -> bool {
        sys::environment_of(pid).is_ok_and(|environment| {
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == self.marker)
        })
    }

    /// The first of them: the shell, or the command's own process.
    pub(in crate::exec) fn leader(&self) -> Option<i32> {
        let first = self.members().into_iter();
        let first = first.min_by_key(|member| (member.start_time, member.pid));
        first.map(|member| member.pid)
    }

    pub(in crate::exec) fn signal(&self, signal: Signal) {
        self.members()
            .iter()
            .for_each(|member| send(member, signal));
    }

    pub(in crate::exec) fn is_gone(&self) -> bool {
        self.members().is_empty()
    }

    /// What runs besides the leader.
    pub(in crate::exec) fn followers(&self, leader: i32) -> EarlierProcesses {
        let others = self.members().into_iter();
        EarlierProcesses {
            processes: others
                .filter(|member| member.pid != leader)
                .map(|member| (member.pid, member.start_time))
                .collect(),
        }
    }

    fn others(&self, leader: i32, earlier: &EarlierProcesses) -> Vec<Member> {
        let spared = |member: &Member| {
            member.pid == leader || earlier.processes.contains(&(member.pid, member.start_time))
        };
        let mut members = self.members();
        members.retain(|member| !spared(member));
        members
    }

    pub(in crate::exec) fn count_others(&self, leader: i32, earlier: &EarlierProcesses) -> usize {
        self.others(leader, earlier).len()
    }

    pub(in crate::exec) fn signal_others(
        &self,
        leader: i32,
        signal: Signal,
        earlier: &EarlierProcesses,
    ) {
        for member in self.others(leader, earlier) {
            send(&member, signal);
        }
    }

    /// Kills until nothing is left.
    pub(in crate::exec) async fn kill_until_gone(&self) -> bool {
        let kill = || self.signal(Signal::KILL);
        until_gone(|| self.is_gone(), kill).await
    }
}

/// Kills again and again; `false` if something does not die in time.
async fn until_gone(is_gone: impl Fn() -> bool, kill: impl Fn()) -> bool {
    let until = tokio::time::Instant::now() + TREE_END_WAIT;
    while !is_gone() {
        kill();
        if tokio::time::Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}

/// Signals a process if the number is still its own.
fn send(member: &Member, signal: Signal) {
    if let Ok(handle) = PidFd::open(member.pid)
        && stat(member.pid).is_some_and(|found| found.start_time == member.start_time)
    {
        let _ = handle.send(signal);
    }
}

/// One that lives.
fn stat(pid: i32) -> Option<Member> {
    let found = sys::stat(pid)?;
    Some(Member {
        pid,
        parent: found.parent,
        start_time: found.start_time,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_die_is_given_up_after_its_time_and_no_sooner() {
        let begun = Instant::now();
        let kills = Cell::new(0);
        assert!(!until_gone(|| false, || kills.set(kills.get() + 1)).await);
        assert!(begun.elapsed() >= TREE_END_WAIT);
        assert!(begun.elapsed() < TREE_END_WAIT + Duration::from_secs(1));
        assert!(kills.get() > 100);
        let late = Instant::now() + TREE_END_WAIT - Duration::from_secs(1);
        assert!(until_gone(|| Instant::now() >= late, || ()).await);
    }
}
