//! A command and everything that came out of it, as one thing that can be
//! counted, signalled and brought down.

mod listing;
mod walk;

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use tokio::time::Instant;

pub use listing::{KillOutcome, ProcessInfo, SignalResult, kill_tree, list_descendants};

use crate::environment::Environment;
use crate::error::ExecError;
use crate::limits::{KILL_WAIT, MAX_FREEZE_ROUNDS, POLL_PAUSE};
use crate::sys::{Cgroup, PidFd, Signal, procfs};

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

impl From<&procfs::Stat> for Member {
    fn from(stat: &procfs::Stat) -> Self {
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
        match procfs::stat(self.pid) {
            Some(stat) if stat.start_time == self.start_time => pidfd.send(signal),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// What will hold a tree together, made before its leader exists.
#[derive(Debug)]
pub(crate) enum TreeGrip {
    Cgroup(Cgroup),
    Walk { marker: String },
}

impl TreeGrip {
    /// The strongest grip this host offers.
    pub(crate) fn strongest() -> Result<Self, ExecError> {
        match Cgroup::create() {
            Ok(cgroup) => Ok(Self::Cgroup(cgroup)),
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
            Self::Cgroup(cgroup) => Some(cgroup),
            Self::Walk { .. } => None,
        }
    }

    /// Adds what this grip needs to find descendants.
    pub(crate) fn mark(&self, environment: &mut Environment) {
        if let Self::Walk { marker } = self {
            environment.set(TREE_MARKER, marker);
        }
    }
}

/// The tree of one leader. The leader must stay uncollected while this is in
/// use: its number then names its session and group without doubt.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    leader: Member,
    grip: TreeGrip,
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
    pub(crate) fn new(leader: i32, grip: TreeGrip) -> Self {
        let leader = procfs::stat(leader).map_or(
            Member {
                pid: leader,
                parent: 0,
                start_time: 0,
            },
            |stat| Member::from(&stat),
        );
        Self { leader, grip }
    }

    pub(crate) fn control(&self) -> TreeControl {
        match self.grip {
            TreeGrip::Cgroup(_) => TreeControl::Cgroup,
            TreeGrip::Walk { .. } => TreeControl::GroupAndWalk,
        }
    }

    pub(crate) fn leader(&self) -> Member {
        self.leader
    }

    /// The living members, the leader among them if it lives.
    pub(crate) fn members(&self) -> Vec<Member> {
        match &self.grip {
            TreeGrip::Cgroup(cgroup) => cgroup
                .members()
                .into_iter()
                .filter_map(procfs::stat)
                .filter(|stat| !stat.is_dead())
                .map(|stat| Member::from(&stat))
                // The number may have changed hands since the list was read.
                .filter(|member| cgroup.contains(member.pid))
                .collect(),
            TreeGrip::Walk { marker } => {
                let marker = format!("{TREE_MARKER}={marker}");
                let all = procfs::all().unwrap_or_default();
                walk::tree_members(&all, self.leader, |pid| {
                    procfs::environment_has(pid, marker.as_bytes())
                })
            }
        }
    }

    /// The living members that are neither spared nor descend from one that
    /// is.
    pub(crate) fn members_except(&self, spared: &Spared) -> Vec<Member> {
        walk::without(self.members(), self.leader, spared)
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
        match &self.grip {
            TreeGrip::Cgroup(cgroup) if spared.is_nobody() => {
                if cgroup.kill().is_err() {
                    cgroup.while_frozen(|| self.signal(Signal::KILL, spared));
                }
            }
            TreeGrip::Cgroup(cgroup) => {
                cgroup.while_frozen(|| self.signal(Signal::KILL, spared));
            }
            TreeGrip::Walk { .. } => {
                freeze_and_kill(|| self.members_except(spared));
            }
        }
    }

    /// Kills until nothing is left that is not spared. `false` if something
    /// is stuck in the kernel beyond [`KILL_WAIT`].
    pub(crate) async fn kill_until_gone(&self, spared: &Spared) -> bool {
        let until = Instant::now() + KILL_WAIT;
        loop {
            if self.members_except(spared).is_empty() {
                return true;
            }
            self.kill(spared);
            if self.gone_within(Duration::from_millis(50), spared).await {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
        }
    }

    /// Whether nothing is left, looked at until `limit` has passed.
    pub(crate) async fn gone_within(&self, limit: Duration, spared: &Spared) -> bool {
        let until = Instant::now() + limit;
        let (mut pause, longest) = POLL_PAUSE;
        loop {
            if self.members_except(spared).is_empty() {
                return true;
            }
            let now = Instant::now();
            if now >= until {
                return false;
            }
            tokio::time::sleep(pause.min(until - now)).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Gives back what the grip holds on to; the tree must be gone.
    pub(crate) fn release(&mut self) -> bool {
        match &mut self.grip {
            TreeGrip::Cgroup(cgroup) => cgroup.remove().is_ok(),
            TreeGrip::Walk { .. } => true,
        }
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
