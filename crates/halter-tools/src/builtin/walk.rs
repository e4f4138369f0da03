//! Walking directories for `glob` and `grep`: ignore files honoured, hidden
//! names skipped unless asked for, links not followed, everything the policy
//! would refuse left out and counted.

#[cfg(any(feature = "advanced-tools", test))]
mod parallel;

use crate::context::{ToolContext, cancelled};
use crate::limits::WALK_ENTRIES;
use anyhow::bail;
use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use halter_policy::{ToolPolicy, is_out_of_descriptors};
use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Alternatives of a pattern that are looked at for hidden names.
const ALTERNATIVES: usize = 64;

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
    cancel: CancellationToken,
    sensitive: Arc<AtomicUsize>,
    budget: EntryBudget,
    pub(crate) unreadable: usize,
    /// The walk stopped at [`WALK_ENTRIES`].
    pub(crate) is_cut: bool,
}

enum WalkEntries {
    /// Found one after the other, as they are asked for.
    Found(Box<ignore::Walk>),
    /// Found by several threads before, and put in order.
    #[cfg(any(feature = "advanced-tools", test))]
    Collected(std::vec::IntoIter<DirEntry>),
}

impl WalkEntries {
    fn next(&mut self) -> Option<Result<DirEntry, ignore::Error>> {
        match self {
            Self::Found(walk) => walk.next(),
            #[cfg(any(feature = "advanced-tools", test))]
            Self::Collected(entries) => entries.next().map(Ok),
        }
    }
}

impl Walker {
    /// The walk of `glob` and `grep`: by several threads where
    /// `advanced-tools` is compiled.
    pub(crate) fn new(context: &ToolContext, root: &Path, plan: WalkPlan) -> anyhow::Result<Self> {
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

    fn prepare(
        context: &ToolContext,
        root: &Path,
        plan: WalkPlan,
    ) -> anyhow::Result<(Self, WalkBuilder)> {
        if !has_plain_ignore_files(root) {
            bail!(
                "cannot search '{}': one of its ignore files is not a regular file; remove it",
                root.display()
            );
        }
        let sensitive = Arc::new(AtomicUsize::new(0));
        let rules = IgnoreRules::for_search(root, context.policy.door().working_dir());
        let mut builder = WalkBuilder::new(root);
        builder
            .hidden(false)
            .git_global(false)
            .require_git(rules == IgnoreRules::Repository)
            .parents(rules != IgnoreRules::SearchedDirectory)
            .follow_links(false)
            .max_depth(plan.max_depth)
            .sort_by_file_name(OsStr::cmp)
            .filter_entry(directory_filter(
                Arc::clone(&context.policy),
                plan.hidden,
                Arc::clone(&sensitive),
            ));
        if let Some(types) = plan.types {
            builder.types(types);
        }
        let walker = Self {
            entries: WalkEntries::Found(Box::new(builder.build())),
            policy: Arc::clone(&context.policy),
            cancel: context.cancel.clone(),
            sensitive,
            budget: EntryBudget::default(),
            unreadable: 0,
            is_cut: false,
        };
        Ok((walker, builder))
    }

    /// The next entry below the root, or none at the end.
    pub(crate) fn next_entry(&mut self) -> anyhow::Result<Option<DirEntry>> {
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
                Ok(entry) if entry.depth() == 0 => {}
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
        let admitted = self.policy.door().may_read(path).is_ok();
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

/// Whose ignore files above a searched directory apply to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IgnoreRules {
    /// The git repository's that it belongs to.
    Repository,
    /// The session's: all above it.
    Session,
    /// Its own only: some above the session's directory have nothing to do
    /// with it.
    SearchedDirectory,
}

impl IgnoreRules {
    fn for_search(root: &Path, working_dir: &Path) -> Self {
        let mut unrelated = false;
        for directory in root.ancestors() {
            if directory.join(".git").exists() {
                return Self::Repository;
            }
            if !directory.starts_with(working_dir) {
                unrelated |= [".gitignore", ".ignore"]
                    .iter()
                    .any(|name| directory != root && directory.join(name).exists());
            }
        }
        match unrelated {
            true => Self::SearchedDirectory,
            false => Self::Session,
        }
    }
}

/// Whether the ignore files of a directory can be read without waiting: a FIFO
/// in their place would block the walk.
fn has_plain_ignore_files(directory: &Path) -> bool {
    [".gitignore", ".ignore", ".git/info/exclude"]
        .iter()
        .filter_map(|name| std::fs::metadata(directory.join(name)).ok())
        .all(|found| found.is_file() || found.is_dir())
}

/// Leaves out hidden names, and directories nothing may be read in.
fn directory_filter(
    policy: Arc<dyn ToolPolicy>,
    hidden: HiddenNames,
    sensitive: Arc<AtomicUsize>,
) -> impl Fn(&DirEntry) -> bool + Send + Sync + 'static {
    move |entry| {
        if entry.depth() == 0 {
            return true;
        }
        if !hidden.admits(entry.file_name()) {
            return false;
        }
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_open =
            || policy.door().may_read(entry.path()).is_ok() && has_plain_ignore_files(entry.path());
        if is_directory && !is_open() {
            sensitive.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Which names that start with a dot a pattern asks for. As in a shell, a
/// wildcard does not match them; a component that starts with a dot does.
#[derive(Default)]
pub(crate) struct HiddenNames(Option<GlobSet>);

impl HiddenNames {
    /// The hidden names that a glob pattern mentions.
    pub(crate) fn named_in(pattern: &str) -> Self {
        let mut names = GlobSetBuilder::new();
        let mut is_empty = true;
        for alternative in alternatives(pattern) {
            for component in alternative.split('/') {
                if component.starts_with('.')
                    && component != ".."
                    && let Ok(name) = path_glob(component)
                {
                    names.add(name.glob().clone());
                    is_empty = false;
                }
            }
        }
        Self(names.build().ok().filter(|_| !is_empty))
    }

    fn admits(&self, name: &OsStr) -> bool {
        !name.as_bytes().starts_with(b".")
            || self.0.as_ref().is_some_and(|names| names.is_match(name))
    }
}

/// A glob in which `*` stays inside a directory and `**` does not.
pub(crate) fn path_glob(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()?
        .compile_matcher())
}

/// A pattern with its outermost braces written out, as far as they are few.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_owned()];
    while let Some(next) = open.pop() {
        match first_braces(&next) {
            Some((before, choices, after)) if done.len() + open.len() < ALTERNATIVES => {
                open.extend(
                    choices
                        .into_iter()
                        .map(|choice| format!("{before}{choice}{after}")),
                );
            }
            _ => done.push(next),
        }
    }
    done
}

/// The text before the first braces, what they offer, and the text after.
fn first_braces(pattern: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (before, rest) = pattern.split_once('{')?;
    let mut depth = 0usize;
    let mut start = 0;
    let mut choices = Vec::new();
    for (at, character) in rest.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                choices.push(rest.get(start..at)?);
                start = at + 1;
            }
            '}' => {
                choices.push(rest.get(start..at)?);
                return Some((before, choices, rest.get(at + 1..)?));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(pattern: &str, name: &str) -> bool {
        HiddenNames::named_in(pattern).admits(OsStr::new(name))
    }

    #[test]
    fn hidden_names_must_be_named() {
        for (pattern, name, expected) in [
            ("**/*", ".git", false),
            ("**/*", "src", true),
            (".github/**", ".github", true),
            (".github/**", ".git", false),
            ("**/.*", ".eslintrc", true),
            ("{.github,src}/**/*.yml", ".github", true),
            ("a/{b,{.c,d}}/x", ".c", true),
            ("{a/.b,c}/x", ".b", true),
            ("./src/*", ".hidden", false),
            ("{unclosed", ".x", false),
        ] {
            assert_eq!(admits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_braces_do_not_explode() {
        let pattern = "{a,b}".repeat(40);
        assert!(alternatives(&pattern).len() <= ALTERNATIVES + 1);
    }

    #[test]
    fn a_walk_visits_its_budget_and_no_more() {
        let mut budget = EntryBudget::default();
        assert!((0..WALK_ENTRIES).all(|_| budget.spend()));
        assert!(!budget.spend());
        assert!(!budget.spend());
    }

    #[test]
    fn stars_know_directories() {
        let rust = path_glob("src/*.rs").unwrap();
        assert!(rust.is_match("src/lib.rs"));
        assert!(!rust.is_match("src/a/b.rs"));
        assert!(path_glob("**/*.rs").unwrap().is_match("lib.rs"));
        assert!(path_glob("src/**/*.rs").unwrap().is_match("src/a/b/c.rs"));
    }
}
