//! Whether protected paths have changed, whether the kernel is to prevent it or
//! cannot.

use crate::limits::PROTECTED_ENTRIES;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a path from another: which file it is, its size, and
/// when it and its names were changed; of a directory also that of all within.
type Mark = Option<u64>;

/// Protected paths and what they were when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct ProtectedPaths(Vec<(PathBuf, Mark)>);

impl ProtectedPaths {
    pub(super) fn look(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watched = Self::default();
        watched.add(paths);
        watched
    }

    /// Watches more paths, which count as they are now.
    pub(super) fn add(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let marked = paths.into_iter().map(|path| (path.clone(), mark(&path)));
        self.0.extend(marked);
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.iter().any(|(watched, _)| watched == path)
    }

    /// Those that have changed since the last look.
    pub(super) fn changed(&mut self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for (path, seen) in &mut self.0 {
            let now = mark(path);
            if now != *seen {
                *seen = now;
                changed.push(path.clone());
            }
        }
        changed
    }
}

fn mark(path: &Path) -> Mark {
    let mut left = PROTECTED_ENTRIES;
    mark_within(path, &mut left)
}

/// A directory says by its own times which names it has, not what became of
/// the files behind them.
fn mark_within(path: &Path, left: &mut usize) -> Mark {
    let found = path.symlink_metadata().ok()?;
    // Sandboxes of this workspace come and go.
    if halter_exec::is_placeholder(path) {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    (found.ino(), found.len(), found.ctime(), found.ctime_nsec()).hash(&mut hasher);
    let mut sum = hasher.finish();
    if found.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else {
                break;
            };
            *left = rest;
            // Entries come in no order.
            sum = sum.wrapping_add(mark_within(&entry.path(), left).unwrap_or_default());
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("there"), "x").unwrap();
        let watched = [path("there"), path("absent"), path("same")];
        let mut watched = ProtectedPaths::look(watched);
        assert!(watched.changed().is_empty());
        std::fs::write(path("there"), "other").unwrap();
        std::fs::write(path("absent"), "").unwrap();
        assert_eq!(watched.changed(), [path("there"), path("absent")]);
        assert!(watched.changed().is_empty());
    }

    #[test]
    fn what_a_sandbox_puts_in_the_place_of_an_absent_path_is_no_change() {
        let directory = tempfile::tempdir().unwrap();
        let editor = directory.path().join(".editor");
        let mut watched = ProtectedPaths::look([editor.clone()]);
        std::fs::create_dir(&editor).unwrap();
        let sticky = std::os::unix::fs::PermissionsExt::from_mode(0o1755);
        std::fs::set_permissions(&editor, sticky).unwrap();
        assert!(watched.changed().is_empty());
        std::fs::write(editor.join("tasks"), "").unwrap();
        assert_eq!(watched.changed(), [editor]);
    }

    #[test]
    fn a_file_within_a_protected_directory_is_looked_at_too() {
        let directory = tempfile::tempdir().unwrap();
        let hooks = directory.path().join("hooks");
        std::fs::create_dir(&hooks).unwrap();
        std::fs::write(hooks.join("pre-commit"), "true").unwrap();
        let mut watched = ProtectedPaths::look(std::iter::once(hooks.clone()));
        std::fs::write(hooks.join("pre-commit"), "make").unwrap();
        std::fs::write(hooks.join("pre-commit"), "other").unwrap();
        assert_eq!(watched.changed(), std::slice::from_ref(&hooks));
        assert!(watched.changed().is_empty());
        // Of very many, so many are looked at.
        let mut left = 0;
        let alone = mark_within(&hooks, &mut left);
        let mut left = PROTECTED_ENTRIES;
        assert_ne!(mark_within(&hooks, &mut left), alone);
        assert_eq!(left, PROTECTED_ENTRIES - 1);
    }
}
