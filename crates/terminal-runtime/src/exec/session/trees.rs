//! What holds a session's processes together: a control group for each tree
//! within one for the session where that is possible, else a mark on each
//! process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halter_exec::host::{Cgroup, HeldTree, LaunchPlan, Sandbox, TREE_MARKER};
use halter_exec::{Containment, Environment, LimitHits, ResourceLimits, SandboxSpec};

use crate::exec::error::CoreError;
use crate::exec::lock;
use crate::exec::record::TreeId;
use crate::exec::types::{SandboxRules, SessionSpec};
use crate::limits::{SPARE_GROUPS, TREE_END_WAIT};
use crate::sys;

/// The trees of one session. Nothing is made before the first process.
#[derive(Debug)]
pub(in crate::exec) struct SessionTrees {
    name: String,
    confinement: Mutex<Option<Arc<Confinement>>>,
    next: AtomicU64,
    /// Groups that nothing lives in, for the next process: to make and remove
    /// one costs a good part of a short command.
    spare: Mutex<Vec<PathBuf>>,
    /// Marked trees of which something was left when they ended.
    remnants: Mutex<Vec<(i32, Arc<str>)>>,
    hits: Mutex<LimitHits>,
    /// What an earlier daemon has made for it; `None` if nothing.
    inherited: Option<InheritedTrees>,
}

/// What is known of the trees that an earlier daemon made for a session.
#[derive(Debug, Default)]
pub(in crate::exec) struct InheritedTrees {
    /// The highest number that is in use.
    pub highest: u64,
    /// The session's group.
    pub group: Option<PathBuf>,
}

/// How a tree ended. Kernels kill a process that is born into a group that was
/// ever killed as a whole, so such a group is not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum TreeEnd {
    ByItself,
    Killed,
}

/// What confines the session's processes.
#[derive(Debug)]
struct Confinement {
    sandbox: Sandbox,
    /// The session's group; `None` where no group can be made.
    group: Option<PathBuf>,
}

/// The beginning of the name of every group of the runtime with this state
/// directory.
pub(in crate::exec) fn group_prefix(state_dir: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    state_dir.hash(&mut hasher);
    format!("trl-{:08x}-", hasher.finish() as u32)
}

impl SessionTrees {
    /// The trees of the session with this group name.
    pub(in crate::exec) fn new(name: String, inherited: Option<InheritedTrees>) -> Self {
        let highest = inherited.as_ref().map_or(0, |found| found.highest);
        Self {
            name,
            confinement: Mutex::default(),
            next: AtomicU64::new(highest + 1),
            spare: Mutex::default(),
            remnants: Mutex::default(),
            hits: Mutex::default(),
            inherited,
        }
    }

    fn confinement(
        &self,
        spec: &SessionSpec,
        shared: Option<&Path>,
    ) -> Result<Arc<Confinement>, CoreError> {
        let mut confinement = lock(&self.confinement);
        if let Some(made) = &*confinement {
            return Ok(Arc::clone(made));
        }
        let sandbox = Sandbox::establish(sandbox_spec(spec, shared), &self.name)?;
        let group = match sandbox.cgroup_parent() {
            Some(parent) => Some(parent.to_owned()),
            None => self.inherited_group().or_else(|| self.new_session_group()),
        };
        let made = Arc::new(Confinement { sandbox, group });
        *confinement = Some(Arc::clone(&made));
        Ok(made)
    }

    /// How often the session's limits were in the way since the last look.
    pub(in crate::exec) fn new_hits(&self) -> LimitHits {
        let Some(made) = lock(&self.confinement).clone() else {
            return LimitHits::default();
        };
        let now = made.sandbox.hits();
        now.since(std::mem::replace(&mut *lock(&self.hits), now))
    }

    /// The session's group, if it has one by now.
    pub(in crate::exec) fn group(&self) -> Option<PathBuf> {
        let confinement = lock(&self.confinement);
        let made = confinement.as_ref().and_then(|made| made.group.clone());
        let inherited = || self.inherited.as_ref()?.group.clone();
        made.or_else(inherited)
    }

    /// The group that an earlier daemon made, wherever that was.
    fn inherited_group(&self) -> Option<PathBuf> {
        let group = self.inherited.as_ref()?.group.as_ref()?;
        Cgroup::open(group).ok().map(|_| group.clone())
    }

    fn new_session_group(&self) -> Option<PathBuf> {
        let own = Cgroup::own().ok()?;
        let path = own.join(&self.name);
        Cgroup::open(&path)
            .or_else(|_| Cgroup::create(&own, &self.name))
            .ok()
            .map(|_| path)
    }

    /// Confines the process of a plan, puts it into a tree of its own, and
    /// says how that is found again.
    pub(in crate::exec) fn place(
        &self,
        spec: &SessionSpec,
        shared: Option<&Path>,
        plan: &mut LaunchPlan,
    ) -> Result<TreeId, CoreError> {
        let confinement = self.confinement(spec, shared)?;
        let tree = match &confinement.group {
            Some(group) => self.group_in(group).map(TreeId::Cgroup),
            None => None,
        };
        let tree = tree.unwrap_or_else(|| TreeId::Marker(self.new_mark().into()));
        match &tree {
            TreeId::Cgroup(path) => plan.cgroup = Some(path.clone()),
            TreeId::Marker(marker) => mark(&mut plan.environment, marker),
        }
        confinement.sandbox.confine_planned(plan);
        Ok(tree)
    }

    /// An empty group in the session's.
    fn group_in(&self, parent: &Path) -> Option<PathBuf> {
        if let Some(spare) = lock(&self.spare).pop() {
            return Some(spare);
        }
        loop {
            let name = format!("t{}", self.next.fetch_add(1, Ordering::Relaxed));
            match Cgroup::create(parent, &name) {
                // Something lives there that an earlier daemon has started.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.ok().map(|_| parent.join(name)),
            }
        }
    }

    /// A mark for a process that is held together by nothing else.
    pub(in crate::exec) fn new_mark(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.name)
    }

    /// The tree of a process. If its group cannot be opened, it is followed
    /// by the process's session and parent links instead.
    pub(in crate::exec) fn tree(&self, pid: i32, id: &TreeId) -> HeldTree {
        match id {
            TreeId::Marker(marker) => HeldTree::marked(pid, &**marker),
            TreeId::Cgroup(path) => match Cgroup::open(path) {
                Ok(group) => HeldTree::in_cgroup(pid, group),
                Err(error) => {
                    tracing::warn!(group = %path.display(), %error, "a group cannot be opened");
                    HeldTree::marked(pid, self.name.as_str())
                }
            },
        }
    }

    /// The leader of a tree has ended: the group is used again, or stays for
    /// as long as something lives in it.
    pub(in crate::exec) fn release(&self, pid: Option<i32>, id: &TreeId, end: TreeEnd) {
        match id {
            TreeId::Cgroup(path) => {
                let Ok(group) = Cgroup::open(path) else {
                    return;
                };
                if !group.is_gone() {
                    return;
                }
                let mut spare = lock(&self.spare);
                if may_keep(&spare, path, end) {
                    spare.push(path.clone());
                } else {
                    let _ = group.remove();
                }
            }
            TreeId::Marker(marker) => {
                if let Some(pid) = pid
                    && !HeldTree::marked(pid, &**marker).is_gone()
                {
                    lock(&self.remnants).push((pid, Arc::clone(marker)));
                }
            }
        }
    }

    /// Kills everything of the session and removes its groups.
    pub(in crate::exec) async fn end(&self) {
        let confinement = lock(&self.confinement).take();
        let mut remnants = std::mem::take(&mut *lock(&self.remnants));
        if self.inherited.is_some() && !has_group(&self.name) {
            remnants.extend(inherited_remnants(&self.name));
        }
        lock(&self.spare).clear();
        for (pid, marker) in remnants {
            HeldTree::marked(pid, &*marker).kill_until_gone().await;
        }
        let inherited = self.inherited.as_ref();
        if confinement.is_none() && inherited.is_none() {
            return;
        }
        let name = self.name.clone();
        let group = inherited.and_then(|found| found.group.clone());
        let ended = tokio::task::spawn_blocking(move || {
            if let Some(confinement) = &confinement {
                confinement.end();
            }
            if let Some(group) = group {
                kill_and_remove(&group);
            }
            if confinement.is_none() {
                remove_inherited(&name);
            }
        });
        let _ = ended.await;
    }
}

impl Confinement {
    /// Kills what is in it and removes it.
    fn end(&self) {
        if let Some(path) = &self.group {
            kill_and_remove(path);
        }
        if let Err(error) = self.sandbox.remove() {
            tracing::warn!(%error, "a session's groups stay");
        }
    }
}

/// The same for groups of an earlier runtime, of which only the name is known.
fn remove_inherited(name: &str) {
    if let Ok(own) = Cgroup::own() {
        kill_and_remove(&own.join(name));
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
fn may_keep(spare: &[PathBuf], path: &Path, end: TreeEnd) -> bool {
    end == TreeEnd::ByItself && spare.len() < SPARE_GROUPS && spare.iter().all(|kept| kept != path)
}

/// Kills what lives in a group and removes it with all below it.
fn kill_and_remove(path: &Path) {
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

/// The containment of a session. What its shell is given by name it may open.
pub(in crate::exec) fn with_shared(rules: &SandboxRules, shared: Option<&Path>) -> Containment {
    let mut containment = rules.containment();
    containment.writable.extend(shared.map(Path::to_owned));
    containment
}

/// The sandbox of a session, as far as a plan holds it.
fn sandbox_spec(spec: &SessionSpec, shared: Option<&Path>) -> SandboxSpec {
    // Name spaces are the holder's, which outlives this program.
    let planned = spec.sandbox.as_ref().filter(|rules| !rules.namespaces);
    let containment = planned.map(|rules| with_shared(rules, shared));
    SandboxSpec {
        containment,
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
        let mut spare = Vec::new();
        assert!(!may_keep(&spare, Path::new("/killed"), TreeEnd::Killed));
        for number in 0..SPARE_GROUPS {
            let path = PathBuf::from(format!("/t{number}"));
            assert!(may_keep(&spare, &path, TreeEnd::ByItself));
            spare.push(path.clone());
            assert!(!may_keep(&spare, &path, TreeEnd::ByItself));
        }
        assert!(!may_keep(&spare, Path::new("/more"), TreeEnd::ByItself));
    }
}
