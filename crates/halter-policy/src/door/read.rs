//! Handles of what was opened for reading.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halter_protocol::ContentHash;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::error::{Access, PolicyError};

use super::kernel;
use super::spelled::Spelled;
use super::walk::{EntryPlace, FoundDirectory};

/// A regular file, open for reading.
#[derive(Debug)]
pub struct ReadHere {
    file: File,
    metadata: Metadata,
    resolved: PathBuf,
}

impl ReadHere {
    pub(super) fn open(place: &EntryPlace, spelled: &Spelled) -> Result<Self, PolicyError> {
        let resolved = place.path();
        // Known from the look: not even opened, since opening a device or a
        // FIFO is something its other end can notice.
        match place.kind {
            None => {
                return Err(PolicyError::NotFound {
                    path: spelled.original().to_path_buf(),
                });
            }
            Some(kind) => refuse_special(kind, &resolved, Access::Read)?,
        }
        Self::open_at(place.directory.as_fd(), &place.name, resolved)
    }

    /// Opens a name that may have been replaced since it was looked at: what
    /// counts is what was opened.
    pub(super) fn open_at(
        directory: BorrowedFd<'_>,
        name: &std::ffi::OsStr,
        resolved: PathBuf,
    ) -> Result<Self, PolicyError> {
        match kernel::open_file(directory, name) {
            Ok(file) => Self::of_file(file, resolved),
            Err(Errno::NOENT) => Err(PolicyError::NotFound { path: resolved }),
            Err(Errno::LOOP) => Err(PolicyError::Changed { path: resolved }),
            Err(error) => Err(PolicyError::io("open", &resolved, error)),
        }
    }

    /// Takes what was opened, if it is a regular file.
    pub(super) fn of_file(file: OwnedFd, resolved: PathBuf) -> Result<Self, PolicyError> {
        let file = File::from(file);
        let metadata = file
            .metadata()
            .map_err(|error| PolicyError::io("look at", &resolved, error))?;
        refuse_special(kernel::kind_of(&metadata), &resolved, Access::Read)?;
        Ok(Self {
            file,
            metadata,
            resolved,
        })
    }

    /// Where the file is, free of links.
    #[must_use]
    pub fn resolved(&self) -> &Path {
        &self.resolved
    }

    /// Metadata of the open file, as of opening it.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Reads the whole file, from its start, if it has at most `max` bytes.
    ///
    /// # Errors
    /// [`PolicyError::ReadTooLarge`] if it has more, also if it grows past
    /// the limit while it is read.
    pub fn read_bounded(&mut self, max: u64) -> Result<Vec<u8>, PolicyError> {
        let known = self.metadata.len();
        if known > max {
            return Err(self.too_large(known, max));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(known).unwrap_or_default());
        self.file
            .rewind()
            .and_then(|()| {
                let mut part = (&self.file).take(max.saturating_add(1));
                part.read_to_end(&mut bytes)
            })
            .map_err(|error| PolicyError::io("read", &self.resolved, error))?;
        let read = bytes.len() as u64;
        if read > max {
            return Err(self.too_large(read, max));
        }
        Ok(bytes)
    }

    /// The SHA-256 of the content in lower-case hex, read from the start.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sha256(&mut self) -> Result<String, PolicyError> {
        let mut hash = ContentHash::default();
        self.file
            .rewind()
            .and_then(|()| io::copy(&mut self.file, &mut hash))
            .map_err(|error| PolicyError::io("read", &self.resolved, error))?;
        Ok(hash.hex())
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn too_large(&self, bytes: u64, max: u64) -> PolicyError {
        PolicyError::ReadTooLarge {
            path: self.resolved.clone(),
            bytes,
            max,
        }
    }
}

/// Fails for everything but a regular file.
pub(super) fn refuse_special(
    kind: FileType,
    path: &Path,
    access: Access,
) -> Result<(), PolicyError> {
    if kind == FileType::Directory {
        return Err(PolicyError::NotAFile {
            path: path.to_path_buf(),
        });
    }
    match kernel::special_name(kind) {
        None => Ok(()),
        Some(kind) => Err(PolicyError::SpecialFile {
            path: path.to_path_buf(),
            kind,
            access,
        }),
    }
}

/// A directory, held open.
///
/// A walk may start at [`DirHere::path`]; each file it finds goes through
/// [`FileDoor::open_read`](super::FileDoor::open_read) again.
#[derive(Debug)]
pub struct DirHere {
    directory: OwnedFd,
    resolved: PathBuf,
    spelled: PathBuf,
    /// Keeps the root open, so that a walk opens it once and not per file.
    _root: Arc<OwnedFd>,
}

impl DirHere {
    pub(super) fn open(
        found: &FoundDirectory,
        spelled: Spelled,
        root: Arc<OwnedFd>,
    ) -> Result<Self, PolicyError> {
        let directory = kernel::reopen_dir(found.handle.as_fd())
            .map_err(|error| PolicyError::io("open", &found.path, error))?;
        Ok(Self {
            directory,
            resolved: found.path.clone(),
            spelled: spelled.into_original(),
            _root: root,
        })
    }

    /// Where the directory is, absolute and free of links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.resolved
    }

    /// The directory as the caller spelled it.
    #[must_use]
    pub fn spelled(&self) -> &Path {
        &self.spelled
    }
}

/// The names in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The entries, by name.
    pub entries: Vec<DirectoryEntry>,
    /// There are more.
    pub truncated: bool,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: OsString,
    /// `file`, `directory`, `link` or `other`; a link is not followed.
    pub kind: &'static str,
}

impl DirHere {
    /// The names in the directory, in order, at most `max` of them.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn entries(&self, max: usize) -> Result<Listing, PolicyError> {
        let mut listing = self.first_entries(usize::MAX)?;
        listing
            .entries
            .sort_by(|left, right| left.name.cmp(&right.name));
        listing.truncated = listing.entries.len() > max;
        listing.entries.truncate(max);
        Ok(listing)
    }

    /// Names in the directory, in no order, at most `max` of them; no more are
    /// read.
    pub(crate) fn first_entries(&self, max: usize) -> Result<Listing, PolicyError> {
        let failed = |error: Errno| PolicyError::io("list", &self.resolved, error);
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == max {
                let truncated = true;
                return Ok(Listing { entries, truncated });
            }
            let kind = match entry.file_type() {
                // Not every filesystem says it.
                FileType::Unknown => kernel::stat(self.directory.as_fd(), &name)
                    .map_or(FileType::Unknown, |stat| {
                        FileType::from_raw_mode(stat.st_mode)
                    }),
                kind => kind,
            };
            let kind = match kind {
                FileType::RegularFile => "file",
                FileType::Directory => "directory",
                FileType::Symlink => "link",
                _ => "other",
            };
            entries.push(DirectoryEntry { name, kind });
        }
        Ok(Listing {
            entries,
            truncated: false,
        })
    }
}
