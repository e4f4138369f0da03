//! Which files a process may touch.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::os_bytes;

/// A file, or a directory and all below it, and what may be done there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRule {
    /// The place, as the process sees it. It must exist.
    #[serde(with = "os_bytes::path")]
    pub path: PathBuf,
    /// What is allowed.
    pub access: FileAccess,
}

impl FileRule {
    /// Allows `access` to `path` and all below it.
    pub fn new(path: impl Into<PathBuf>, access: FileAccess) -> Self {
        Self {
            path: path.into(),
            access,
        }
    }
}

/// What a rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FileAccess {
    /// Reading files and listing directories.
    Read,
    /// Reading, and executing programs.
    Execute,
    /// Reading, and writing, making, moving and removing.
    Write,
    /// All of these.
    All,
    /// Listing directories.
    List,
}
