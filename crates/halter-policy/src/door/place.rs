//! Deleting, renaming and creating directories: operations on a name, not on
//! what a file holds.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, Mode, RenameFlags, Stat};
use rustix::io::Errno;

use crate::error::{Access, PolicyError};

use super::aside::{AsideHere, TreeCheck, rename_to_free};
use super::guard::ClosedPaths;
use super::kernel;
use super::walk::EntryPlace;
use super::write::{Parents, at_free_name, temporary_name};

/// A name in a directory that is held open, and what it stood for when it was
/// looked at. A link stands for itself.
#[derive(Debug)]
pub(super) struct NamePlace {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: OsString,
    pub(super) path: PathBuf,
    identity: Stat,
}

impl NamePlace {
    /// Looks at the name, which must be there. Devices, FIFOs and sockets are
    /// refused.
    pub(super) fn find(
        directory: Arc<OwnedFd>,
        name: OsString,
        path: PathBuf,
    ) -> Result<Self, PolicyError> {
        let identity = match kernel::stat(directory.as_fd(), &name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Err(PolicyError::NotFound { path }),
            Err(error) => return Err(PolicyError::io("look at", &path, error)),
        };
        let kind = FileType::from_raw_mode(identity.st_mode);
        match kernel::special_name(kind) {
            Some(special) if kind != FileType::Symlink => Err(PolicyError::SpecialFile {
                path,
                kind: special,
                access: Access::Write,
            }),
            _ => Ok(Self {
                directory,
                name,
                path,
                identity,
            }),
        }
    }

    /// What had the name when it was looked at.
    pub(super) fn stat(&self) -> &Stat {
        &self.identity
    }

    fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.identity.st_mode) == FileType::Directory
    }

    /// Fails if something else has taken the name since it was looked at.
    fn check_still(&self) -> Result<(), PolicyError> {
        let now = kernel::stat(self.directory.as_fd(), &self.name);
        let same =
            |now: &Stat| (now.st_dev, now.st_ino) == (self.identity.st_dev, self.identity.st_ino);
        match now {
            Ok(now) if same(&now) => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(PolicyError::Changed {
                path: self.path.clone(),
            }),
            Err(error) => Err(PolicyError::io("look at", &self.path, error)),
        }
    }
}

/// The right to delete one file, link or empty directory, once. Dropping it
/// changes nothing.
#[derive(Debug)]
pub struct DeleteHere {
    place: NamePlace,
    guard: Arc<ClosedPaths>,
}

impl DeleteHere {
    pub(super) fn issue(place: NamePlace, guard: Arc<ClosedPaths>) -> Self {
        Self { place, guard }
    }

    /// What has the name is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.place.is_directory()
    }

    /// Counts what a directory holds, all the way down; at most `max` names.
    ///
    /// # Errors
    /// There are more, one may not be changed, or the names of a directory in
    /// it may not.
    pub fn check_tree(&self, max: usize) -> Result<usize, PolicyError> {
        let mut check = TreeCheck {
            guard: &self.guard,
            left: max,
            depth: 0,
        };
        let place = &self.place;
        if self.is_directory() {
            check.enter(place.directory.as_fd(), &place.name, &place.path)?;
        }
        Ok(max - check.left)
    }

    /// Takes it from its name in one step, a directory with all it holds, so
    /// that it can still come back.
    ///
    /// # Errors
    /// Something else has taken the name, or the system refuses. Then nothing
    /// has changed.
    pub fn set_aside(self) -> Result<AsideHere, PolicyError> {
        let place = self.place;
        place.check_still()?;
        let is_directory = place.is_directory();
        let take = |aside: &OsStr| rename_to_free(&place.directory, &place.name, aside);
        let (aside, ()) = at_free_name(temporary_name, take).map_err(|error| match error {
            Errno::NOENT => PolicyError::Changed {
                path: place.path.clone(),
            },
            error => PolicyError::io("delete", &place.path, error),
        })?;
        Ok(AsideHere {
            directory: place.directory,
            name: place.name,
            path: place.path,
            aside: Some(aside),
            is_directory,
        })
    }

    /// Where it is; its directory is free of links.
    #[must_use]
    pub fn resolved(&self) -> &Path {
        &self.place.path
    }

    /// Deletes it. A link is deleted itself, not what it leads to.
    ///
    /// # Errors
    /// Something else has taken the name, the directory is not empty, or the
    /// system refuses. Then nothing has changed.
    pub fn commit(self) -> Result<(), PolicyError> {
        let place = &self.place;
        place.check_still()?;
        let flags = match place.is_directory() {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        fs::unlinkat(&place.directory, &place.name, flags).map_err(|error| match error {
            Errno::NOENT | Errno::ISDIR | Errno::NOTDIR => PolicyError::Changed {
                path: place.path.clone(),
            },
            error => PolicyError::io("delete", &place.path, error),
        })
    }
}

/// The right to rename one file, once. Dropping it changes nothing.
#[derive(Debug)]
pub struct RenameHere {
    from: NamePlace,
    to: EntryPlace,
}

impl RenameHere {
    /// Directories are refused: what is closed by its path would open under
    /// another one.
    pub(super) fn issue(from: NamePlace, to: EntryPlace) -> Result<Self, PolicyError> {
        if from.is_directory() {
            return Err(PolicyError::NotAFile { path: from.path });
        }
        Ok(Self { from, to })
    }

    /// Where the file is.
    #[must_use]
    pub fn from(&self) -> &Path {
        &self.from.path
    }

    /// Where it will be, free of links.
    #[must_use]
    pub fn to(&self) -> PathBuf {
        self.to.path()
    }

    /// Renames it to a name that is free; missing parents are created.
    ///
    /// # Errors
    /// The new name is taken, something else has taken the old one, or the
    /// system refuses. Then nothing has changed.
    pub fn commit_new(self) -> Result<(), PolicyError> {
        self.commit(RenameFlags::NOREPLACE)
    }

    /// Renames it, replacing a file that has the new name.
    ///
    /// # Errors
    /// As [`RenameHere::commit_new`], except that the name may be taken.
    pub fn commit_over(self) -> Result<(), PolicyError> {
        self.commit(RenameFlags::empty())
    }

    fn commit(self, flags: RenameFlags) -> Result<(), PolicyError> {
        let Self { from, to } = &self;
        from.check_still()?;
        let parents = Parents::create(to)?;
        let directory = parents.deepest(to);
        let moved = match flags.is_empty() {
            true => fs::renameat(&from.directory, &from.name, directory, &to.name),
            false => fs::renameat_with(&from.directory, &from.name, directory, &to.name, flags),
        };
        moved.map_err(|error| match error {
            Errno::EXIST => PolicyError::AlreadyExists { path: to.path() },
            Errno::ISDIR | Errno::NOTDIR => PolicyError::NotAFile { path: to.path() },
            Errno::NOENT => PolicyError::Changed {
                path: from.path.clone(),
            },
            error => PolicyError::io("rename", &from.path, error),
        })?;
        parents.keep();
        Ok(())
    }
}

/// Creates a directory and its missing parents. Gives whether it is new.
pub(super) fn create_dir(place: &EntryPlace) -> Result<bool, PolicyError> {
    let path = place.path();
    if place.kind.is_some() {
        return Err(PolicyError::NotADirectory { path });
    }
    let parents = Parents::create(place)?;
    let directory = parents.deepest(place);
    let created = match fs::mkdirat(directory, &place.name, Mode::from_raw_mode(0o777)) {
        Ok(()) => true,
        // Another process was first; opening refuses what is no directory.
        Err(Errno::EXIST) => {
            kernel::open_child_dir(directory, &place.name)
                .map_err(|_| PolicyError::NotADirectory { path: path.clone() })?;
            false
        }
        Err(error) => return Err(PolicyError::io("create the directory", &path, error)),
    };
    parents.keep();
    Ok(created)
}
