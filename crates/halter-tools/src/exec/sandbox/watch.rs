//! Whether protected paths have changed, where the kernel cannot prevent it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another: which it is, its size, and
/// when it and its names were changed.
type Mark = Option<(u64, u64, i64, i64)>;

/// Protected paths and what they were when they were last looked at.
#[derive(Debug)]
pub(super) struct ProtectedPaths(Vec<(PathBuf, Mark)>);

impl ProtectedPaths {
    pub(super) fn look(paths: &[PathBuf]) -> Self {
        Self(
            paths
                .iter()
                .map(|path| (path.clone(), mark(path)))
                .collect(),
        )
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
    let found = path.symlink_metadata().ok()?;
    Some((found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("there"), "x").unwrap();
        let mut watched = ProtectedPaths::look(&[path("there"), path("absent"), path("same")]);
        assert!(watched.changed().is_empty());
        std::fs::write(path("there"), "other").unwrap();
        std::fs::write(path("absent"), "").unwrap();
        assert_eq!(watched.changed(), [path("there"), path("absent")]);
        assert!(watched.changed().is_empty());
    }
}
