//! What holds a session's processes together: a control group for each tree
//! within one for the session where that is possible, else a mark on each
//! process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halter_exec::{
    Cgroup, Environment, HeldTree, LaunchPlan, ResourceLimits, Sandbox, SandboxSpec, TREE_MARKER,
};

use super::error::CoreError;
use super::lock;
use super::order::SessionSpec;
use super::record::Grip;
use crate::limits::{MAX_OPEN_GROUPS, SPARE_GROUPS, TREE_END_WAIT};
use crate::sys;

/// The trees of one session. Nothing is made before the first process.
#[derive(Debug)]
pub(super) struct SessionTrees {
    name: String,
    ground: Mutex<Option<Arc<Ground>>>,
    next: AtomicU64,
    /// Groups that nothing lives in, for the next process.
    spare: Mutex<Vec<SpareGroup>>,
    /// Groups of processes, as far as they are kept open.
    open: Mutex<Vec<SpareGroup>>,
    open_groups: OpenGroups,
    /// Marked trees of which something was left when they ended.
    remnants: Mutex<Vec<(i32, Arc<str>)>>,
    /// Whether an earlier runtime may have made groups for it.
    inherited: bool,
}

/// A group by its name, and open if few enough are.
#[derive(Debug)]
struct SpareGroup {
    name: Arc<str>,
    group: Option<OpenGroup>,
}

/// Counts the groups that are kept open by all sessions together.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenGroups(Arc<AtomicUsize>);

impl OpenGroups {
    /// The group, kept open; `None` if too many are.
    fn keep(&self, group: Cgroup) -> Option<OpenGroup> {
        let more = |count: usize| (count < MAX_OPEN_GROUPS).then_some(count + 1);
        let counted = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.ok().map(|_| OpenGroup {
            group,
            count: Arc::clone(&self.0),
        })
    }
}

/// A group that is kept open, and counted.
#[derive(Debug)]
struct OpenGroup {
    group: Cgroup,
    count: Arc<AtomicUsize>,
}

impl Drop for OpenGroup {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
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
    /// The trees of the session with this group name. If an earlier runtime
    /// had it and made some, `taken` is the highest number that is in use.
    pub(super) fn new(name: String, taken: Option<u64>, open_groups: OpenGroups) -> Self {
        Self {
            open_groups,
            open: Mutex::default(),
            name,
            ground: Mutex::default(),
            inherited: taken.is_some(),
            next: AtomicU64::new(taken.unwrap_or(0) + 1),
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
        let grip = self.new_grip(spec)?;
        self.confine(spec, plan, &grip)?;
        Ok(grip)
    }

    /// Confines the process of a plan, and puts it into the tree of this grip.
    pub(super) fn confine(
        &self,
        spec: &SessionSpec,
        plan: &mut LaunchPlan,
        grip: &Grip,
    ) -> Result<(), CoreError> {
        let ground = self.ground(spec)?;
        match (grip, &ground.group) {
            (Grip::Cgroup(name), Some(group)) => plan.cgroup = Some(group.join(&**name)),
            (Grip::Marker(marker), _) => mark(&mut plan.environment, marker),
            (Grip::Cgroup(_), None) => {}
        }
        ground.sandbox.confine(plan);
        Ok(())
    }

    /// How the tree of the next process will be found again.
    pub(super) fn new_grip(&self, spec: &SessionSpec) -> Result<Grip, CoreError> {
        let ground = self.ground(spec)?;
        if let Some(group) = &ground.group {
            let spare = lock(&self.spare).pop();
            if let Some(spare) = spare.or_else(|| self.new_group(group)) {
                let name = Arc::clone(&spare.name);
                if spare.group.is_some() {
                    lock(&self.open).push(spare);
                }
                return Ok(Grip::Cgroup(name));
            }
        }
        Ok(Grip::Marker(self.new_mark().into()))
    }

    fn new_group(&self, parent: &Path) -> Option<SpareGroup> {
        let (name, group) = loop {
            let name = format!("t{}", self.next.fetch_add(1, Ordering::Relaxed));
            match Cgroup::create(parent, &name) {
                // Something lives there that an earlier runtime has started.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => break (name, made.ok()?),
            }
        };
        let group = self.open_groups.keep(group);
        Some(SpareGroup {
            name: name.into(),
            group,
        })
    }

    /// A mark for a process that is held together by nothing else.
    pub(super) fn new_mark(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.name)
    }

    /// The tree of a process, found by its grip.
    pub(super) fn tree(&self, spec: &SessionSpec, pid: i32, grip: &Grip) -> Option<HeldTree> {
        match grip {
            Grip::Marker(marker) => Some(HeldTree::marked(pid, &**marker)),
            Grip::Cgroup(name) => {
                let ground = self.ground(spec).ok()?;
                let cgroup = Cgroup::open(ground.group.as_ref()?.join(&**name)).ok()?;
                Some(HeldTree::in_cgroup(pid, cgroup))
            }
        }
    }

    /// The group of a tree, open if it can be kept so.
    fn take_group(&self, spec: &SessionSpec, name: &str) -> Option<Result<OpenGroup, Cgroup>> {
        let mut open = lock(&self.open);
        if let Some(place) = open.iter().position(|kept| *kept.name == *name) {
            return open.swap_remove(place).group.map(Ok);
        }
        drop(open);
        let ground = self.ground(spec).ok()?;
        Cgroup::open(ground.group.as_ref()?.join(name))
            .ok()
            .map(Err)
    }

    /// The leader of a tree has ended: the group is used again, or stays for
    /// as long as something lives in it.
    pub(super) fn release(&self, spec: &SessionSpec, pid: Option<i32>, grip: &Grip, past: Past) {
        match grip {
            Grip::Cgroup(name) => {
                let Some(found) = self.take_group(spec, name) else {
                    return;
                };
                let group = match &found {
                    Ok(open) => &open.group,
                    Err(group) => group,
                };
                if !group.is_gone() {
                    return;
                }
                let mut spare = lock(&self.spare);
                if may_keep(&spare, name, past) {
                    let name = Arc::clone(name);
                    let group = found.ok();
                    spare.push(SpareGroup { name, group });
                } else {
                    let _ = group.remove();
                }
            }
            Grip::Marker(marker) => {
                if let Some(pid) = pid
                    && !HeldTree::marked(pid, &**marker).is_gone()
                {
                    lock(&self.remnants).push((pid, Arc::clone(marker)));
                }
            }
        }
    }

    /// Kills everything of the session and removes its groups.
    pub(super) async fn end(&self) {
        let ground = lock(&self.ground).take();
        let mut remnants = std::mem::take(&mut *lock(&self.remnants));
        if self.inherited && !has_group(&self.name) {
            remnants.extend(inherited_remnants(&self.name));
        }
        lock(&self.spare).clear();
        lock(&self.open).clear();
        for (pid, marker) in remnants {
            HeldTree::marked(pid, &*marker).kill_until_gone().await;
        }
        let name = match ground {
            None if !self.inherited => return,
            _ => self.name.clone(),
        };
        let ended = tokio::task::spawn_blocking(move || match ground {
            Some(ground) => ground.end(),
            None => bring_down_inherited(&name),
        });
        let _ = ended.await;
    }
}

impl Ground {
    /// Kills what stands on it and takes it away.
    fn end(&self) {
        if let Some(path) = &self.group {
            bring_down(path);
        }
        if let Err(error) = self.sandbox.remove() {
            tracing::warn!(%error, "a session's groups stay");
        }
    }
}

/// The same for groups of an earlier runtime, of which only the name is known.
fn bring_down_inherited(name: &str) {
    if let Ok(own) = Cgroup::own() {
        bring_down(&own.join(name));
    }
    for left in Sandbox::sweep(name, |found| found != name) {
        tracing::warn!(group = %left.display(), "a session's group stays");
    }
}

/// Whether there is a group of this name.
fn has_group(name: &str) -> bool {
    Cgroup::own().is_ok_and(|own| own.join(name).exists())
}

/// Processes with marks of a session that an earlier runtime gave them.
fn inherited_remnants(name: &str) -> Vec<(i32, Arc<str>)> {
    let variable = format!("{TREE_MARKER}={name}-");
    let marked = |pid: i32| {
        let environment = sys::environment_of(pid).ok()?;
        let number = environment
            .split(|byte| *byte == 0)
            .find_map(|one| one.strip_prefix(variable.as_bytes()))?;
        let number = std::str::from_utf8(number).ok()?;
        Some((pid, format!("{name}-{number}").into()))
    };
    sys::processes().into_iter().filter_map(marked).collect()
}

/// Whether an empty group is kept for the next process. One that waits for it
/// already is not used by two.
fn may_keep(spare: &[SpareGroup], name: &str, past: Past) -> bool {
    past == Past::Peaceful
        && spare.len() < SPARE_GROUPS
        && spare.iter().all(|kept| *kept.name != *name)
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
        assert!(!may_keep(&spare, "killed", Past::Killed));
        for number in 0..SPARE_GROUPS {
            let name = format!("t{number}");
            assert!(may_keep(&spare, &name, Past::Peaceful));
            let group = None;
            spare.push(SpareGroup {
                name: name.into(),
                group,
            });
            assert!(!may_keep(&spare, &format!("t{number}"), Past::Peaceful));
        }
        assert!(!may_keep(&spare, "more", Past::Peaceful));
    }

    /// Where groups can be made at all.
    #[test]
    fn so_many_groups_are_kept_open_by_all_sessions_together() {
        assert_eq!(MAX_OPEN_GROUPS, 128);
        let Ok(own) = Cgroup::own() else { return };
        let open = || Cgroup::open(&own);
        if open().is_err() {
            return;
        }
        let groups = OpenGroups::default();
        let other = groups.clone();
        let mut kept: Vec<_> = (0..MAX_OPEN_GROUPS)
            .map(|_| groups.keep(open().unwrap()).unwrap())
            .collect();
        assert!(other.keep(open().unwrap()).is_none());
        kept.pop();
        assert!(other.keep(open().unwrap()).is_some());
    }
}
