//! Writing one file: the place is chosen first, then the file is replaced as a
//! whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::error::{Access, PolicyError};
use crate::limits::MAX_TEMP_NAME_ATTEMPTS;

use super::guard::ClosedPaths;
use super::kernel;
use super::read::{ReadHere, refuse_special};
use super::spelled::Spelled;
use super::walk::EntryPlace;

/// What must hold of the file for a write to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precondition {
    /// Nothing: create the file or replace it.
    None,
    /// The file exists and its content has this SHA-256 (lower-case hex).
    Unchanged(String),
    /// There is no file of this name.
    MustNotExist,
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The file did not exist before.
    pub created: bool,
}

impl Written {
    /// A write that created the file, or one that replaced it.
    #[must_use]
    pub const fn new(created: bool) -> Self {
        Self { created }
    }
}

/// The right to write one file, once. Dropping it changes nothing.
#[derive(Debug)]
pub struct WriteHere {
    place: EntryPlace,
    resolved: PathBuf,
    guard: Arc<ClosedPaths>,
}

impl WriteHere {
    pub(super) fn issue(
        place: EntryPlace,
        spelled: &Spelled,
        guard: Arc<ClosedPaths>,
    ) -> Result<Self, PolicyError> {
        if let Some(kind) = place.kind {
            refuse_special(kind, spelled.original(), Access::Write)?;
        }
        Ok(Self {
            resolved: place.path(),
            place,
            guard,
        })
    }

    /// Where the file is or will be, free of links.
    #[must_use]
    pub fn resolved(&self) -> &Path {
        &self.resolved
    }

    /// The directories that writing would create, outermost first.
    #[must_use]
    pub fn new_directories(&self) -> Vec<PathBuf> {
        let mut path = self.place.directory_path.clone();
        let deeper = |name| {
            path.push(name);
            path.clone()
        };
        self.place.missing.iter().map(deeper).collect()
    }

    /// The file as it is now, if there is one.
    ///
    /// # Errors
    /// It cannot be opened for reading, or has become something else than a
    /// regular file.
    pub fn existing(&self) -> Result<Option<ReadHere>, PolicyError> {
        if !self.place.missing.is_empty() {
            return Ok(None);
        }
        let opened = ReadHere::open_at(
            self.place.directory.as_fd(),
            &self.place.name,
            self.resolved.clone(),
        );
        match opened {
            Ok(handle) => {
                let metadata = handle.metadata();
                self.guard
                    .check_identity(metadata, &self.resolved, Access::Read)?;
                Ok(Some(handle))
            }
            Err(PolicyError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file: whole or not at all. Missing parents are created, the
    /// mode of an existing file is kept and its owner where the system allows
    /// it. The name is replaced, so another hard link keeps the old content,
    /// and a link planted at the name is replaced, not followed.
    ///
    /// # Errors
    /// The precondition does not hold, or the system refuses. In both cases
    /// nothing has changed, and no temporary file or new directory is left.
    pub fn commit(self, bytes: &[u8], precondition: Precondition) -> Result<Written, PolicyError> {
        let mut fill = |file: &mut File| file.write_all(bytes);
        self.commit_with(&mut fill, &precondition)
    }

    fn commit_with(
        self,
        fill: &mut dyn FnMut(&mut File) -> io::Result<()>,
        precondition: &Precondition,
    ) -> Result<Written, PolicyError> {
        let expected = self.check(precondition)?;
        let parents = Parents::create(&self.place)?;
        let directory = parents.deepest(&self.place);
        let replaced = self.stat(directory)?;
        let mut temporary = Temporary::create(directory, replaced.as_ref(), &self.resolved)?;
        temporary
            .fill(fill, replaced.as_ref())
            .map_err(|error| PolicyError::io("write", &self.resolved, error))?;
        if let Some(expected) = expected {
            self.check_still(directory, &expected)?;
        }
        match precondition {
            Precondition::MustNotExist => temporary.put_at_new(&self.place.name),
            Precondition::None | Precondition::Unchanged(_) => temporary.put_at(&self.place.name),
        }
        .map_err(|error| self.placing_failed(error))?;
        drop(temporary);
        parents.keep();
        Ok(Written {
            created: replaced.is_none(),
        })
    }

    /// Checks the precondition on a handle of the file. Gives what the file
    /// must still be when it is replaced.
    fn check(&self, precondition: &Precondition) -> Result<Option<Stat>, PolicyError> {
        let changed = || PolicyError::Changed {
            path: self.resolved.clone(),
        };
        match precondition {
            Precondition::None => Ok(None),
            Precondition::MustNotExist => match self.stat_here()? {
                None => Ok(None),
                Some(_) => Err(PolicyError::AlreadyExists {
                    path: self.resolved.clone(),
                }),
            },
            Precondition::Unchanged(hash) => {
                let Some(mut file) = self.existing()? else {
                    return Err(changed());
                };
                let before = fs::fstat(file.file())
                    .map_err(|error| PolicyError::io("look at", &self.resolved, error))?;
                if file.sha256()?.eq_ignore_ascii_case(hash) {
                    Ok(Some(before))
                } else {
                    Err(changed())
                }
            }
        }
    }

    /// The file is still the one whose content was compared.
    fn check_still(&self, directory: BorrowedFd<'_>, expected: &Stat) -> Result<(), PolicyError> {
        match self.stat(directory)? {
            Some(now) if same_version(&now, expected) => Ok(()),
            Some(_) | None => Err(PolicyError::Changed {
                path: self.resolved.clone(),
            }),
        }
    }

    fn stat_here(&self) -> Result<Option<Stat>, PolicyError> {
        if self.place.missing.is_empty() {
            self.stat(self.place.directory.as_fd())
        } else {
            Ok(None)
        }
    }

    /// What is at the name. Only a regular file may be replaced; anything else
    /// has appeared since the ticket was issued.
    fn stat(&self, directory: BorrowedFd<'_>) -> Result<Option<Stat>, PolicyError> {
        match kernel::stat(directory, &self.place.name) {
            Ok(stat) => {
                let kind = FileType::from_raw_mode(stat.st_mode);
                refuse_special(kind, &self.resolved, Access::Write)?;
                Ok(Some(stat))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(PolicyError::io("look at", &self.resolved, error)),
        }
    }

    fn placing_failed(&self, error: Errno) -> PolicyError {
        let path = self.resolved.clone();
        match error {
            Errno::EXIST => PolicyError::AlreadyExists { path },
            Errno::ISDIR | Errno::NOTDIR => PolicyError::NotAFile { path },
            error => PolicyError::io("write", &path, error),
        }
    }
}

fn same_version(left: &Stat, right: &Stat) -> bool {
    left.st_dev == right.st_dev
        && left.st_ino == right.st_ino
        && left.st_size == right.st_size
        && left.st_mtime == right.st_mtime
        && left.st_mtime_nsec == right.st_mtime_nsec
}

/// Parents created for a write; removed again unless the write succeeds.
pub(super) struct Parents {
    created: Vec<(Arc<OwnedFd>, OsString)>,
    deepest: Option<Arc<OwnedFd>>,
}

impl Parents {
    pub(super) fn create(place: &EntryPlace) -> Result<Self, PolicyError> {
        let mut parents = Self {
            created: Vec::new(),
            deepest: None,
        };
        let mut current = Arc::clone(&place.directory);
        let mut path = place.directory_path.clone();
        for name in &place.missing {
            path.push(name);
            let failed = |error| PolicyError::io("create the directory", &path, error);
            match fs::mkdirat(&current, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => parents.created.push((Arc::clone(&current), name.clone())),
                // Another process created it first. A directory is used,
                // opening refuses a link.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
            let child = kernel::open_child_dir(current.as_fd(), name).map_err(failed)?;
            current = Arc::new(child);
            parents.deepest = Some(Arc::clone(&current));
        }
        Ok(parents)
    }

    pub(super) fn deepest<'a>(&'a self, place: &'a EntryPlace) -> BorrowedFd<'a> {
        self.deepest.as_ref().unwrap_or(&place.directory).as_fd()
    }

    pub(super) fn keep(mut self) {
        self.created.clear();
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        for (directory, name) in self.created.iter().rev() {
            // Best effort: it may hold something by now.
            let _ = fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
        }
    }
}

/// A file under a temporary name, removed again unless it is put in place.
struct Temporary<'a> {
    directory: BorrowedFd<'a>,
    name: Option<OsString>,
    file: File,
}

impl<'a> Temporary<'a> {
    fn create(
        directory: BorrowedFd<'a>,
        replaced: Option<&Stat>,
        resolved: &Path,
    ) -> Result<Self, PolicyError> {
        // A new file gets what the umask leaves of 0644. The replacement of an
        // existing one is closed to others until it has the right owner.
        let mode = Mode::from_raw_mode(if replaced.is_some() { 0o600 } else { 0o644 });
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name: &OsStr| fs::openat(directory, name, flags, mode);
        let (name, file) = at_free_name(temporary_name, open)
            .map_err(|error| PolicyError::io("write", resolved, error))?;
        Ok(Self {
            directory,
            name: Some(name),
            file: File::from(file),
        })
    }

    fn fill(
        &mut self,
        fill: &mut dyn FnMut(&mut File) -> io::Result<()>,
        replaced: Option<&Stat>,
    ) -> io::Result<()> {
        fill(&mut self.file)?;
        if let Some(replaced) = replaced {
            self.take_after(replaced)?;
        }
        self.file.sync_all()
    }

    /// Takes owner and mode from the file that is replaced. Set-id bits are
    /// dropped, as the system drops them on a write.
    fn take_after(&self, replaced: &Stat) -> io::Result<()> {
        let own = fs::fstat(&self.file)?;
        let user = (own.st_uid != replaced.st_uid).then(|| Uid::from_raw(replaced.st_uid));
        let group = (own.st_gid != replaced.st_gid).then(|| Gid::from_raw(replaced.st_gid));
        if user.is_some() || group.is_some() {
            // Only root may give files away; for others the file becomes
            // theirs, as with any editor.
            let _ = fs::fchown(&self.file, user, group);
        }
        fs::fchmod(&self.file, Mode::from_raw_mode(replaced.st_mode & 0o1777))?;
        Ok(())
    }

    /// Replaces whatever has the name.
    fn put_at(&mut self, name: &OsStr) -> rustix::io::Result<()> {
        if let Some(temporary) = &self.name {
            fs::renameat(self.directory, temporary, self.directory, name)?;
            self.name = None;
        }
        Ok(())
    }

    /// Takes the name only if it is free.
    fn put_at_new(&mut self, name: &OsStr) -> rustix::io::Result<()> {
        let Some(temporary) = &self.name else {
            return Ok(());
        };
        let moved = fs::renameat_with(
            self.directory,
            temporary,
            self.directory,
            name,
            RenameFlags::NOREPLACE,
        );
        match moved {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // Not every filesystem can; a hard link never replaces either, and
            // the temporary name goes away with `self`.
            Err(Errno::INVAL | Errno::NOSYS) => fs::linkat(
                self.directory,
                temporary,
                self.directory,
                name,
                AtFlags::empty(),
            ),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::unlinkat(self.directory, name, AtFlags::empty());
        }
    }
}

/// Creates something at the first of the names that is free.
pub(super) fn at_free_name<T>(
    mut next: impl FnMut() -> OsString,
    create: impl Fn(&OsStr) -> rustix::io::Result<T>,
) -> rustix::io::Result<(OsString, T)> {
    for _ in 0..MAX_TEMP_NAME_ATTEMPTS {
        let name = next();
        match create(&name) {
            Err(Errno::EXIST) => {}
            created => return created.map(|created| (name, created)),
        }
    }
    Err(Errno::EXIST)
}

/// A name no other write of this process uses.
pub(super) fn temporary_name() -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    OsString::from(format!(".halter-tmp-{}-{number}", process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_names_are_tried_and_no_more() {
        for (free, found) in [
            (MAX_TEMP_NAME_ATTEMPTS, Ok(())),
            (MAX_TEMP_NAME_ATTEMPTS + 1, Err(Errno::EXIST)),
        ] {
            let mut tried = 0;
            let next = || {
                tried += 1;
                OsString::from(tried.to_string())
            };
            let wanted = OsString::from(free.to_string());
            let create = |name: &OsStr| match name == wanted {
                true => Ok(()),
                false => Err(Errno::EXIST),
            };
            assert_eq!(at_free_name(next, create).map(|_| ()), found);
            assert_eq!(tried, MAX_TEMP_NAME_ATTEMPTS);
        }
    }
}
