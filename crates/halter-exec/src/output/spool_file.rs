//! The whole of an output that does not fit into memory, on disk.

use std::fs;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use crate::limits::DEFAULT_SPOOL_QUOTA_BYTES;

/// Where outputs beyond the memory bound go, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolSettings {
    /// An existing directory of the caller's.
    pub directory: PathBuf,
    /// Bytes of one stream that are kept on disk; later ones are counted but
    /// not written.
    pub quota_bytes: u64,
}

impl SpoolSettings {
    /// Spool files in this directory, with the default quota.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            quota_bytes: DEFAULT_SPOOL_QUOTA_BYTES,
        }
    }
}

/// A file with an output from its first byte on. It is deleted with this
/// handle unless it is [kept](SpoolFile::keep).
#[derive(Debug)]
pub struct SpoolFile {
    path: PathBuf,
    bytes: u64,
    problem: Option<String>,
}

impl SpoolFile {
    /// A file that nobody has, to be made in this directory.
    pub(super) fn name_in(directory: &Path) -> io::Result<Self> {
        let name = crate::nonce::random().map_err(io::Error::other)?;
        Ok(Self {
            path: directory.join(format!("output-{name}.spool")),
            bytes: 0,
            problem: None,
        })
    }

    pub(super) fn set(&mut self, bytes: u64, problem: Option<String>) {
        self.bytes = bytes;
        self.problem = problem;
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it holds: the output up to the quota.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why the file ends before the quota, if writing failed (a full disk).
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Leaves the file where it is, to the care of the caller.
    #[must_use]
    pub fn keep(mut self) -> PathBuf {
        mem::take(&mut self.path)
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty()
            && let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(path = %self.path.display(), %error, "spool file not removed");
        }
    }
}
