//! A session's private temporary directory.

use halter_protocol::{IdSource, SystemIds, Timestamp};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A directory only this user can enter, under a root of the embedder's
/// choice, with a name nobody can guess.
///
/// Its path is known from the start, so that a policy can be bound to it; the
/// directory is made when first needed and removed with everything in it by
/// [`remove`](Self::remove) or on drop.
#[derive(Debug)]
pub struct ScratchDir {
    root: PathBuf,
    path: PathBuf,
    state: Mutex<ScratchState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScratchState {
    Planned,
    Made,
    Removed,
}

impl ScratchDir {
    /// Plans a directory under `root`, which is made too if it is missing.
    /// Touches no disk.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let name = SystemIds.uuid(Timestamp::now()).simple();
        let path = root.join(format!("halter-{name}"));
        Self {
            root,
            path,
            state: Mutex::new(ScratchState::Planned),
        }
    }

    /// Where the directory is or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory if it is not there yet. Blocks on the disk.
    pub fn create(&self) -> io::Result<&Path> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            ScratchState::Made => {}
            ScratchState::Planned => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(&self.root)?;
                // Not recursive: something that is already there is not ours.
                DirBuilder::new().mode(0o700).create(&self.path)?;
                *state = ScratchState::Made;
            }
            ScratchState::Removed => {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the session is closed and its scratch directory is gone",
                ));
            }
        }
        Ok(&self.path)
    }

    /// Removes the directory and all it holds, for good. Blocks on the disk.
    pub fn remove(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *state, ScratchState::Removed);
        // The policy's door may have made it without us, so look in any case.
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                *state = before;
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(path = %self.path.display(), %error, "scratch directory not removed");
        }
    }
}
