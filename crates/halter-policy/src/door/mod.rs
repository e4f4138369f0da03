//! The file door: the only way a tool reaches a file.
//!
//! A path is checked as spelled, resolved one component at a time from a
//! handle of the directory that was the root when the session started, checked
//! again as resolved, and opened relative to the handle it was resolved with.
//! Nothing is looked up twice by name, so there is no moment at which swapping
//! a link changes what a check has already said yes to.
//!
//! All of it is blocking I/O: async callers run it on a blocking thread.

mod aside;
mod guard;
mod kernel;
mod place;
mod read;
mod roots;
mod sensitive;
mod spelled;
mod walk;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Access, PolicyError};
use crate::permission::resolved;
use crate::settings::{PolicySettings, SessionScope};

pub use aside::SetAside;
use guard::ClosedPaths;
use place::NamePlace;
pub use place::{DeleteTicket, RenameTicket};
pub use read::{DirHandle, DirectoryEntry, Listing, ReadHandle};
use roots::SessionRoots;
pub(crate) use sensitive::fold;
pub use sensitive::{BUILTIN_SENSITIVE_PATTERNS, BUILTIN_WRITE_PROTECTED_PATTERNS};
use spelled::Spelled;
pub(crate) use spelled::without_dots;
use walk::ResolvedPath;
pub use write::{Precondition, WriteTicket, Written};

/// Opens files and directories for one session, inside its roots only.
///
/// Paths may be absolute or relative to the session's directory.
#[derive(Debug)]
pub struct FileDoor {
    working_dir: PathBuf,
    roots: SessionRoots,
    guard: Arc<ClosedPaths>,
}

impl FileDoor {
    pub(crate) fn bind(
        settings: &PolicySettings,
        scope: &SessionScope,
    ) -> Result<Self, PolicyError> {
        let working_dir = spelled::session_directory(&scope.working_dir)?;
        Ok(Self {
            roots: SessionRoots::bind(settings, scope, &working_dir)?,
            guard: Arc::new(ClosedPaths::bind(settings, scope, &working_dir)?),
            working_dir,
        })
    }

    /// The session's directory, as spelled when the session started.
    #[must_use]
    pub fn working_dir(&self) -> &Path {
        &self.working_dir
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// The path is outside the read roots, sensitive or protected, missing, or
    /// no regular file. A FIFO, socket or device is refused without waiting
    /// for its other end.
    pub fn open_read(&self, path: &Path) -> Result<ReadHandle, PolicyError> {
        let spelled = self.admit(path, Access::Read)?;
        match self.resolve(&spelled, Access::Read)? {
            ResolvedPath::Directory(directory) => Err(PolicyError::NotAFile {
                path: directory.path,
            }),
            ResolvedPath::Entry(place) => {
                let handle = ReadHandle::open(&place, &spelled)?;
                self.guard
                    .check_identity(handle.metadata(), handle.resolved(), Access::Read)?;
                Ok(handle)
            }
        }
    }

    /// Opens a directory, to walk it.
    ///
    /// # Errors
    /// As [`FileDoor::open_read`], and if the path is no directory.
    pub fn open_dir(&self, path: &Path) -> Result<DirHandle, PolicyError> {
        let spelled = self.admit(path, Access::Read)?;
        let (root, _) = self.roots.covering(spelled.absolute(), Access::Read)?;
        let root = root.open_anchor()?;
        match self.resolve(&spelled, Access::Read)? {
            ResolvedPath::Directory(directory) => DirHandle::open(&directory, spelled, root),
            ResolvedPath::Entry(place) if place.kind.is_none() => Err(PolicyError::NotFound {
                path: spelled.into_original(),
            }),
            ResolvedPath::Entry(place) => Err(PolicyError::NotADirectory { path: place.path() }),
        }
    }

    /// Decides where a write would go and holds on to that place, without
    /// changing anything yet. [`WriteTicket::commit`] writes.
    ///
    /// # Errors
    /// The path is outside the write roots, sensitive or protected, a
    /// directory or a special file, or a link leads out of the write roots.
    pub fn prepare_write(&self, path: &Path) -> Result<WriteTicket, PolicyError> {
        let spelled = self.admit(path, Access::Write)?;
        match self.resolve(&spelled, Access::Write)? {
            ResolvedPath::Directory(directory) => Err(PolicyError::NotAFile {
                path: directory.path,
            }),
            ResolvedPath::Entry(place) => {
                WriteTicket::issue(place, &spelled, Arc::clone(&self.guard))
            }
        }
    }

    /// Decides what a delete would remove and holds on to its place, without
    /// changing anything yet. [`DeleteTicket::commit`] deletes.
    ///
    /// # Errors
    /// The path is outside the write roots or a root itself, sensitive or
    /// protected, missing, a special file, or a link that leads out of the
    /// write roots.
    pub fn prepare_delete(&self, path: &Path) -> Result<DeleteTicket, PolicyError> {
        let place = self.name_place(path)?;
        Ok(DeleteTicket::issue(place, Arc::clone(&self.guard)))
    }

    /// Decides what a rename would move where, without changing anything yet.
    ///
    /// # Errors
    /// Either path is outside the write roots, sensitive or protected, a
    /// directory or a special file, or leads out of the write roots; or there
    /// is nothing to rename.
    pub fn prepare_rename(&self, from: &Path, to: &Path) -> Result<RenameTicket, PolicyError> {
        let from = self.name_place(from)?;
        let spelled = self.admit(to, Access::Write)?;
        match self.resolve(&spelled, Access::Write)? {
            ResolvedPath::Directory(directory) => Err(PolicyError::NotAFile {
                path: directory.path,
            }),
            ResolvedPath::Entry(place) => {
                if let Some(kind) = place.kind {
                    read::refuse_special(kind, spelled.original(), Access::Write)?;
                }
                RenameTicket::issue(from, place)
            }
        }
    }

    /// Creates a directory and its missing parents. Gives whether it is new.
    ///
    /// # Errors
    /// As [`FileDoor::prepare_write`], and if something else has the name.
    pub fn create_dir(&self, path: &Path) -> Result<bool, PolicyError> {
        let spelled = self.admit(path, Access::Write)?;
        match self.resolve(&spelled, Access::Write)? {
            ResolvedPath::Directory(_) => Ok(false),
            ResolvedPath::Entry(place) => place::create_dir(&place),
        }
    }

    /// The names in a directory, in order, at most `max` of them.
    ///
    /// # Errors
    /// As [`FileDoor::open_dir`].
    pub fn list(&self, path: &Path, max: usize) -> Result<Listing, PolicyError> {
        self.open_dir(path)?.entries(max)
    }

    /// A name that may be changed: both itself and where it leads are checked.
    fn name_place(&self, path: &Path) -> Result<NamePlace, PolicyError> {
        let spelled = self.admit(path, Access::Write)?;
        // Where a link leads decides as well; one that leads nowhere does not.
        match self.resolve(&spelled, Access::Write) {
            Ok(_) | Err(PolicyError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let (around, name) = spelled.split()?;
        let found = walk::locate(&self.roots, &around, Access::Write)?;
        kernel::refuse_proc_handle(found.directory(), &found.path(), Access::Write)?;
        let ResolvedPath::Directory(directory) = found else {
            return Err(PolicyError::NotFound {
                path: path.to_path_buf(),
            });
        };
        let place = directory.path.join(&name);
        self.guard.check(&place, Access::Write)?;
        NamePlace::find(directory.handle, name, place)
    }

    /// Whether the path, as spelled, could be read: a filter for entries of a
    /// directory walk, without I/O. Opening still decides.
    ///
    /// # Errors
    /// The path is outside the read roots, sensitive or protected.
    pub fn may_read(&self, path: &Path) -> Result<(), PolicyError> {
        self.admit(path, Access::Read).map(drop)
    }

    /// Whether the path, as spelled, could be written, without I/O. Opening
    /// still decides.
    ///
    /// # Errors
    /// The path is outside the write roots, sensitive or protected.
    pub fn may_write(&self, path: &Path) -> Result<(), PolicyError> {
        self.admit(path, Access::Write).map(drop)
    }

    /// Whether nothing may be read at this absolute path, roots or not.
    #[must_use]
    pub fn is_closed(&self, path: &Path) -> bool {
        self.guard.check(path, Access::Read).is_err()
    }

    /// The absolute path that was refused only because it lies beyond the
    /// roots, and what was wanted there.
    pub(crate) fn outside_roots(&self, refusal: &PolicyError) -> Option<(PathBuf, Access)> {
        match refusal {
            PolicyError::NotInRoot { path, access, .. } => Some((path.clone(), *access)),
            PolicyError::ParentTraversal { path, access } => {
                let spelled = self.working_dir.join(path);
                let plain = without_dots(&spelled);
                // Where `..` follows a link it means one thing to a shell and
                // another to a program. What comes back into a root has no
                // reason to leave it.
                let is_plain = resolved(&spelled) == resolved(&plain);
                let outside = self.roots.find(&plain, *access).is_none();
                (is_plain && outside).then_some((plain, *access))
            }
            _ => None,
        }
    }

    /// Where an absolute path beyond the roots leads.
    ///
    /// # Errors
    /// It stays closed wherever the roots are: it is sensitive or protected.
    pub(crate) fn beyond_roots(&self, path: &Path, access: Access) -> Result<PathBuf, PolicyError> {
        let real = resolved(path);
        for path in [path, &real] {
            self.guard.check(path, access)?;
            kernel::refuse_proc_path(path, access)?;
        }
        Ok(real)
    }

    /// Checks the path as spelled.
    fn admit(&self, path: &Path, access: Access) -> Result<Spelled, PolicyError> {
        let spelled = Spelled::read(path, access, &self.working_dir, &self.roots)?;
        self.guard.check(spelled.absolute(), access)?;
        self.roots.covering(spelled.absolute(), access)?;
        kernel::refuse_proc_path(spelled.absolute(), access)?;
        Ok(spelled)
    }

    /// Resolves the path and checks where it led.
    fn resolve(&self, spelled: &Spelled, access: Access) -> Result<ResolvedPath, PolicyError> {
        let found = walk::locate(&self.roots, spelled, access)?;
        self.guard.check(&found.path(), access)?;
        kernel::refuse_proc_handle(found.directory(), &found.path(), access)?;
        Ok(found)
    }
}
