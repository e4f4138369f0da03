//! What git runs programs from, in the directories that it keeps.

use std::path::{Path, PathBuf};

use crate::limits::SANDBOX_GIT_DIRECTORIES;

/// Git runs what these name. `commondir` says in which directory the others
/// are.
const PROTECTED: &[&str] = &["hooks", "config", "config.worktree", "commondir"];

/// Of those, what the directory of a linked work tree may have.
const PROTECTED_OF_WORK_TREE: &[&str] = &["config.worktree", "commondir"];

/// Directories between `modules` and the directory of a submodule, whose name
/// may have slashes.
const MODULE_NAME_DEPTH: usize = 4;

/// What is protected of the repository with this `.git`: also of its
/// submodules and of its linked work trees. A file in its place says where it
/// is.
#[must_use]
pub fn protected_in_repository(git: &Path) -> Vec<PathBuf> {
    if !git.is_dir() {
        return vec![git.to_owned()];
    }
    let mut left = SANDBOX_GIT_DIRECTORIES;
    let mut protected = Vec::new();
    in_directory(git, &mut left, &mut protected);
    protected
}

/// What would be protected of a repository that is not there.
pub(super) fn protected_names(git: &Path) -> impl Iterator<Item = PathBuf> {
    PROTECTED.iter().map(|name| git.join(name))
}

/// Directories that hold more than is left to look at are protected whole.
fn in_directory(git: &Path, left: &mut usize, protected: &mut Vec<PathBuf>) {
    protected.extend(protected_names(git));
    let trees = git.join("worktrees");
    for tree in directories_in(&trees) {
        let Some(rest) = left.checked_sub(1) else {
            protected.push(trees.clone());
            break;
        };
        *left = rest;
        protected.extend(PROTECTED_OF_WORK_TREE.iter().map(|name| tree.join(name)));
    }
    in_modules(&git.join("modules"), MODULE_NAME_DEPTH, left, protected);
}

fn in_modules(modules: &Path, depth: usize, left: &mut usize, protected: &mut Vec<PathBuf>) {
    for module in directories_in(modules) {
        let Some(rest) = left.checked_sub(1) else {
            protected.push(modules.to_owned());
            return;
        };
        *left = rest;
        if module.join("HEAD").exists() {
            in_directory(&module, left, protected);
        } else if depth > 0 {
            in_modules(&module, depth - 1, left, protected);
        }
    }
}

fn directories_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|it| it.path())
}

/// The directory that a linked work tree shares with others of its repository,
/// where commits go. Only one that names this work tree as its own: what stands
/// in the work tree may be by somebody else.
pub(super) fn shared_directory(work_tree: &Path) -> Option<PathBuf> {
    let link = work_tree.join(".git");
    let text = std::fs::read_to_string(&link).ok()?;
    let own = text.strip_prefix("gitdir:")?.trim();
    let own = work_tree.join(own).canonicalize().ok()?;
    let named = |file: &str| {
        let text = std::fs::read_to_string(own.join(file)).ok()?;
        own.join(text.trim_end()).canonicalize().ok()
    };
    let shared = named("commondir")?;
    let is_its_own = named("gitdir")? == link.canonicalize().ok()?;
    let is_listed = own.parent() == Some(&shared.join("worktrees"));
    (is_its_own && is_listed).then_some(shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn submodules_and_linked_work_trees_are_protected_like_the_repository() {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join(".git");
        for name in ["modules/a/modules/b", "modules/lib/c", "worktrees/w"] {
            fs::create_dir_all(git.join(name)).unwrap();
        }
        for name in ["modules/a", "modules/a/modules/b", "modules/lib/c"] {
            fs::write(git.join(name).join("HEAD"), "").unwrap();
        }
        let protected = protected_in_repository(&git);
        for name in [
            "hooks",
            "config",
            "config.worktree",
            "commondir",
            "modules/a/commondir",
            "modules/a/modules/b/hooks",
            "modules/lib/c/config",
            "worktrees/w/commondir",
            "worktrees/w/config.worktree",
        ] {
            assert!(protected.contains(&git.join(name)), "{name}");
        }
        assert!(!protected.contains(&git.join("modules/lib/config")));
        let file = directory.path().join("file");
        fs::write(&file, "gitdir: x").unwrap();
        assert_eq!(protected_in_repository(&file), [file]);
    }

    #[test]
    fn directories_that_hold_too_many_are_protected_whole() {
        for kind in ["worktrees", "modules"] {
            let directory = tempfile::tempdir().unwrap();
            let git = directory.path().join(".git");
            for number in 0..SANDBOX_GIT_DIRECTORIES {
                let one = git.join(kind).join(number.to_string());
                fs::create_dir_all(&one).unwrap();
                fs::write(one.join("HEAD"), "").unwrap();
            }
            let whole = git.join(kind);
            assert!(!protected_in_repository(&git).contains(&whole), "{kind}");
            fs::create_dir(whole.join("more")).unwrap();
            assert!(protected_in_repository(&git).contains(&whole), "{kind}");
        }
    }

    #[test]
    fn a_work_tree_is_one_of_a_repository_only_if_that_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let own = root.join("main/.git/worktrees/w");
        fs::create_dir_all(&own).unwrap();
        for name in ["tree", "forged"] {
            fs::create_dir(root.join(name)).unwrap();
            let link = format!("gitdir: {}\n", own.display());
            fs::write(root.join(name).join(".git"), link).unwrap();
        }
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let back = format!("{}\n", root.join("tree/.git").display());
        fs::write(own.join("gitdir"), back).unwrap();
        let shared = root.join("main/.git");
        assert_eq!(shared_directory(&root.join("tree")), Some(shared));
        assert_eq!(shared_directory(&root.join("forged")), None);
        assert_eq!(shared_directory(&root.join("main")), None);
        // Elsewhere it could name any directory.
        fs::write(own.join("commondir"), "../../..\n").unwrap();
        assert_eq!(shared_directory(&root.join("tree")), None);
    }
}
