//! Many processes, one after the other, by a program that does little else.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use super::encoding::PlanParts;
use super::{Groups, LaunchFailure, LaunchPlan, LaunchStep, child_plan, surroundings, unusable};
use crate::limits::{KEPT_GROUPS, KEPT_SURROUNDINGS};
use crate::sys::{self, Surroundings};
use crate::system::out_of_the_way;

/// Launches processes and keeps, from one to the next, what they have in
/// common. For a program that collects its children by their numbers, with
/// [`reap_any`](crate::reap_any).
///
/// ```standalone_crate
/// use halter_exec::{LaunchPlan, Launcher, reap_any};
/// use std::os::fd::AsFd;
///
/// let null = std::fs::File::open("/dev/null").unwrap();
/// let null = null.as_fd();
/// let plan = LaunchPlan::new("/bin/true", "/").standard_streams();
/// let mut launcher = Launcher::new();
/// let pid = launcher.launch(&plan, &[null, null, null]).unwrap();
/// let (ended, exit) = loop {
///     if let Some(collected) = reap_any().unwrap() {
///         break collected;
///     }
/// };
/// assert_eq!(ended, pid);
/// assert!(exit.status.success());
/// ```
#[derive(Debug)]
pub struct Launcher {
    spawner: sys::Spawner,
    groups: KeptGroups,
    /// Those that were used last come last.
    known: Vec<Known>,
}

/// What processes that are started alike have in common, made ready.
#[derive(Debug)]
struct Known {
    encoded: Box<[u8]>,
    plan: LaunchPlan,
    surroundings: Surroundings,
}

impl Default for Launcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Launcher {
    /// The signals that this program ignores now are those it ignores at
    /// every launch: which ones a child has to reset is looked up here.
    #[must_use]
    pub fn new() -> Self {
        Self::of(sys::Spawner::new(false))
    }

    /// As [`new`](Self::new), for a program that has no use for its standard
    /// input, output and error: they are empty from the first launch on.
    /// Children are given theirs in their place, which is less work.
    ///
    /// ```standalone_crate
    /// use halter_exec::{LaunchPlan, Launcher, reap_any};
    /// use std::io::{Read, pipe};
    /// use std::os::fd::AsFd;
    ///
    /// let null = std::fs::File::open("/dev/null").unwrap();
    /// let (mut said, stdout) = pipe().unwrap();
    /// let mut plan = LaunchPlan::new("/bin/ls", "/proc/self/fd").standard_streams();
    /// plan.arguments.push("-1".into());
    /// let mut launcher = Launcher::instead_of_own_streams();
    /// for _ in 0..2 {
    ///     let slots = [null.as_fd(), stdout.as_fd(), null.as_fd()];
    ///     let pid = launcher.launch(&plan, &slots).unwrap();
    ///     let (ended, exit) = loop {
    ///         if let Some(collected) = reap_any().unwrap() {
    ///             break collected;
    ///         }
    ///     };
    ///     assert!(ended == pid && exit.status.success());
    /// }
    /// drop(stdout);
    /// let mut text = String::new();
    /// // Ends: nothing is left in our own streams.
    /// said.read_to_string(&mut text).unwrap();
    /// // The fourth is the directory that is listed.
    /// assert_eq!(text, "0\n1\n2\n3\n".repeat(2));
    /// ```
    #[must_use]
    pub fn instead_of_own_streams() -> Self {
        Self::of(sys::Spawner::new(true))
    }

    fn of(spawner: sys::Spawner) -> Self {
        Self {
            spawner,
            groups: KeptGroups::default(),
            known: Vec::new(),
        }
    }

    /// Starts a process as [`launch`](super::launch()) does, and says its
    /// number, which is its own until it has been collected.
    ///
    /// # Errors
    /// The step that failed; nothing is left of the process then.
    pub fn launch(
        &mut self,
        plan: &LaunchPlan,
        slots: &[BorrowedFd<'_>],
    ) -> Result<i32, LaunchFailure> {
        self.launch_encoded(&plan.encode(), slots)
    }

    /// The same, for a plan that [was encoded](LaunchPlan::encode). What
    /// follows its program and arguments is read only once for many that have
    /// it in common.
    ///
    /// # Errors
    /// As for [`launch`](Self::launch); the step is the input for bytes that
    /// are no plan.
    pub fn launch_encoded(
        &mut self,
        plan: &[u8],
        slots: &[BorrowedFd<'_>],
    ) -> Result<i32, LaunchFailure> {
        let parts = PlanParts::of(plan).map_err(|_| unusable())?;
        let open = self.groups.open.len();
        let launched = self.attempt(&parts, slots);
        match launched {
            // A group that has been made anew is another one.
            Err(failure) if open > 0 && failure.step == LaunchStep::ControlGroup => {
                self.forget_groups();
                self.attempt(&parts, slots)
            }
            other => other,
        }
    }

    fn attempt(
        &mut self,
        parts: &PlanParts<'_>,
        slots: &[BorrowedFd<'_>],
    ) -> Result<i32, LaunchFailure> {
        let place = self
            .known
            .iter()
            .rposition(|known| *known.encoded == *parts.rest);
        let known = match place {
            Some(place) => self.known.remove(place),
            None => self.get_to_know(parts.rest)?,
        };
        let words = parts.arguments.iter().copied();
        let child = child_plan(
            parts.program,
            words,
            &known.plan,
            &known.surroundings,
            slots,
        );
        let launched = child.and_then(|child| self.spawner.spawn(&child));
        self.keep(known);
        launched
    }

    fn get_to_know(&mut self, rest: &[u8]) -> Result<Known, LaunchFailure> {
        let plan = LaunchPlan::decode_rest(rest).map_err(|_| unusable())?;
        let surroundings = surroundings(&plan, &mut self.groups)?;
        Ok(Known {
            encoded: rest.into(),
            plan,
            surroundings,
        })
    }

    fn keep(&mut self, known: Known) {
        let (most, most_bytes) = KEPT_SURROUNDINGS;
        if known.encoded.len() > most_bytes {
            return;
        }
        if self.known.len() >= most {
            self.known.remove(0);
        }
        self.known.push(known);
    }

    /// Closes the control groups that are kept open: some are gone.
    pub fn forget_groups(&mut self) {
        self.known.clear();
        self.groups.open.clear();
    }
}

/// The control groups that were used last.
#[derive(Debug, Default)]
struct KeptGroups {
    open: HashMap<OsString, Kept>,
    uses: u64,
    /// What is kept open beside this program's own group, which is asked, too,
    /// whenever a process is born in a group below it.
    own: OnceCell<Option<OwnedFd>>,
}

#[derive(Debug)]
struct Kept {
    group: Arc<OwnedFd>,
    /// What is kept open beside it.
    _pin: Option<OwnedFd>,
    used: u64,
}

impl KeptGroups {
    fn find(
        &mut self,
        path: &Path,
        open: impl FnOnce(&Path) -> io::Result<OwnedFd>,
        pin: impl FnOnce(&Path) -> Option<OwnedFd>,
    ) -> io::Result<Arc<OwnedFd>> {
        self.uses += 1;
        let used = self.uses;
        if let Some(kept) = self.open.get_mut(path.as_os_str()) {
            kept.used = used;
            return Ok(Arc::clone(&kept.group));
        }
        let group = Arc::new(out_of_the_way(open(path)?));
        if self.open.len() >= KEPT_GROUPS {
            self.drop_oldest();
        }
        let kept = Kept {
            group: Arc::clone(&group),
            _pin: pin(path).map(out_of_the_way),
            used,
        };
        self.open.insert(path.as_os_str().to_owned(), kept);
        Ok(group)
    }

    fn drop_oldest(&mut self) {
        let oldest = self.open.iter().min_by_key(|(_, kept)| kept.used);
        if let Some(path) = oldest.map(|(path, _)| path.clone()) {
            self.open.remove(&path);
        }
    }
}

impl Groups for KeptGroups {
    fn first(&mut self, path: &Path) -> io::Result<Arc<OwnedFd>> {
        self.own.get_or_init(|| {
            let own = sys::Cgroup::own().ok()?;
            sys::pin_cgroup(&own).map(out_of_the_way)
        });
        self.find(path, sys::open_cgroup, sys::pin_cgroup)
    }

    fn further(&mut self, path: &Path) -> io::Result<Arc<OwnedFd>> {
        self.find(path, sys::open_limit_group, |_| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_surroundings_are_kept_and_those_not_used_for_longest_go() {
        let (most, most_bytes) = KEPT_SURROUNDINGS;
        let mut launcher = Launcher::new();
        let numbered = |number: &str| {
            let mut plan = LaunchPlan::new("/nowhere/program", "/");
            plan.environment.set("NUMBER", number);
            plan
        };
        let launch = |launcher: &mut Launcher, number: &str| {
            let failure = launcher.launch(&numbered(number), &[]).unwrap_err();
            assert_eq!(failure.step, LaunchStep::Exec);
        };
        let kept = |launcher: &Launcher, number: &str| {
            let value = |known: &Known| known.plan.environment.get("NUMBER").unwrap() == number;
            launcher.known.iter().any(value)
        };
        for number in 0..most {
            launch(&mut launcher, &number.to_string());
        }
        // Used again, the first is not the oldest any more.
        launch(&mut launcher, "0");
        assert_eq!(launcher.known.len(), most);
        launch(&mut launcher, &most.to_string());
        assert_eq!(launcher.known.len(), most);
        assert!(kept(&launcher, "0") && !kept(&launcher, "1"));
        let others = numbered("").frame().size() + 2;
        let long = "x".repeat(most_bytes - others);
        launch(&mut launcher, &long);
        assert!(kept(&launcher, &long));
        let longer = long + "x";
        launch(&mut launcher, &longer);
        assert!(!kept(&launcher, &longer));
    }

    #[test]
    fn so_many_groups_are_kept_and_those_not_used_for_longest_go() {
        assert_eq!(KEPT_GROUPS, 48);
        let mut groups = KeptGroups::default();
        let mut opened = Vec::new();
        let mut find = |groups: &mut KeptGroups, number: usize| {
            let open = |path: &Path| {
                opened.push(path.to_owned());
                std::fs::File::open("/dev/null").map(OwnedFd::from)
            };
            let path = format!("/{number}");
            groups.find(Path::new(&path), open, |_| None).unwrap();
            opened.len()
        };
        for number in 0..KEPT_GROUPS {
            find(&mut groups, number);
        }
        assert_eq!(find(&mut groups, 0), KEPT_GROUPS);
        // One too many: 1 goes, 0 has just been used.
        assert_eq!(find(&mut groups, KEPT_GROUPS), KEPT_GROUPS + 1);
        assert_eq!(groups.open.len(), KEPT_GROUPS);
        assert_eq!(find(&mut groups, 0), KEPT_GROUPS + 1);
        assert_eq!(find(&mut groups, 1), KEPT_GROUPS + 2);
    }

    #[test]
    fn a_group_that_is_kept_is_pinned_and_can_still_be_removed() {
        let Ok(group) = sys::Cgroup::create_numbered() else {
            return println!("skipped: needs control groups");
        };
        let mut plan = LaunchPlan::new("/nowhere/program", "/");
        plan.cgroup = Some(group.path().to_owned());
        let mut launcher = Launcher::new();
        let failure = launcher.launch(&plan, &[]).unwrap_err();
        assert_eq!(failure.step, LaunchStep::Exec);
        let groups = &launcher.groups;
        assert!(groups.open.values().all(|kept| kept._pin.is_some()));
        assert_eq!(groups.open.len(), 1);
        assert!(matches!(groups.own.get(), Some(Some(_))));
        group.remove().unwrap();
    }
}
