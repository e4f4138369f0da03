//! What holds a session's processes together: a control group for each tree
//! within one for the session where that is possible, else a mark on each
//! process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halter_exec::{
    Cgroup, Environment, HeldTree, LaunchPlan, ResourceLimits, Sandbox, SandboxSpec, TREE_MARKER,
};

use super::error::CoreError;
use super::lock;
use super::order::SessionSpec;
use super::record::Grip;
use crate::limits::{SPARE_GROUPS, TREE_END_WAIT};

/// The trees of one session. Nothing is made before the first process.
#[derive(Debug)]
pub(super) struct SessionTrees {
    name: String,
    ground: Mutex<Option<Arc<Ground>>>,
    next: AtomicU64,
    /// Groups that nothing lives in, for the next process.
    spare: Mutex<Vec<String>>,
    /// Marked trees of which something was left when they ended.
    remnants: Mutex<Vec<(i32, String)>>,
}

/// What became of a tree. Kernels kill a process that is born into a group
/// that was ever killed as a whole, so such a group is not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    Peaceful,
    Killed,
}

/// What the session's processes are put on.
#[derive(Debug)]
struct Ground {
    sandbox: Sandbox,
    /// The session's group; `None` where no group can be made.
    group: Option<PathBuf>,
}

/// The beginning of the name of every group of the runtime with this state
/// directory.
pub(super) fn group_prefix(state_dir: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    state_dir.hash(&mut hasher);
    format!("trl-{:08x}-", hasher.finish() as u32)
}

impl SessionTrees {
    /// The trees of the session with this group name. `taken` is the highest
    /// number that a group of it has.
    pub(super) fn new(name: String, taken: u64) -> Self {
        Self {
            name,
            ground: Mutex::default(),
            next: AtomicU64::new(taken + 1),
            spare: Mutex::default(),
            remnants: Mutex::default(),
        }
    }

    fn ground(&self, spec: &SessionSpec) -> Result<Arc<Ground>, CoreError> {
        let mut ground = lock(&self.ground);
        if let Some(ground) = &*ground {
            return Ok(Arc::clone(ground));
        }
        let sandbox = Sandbox::establish(sandbox_spec(spec), &self.name)?;
        let group = match sandbox.cgroup_parent() {
            Some(parent) => Some(parent.to_owned()),
            None => Cgroup::own().ok().and_then(|own| {
                let path = own.join(&self.name);
                Cgroup::open(&path)
                    .or_else(|_| Cgroup::create(&own, &self.name))
                    .ok()
                    .map(|_| path)
            }),
        };
        let made = Arc::new(Ground { sandbox, group });
        *ground = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Confines the process of a plan, puts it into a tree of its own, and
    /// says how that is found again.
    pub(super) fn plant(
        &self,
        spec: &SessionSpec,
        plan: &mut LaunchPlan,
    ) -> Result<Grip, CoreError> {
        let ground = self.ground(spec)?;
        let grip = self.new_grip(&ground);
        match (&grip, &ground.group) {
            (Grip::Cgroup(name), Some(group)) => plan.cgroup = Some(group.join(name)),
            (Grip::Marker(marker), _) => mark(&mut plan.environment, marker),
            (Grip::Cgroup(_), None) => {}
        }
        ground.sandbox.confine(plan);
        Ok(grip)
    }

    fn new_grip(&self, ground: &Ground) -> Grip {
        if let Some(group) = &ground.group {
            if let Some(name) = lock(&self.spare).pop() {
                return Grip::Cgroup(name);
            }
            let name = format!("t{}", self.next.fetch_add(1, Ordering::Relaxed));
            if Cgroup::create(group, &name).is_ok() {
                return Grip::Cgroup(name);
            }
        }
        Grip::Marker(self.new_mark())
    }

    /// A mark for a process that is held together by nothing else.
    pub(super) fn new_mark(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.name)
    }

    /// The tree of a process, found by its grip.
    pub(super) fn tree(&self, spec: &SessionSpec, pid: i32, grip: &Grip) -> Option<HeldTree> {
        match grip {
            Grip::Marker(marker) => Some(HeldTree::marked(pid, marker)),
            Grip::Cgroup(name) => {
                let ground = self.ground(spec).ok()?;
                let cgroup = Cgroup::open(ground.group.as_ref()?.join(name)).ok()?;
                Some(HeldTree::in_cgroup(pid, cgroup))
            }
        }
    }

    /// The group of a tree, if it is held by one.
    pub(super) fn group(&self, spec: &SessionSpec, grip: &Grip) -> Option<Cgroup> {
        let Grip::Cgroup(name) = grip else {
            return None;
        };
        let ground = self.ground(spec).ok()?;
        Cgroup::open(ground.group.as_ref()?.join(name)).ok()
    }

    /// The leader of a tree has ended: the group is used again, or stays for
    /// as long as something lives in it.
    pub(super) fn release(&self, spec: &SessionSpec, pid: Option<i32>, grip: &Grip, past: Past) {
        match grip {
            Grip::Cgroup(name) => {
                let Some(group) = self.group(spec, grip) else {
                    return;
                };
                if !group.is_gone() {
                    return;
                }
                if !keep(&mut lock(&self.spare), name, past) {
                    let _ = group.remove();
                }
            }
            Grip::Marker(marker) => {
                if let Some(pid) = pid
                    && !HeldTree::marked(pid, marker).is_gone()
                {
                    lock(&self.remnants).push((pid, marker.clone()));
                }
            }
        }
    }

    /// Kills everything of the session and removes its groups.
    pub(super) async fn end(&self) {
        let ground = lock(&self.ground).take();
        let remnants = std::mem::take(&mut *lock(&self.remnants));
        for (pid, marker) in remnants {
            HeldTree::marked(pid, marker).kill_until_gone().await;
        }
        let Some(ground) = ground else { return };
        let ended = tokio::task::spawn_blocking(move || {
            if let Some(path) = &ground.group {
                bring_down(path);
            }
            if let Err(error) = ground.sandbox.remove() {
                tracing::warn!(%error, "a session's groups stay");
            }
        });
        let _ = ended.await;
    }
}

/// Keeps an empty group for the next process; `false` if it is to go.
fn keep(spare: &mut Vec<String>, name: &str, past: Past) -> bool {
    let keeps = past == Past::Peaceful && spare.len() < SPARE_GROUPS;
    if keeps {
        spare.push(name.to_owned());
    }
    keeps
}

/// Kills what lives in a group and removes it with all below it.
fn bring_down(path: &Path) {
    let Ok(group) = Cgroup::open(path) else {
        return;
    };
    let _ = group.kill();
    if !group.gone_within(TREE_END_WAIT) {
        tracing::warn!(group = %path.display(), "something in a group does not die");
    }
    // A group whose last member has just died may refuse for a moment.
    for _ in 0..50 {
        if group.remove().is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    tracing::warn!(group = %path.display(), "a group cannot be removed");
}

fn mark(environment: &mut Environment, marker: &str) {
    environment.set(TREE_MARKER, marker);
}

fn sandbox_spec(spec: &SessionSpec) -> SandboxSpec {
    SandboxSpec {
        root: spec.chroot.clone(),
        limits: ResourceLimits {
            memory_bytes: spec.limits.memory_bytes,
            processes: spec
                .limits
                .processes
                .map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
            cpu_millis: None,
            cpu_time: spec.limits.cpu_seconds.map(Duration::from_secs),
        },
        ..SandboxSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_a_few_groups_and_none_that_was_killed() {
        assert_eq!(SPARE_GROUPS, 2);
        let mut spare = Vec::new();
        assert!(!keep(&mut spare, "killed", Past::Killed));
        for number in 0..SPARE_GROUPS {
            assert!(keep(&mut spare, &format!("t{number}"), Past::Peaceful));
        }
        assert!(!keep(&mut spare, "more", Past::Peaceful));
        assert_eq!(spare, ["t0", "t1"]);
    }
}
