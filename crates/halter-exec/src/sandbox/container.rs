//! What a container that somebody else made is to keep from its commands.

use std::io;
use std::path::{Path, PathBuf};

use super::MissingRung;
use crate::sys::{self, PidFd};

/// A mount that a container is to have for as long as it is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMount {
    /// What is mounted, as the container sees it; `None` for an empty
    /// directory.
    pub source: Option<PathBuf>,
    /// Where.
    pub target: PathBuf,
    /// Whether it cannot be changed.
    pub read_only: bool,
}

/// Mounts again what a container has lost: whoever puts a file in the place of
/// another outside takes off what is mounted on that. `process` is in the
/// container and has this number here. Returns where something was mounted,
/// which processes that are within have to enter anew. Blocks for a moment.
///
/// # Errors
/// What failed; some of it may be open to processes inside.
pub fn mount_missing(
    process: &PidFd,
    number: i32,
    mounts: &[KeptMount],
) -> Result<Vec<PathBuf>, MissingRung> {
    sys::mount_missing(process, number, mounts)
}

/// Has something take the place of a path, unless something is there: what
/// [`is_placeholder`](crate::is_placeholder) knows. There must be no link on
/// the way to it.
///
/// # Errors
/// What the system says.
pub fn make_placeholder(place: &Path) -> io::Result<()> {
    sys::make_placeholder(place)
}

/// Gives such a place free. What somebody has put there stays.
///
/// # Errors
/// What the system says.
pub fn remove_placeholder(place: &Path) -> io::Result<()> {
    sys::remove_placeholder(place)
}
