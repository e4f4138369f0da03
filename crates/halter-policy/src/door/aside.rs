//! Deleting in two steps: what leaves its name can come back until it is
//! discarded.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use crate::error::{Access, PolicyError};
use crate::limits::MAX_DELETE_DEPTH;

use super::guard::ClosedPaths;
use super::kernel;

/// A file, link or directory that has left its name and is deleted, unless it
/// comes back. Dropping it brings it back.
#[derive(Debug)]
pub struct AsideHere {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: OsString,
    pub(super) path: PathBuf,
    /// The name it has meanwhile; none once it is back or gone.
    pub(super) aside: Option<OsString>,
    pub(super) is_directory: bool,
}

impl AsideHere {
    /// Gives it its name again.
    ///
    /// # Errors
    /// Something else has taken the name; then it keeps the one it has, which
    /// the error says.
    pub fn restore(mut self) -> Result<(), PolicyError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), PolicyError> {
        let Some(aside) = self.aside.take() else {
            return Ok(());
        };
        rename_to_free(&self.directory, &aside, &self.name).map_err(|error| {
            let kept = self.path.with_file_name(&aside);
            PolicyError::io("give its name back to", &kept, error)
        })
    }

    /// Deletes it, a directory with all it holds; links in it are not followed.
    ///
    /// # Errors
    /// The system refuses. Then what is left has its name again.
    pub fn discard(mut self) -> Result<(), PolicyError> {
        let Some(aside) = &self.aside else {
            return Ok(());
        };
        let removed = match self.is_directory {
            true => remove_tree(self.directory.as_fd(), aside),
            false => fs::unlinkat(&self.directory, aside, AtFlags::empty()),
        };
        match removed {
            Ok(()) => {
                self.aside = None;
                Ok(())
            }
            Err(error) => {
                self.put_back()?;
                Err(PolicyError::io("delete all of", &self.path, error))
            }
        }
    }
}

impl Drop for AsideHere {
    fn drop(&mut self) {
        // Whoever wants to know how it went calls `restore`.
        let _ = self.put_back();
    }
}

/// Renames within a directory, to a name that is free.
pub(super) fn rename_to_free(
    directory: &OwnedFd,
    from: &OsStr,
    to: &OsStr,
) -> rustix::io::Result<()> {
    let flags = RenameFlags::NOREPLACE;
    match fs::renameat_with(directory, from, directory, to, flags) {
        // Not every filesystem can.
        Err(Errno::INVAL | Errno::NOSYS) => match kernel::stat(directory.as_fd(), to) {
            Err(Errno::NOENT) => fs::renameat(directory, from, directory, to),
            Ok(_) => Err(Errno::EXIST),
            Err(error) => Err(error),
        },
        moved => moved,
    }
}

/// Removes a directory and what is in it, children first. A name that stands
/// for a link is removed itself.
fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    let directory = kernel::open_child_dir(parent, name)?;
    for (name, is_directory) in names_in(directory.as_fd())? {
        match is_directory {
            true => remove_tree(directory.as_fd(), &name)?,
            false => fs::unlinkat(&directory, &name, AtFlags::empty())?,
        }
    }
    fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// The names in a directory, and whether each is one itself.
fn names_in(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<(OsString, bool)>> {
    let listed = kernel::reopen_dir(directory)?;
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(&listed)? {
        let entry = entry?;
        let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(kernel::stat(directory, &name)?.st_mode),
            kind => kind,
        };
        names.push((name, kind == FileType::Directory));
    }
    Ok(names)
}

/// Looks at all that a directory holds before it is deleted.
pub(super) struct TreeCheck<'a> {
    pub(super) guard: &'a ClosedPaths,
    /// Names that may still be counted.
    pub(super) left: usize,
    pub(super) depth: usize,
}

impl TreeCheck<'_> {
    /// Fails for a name that may not be changed, and for a directory whose
    /// names the system would not let go.
    pub(super) fn enter(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), PolicyError> {
        let failed = |error: Errno| PolicyError::io("look into", path, error);
        let too_large = |path: &Path| PolicyError::TreeTooLarge {
            path: path.to_path_buf(),
        };
        self.depth += 1;
        if self.depth > MAX_DELETE_DEPTH {
            return Err(too_large(path));
        }
        let directory = kernel::open_child_dir(parent, name).map_err(failed)?;
        let names = names_in(directory.as_fd()).map_err(failed)?;
        if !names.is_empty() {
            let access = fs::Access::WRITE_OK | fs::Access::EXEC_OK;
            fs::accessat(&directory, ".", access, AtFlags::empty())
                .map_err(|error| PolicyError::io("delete what is in", path, error))?;
        }
        for (name, is_directory) in names {
            let path = path.join(&name);
            self.left = self.left.checked_sub(1).ok_or_else(|| too_large(&path))?;
            self.guard.check(&path, Access::Write)?;
            if is_directory {
                self.enter(directory.as_fd(), &name, &path)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }
}
