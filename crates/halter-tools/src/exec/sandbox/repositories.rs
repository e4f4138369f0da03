//! Repositories that commands make below the directories they may change.
//!
//! A sandbox protects what is there when it is made. To make a repository
//! changes the directory it is in, so it is enough to look again at the
//! directories that have changed.

use crate::limits::{WATCHED_DEPTH, WATCHED_DIRECTORIES};
use halter_policy::limits::SANDBOX_WALK_ENTRIES;
use halter_policy::{is_searched_by_sandbox, protected_in_repository};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The times of a file system tell no shorter ones apart. What has just changed
/// is looked at once more.
const TIME_STEP: Duration = Duration::from_millis(20);

/// Which directory it is and when it was last changed; absent: look again.
type Mark = Option<(u64, i64, i64)>;

#[derive(Debug)]
struct Directory {
    /// How many more directories below it are searched.
    depth: usize,
    mark: Mark,
}

/// The directories in which a repository would be noticed.
#[derive(Debug, Default)]
pub(super) struct RepositoriesBelow {
    directories: BTreeMap<PathBuf, Directory>,
    /// The `.git` of those that are known.
    known: BTreeSet<PathBuf>,
    is_complete: bool,
}

impl RepositoriesBelow {
    /// Looks at all that is below these directories.
    pub(super) fn look(roots: &[PathBuf]) -> Self {
        let mut below = Self {
            is_complete: true,
            ..Self::default()
        };
        let mut left = SANDBOX_WALK_ENTRIES;
        // The git directory of a linked work tree is one of them.
        let is_searched = |root: &&PathBuf| root.file_name().is_none_or(is_searched_by_sandbox);
        for root in roots.iter().filter(is_searched) {
            below.enter(root, WATCHED_DEPTH, &mut left);
        }
        below
    }

    /// The `.git` of all that are known.
    pub(super) fn known(&self) -> impl Iterator<Item = &PathBuf> {
        self.known.iter()
    }

    /// Whether there were not too many directories, or too deep ones, to watch
    /// them all.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The `.git` of repositories that have been made since the last look.
    pub(super) fn made(&mut self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        let mut gone = Vec::new();
        for (path, directory) in &mut self.directories {
            match mark(path) {
                None => gone.push(path.clone()),
                Some(now) if now != directory.mark || now.is_none() => {
                    directory.mark = now;
                    changed.push((path.clone(), directory.depth));
                }
                Some(_) => {}
            }
        }
        for path in gone {
            self.directories.remove(&path);
        }
        let before = self.known.clone();
        let mut left = SANDBOX_WALK_ENTRIES;
        for (path, depth) in changed {
            self.read(&path, depth, &mut left);
        }
        self.known.difference(&before).cloned().collect()
    }

    /// Watches a directory and all below it.
    fn enter(&mut self, path: &Path, depth: usize, left: &mut usize) {
        if self.directories.len() >= WATCHED_DIRECTORIES {
            self.is_complete = false;
            return;
        }
        // Before it is read: what comes later makes a difference.
        let Some(mark) = mark(path) else {
            return;
        };
        let directory = Directory { depth, mark };
        self.directories.insert(path.to_owned(), directory);
        self.read(path, depth, left);
    }

    /// Reads the names of a directory.
    fn read(&mut self, path: &Path, depth: usize, left: &mut usize) {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else {
                self.is_complete = false;
                return;
            };
            *left = rest;
            let name = entry.file_name();
            let path = entry.path();
            if name == ".git" {
                self.known.insert(path);
                continue;
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory
                && is_searched_by_sandbox(&name)
                && !self.directories.contains_key(&path)
            {
                match depth.checked_sub(1) {
                    Some(depth) => self.enter(&path, depth, left),
                    None => self.is_complete = false,
                }
            }
        }
    }
}

/// What is protected of these repositories.
pub(super) fn protected_in<'a>(
    repositories: impl IntoIterator<Item = &'a PathBuf>,
) -> Vec<PathBuf> {
    let repositories = repositories.into_iter();
    repositories
        .flat_map(|it| protected_in_repository(it))
        .collect()
}

/// Absent if there is no such directory.
fn mark(path: &Path) -> Option<Mark> {
    let found = path.symlink_metadata().ok().filter(|it| it.is_dir())?;
    let changed = Duration::new(
        u64::try_from(found.ctime()).unwrap_or_default(),
        u32::try_from(found.ctime_nsec()).unwrap_or_default(),
    );
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed);
    let is_settled = age.is_ok_and(|age| age > TIME_STEP);
    Some(is_settled.then(|| (found.ino(), found.ctime(), found.ctime_nsec())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_repository_is_noticed_once_wherever_it_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("old/.git/hooks")).unwrap();
        fs::create_dir_all(root.join("sources/deep")).unwrap();
        let mut below = RepositoriesBelow::look(&[root.to_owned()]);
        assert!(below.is_complete());
        assert_eq!(below.known().collect::<Vec<_>>(), [&root.join("old/.git")]);
        assert!(below.made().is_empty());
        // In one that was there, in one that is new, and in one that was moved.
        fs::create_dir(root.join("sources/deep/.git")).unwrap();
        fs::create_dir_all(root.join("new/er/.git")).unwrap();
        let mut expected = vec![root.join("new/er/.git"), root.join("sources/deep/.git")];
        assert_eq!(below.made(), expected);
        assert!(below.made().is_empty());
        fs::rename(root.join("new"), root.join("sources/moved")).unwrap();
        fs::write(root.join(".git"), "gitdir: old/.git").unwrap();
        expected = vec![root.join(".git"), root.join("sources/moved/er/.git")];
        assert_eq!(below.made(), expected);
        // What tools fill is not searched.
        fs::create_dir_all(root.join("node_modules/x/.git")).unwrap();
        assert!(below.made().is_empty());
    }

    #[test]
    fn so_many_directories_are_watched_and_a_repository_costs_none() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        // The root is one of them.
        for number in 1..WATCHED_DIRECTORIES {
            fs::create_dir(root.join(number.to_string())).unwrap();
        }
        let mut below = RepositoriesBelow::look(&[root.to_owned()]);
        assert!(below.is_complete());
        fs::create_dir(root.join("7/.git")).unwrap();
        assert_eq!(below.made(), [root.join("7/.git")]);
        assert!(below.is_complete());
        fs::create_dir(root.join("more")).unwrap();
        assert!(below.made().is_empty());
        assert!(!below.is_complete());
    }

    #[test]
    fn repositories_are_noticed_as_deep_as_the_limit_says() {
        let directory = tempfile::tempdir().unwrap();
        let mut deep = directory.path().to_owned();
        deep.extend(["d"; WATCHED_DEPTH]);
        fs::create_dir_all(deep.join(".git")).unwrap();
        let roots = [directory.path().to_owned()];
        let below = RepositoriesBelow::look(&roots);
        assert_eq!(below.known().collect::<Vec<_>>(), [&deep.join(".git")]);
        assert!(below.is_complete());
        fs::create_dir(deep.join("d")).unwrap();
        assert!(!RepositoriesBelow::look(&roots).is_complete());
    }
}
