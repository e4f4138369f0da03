//! A temporary directory to work in.

use std::path::{Path, PathBuf};

/// A directory of its own for one test, removed when dropped.
#[derive(Debug)]
pub struct TempWorkspace {
    // Dropped last of all that could still look at it.
    directory: tempfile::TempDir,
    root: PathBuf,
}

impl TempWorkspace {
    /// An empty workspace.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let root = std::fs::canonicalize(directory.path())
            .expect("the temporary directory has a real path")
            .join("work");
        std::fs::create_dir(&root).expect("the workspace can be made");
        Self { directory, root }
    }

    /// Its path, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// A directory beside the workspace, for what must not lie in it: stores,
    /// scratch directories, traces. It may not exist yet.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The path of a file in it.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Writes a file, with its parents, and returns its path.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("the parents of the file can be made");
        }
        std::fs::write(&path, content).expect("the file can be written");
        path
    }

    /// The text of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.join(path);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read '{}': {error}", path.display()))
    }

    /// True if there is something at the path.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        std::fs::symlink_metadata(self.join(path)).is_ok()
    }

    /// Makes the workspace look like a git checkout of a branch.
    pub fn git_branch(&self, branch: &str) {
        self.write(".git/HEAD", format!("ref: refs/heads/{branch}\n"));
    }
}

impl Default for TempWorkspace {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_and_go_with_the_workspace() {
        let workspace = TempWorkspace::new();
        let file = workspace.write("deep/er/file.txt", "hello");
        assert_eq!(workspace.read("deep/er/file.txt"), "hello");
        assert!(workspace.exists("deep") && !workspace.exists("shallow"));
        drop(workspace);
        assert!(!file.exists());
    }
}
