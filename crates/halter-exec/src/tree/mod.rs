//! A command and everything that came out of it, as one thing that can be
//! counted, signalled and brought down.

mod held;
mod listing;
pub(crate) mod polling;
mod walk;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use held::HeldTree;
pub use listing::{KillOutcome, ProcessInfo, SignalResult, kill_tree, list_descendants};

use crate::error::ExecError;
use crate::launch::LaunchPlan;
use crate::limits::MAX_FREEZE_ROUNDS;
use crate::sandbox::{LimitReport, Sandbox};
use crate::sys::stat::{EnvironmentLook, Stat};
use crate::sys::{Cgroup, PidFd, Signal, process_table};

/// The variable that marks descendants where no cgroup can. It is added to a
/// child's environment only under [`TreeControl::GroupAndWalk`].
pub const TREE_MARKER: &str = "HALTER_EXEC_TREE";

/// How the members of a process tree are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeControl {
    /// A cgroup of its own: no descendant can leave it by forking.
    Cgroup,
    /// Its session, its process group, the parent links in `/proc` and the
    /// [`TREE_MARKER`] variable. A descendant that detaches itself and clears
    /// its environment is missed.
    GroupAndWalk,
}

/// One process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub pid: i32,
    pub parent: i32,
    pub start_time: u64,
}

impl From<&Stat> for Member {
    fn from(stat: &Stat) -> Self {
        Self {
            pid: stat.pid,
            parent: stat.parent,
            start_time: stat.start_time,
        }
    }
}

impl Member {
    /// Signals the process if the number still belongs to it.
    pub(crate) fn send(&self, signal: Signal) -> io::Result<()> {
        let pidfd = PidFd::open(self.pid)?;
        // Read after the handle exists: if the start time agrees now, the
        // handle is to the process that was meant.
        match process_table::stat(self.pid) {
            Some(stat) if stat.start_time == self.start_time => pidfd.send(signal),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// What will hold a tree together, made before its leader exists.
#[derive(Debug)]
pub(crate) enum TreeTracking {
    Cgroup(Cgroup),
    /// A group that somebody else removes.
    Lent(Cgroup),
    Walk {
        marker: String,
    },
}

impl TreeTracking {
    /// The strongest tracking this host offers, below a group that must not be
    /// left if there is one.
    pub(crate) fn strongest(parent: Option<&Path>) -> Result<Self, ExecError> {
        let made = match parent {
            Some(parent) => Cgroup::create_numbered_in(parent),
            None => Cgroup::create_numbered(),
        };
        match made {
            Ok(cgroup) => Ok(Self::Cgroup(cgroup)),
            Err(error) if parent.is_some() => {
                Err(ExecError::io("making a group in the sandbox", error))
            }
            Err(error) => {
                tracing::debug!(%error, "no cgroup; process trees are held by walking");
                Self::walking()
            }
        }
    }

    pub(crate) fn walking() -> Result<Self, ExecError> {
        let marker = crate::nonce::random()?;
        Ok(Self::Walk { marker })
    }

    pub(crate) fn cgroup(&self) -> Option<&Cgroup> {
        match self {
            Self::Cgroup(cgroup) | Self::Lent(cgroup) => Some(cgroup),
            Self::Walk { .. } => None,
        }
    }

    /// Has the process of this plan begin its life in this tracking.
    pub(crate) fn hold(&self, plan: &mut LaunchPlan) {
        plan.cgroup = None;
        match self {
            Self::Cgroup(cgroup) | Self::Lent(cgroup) => {
                plan.cgroup = Some(cgroup.path().to_owned());
            }
            Self::Walk { marker } => {
                plan.environment.set(TREE_MARKER, marker);
            }
        }
    }
}

/// Nothing of a cgroup of ours stays, if it is empty by then.
impl Drop for TreeTracking {
    fn drop(&mut self) {
        if let Self::Cgroup(cgroup) = self
            && let Err(error) = cgroup.remove()
        {
            tracing::debug!(path = %cgroup.path().display(), %error, "cgroup not removed");
        }
    }
}

/// The tree of one leader. The leader must stay uncollected while this is in
/// use: its number then names its session and group without doubt.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    leader: Member,
    // Dropped in this order: the tracking may lie within the sandbox.
    tracking: TreeTracking,
    sandbox: Option<OwnSandbox>,
    /// Members that a walk found before, by number and start time: the parent
    /// that showed them may have ended since.
    found: Mutex<HashSet<(i32, u64)>>,
}

/// The sandbox of a tree.
#[derive(Debug)]
pub(crate) enum OwnSandbox {
    /// Made for this tree, removed with it.
    Alone(Box<Sandbox>),
    /// Of several trees, removed by whoever made it.
    Shared(Arc<Sandbox>),
}

impl OwnSandbox {
    pub(crate) fn sandbox(&self) -> &Sandbox {
        match self {
            Self::Alone(sandbox) => sandbox,
            Self::Shared(sandbox) => sandbox,
        }
    }

    fn remove(&self) -> Result<(), ExecError> {
        match self {
            Self::Alone(sandbox) => sandbox.remove(),
            Self::Shared(_) => Ok(()),
        }
    }
}

impl Drop for OwnSandbox {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::debug!(%error, "sandbox not removed");
        }
    }
}

/// What one look at a tree finds.
#[derive(Debug)]
struct Look {
    members: Vec<Member>,
    /// Whether some process was caught at a moment when it shows nothing of
    /// itself.
    unclear: bool,
}

/// Processes that a signal to the tree passes by.
#[derive(Debug, Default)]
pub(crate) struct Spared {
    /// The leader itself, not what it starts.
    pub leader: bool,
    /// These, by number and start time, with all that descends from them.
    pub earlier: HashSet<(i32, u64)>,
}

impl Spared {
    pub(crate) fn nobody() -> Self {
        Self::default()
    }

    fn is_nobody(&self) -> bool {
        !self.leader && self.earlier.is_empty()
    }
}

impl ProcessTree {
    pub(crate) fn new(leader: i32, tracking: TreeTracking, sandbox: Option<OwnSandbox>) -> Self {
        let leader = process_table::stat(leader).map_or(
            Member {
                pid: leader,
                parent: 0,
                start_time: 0,
            },
            |stat| Member::from(&stat),
        );
        Self {
            leader,
            tracking,
            sandbox,
            found: Mutex::default(),
        }
    }

    pub(crate) fn limits(&self) -> &[LimitReport] {
        let sandbox = self.sandbox.as_ref();
        sandbox.map_or(&[], |own| own.sandbox().limits())
    }

    pub(crate) fn control(&self) -> TreeControl {
        match self.tracking {
            TreeTracking::Cgroup(_) | TreeTracking::Lent(_) => TreeControl::Cgroup,
            TreeTracking::Walk { .. } => TreeControl::GroupAndWalk,
        }
    }

    pub(crate) fn leader(&self) -> Member {
        self.leader
    }

    /// The living members, the leader among them if it lives.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.look().members
    }

    /// The living members that are neither spared nor descend from one that
    /// is.
    pub(crate) fn members_except(&self, spared: &Spared) -> Vec<Member> {
        self.look_except(spared).members
    }

    fn look_except(&self, spared: &Spared) -> Look {
        let Look { members, unclear } = self.look();
        let members = walk::without(members, self.leader, spared);
        if let TreeTracking::Walk { .. } = &self.tracking {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            *found = members
                .iter()
                .map(|member| (member.pid, member.start_time))
                .collect();
        }
        Look { members, unclear }
    }

    /// The living members besides the leader. With a cgroup, a leader that is
    /// alone costs one small file to read.
    pub(crate) fn followers(&self) -> Vec<Member> {
        let leader = self.leader.pid;
        match &self.tracking {
            TreeTracking::Cgroup(cgroup) | TreeTracking::Lent(cgroup) => {
                if cgroup.has_only(leader) {
                    return Vec::new();
                }
                let pids = cgroup.members().into_iter();
                living(cgroup, pids.filter(|pid| *pid != leader))
            }
            TreeTracking::Walk { .. } => {
                let mut members = self.members();
                members.retain(|member| member.pid != leader);
                members
            }
        }
    }

    fn look(&self) -> Look {
        match &self.tracking {
            TreeTracking::Cgroup(cgroup) | TreeTracking::Lent(cgroup) => {
                let listed = cgroup.members();
                let members = living(cgroup, listed.iter().copied());
                // One that ended since the list was read may have left a child
                // that is not on it.
                let unclear = members.len() < listed.len();
                Look { members, unclear }
            }
            TreeTracking::Walk { marker } => {
                let marker = format!("{TREE_MARKER}={marker}");
                let mut all = Vec::new();
                let mut marks = HashMap::new();
                let swept = process_table::sweep(|stat| {
                    if stat.start_time >= self.leader.start_time && !stat.is_dead() {
                        let look = process_table::environment_look(stat.pid, marker.as_bytes());
                        marks.insert(stat.pid, look);
                    }
                    all.push(stat);
                });
                if let Err(error) = swept {
                    tracing::warn!(%error, "processes cannot be listed");
                }
                let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                walk::tree_members(&all, self.leader, &found, |pid| {
                    marks.get(&pid).copied().unwrap_or(EnvironmentLook::Lacks)
                })
            }
        }
    }

    /// Whether nothing is left, seen without waiting.
    pub(crate) fn is_gone(&self, spared: &Spared) -> bool {
        let look = self.look_except(spared);
        look.members.is_empty() && !look.unclear
    }

    /// Sends a signal to every member that is not spared.
    pub(crate) fn signal(&self, signal: Signal, spared: &Spared) {
        for member in self.members_except(spared) {
            // Gone already, or not ours to signal; the caller looks again.
            let _ = member.send(signal);
        }
    }

    /// Kills every member that is not spared, without waiting for the end.
    pub(crate) fn kill(&self, spared: &Spared) {
        match &self.tracking {
            TreeTracking::Cgroup(cgroup) | TreeTracking::Lent(cgroup) if spared.is_nobody() => {
                if cgroup.kill().is_err() {
                    cgroup.while_frozen(|| self.signal(Signal::KILL, spared));
                }
            }
            TreeTracking::Cgroup(cgroup) | TreeTracking::Lent(cgroup) => {
                cgroup.while_frozen(|| self.signal(Signal::KILL, spared));
            }
            TreeTracking::Walk { .. } => {
                freeze_and_kill(|| self.members_except(spared));
            }
        }
    }

    /// Kills until nothing is left that is not spared. `false` if something
    /// is stuck in the kernel beyond [`KILL_WAIT`](crate::limits::KILL_WAIT).
    pub(crate) async fn kill_until_gone(&self, spared: &Spared) -> bool {
        polling::kill_until_gone(|| self.look_except(spared), || self.kill(spared)).await
    }

    /// Whether nothing is left, looked at until `limit` has passed.
    pub(crate) async fn gone_within(&self, limit: Duration, spared: &Spared) -> bool {
        polling::gone_within(limit, || self.look_except(spared)).await
    }

    /// Gives back what the tracking holds on to; the tree must be gone.
    pub(crate) fn release(&mut self) -> bool {
        let released = match &mut self.tracking {
            TreeTracking::Cgroup(cgroup) => cgroup.remove().is_ok(),
            TreeTracking::Lent(_) | TreeTracking::Walk { .. } => true,
        };
        let sandbox = self.sandbox.as_ref();
        released && sandbox.is_none_or(|own| own.remove().is_ok())
    }
}

/// Stops members until a look finds no new one, so that parent links stay
/// readable, then kills them all. A process with a pending stop or kill
/// cannot complete a fork.
pub(crate) fn freeze_and_kill(
    mut scan: impl FnMut() -> Vec<Member>,
) -> Vec<(Member, io::Result<()>)> {
    let mut stopped: Vec<Member> = Vec::new();
    for _ in 0..MAX_FREEZE_ROUNDS {
        let fresh: Vec<Member> = scan()
            .into_iter()
            .filter(|member| !stopped.contains(member))
            .collect();
        if fresh.is_empty() {
            break;
        }
        for member in &fresh {
            let _ = member.send(Signal::STOP);
        }
        stopped.extend(fresh);
    }
    stopped
        .into_iter()
        .map(|member| (member, member.send(Signal::KILL)))
        .collect()
}
/// Those of a cgroup's members that live and are still in it.
fn living(cgroup: &Cgroup, pids: impl Iterator<Item = i32>) -> Vec<Member> {
    pids.filter_map(process_table::stat)
        .filter(|stat| !stat.is_dead())
        .map(|stat| Member::from(&stat))
        // The number may have changed hands since the list was read.
        .filter(|member| cgroup.contains(member.pid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_keeps_growing_is_killed_as_far_as_it_is_known() {
        let mut rounds = 0;
        // Numbers that no process has: nobody is signalled.
        let killed = freeze_and_kill(|| {
            rounds += 1;
            vec![Member {
                pid: i32::MAX - rounds,
                parent: 0,
                start_time: 0,
            }]
        });
        assert_eq!(killed.len(), MAX_FREEZE_ROUNDS);
        assert_eq!(usize::try_from(rounds).unwrap(), MAX_FREEZE_ROUNDS);
        assert!(killed.iter().all(|(_, sent)| sent.is_err()));

        let same = Member {
            pid: i32::MAX,
            parent: 0,
            start_time: 0,
        };
        assert_eq!(freeze_and_kill(|| vec![same]).len(), 1);
    }
}
