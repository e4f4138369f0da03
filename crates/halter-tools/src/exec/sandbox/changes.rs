//! What commands change of what the kernel does not keep from them.

use super::note;
use super::repositories::{RepositoriesBelow, protected_in};
use super::watch::ProtectedPaths;
use halter_exec::ContainmentRung;
use halter_policy::SandboxBounds;
use halter_policy::limits::SANDBOX_REPOSITORIES;
use std::path::{Path, PathBuf};

/// What the kernel does not keep from commands, and what of it they change.
#[derive(Debug)]
pub(super) struct WatchedPaths {
    protected: ProtectedPaths,
    pub(super) repositories: RepositoriesBelow,
    /// Files that commands should not make, but can.
    absent: Vec<PathBuf>,
    /// Repositories that may still be protected.
    repositories_left: usize,
    /// Whether all that may be searched for new ones is.
    all_searched: bool,
}

/// What a command changed of that.
#[derive(Debug, Default)]
pub(super) struct WatchedChanges {
    /// Protected paths, those of repositories included that were made earlier.
    pub(super) changed: Vec<PathBuf>,
    /// The `.git` of new repositories.
    pub(super) made: Vec<PathBuf>,
    /// Those of them that stay open.
    pub(super) left_open: Vec<PathBuf>,
    /// What is to be protected now.
    pub(super) to_protect: Vec<PathBuf>,
    /// Whether there is more now than is searched for new repositories.
    pub(super) outgrown: bool,
}

impl WatchedPaths {
    /// Also what the kernel protects: somebody outside may have taken that
    /// away.
    pub(super) fn look(bounds: &SandboxBounds) -> Self {
        let repositories = RepositoriesBelow::look(&bounds.writable);
        let mut protected = protected_in(repositories.known());
        protected.retain(|path| !bounds.protected.contains(path));
        protected.extend(bounds.protected.iter().chain(&bounds.watched).cloned());
        Self {
            protected: ProtectedPaths::look(protected),
            all_searched: repositories.is_complete(),
            repositories,
            absent: bounds.watched.clone(),
            repositories_left: SANDBOX_REPOSITORIES,
        }
    }

    pub(super) fn changes(&mut self) -> WatchedChanges {
        let changed = self.protected.changed();
        let made = self.repositories.made();
        let (mut to_protect, absent) = self.absent.drain(..).partition(|path| path.exists());
        self.absent = absent;
        let left_open = made.iter().skip(self.repositories_left).cloned();
        let left_open: Vec<PathBuf> = left_open.collect();
        self.repositories_left = self.repositories_left.saturating_sub(made.len());
        if !made.is_empty() {
            // A submodule or linked work tree is noticed by its own `.git`, and
            // has its settings in that of a repository which was there.
            let new = protected_in(self.repositories.known());
            let new = new.into_iter().filter(|path| !self.protected.has(path));
            let new: Vec<PathBuf> = new.collect();
            let is_left = |path: &Path| left_open.iter().any(|git| path.starts_with(git));
            to_protect.extend(new.iter().filter(|path| !is_left(path)).cloned());
            self.protected.add(new);
        }
        let was_all = std::mem::replace(&mut self.all_searched, self.repositories.is_complete());
        WatchedChanges {
            changed,
            made,
            left_open,
            to_protect,
            outgrown: was_all && !self.all_searched,
        }
    }
}

impl WatchedChanges {
    /// Where nothing can be protected any more.
    pub(super) fn all_left_open(mut self) -> Self {
        self.left_open.clone_from(&self.made);
        self.to_protect.clear();
        self
    }
}

/// Tells what commands of a sandbox that another program made have changed of
/// what the kernel does not keep.
#[derive(Debug)]
pub struct SandboxWatch {
    watched: WatchedPaths,
    /// What the kernel keeps; nothing where it cannot.
    held: Vec<PathBuf>,
    /// Whether more can be protected.
    can_protect: bool,
}

/// What [`SandboxWatch`] has seen.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SeenChanges {
    /// What there is to say about it.
    pub note: Option<String>,
    /// What is to be protected from the next command on.
    pub to_protect: Vec<PathBuf>,
}

impl SandboxWatch {
    /// Looks at what is there before the first command. Blocking.
    #[must_use]
    pub fn look(rung: Option<ContainmentRung>, bounds: &SandboxBounds) -> Self {
        Self {
            watched: WatchedPaths::look(bounds),
            can_protect: rung == Some(ContainmentRung::Namespaces),
            held: match rung {
                Some(ContainmentRung::Namespaces) => bounds.protected.clone(),
                _ => Vec::new(),
            },
        }
    }

    /// What has changed since the last look. Blocking.
    pub fn changes(&mut self) -> SeenChanges {
        let mut changes = self.watched.changes();
        if !self.can_protect {
            changes = changes.all_left_open();
        }
        // What is new where nothing can be made is a placeholder.
        let is_held = |git: &PathBuf| self.held.iter().any(|path| path.starts_with(git));
        changes.left_open.retain(|git| !is_held(git));
        changes.made.retain(|git| !is_held(git));
        changes.changed.retain(|path| !self.held.contains(path));
        let parts = note::of_changes(&changes);
        SeenChanges {
            note: (!parts.is_empty()).then(|| parts.join("; ")),
            to_protect: changes.to_protect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::WATCHED_DEPTH;
    use std::fs::create_dir_all;

    fn watch(root: &Path) -> WatchedPaths {
        WatchedPaths::look(&SandboxBounds {
            writable: vec![root.to_owned()],
            ..SandboxBounds::default()
        })
    }

    #[test]
    fn so_many_repositories_that_commands_make_are_to_be_protected() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let mut watched = watch(root);
        for number in 0..SANDBOX_REPOSITORIES {
            create_dir_all(root.join(format!("{number}/.git"))).unwrap();
        }
        let changes = watched.changes();
        assert!(changes.left_open.is_empty());
        assert!(changes.to_protect.contains(&root.join("7/.git/hooks")));
        create_dir_all(root.join("more/.git")).unwrap();
        let changes = watched.changes();
        assert_eq!(changes.left_open, [root.join("more/.git")]);
        assert!(changes.to_protect.is_empty());
    }

    #[test]
    fn a_workspace_that_outgrows_the_search_is_told_of_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let mut watched = watch(root);
        let told = |changes: &WatchedChanges| note::of_changes(changes).join("; ");
        assert_eq!(told(&watched.changes()), "");
        let mut deep = root.to_owned();
        deep.extend(["d"; WATCHED_DEPTH + 1]);
        create_dir_all(deep).unwrap();
        let said = told(&watched.changes());
        assert!(said.contains("may go unnoticed"), "{said}");
        create_dir_all(root.join("more")).unwrap();
        assert_eq!(told(&watched.changes()), "");
        // One that is so from the start has it in its status.
        assert_eq!(told(&watch(root).changes()), "");
    }

    #[test]
    fn a_new_submodule_has_its_settings_in_a_repository_that_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        create_dir_all(root.join(".git/modules")).unwrap();
        let mut watched = watch(root);
        let module = root.join(".git/modules/lib");
        create_dir_all(&module).unwrap();
        std::fs::write(module.join("HEAD"), "").unwrap();
        create_dir_all(root.join("lib")).unwrap();
        std::fs::write(root.join("lib/.git"), "gitdir: ../.git/modules/lib").unwrap();
        let protect = watched.changes().to_protect;
        for new in [root.join("lib/.git"), module.join("hooks")] {
            assert!(protect.contains(&new), "{protect:?}");
        }
        assert!(!protect.contains(&root.join(".git/hooks")));
        assert!(watched.changes().to_protect.is_empty());
    }
}
