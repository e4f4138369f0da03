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
mod elsewhere;
mod guard;
mod handles;
mod kernel;
mod place;
mod placed;
mod read;
mod roots;
mod sensitive;
mod spelled;
mod walk;
mod write;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Access, PolicyError};
use crate::permission::resolved;
use crate::settings::{PolicySettings, SessionScope};

pub use elsewhere::{
    FileKind, FilePiece, FilePlace, FileRules, PlacedEntry, PlacedFiles, PlacedWalk,
    PlacedWalkPlan, RenameOver, SessionFiles, WalkedEntry, directory_mark,
};
use guard::ClosedPaths;
pub use handles::{
    DeleteTicket, DirHandle, FileMetadata, FileReader, ReadHandle, RenameTicket, SetAside,
    WriteTicket,
};
use place::{DeleteHere, NamePlace, RenameHere};
use read::{DirHere, ReadHere};
pub use read::{DirectoryEntry, Listing};
use roots::{Base, SessionRoots};
pub(crate) use sensitive::fold;
pub use sensitive::{BUILTIN_SENSITIVE_PATTERNS, BUILTIN_WRITE_PROTECTED_PATTERNS};
use spelled::Spelled;
pub(crate) use spelled::without_dots;
use walk::ResolvedPath;
use write::WriteHere;
pub use write::{Precondition, Written};

/// Opens files and directories for one session, inside its roots only.
///
/// Paths may be absolute or relative to the session's directory.
#[derive(Debug)]
pub struct FileDoor {
    working_dir: PathBuf,
    roots: SessionRoots,
    guard: Arc<ClosedPaths>,
    /// The files in those roots that are not this machine's.
    placed: Option<Arc<dyn PlacedFiles>>,
}

impl FileDoor {
    pub(crate) fn bind(
        settings: &PolicySettings,
        scope: &SessionScope,
    ) -> Result<Self, PolicyError> {
        let Some(SessionFiles(place)) = &scope.files else {
            let working_dir = spelled::session_directory(&scope.working_dir)?;
            return Ok(Self {
                roots: SessionRoots::bind(settings, scope, &working_dir)?,
                guard: Arc::new(ClosedPaths::bind(settings, scope, &working_dir)?),
                working_dir,
                placed: None,
            });
        };
        let working_dir = without_dots(&scope.working_dir);
        let files = place.open(placed::rules(settings, scope, &working_dir))?;
        Ok(Self {
            roots: SessionRoots::bind_elsewhere(settings, scope, &working_dir, files.as_ref())?,
            guard: Arc::new(ClosedPaths::bind(settings, scope, &working_dir)?),
            working_dir,
            placed: Some(files),
        })
    }

    /// The session's directory, as spelled when the session started.
    #[must_use]
    pub fn working_dir(&self) -> &Path {
        &self.working_dir
    }

    /// Whether the session's files are not those of this machine.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.placed.is_some()
    }

    /// The rules of the session as data.
    pub(crate) fn rules(&self, settings: &PolicySettings, scope: &SessionScope) -> FileRules {
        placed::rules(settings, scope, &self.working_dir)
    }

    /// The roots that may be written and are not this machine's, free of links.
    pub(crate) fn writable_elsewhere(&self) -> Vec<PathBuf> {
        self.roots.writable_elsewhere()
    }

    /// The files a path is one of, if those are not this machine's.
    fn placed_at(&self, path: &Path, access: Access) -> Option<&Arc<dyn PlacedFiles>> {
        let (root, _) = self.roots.find(path, access)?;
        self.placed.as_ref().filter(|_| root.is_elsewhere())
    }

    /// Checks where a path led elsewhere.
    fn check_led(&self, spelled: &Spelled, led: &Path, access: Access) -> Result<(), PolicyError> {
        self.guard.check(led, access)?;
        kernel::refuse_proc_path(led, access)?;
        match self.placed_at(led, access) {
            Some(_) => Ok(()),
            None => Err(PolicyError::SymlinkEscape {
                path: spelled.original().to_path_buf(),
                target: led.to_path_buf(),
                access,
            }),
        }
    }

    /// Has the place where the files are look where a path leads.
    fn look_elsewhere(
        &self,
        files: &Arc<dyn PlacedFiles>,
        spelled: &Spelled,
        access: Access,
    ) -> Result<PlacedEntry, PolicyError> {
        let found = files.look(spelled.absolute(), access)?;
        self.check_led(spelled, &found.path, access)?;
        Ok(found)
    }

    /// Where an absolute path leads, wherever its files are, as far as that can
    /// be told. Blocking.
    pub(crate) fn real_path(&self, path: &Path, access: Access) -> PathBuf {
        match self.placed_at(path, access) {
            Some(files) => files
                .look(path, access)
                .map_or_else(|_| path.to_path_buf(), |found| found.path),
            None => resolved(path),
        }
    }

    /// A place elsewhere that a file may be put at.
    fn file_place_elsewhere(
        &self,
        files: &Arc<dyn PlacedFiles>,
        spelled: &Spelled,
    ) -> Result<PlacedEntry, PolicyError> {
        let found = self.look_elsewhere(files, spelled, Access::Write)?;
        if let Some(kind) = found.kind {
            let shown = match kind {
                FileKind::Directory => &found.path,
                _ => spelled.original(),
            };
            read::refuse_special(kind.file_type(), shown, Access::Write)?;
        }
        Ok(found)
    }

    /// A name elsewhere that may be changed.
    fn name_elsewhere(
        &self,
        files: &Arc<dyn PlacedFiles>,
        spelled: &Spelled,
    ) -> Result<PlacedEntry, PolicyError> {
        let found = files.look_name(spelled.absolute())?;
        self.check_led(spelled, &found.path, Access::Write)?;
        Ok(found)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// The path is outside the read roots, sensitive or protected, missing, or
    /// no regular file. A FIFO, socket or device is refused without waiting
    /// for its other end.
    pub fn open_read(&self, path: &Path) -> Result<ReadHandle, PolicyError> {
        let spelled = self.admit(path, Access::Read)?;
        if let Some(files) = self.placed_at(spelled.absolute(), Access::Read) {
            let file = elsewhere::ReadElsewhere::open(files, spelled.absolute())
                .map_err(|error| spelled.named_in(error))?;
            self.check_led(&spelled, &file.file.path, Access::Read)?;
            return Ok(ReadHandle::elsewhere(file));
        }
        match self.resolve(&spelled, Access::Read)? {
            ResolvedPath::Directory(directory) => Err(PolicyError::NotAFile {
                path: directory.path,
            }),
            ResolvedPath::Entry(place) => {
                let handle = ReadHere::open(&place, &spelled)?;
                self.guard
                    .check_identity(handle.metadata(), handle.resolved(), Access::Read)?;
                Ok(ReadHandle::here(handle))
            }
        }
    }

    /// As [`FileDoor::open_read`], with fewer system calls, for a name that a
    /// listing has just shown as a regular file. What was put in its place
    /// since is refused all the same, but may notice that it was opened.
    ///
    /// # Errors
    /// As [`FileDoor::open_read`].
    pub fn open_listed(&self, path: &Path) -> Result<ReadHandle, PolicyError> {
        let spelled = self.admit(path, Access::Read)?;
        if self.placed_at(spelled.absolute(), Access::Read).is_some() {
            return self.open_read(path);
        }
        let (root, rest) = self.roots.covering(spelled.absolute(), Access::Read)?;
        let Base::Here {
            directory,
            path: base,
        } = root.base()?
        else {
            return self.open_read(path);
        };
        // Below the root there is no link, so this is where it leads.
        let resolved = base.join(rest);
        if resolved != spelled.absolute() {
            self.guard.check(&resolved, Access::Read)?;
        }
        let Some(file) = kernel::open_descendant_file(directory.as_fd(), rest) else {
            return self.open_read(path);
        };
        kernel::refuse_proc_handle(file.as_fd(), &resolved, Access::Read)?;
        let handle = ReadHere::of_file(file, resolved)?;
        self.guard
            .check_identity(handle.metadata(), handle.resolved(), Access::Read)?;
        Ok(ReadHandle::here(handle))
    }

    /// Opens a directory, to walk it.
    ///
    /// # Errors
    /// As [`FileDoor::open_read`], and if the path is no directory.
    pub fn open_dir(&self, path: &Path) -> Result<DirHandle, PolicyError> {
        let spelled = self.admit(path, Access::Read)?;
        if let Some(files) = self.placed_at(spelled.absolute(), Access::Read) {
            let found = self
                .look_elsewhere(files, &spelled, Access::Read)
                .map_err(|error| spelled.named_in(error))?;
            return match found.kind {
                Some(FileKind::Directory) => {
                    let spelled = spelled.into_original();
                    Ok(DirHandle::elsewhere(files, found.path, spelled))
                }
                None => Err(PolicyError::NotFound {
                    path: spelled.into_original(),
                }),
                Some(_) => Err(PolicyError::NotADirectory { path: found.path }),
            };
        }
        let (root, _) = self.roots.covering(spelled.absolute(), Access::Read)?;
        let root = root.open_anchor()?;
        match self.resolve(&spelled, Access::Read)? {
            ResolvedPath::Directory(directory) => {
                DirHere::open(&directory, spelled, root).map(DirHandle::here)
            }
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
        if let Some(files) = self.placed_at(spelled.absolute(), Access::Write) {
            let found = self.file_place_elsewhere(files, &spelled)?;
            return Ok(WriteTicket::elsewhere(files, found));
        }
        match self.resolve(&spelled, Access::Write)? {
            ResolvedPath::Directory(directory) => Err(PolicyError::NotAFile {
                path: directory.path,
            }),
            ResolvedPath::Entry(place) => {
                WriteHere::issue(place, &spelled, Arc::clone(&self.guard)).map(WriteTicket::here)
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
        let spelled = self.admit(path, Access::Write)?;
        if let Some(files) = self.placed_at(spelled.absolute(), Access::Write) {
            let found = self
                .name_elsewhere(files, &spelled)
                .map_err(|error| spelled.named_in(error))?;
            return Ok(DeleteTicket::elsewhere(files, found));
        }
        Ok(DeleteTicket::here(self.delete_here(path)?))
    }

    fn delete_here(&self, path: &Path) -> Result<DeleteHere, PolicyError> {
        let place = self.name_place(path)?;
        Ok(DeleteHere::issue(place, Arc::clone(&self.guard)))
    }

    /// Decides what a rename would move where, without changing anything yet.
    ///
    /// # Errors
    /// Either path is outside the write roots, sensitive or protected, a
    /// directory or a special file, or leads out of the write roots; or there
    /// is nothing to rename; or one of them is on this machine and the other
    /// is not.
    pub fn prepare_rename(&self, from: &Path, to: &Path) -> Result<RenameTicket, PolicyError> {
        let source = self.admit(from, Access::Write)?;
        let spelled = self.admit(to, Access::Write)?;
        let sides = [&source, &spelled].map(|path| self.placed_at(path.absolute(), Access::Write));
        match sides {
            [Some(files), Some(_)] => {
                let found = self
                    .name_elsewhere(files, &source)
                    .map_err(|error| source.named_in(error))?;
                let to = self.file_place_elsewhere(files, &spelled)?;
                return RenameTicket::elsewhere(files, found, to.path);
            }
            [None, None] => {}
            _ => {
                return Err(PolicyError::InvalidPath {
                    path: to.to_path_buf(),
                    reason: "it is on another machine than the file; write it there and delete \
                             the other",
                });
            }
        }
        let from = self.name_place(from)?;
        match self.resolve(&spelled, Access::Write)? {
            ResolvedPath::Directory(directory) => Err(PolicyError::NotAFile {
                path: directory.path,
            }),
            ResolvedPath::Entry(place) => {
                if let Some(kind) = place.kind {
                    read::refuse_special(kind, spelled.original(), Access::Write)?;
                }
                RenameHere::issue(from, place).map(RenameTicket::here)
            }
        }
    }

    /// Creates a directory and its missing parents. Gives whether it is new.
    ///
    /// # Errors
    /// As [`FileDoor::prepare_write`], and if something else has the name.
    pub fn create_dir(&self, path: &Path) -> Result<bool, PolicyError> {
        let spelled = self.admit(path, Access::Write)?;
        if let Some(files) = self.placed_at(spelled.absolute(), Access::Write) {
            let found = self.look_elsewhere(files, &spelled, Access::Write)?;
            return files.create_dir(&found.path);
        }
        match self.resolve(&spelled, Access::Write)? {
            ResolvedPath::Directory(_) => Ok(false),
            ResolvedPath::Entry(place) => place::create_dir(&place),
        }
    }

    /// Has the place where a directory is walk it for a search; absent if that is
    /// this machine. Files in it still have to be opened.
    ///
    /// # Errors
    /// As [`FileDoor::open_dir`].
    pub fn walk_elsewhere(
        &self,
        root: &Path,
        plan: &PlacedWalkPlan,
    ) -> Result<Option<PlacedWalk>, PolicyError> {
        let Some(files) = self.placed_at(root, Access::Read) else {
            return Ok(None);
        };
        let mut walk = files.walk(root, plan)?;
        let found = walk.entries.len();
        walk.entries
            .retain(|entry| self.guard.check(&entry.path, Access::Read).is_ok());
        walk.closed += found - walk.entries.len();
        Ok(Some(walk))
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
        if self.roots.find(around.absolute(), Access::Write).is_none() {
            return Err(PolicyError::InvalidPath {
                path: path.to_path_buf(),
                reason: "it is an allowed directory itself, which stays; name what is in it",
            });
        }
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
                let is_plain = self.leads_to(&spelled) == self.leads_to(&plain);
                let outside = self.roots.find(&plain, *access).is_none();
                (is_plain && outside).then_some((plain, *access))
            }
            _ => None,
        }
    }

    /// Where the links of a path lead; elsewhere that is not known before it is
    /// opened.
    pub(crate) fn leads_to(&self, path: &Path) -> PathBuf {
        match self.is_elsewhere() {
            true => without_dots(path),
            false => resolved(path),
        }
    }

    /// Where an absolute path beyond the roots leads.
    ///
    /// # Errors
    /// It stays closed wherever the roots are: it is sensitive or protected.
    pub(crate) fn beyond_roots(&self, path: &Path, access: Access) -> Result<PathBuf, PolicyError> {
        let real = self.leads_to(path);
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
        let path = found.path();
        if path != spelled.absolute() {
            self.guard.check(&path, access)?;
        }
        kernel::refuse_proc_handle(found.directory(), &path, access)?;
        Ok(found)
    }
}
