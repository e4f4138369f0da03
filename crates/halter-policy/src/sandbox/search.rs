//! What a sandbox has to know about, found below directories: sensitive files,
//! repositories, sockets.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{SANDBOX_REPOSITORIES, SandboxMode};
use crate::door::FileDoor;
use crate::limits::{
    SANDBOX_HOME_ENTRIES, SANDBOX_REQUIRED_WALK_ENTRIES, SANDBOX_WALK_DEPTH, SANDBOX_WALK_ENTRIES,
};

/// Directories that are not searched: large, and made by tools.
const NOT_SEARCHED: &[&str] = &[".git", "node_modules", "target", ".venv"];

/// Whether a directory of this name is searched for sensitive files and
/// repositories.
#[must_use]
pub fn is_searched_by_sandbox(name: &OsStr) -> bool {
    NOT_SEARCHED.iter().all(|it| name != *it)
}

/// How many entries of a workspace are searched: where all that is asked for
/// must hold, a longer wait is better than no command.
#[must_use]
pub fn searched_entries(mode: SandboxMode) -> usize {
    match mode {
        SandboxMode::Require => SANDBOX_REQUIRED_WALK_ENTRIES,
        SandboxMode::Off | SandboxMode::Prefer => SANDBOX_WALK_ENTRIES,
    }
}

/// What is found below directories.
#[derive(Default)]
pub(super) struct FoundBelow {
    /// Files that no command may read.
    pub(super) hidden: Vec<PathBuf>,
    /// Below the home directory only.
    pub(super) sockets: Vec<PathBuf>,
    /// Where the search ended before it was through.
    pub(super) partly_searched: Vec<PathBuf>,
    /// The `.git` of repositories within, not those of the directories
    /// themselves; for each directory.
    repositories: Vec<Vec<PathBuf>>,
}

impl FoundBelow {
    /// Searches a directory that commands may change.
    pub(super) fn search(&mut self, root: &Path, door: &FileDoor, mode: SandboxMode) {
        let mut within = self.search_within(root, &[], door, searched_entries(mode));
        self.hidden.append(&mut within.hidden);
        within.repositories.retain(|it| *it != root.join(".git"));
        self.repositories.push(within.repositories);
    }

    /// Searches the home directory but for what was searched already.
    pub(super) fn search_home(&mut self, home: &Path, searched: &[PathBuf], door: &FileDoor) {
        let mut within = self.search_within(home, searched, door, SANDBOX_HOME_ENTRIES);
        self.hidden.append(&mut within.hidden);
        self.sockets.append(&mut within.sockets);
    }

    /// The repositories that are protected, and how many more there are.
    pub(super) fn repositories(&mut self) -> (Vec<PathBuf>, usize) {
        let mut protected = Vec::new();
        let mut more = 0;
        for mut found in std::mem::take(&mut self.repositories) {
            more += found.len().saturating_sub(SANDBOX_REPOSITORIES);
            found.truncate(SANDBOX_REPOSITORIES);
            protected.append(&mut found);
        }
        (protected, more)
    }

    /// What is near is looked at first, so that what is left out lies deep.
    fn search_within(
        &mut self,
        root: &Path,
        searched: &[PathBuf],
        door: &FileDoor,
        most: usize,
    ) -> FoundWithin {
        let mut found = FoundWithin::default();
        let mut waiting = VecDeque::from([(root.to_owned(), 0)]);
        let mut left = most;
        while let Some((directory, depth)) = waiting.pop_front() {
            let Ok(entries) = std::fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                let Some(rest) = left.checked_sub(1) else {
                    self.partly_searched.push(root.to_owned());
                    return found;
                };
                left = rest;
                let (name, path) = (entry.file_name(), entry.path());
                let kind = entry.file_type();
                if name == ".git" {
                    found.repositories.push(path.clone());
                }
                if kind.as_ref().is_ok_and(std::fs::FileType::is_socket) {
                    found.sockets.push(path.clone());
                }
                if door.is_closed(&path) {
                    found.hidden.push(path);
                } else if kind.is_ok_and(|kind| kind.is_dir())
                    && is_searched_by_sandbox(&name)
                    && !searched.contains(&path)
                {
                    if depth == SANDBOX_WALK_DEPTH {
                        self.partly_searched.push(path);
                    } else {
                        waiting.push_back((path, depth + 1));
                    }
                }
            }
        }
        found
    }
}

/// What is found below one of them.
#[derive(Default)]
struct FoundWithin {
    hidden: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
    repositories: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{StandardPolicy, ToolPolicy};
    use crate::settings::{PolicySettings, SessionScope};
    use std::fs;

    fn policy(root: &Path) -> StandardPolicy {
        let scope = SessionScope {
            working_dir: root.to_owned(),
            ..SessionScope::default()
        };
        StandardPolicy::bind(PolicySettings::default(), scope).unwrap()
    }

    #[test]
    fn sensitive_files_are_found_as_deep_as_the_limit_says() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let mut deep = root.clone();
        for _ in 0..SANDBOX_WALK_DEPTH {
            deep.push("d");
        }
        fs::create_dir_all(deep.join("d")).unwrap();
        fs::write(deep.join(".env"), "").unwrap();
        fs::write(deep.join("d/.env"), "").unwrap();
        let mut found = FoundBelow::default();
        found.search(&root, policy(&root).door(), SandboxMode::Prefer);
        assert_eq!(found.hidden, [deep.join(".env")]);
        assert_eq!(found.partly_searched, [deep.join("d")]);
    }

    #[test]
    fn a_search_that_ends_early_says_so_and_has_found_what_is_near() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("far")).unwrap();
        fs::write(root.join("far/.env"), "").unwrap();
        fs::write(root.join(".env"), "").unwrap();
        let policy = policy(&root);
        for (most, names, complete) in [
            (2, &[".env"][..], false),
            (3, &[".env", "far/.env"][..], true),
        ] {
            let mut found = FoundBelow::default();
            let within = found.search_within(&root, &[], policy.door(), most);
            let expected: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
            assert_eq!(within.hidden, expected);
            assert_eq!(found.partly_searched.is_empty(), complete);
        }
    }

    #[test]
    fn so_many_entries_are_searched_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let policy = policy(&root);
        let mut made = 0;
        let mut fill = |count: usize| {
            for number in made..count {
                fs::write(root.join(number.to_string()), "").unwrap();
            }
            made = count;
        };
        let home = || {
            let mut found = FoundBelow::default();
            found.search_home(&root, &[], policy.door());
            found.partly_searched
        };
        let below = |mode| {
            let mut found = FoundBelow::default();
            found.search(&root, policy.door(), mode);
            found.partly_searched
        };
        fill(SANDBOX_HOME_ENTRIES);
        assert!(home().is_empty());
        fill(SANDBOX_HOME_ENTRIES + 1);
        assert_eq!(home(), std::slice::from_ref(&root));
        fill(SANDBOX_WALK_ENTRIES);
        assert!(below(SandboxMode::Prefer).is_empty());
        fill(SANDBOX_WALK_ENTRIES + 1);
        assert_eq!(below(SandboxMode::Prefer), std::slice::from_ref(&root));
        // One that has to hold is worth more time.
        let required = searched_entries(SandboxMode::Require);
        assert_eq!(required, SANDBOX_REQUIRED_WALK_ENTRIES);
        assert!(below(SandboxMode::Require).is_empty());
    }

    #[test]
    fn other_projects_and_sockets_of_the_home_directory_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        for name in ["work", "other/project", ".docker/desktop"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        fs::write(home.join("other/project/.env"), "").unwrap();
        fs::write(home.join("work/.env"), "").unwrap();
        let socket = home.join(".docker/desktop/docker.sock");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let mut found = FoundBelow::default();
        let work = home.join("work");
        found.search_home(&home, std::slice::from_ref(&work), policy(&work).door());
        assert_eq!(found.hidden, [home.join("other/project/.env")]);
        assert_eq!(found.sockets, [socket]);
    }
}
