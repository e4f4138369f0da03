//! How directories are walked for searches: ignore files honoured, hidden names
//! skipped unless asked for, links not followed, what the policy would refuse
//! left out and counted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use ignore::{DirEntry, WalkBuilder};

use crate::error::PolicyError;

/// Alternatives of a pattern that are looked at for hidden names.
const ALTERNATIVES: usize = 64;

/// A walk of a directory that a door has resolved, in the order of names. What
/// may not be read is counted in `closed`.
///
/// # Errors
/// One of its ignore files could block the walk.
pub fn walk_builder(
    root: &Path,
    working_dir: &Path,
    hidden: HiddenNames,
    may_read: impl Fn(&Path) -> bool + Send + Sync + 'static,
    closed: Arc<AtomicUsize>,
) -> Result<WalkBuilder, PolicyError> {
    if !has_plain_ignore_files(root) {
        return Err(PolicyError::InvalidPath {
            path: root.to_path_buf(),
            reason: "one of its ignore files is not a regular file; remove it",
        });
    }
    let rules = IgnoreRules::for_search(root, working_dir);
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .git_global(false)
        .require_git(rules == IgnoreRules::Repository)
        .parents(rules != IgnoreRules::SearchedDirectory)
        .follow_links(false)
        .sort_by_file_name(OsStr::cmp)
        .filter_entry(directory_filter(may_read, hidden, closed));
    Ok(builder)
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
    may_read: impl Fn(&Path) -> bool + Send + Sync + 'static,
    hidden: HiddenNames,
    closed: Arc<AtomicUsize>,
) -> impl Fn(&DirEntry) -> bool + Send + Sync + 'static {
    move |entry| {
        if entry.depth() == 0 {
            return true;
        }
        if !hidden.admits(entry.file_name()) {
            return false;
        }
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_open = || may_read(entry.path()) && has_plain_ignore_files(entry.path());
        if is_directory && !is_open() {
            closed.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }
}

/// Which names that start with a dot a pattern asks for. As in a shell, a
/// wildcard does not match them; a component that starts with a dot does.
#[derive(Debug, Default)]
pub struct HiddenNames {
    pattern: String,
    names: Option<GlobSet>,
}

impl HiddenNames {
    /// The hidden names that a glob pattern mentions.
    #[must_use]
    pub fn named_in(pattern: &str) -> Self {
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
        Self {
            pattern: pattern.to_owned(),
            names: names.build().ok().filter(|_| !is_empty),
        }
    }

    /// The pattern that mentions them.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    fn admits(&self, name: &OsStr) -> bool {
        !name.as_bytes().starts_with(b".")
            || self
                .names
                .as_ref()
                .is_some_and(|names| names.is_match(name))
    }
}

/// A glob in which `*` stays inside a directory and `**` does not.
///
/// # Errors
/// If it is no pattern.
pub fn path_glob(pattern: &str) -> Result<GlobMatcher, globset::Error> {
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
    fn stars_know_directories() {
        let rust = path_glob("src/*.rs").unwrap();
        assert!(rust.is_match("src/lib.rs"));
        assert!(!rust.is_match("src/a/b.rs"));
        assert!(path_glob("**/*.rs").unwrap().is_match("lib.rs"));
        assert!(path_glob("src/**/*.rs").unwrap().is_match("src/a/b/c.rs"));
    }
}
