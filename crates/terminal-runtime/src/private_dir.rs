//! Directories that only this user can look into.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateDirError {
    /// It belongs to someone else, or others may look into it.
    #[error("the directory `{path}` is not private: {problem}")]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused.
    #[error("the directory `{path}` cannot be used: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl PrivateDirError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotPrivate { .. } => "not_private",
            Self::Io { .. } => "directory_io",
        }
    }
}

/// A directory that exists, belongs to us and is closed to others. What is
/// missing is made so.
///
/// # Errors
/// If it is someone else's or open, or the system refuses.
pub fn private_dir(path: &Path) -> Result<(), PrivateDirError> {
    let io = |source| PrivateDirError::Io {
        path: path.to_owned(),
        source,
    };
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io)?;
    let metadata = fs::symlink_metadata(path).map_err(io)?;
    let problem = if !metadata.is_dir() {
        "it is no directory".to_owned()
    } else if metadata.uid() != rustix::process::geteuid().as_raw() {
        format!("it belongs to user {}", metadata.uid())
    } else if metadata.mode() & 0o077 != 0 {
        format!("its mode is {:o} instead of 700", metadata.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(PrivateDirError::NotPrivate {
        path: path.to_owned(),
        problem,
    })
}
