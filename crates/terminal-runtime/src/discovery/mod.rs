//! Finding runtimes: each writes itself down in a private directory for as
//! long as it lives.
//!
//! A file holds what a client needs to connect, and no secret. The runtime
//! keeps a lock on its file: a file nobody has locked is stale and removed by
//! whoever meets it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::limits::MAX_DISCOVERY_BYTES;
use crate::private_dir::{PrivateDirError, private_dir};
use crate::protocol::DescribedTransport;

/// A runtime that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRuntime {
    /// Its version.
    pub version: String,
    /// Its process number.
    pub pid: u32,
    /// When it was started (RFC 3339).
    pub started_at: String,
    /// How it can be reached.
    pub transports: Vec<DescribedTransport>,
}

/// Why the directory of runtimes cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The directory belongs to someone else or others may look into it.
    #[error("{0}; choose another with --discovery-dir, or `none`")]
    Directory(#[from] PrivateDirError),
    /// The system refused.
    #[error(
        "the directory of runtimes `{path}` cannot be used: {source}; \
             choose another with --discovery-dir, or `none`"
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DiscoveryError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Directory(error) => error.code(),
            Self::Io { .. } => "discovery_io",
        }
    }
}

/// Where runtimes of this user are written down unless someone chose: in the
/// user's runtime directory, or else in a directory below `/tmp`.
#[must_use]
pub fn default_dir() -> PathBuf {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    match runtime_dir {
        Some(path) => path.join("terminal-runtime"),
        None => PathBuf::from(format!(
            "/tmp/terminal-runtime-{}",
            rustix::process::geteuid().as_raw()
        )),
    }
}

/// The place of a running runtime in the directory, given up when this is
/// dropped.
#[derive(Debug)]
pub struct Registration {
    path: PathBuf,
    // Locked for as long as it is open.
    _file: File,
}

impl Registration {
    /// Writes a runtime down.
    ///
    /// # Errors
    /// If the directory is not private or cannot be written.
    pub fn announce(directory: &Path, runtime: &FoundRuntime) -> Result<Self, DiscoveryError> {
        private_dir(directory)?;
        let path = directory.join(format!("{}.json", runtime.pid));
        let hidden = directory.join(format!(".{}.new", runtime.pid));
        let write = || -> io::Result<File> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&hidden)?;
            // Locked before it can be seen: nobody takes it for stale.
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.write_all(&serde_json::to_vec(runtime)?)?;
            fs::rename(&hidden, &path)?;
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Self { path, _file: file }),
            Err(source) => {
                let _ = fs::remove_file(&hidden);
                Err(DiscoveryError::Io { path, source })
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The runtimes that run now, oldest first; files of those that do not are
/// removed. A directory that is not there holds none.
///
/// # Errors
/// If the directory is not private or cannot be read.
pub fn discover(directory: &Path) -> Result<Vec<FoundRuntime>, DiscoveryError> {
    if fs::symlink_metadata(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(Vec::new());
    }
    private_dir(directory)?;
    let entries = fs::read_dir(directory).map_err(|source| DiscoveryError::Io {
        path: directory.to_owned(),
        source,
    })?;
    let mut found: Vec<FoundRuntime> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .filter_map(|path| look_at(&path))
        .collect();
    found.sort_by(|left, right| left.started_at.cmp(&right.started_at));
    Ok(found)
}

/// The runtime of a file, if it runs.
fn look_at(path: &Path) -> Option<FoundRuntime> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        // Its runtime is gone, unless a new one has just put its own here.
        let same = |metadata: fs::Metadata| {
            file.metadata()
                .is_ok_and(|ours| ours.ino() == metadata.ino())
        };
        if fs::symlink_metadata(path).is_ok_and(same) {
            let _ = fs::remove_file(path);
        }
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_DISCOVERY_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn runtime(pid: u32) -> FoundRuntime {
        FoundRuntime {
            version: "1".to_owned(),
            pid,
            started_at: format!("2026-01-01T00:00:{pid:02}Z"),
            transports: vec![DescribedTransport::Unix {
                path: "/s".to_owned(),
            }],
        }
    }

    #[test]
    fn runtimes_are_found_while_they_run() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        assert_eq!(discover(&directory).unwrap(), []);
        let second = Registration::announce(&directory, &runtime(2)).unwrap();
        let first = Registration::announce(&directory, &runtime(1)).unwrap();
        assert_eq!(discover(&directory).unwrap(), [runtime(1), runtime(2)]);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&first.path)), (0o700, 0o600));
        drop(first);
        assert_eq!(discover(&directory).unwrap(), [runtime(2)]);
        drop(second);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn what_a_dead_runtime_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("d");
        private_dir(&directory).unwrap();
        fs::write(
            directory.join("7.json"),
            serde_json::to_vec(&runtime(7)).unwrap(),
        )
        .unwrap();
        assert_eq!(discover(&directory).unwrap(), []);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_others_can_look_into_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("d");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        let error = discover(&directory).unwrap_err();
        assert_eq!(error.code(), "not_private");
        assert!(Registration::announce(&directory, &runtime(1)).is_err());
    }

    #[test]
    fn a_file_is_read_to_its_limit_and_no_further() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("d");
        let named = |length: usize| {
            let mut runtime = runtime(3);
            runtime.version = "v".repeat(length);
            runtime
        };
        let most = usize::try_from(MAX_DISCOVERY_BYTES).unwrap();
        let frame = serde_json::to_vec(&named(0)).unwrap().len();
        let fits = named(most - frame);
        let first = Registration::announce(&directory, &fits).unwrap();
        assert_eq!(discover(&directory).unwrap(), [fits]);
        drop(first);
        let _long = Registration::announce(&directory, &named(most - frame + 1)).unwrap();
        assert_eq!(discover(&directory).unwrap(), []);
    }
}
