//! Walking directories for `glob` and `grep`: ignore files honoured, hidden
//! names skipped unless asked for, links not followed, everything the policy
//! would refuse left out and counted.

#[cfg(any(feature = "advanced-tools", test))]
mod parallel;

use crate::context::{ToolContext, cancelled};
use crate::limits::WALK_ENTRIES;
use halter_policy::permission::AskedBelow;
use halter_policy::search::walk_builder;
pub(crate) use halter_policy::search::{HiddenNames, path_glob};
use halter_policy::{
    FileKind, PlacedWalk, PlacedWalkPlan, ToolPolicy, WalkedEntry, is_out_of_descriptors,
};
use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

/// Which entries a walk yields.
pub(crate) struct WalkPlan {
    pub(crate) hidden: HiddenNames,
    pub(crate) types: Option<Types>,
    pub(crate) max_depth: Option<usize>,
}

/// Entries in the order of their names, and what was left out on the way.
pub(crate) struct Walker {
    entries: WalkEntries,
    policy: Arc<dyn ToolPolicy>,
    /// What a person would have to be asked about, and is left out.
    asked: Option<Arc<AskedBelow>>,
    cancel: CancellationToken,
    sensitive: Arc<AtomicUsize>,
    budget: EntryBudget,
    pub(crate) unreadable: usize,
    /// The walk stopped at [`WALK_ENTRIES`].
    pub(crate) is_cut: bool,
}

/// One name that a walk found.
pub(crate) enum FoundName {
    Here(DirEntry),
    Elsewhere(WalkedEntry),
}

impl FoundName {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Here(entry) => entry.path(),
            Self::Elsewhere(entry) => &entry.path,
        }
    }

    pub(crate) fn into_path(self) -> PathBuf {
        match self {
            Self::Here(entry) => entry.into_path(),
            Self::Elsewhere(entry) => entry.path,
        }
    }

    /// What it is; a link is not followed.
    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Self::Elsewhere(entry) => entry.kind,
            Self::Here(entry) => match entry.file_type() {
                Some(kind) if kind.is_dir() => FileKind::Directory,
                Some(kind) if kind.is_symlink() => FileKind::Link,
                Some(kind) if kind.is_file() => FileKind::File,
                _ => FileKind::Other,
            },
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind() == FileKind::File
    }

    /// When it was changed last.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        match self {
            Self::Elsewhere(entry) => entry.modified,
            Self::Here(entry) => entry.metadata().ok()?.modified().ok(),
        }
    }
}

enum WalkEntries {
    /// Found where the files are.
    Placed(std::vec::IntoIter<WalkedEntry>),
    /// Found one after the other, as they are asked for.
    Found(Box<ignore::Walk>),
    /// Found by several threads before, and put in order.
    #[cfg(any(feature = "advanced-tools", test))]
    Collected(std::vec::IntoIter<DirEntry>),
}

impl WalkEntries {
    fn next(&mut self) -> Option<Result<FoundName, ignore::Error>> {
        match self {
            Self::Placed(entries) => entries.next().map(|it| Ok(FoundName::Elsewhere(it))),
            Self::Found(walk) => loop {
                match walk.next()? {
                    Ok(entry) if entry.depth() == 0 => {}
                    found => return Some(found.map(FoundName::Here)),
                }
            },
            #[cfg(any(feature = "advanced-tools", test))]
            Self::Collected(entries) => entries.next().map(|it| Ok(FoundName::Here(it))),
        }
    }
}

impl Walker {
    /// The walk of `glob` and `grep`: by several threads where
    /// `advanced-tools` is compiled.
    pub(crate) fn new(context: &ToolContext, root: &Path, plan: WalkPlan) -> anyhow::Result<Self> {
        let placed = PlacedWalkPlan {
            hidden: plan.hidden.pattern().to_owned(),
            max_depth: plan.max_depth,
            max: WALK_ENTRIES,
        };
        if let Some(walk) = context.policy.door().walk_elsewhere(root, &placed)? {
            return Ok(Self::placed(context, root, walk, plan.types.as_ref()));
        }
        #[cfg(feature = "advanced-tools")]
        return Self::with_threads(context, root, plan);
        #[cfg(not(feature = "advanced-tools"))]
        Self::one_by_one(context, root, plan)
    }

    #[cfg(any(not(feature = "advanced-tools"), test))]
    pub(crate) fn one_by_one(
        context: &ToolContext,
        root: &Path,
        plan: WalkPlan,
    ) -> anyhow::Result<Self> {
        Ok(Self::prepare(context, root, plan)?.0)
    }

    /// As [`one_by_one`](Self::one_by_one), with the same entries in the same
    /// order. More than [`WALK_ENTRIES`] are found one by one after all: which
    /// of them come first is known only in order.
    #[cfg(any(feature = "advanced-tools", test))]
    pub(crate) fn with_threads(
        context: &ToolContext,
        root: &Path,
        plan: WalkPlan,
    ) -> anyhow::Result<Self> {
        let (mut walker, builder) = Self::prepare(context, root, plan)?;
        match parallel::collect(&builder, &walker.cancel, WALK_ENTRIES)? {
            Some(collected) => {
                walker.unreadable = collected.unreadable;
                walker.entries = WalkEntries::Collected(collected.entries.into_iter());
            }
            None => walker.sensitive.store(0, Ordering::Relaxed),
        }
        Ok(walker)
    }

    /// The names that were found where the files are.
    fn placed(
        context: &ToolContext,
        root: &Path,
        mut walk: PlacedWalk,
        types: Option<&Types>,
    ) -> Self {
        let asked = asked_below(context, root);
        if let Some(asked) = &asked {
            let found = walk.entries.len();
            walk.entries.retain(|entry| !asked.covers(&entry.path));
            walk.closed += found - walk.entries.len();
        }
        if let Some(types) = types {
            let is_left = |entry: &WalkedEntry| {
                let is_directory = entry.kind == FileKind::Directory;
                !types.matched(&entry.path, is_directory).is_ignore()
            };
            walk.entries.retain(is_left);
        }
        Self {
            entries: WalkEntries::Placed(walk.entries.into_iter()),
            policy: Arc::clone(&context.policy),
            asked,
            cancel: context.cancel.clone(),
            sensitive: Arc::new(AtomicUsize::new(walk.closed)),
            budget: EntryBudget::default(),
            unreadable: walk.unreadable,
            is_cut: walk.is_cut,
        }
    }

    fn prepare(
        context: &ToolContext,
        root: &Path,
        plan: WalkPlan,
    ) -> anyhow::Result<(Self, WalkBuilder)> {
        let sensitive = Arc::new(AtomicUsize::new(0));
        let policy = Arc::clone(&context.policy);
        let asked = asked_below(context, root);
        let left_out = asked.clone();
        let may_read = move |path: &Path| {
            let asks = left_out.as_ref().is_some_and(|asked| asked.covers(path));
            !asks && policy.door().may_read(path).is_ok()
        };
        let working_dir = context.policy.door().working_dir();
        let hidden = plan.hidden;
        let closed = Arc::clone(&sensitive);
        let mut builder = walk_builder(root, working_dir, hidden, may_read, closed)?;
        builder.max_depth(plan.max_depth);
        if let Some(types) = plan.types {
            builder.types(types);
        }
        let walker = Self {
            entries: WalkEntries::Found(Box::new(builder.build())),
            policy: Arc::clone(&context.policy),
            asked,
            cancel: context.cancel.clone(),
            sensitive,
            budget: EntryBudget::default(),
            unreadable: 0,
            is_cut: false,
        };
        Ok((walker, builder))
    }

    /// The next entry below the root, or none at the end.
    pub(crate) fn next_entry(&mut self) -> anyhow::Result<Option<FoundName>> {
        loop {
            if self.cancel.is_cancelled() {
                return Err(cancelled().into());
            }
            let Some(entry) = self.entries.next() else {
                return Ok(None);
            };
            if !self.budget.spend() {
                self.is_cut = true;
                return Ok(None);
            }
            match entry {
                Ok(entry) => return Ok(Some(entry)),
                Err(error) if error.io_error().is_some_and(is_out_of_descriptors) => {
                    return Err(error.into());
                }
                Err(_) => self.unreadable += 1,
            }
        }
    }

    /// Whether a file may be shown. One that may not is counted.
    pub(crate) fn admits(&self, path: &Path) -> bool {
        let asks = self.asked.as_ref().is_some_and(|it| it.covers(path));
        let admitted = !asks && self.policy.door().may_read(path).is_ok();
        if !admitted {
            self.sensitive.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Files and directories left out because of the policy.
    pub(crate) fn sensitive(&self) -> usize {
        self.sensitive.load(Ordering::Relaxed)
    }
}

fn asked_below(context: &ToolContext, root: &Path) -> Option<Arc<AskedBelow>> {
    let asked = context.policy.permissions()?.asked_below(root)?;
    Some(Arc::new(asked))
}

/// A path of a walk without the root in front of it.
pub(crate) fn below<'p>(root: &Path, path: &'p Path) -> &'p Path {
    // Those of a walk begin with the root as it is spelled, so that they need
    // not be taken apart.
    let rest = path
        .as_os_str()
        .as_bytes()
        .strip_prefix(root.as_os_str().as_bytes());
    match rest.and_then(|rest| rest.strip_prefix(b"/")) {
        Some(rest) => Path::new(OsStr::from_bytes(rest)),
        None => path.strip_prefix(root).unwrap_or(path),
    }
}

/// How many more entries a walk may visit.
struct EntryBudget(usize);

impl Default for EntryBudget {
    fn default() -> Self {
        Self(WALK_ENTRIES)
    }
}

impl EntryBudget {
    fn spend(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_from_the_root_of_its_walk() {
        for (root, path, expected) in [
            ("/a", "/a/b/c", "b/c"),
            ("/", "/b/c", "b/c"),
            ("/a", "/ab/c", "/ab/c"),
            ("/a/", "/a/b", "b"),
        ] {
            assert_eq!(below(Path::new(root), Path::new(path)), Path::new(expected));
        }
    }

    #[test]
    fn a_walk_visits_its_budget_and_no_more() {
        let mut budget = EntryBudget::default();
        assert!((0..WALK_ENTRIES).all(|_| budget.spend()));
        assert!(!budget.spend());
        assert!(!budget.spend());
    }
}
