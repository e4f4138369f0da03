//! The tree of a leader that another process started and collects.

use super::{ProcessTree, Spared, TreeControl, TreeTracking};
use crate::shell::EarlierProcesses;
use crate::sys::{Cgroup, Signal};

/// A tree known by its leader's number and by what holds it together, for a
/// program that is not the leader's parent.
#[derive(Debug)]
pub struct HeldTree {
    tree: ProcessTree,
}

impl HeldTree {
    /// The tree whose leader was born in this group. A leader whose number is
    /// not known is 0.
    #[must_use]
    pub fn in_cgroup(leader: i32, cgroup: Cgroup) -> Self {
        Self {
            tree: ProcessTree::new(known(leader), TreeTracking::Lent(cgroup), None),
        }
    }

    /// The tree whose leader was given this value of
    /// [`TREE_MARKER`](super::TREE_MARKER).
    pub fn marked(leader: i32, marker: impl Into<String>) -> Self {
        let marker = marker.into();
        Self {
            tree: ProcessTree::new(known(leader), TreeTracking::Walk { marker }, None),
        }
    }

    /// How it is held together.
    #[must_use]
    pub fn control(&self) -> TreeControl {
        self.tree.control()
    }

    /// What runs in it besides the leader.
    #[must_use]
    pub fn followers(&self) -> EarlierProcesses {
        let members = self.tree.followers();
        EarlierProcesses {
            processes: members
                .into_iter()
                .map(|member| (member.pid, member.start_time))
                .collect(),
        }
    }

    /// How many there are besides the leader, the earlier and what
    /// descends from these.
    #[must_use]
    pub fn count_others(&self, earlier: &EarlierProcesses) -> usize {
        self.tree.members_except(&sparing(earlier)).len()
    }

    /// Signals all that [`count_others`](Self::count_others) counts; none
    /// slips through a KILL by forking.
    pub fn signal_others(&self, signal: Signal, earlier: &EarlierProcesses) {
        self.send(signal, &sparing(earlier));
    }

    /// Signals everything in it.
    pub fn signal(&self, signal: Signal) {
        self.send(signal, &Spared::nobody());
    }

    fn send(&self, signal: Signal, spared: &Spared) {
        if signal == Signal::KILL {
            self.tree.kill(spared);
        } else {
            self.tree.signal(signal, spared);
        }
    }

    /// Whether nothing lives in it, seen without waiting.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.tree.is_gone(&Spared::nobody())
    }

    /// Kills until nothing is left; `false` if something is stuck in the
    /// kernel.
    pub async fn kill_until_gone(&self) -> bool {
        self.tree.kill_until_gone(&Spared::nobody()).await
    }
}

/// No process has the number -1, while strangers may be in a session that is
/// shown as 0.
fn known(leader: i32) -> i32 {
    if leader > 0 { leader } else { -1 }
}

fn sparing(earlier: &EarlierProcesses) -> Spared {
    Spared {
        leader: true,
        earlier: earlier.processes.clone(),
    }
}
