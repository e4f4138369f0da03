//! The files of this machine for a session on another one: a door serves them
//! under the rules that came from there.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::error::{Access, PolicyError};
use crate::permission::Permissions;
use crate::search::{HiddenNames, walk_builder};
use crate::settings::{PolicySettings, SessionScope};

use super::elsewhere::{
    FileKind, FilePiece, FileRules, PlacedEntry, PlacedFiles, PlacedWalk, PlacedWalkPlan,
    RenameOver, WalkedEntry,
};
use super::read::{Listing, ReadHere};
use super::roots::given_read_roots;
use super::walk::{EntryPlace, ResolvedPath};
use super::write::{Precondition, WriteHere, Written};
use super::{FileDoor, kernel, read, spelled};

/// The rules of a session as data.
pub(crate) fn rules(
    settings: &PolicySettings,
    scope: &SessionScope,
    working_dir: &Path,
) -> FileRules {
    let absolute = |path: &PathBuf| spelled::without_dots(&working_dir.join(path));
    FileRules {
        working_dir: working_dir.to_path_buf(),
        write_roots: settings.allowed_write_roots.iter().map(absolute).collect(),
        read_roots: given_read_roots(settings, scope)
            .iter()
            .map(absolute)
            .collect(),
        sensitive: settings.sensitive_path_patterns.clone(),
        closed: scope.protected.iter().map(absolute).collect(),
        home: settings.permissions.home.clone(),
    }
}

impl FileRules {
    /// The same rules for a session of this machine.
    pub(crate) fn as_settings(&self) -> (PolicySettings, SessionScope) {
        let settings = PolicySettings {
            allowed_write_roots: self.write_roots.clone(),
            allowed_read_roots: self.read_roots.clone(),
            sensitive_path_patterns: self.sensitive.clone(),
            permissions: Permissions {
                home: self.home.clone(),
                ..Permissions::default()
            },
            ..PolicySettings::default()
        };
        let scope = SessionScope {
            working_dir: self.working_dir.clone(),
            protected: self.closed.clone(),
            only_given_roots: true,
            ..SessionScope::default()
        };
        (settings, scope)
    }
}

impl FileDoor {
    /// A door to the files of this machine, under rules that came from another.
    ///
    /// # Errors
    /// The session's directory or a root cannot be used, or a pattern is
    /// malformed.
    pub fn for_rules(rules: &FileRules) -> Result<Self, PolicyError> {
        let (settings, scope) = rules.as_settings();
        Self::bind(&settings, &scope)
    }

    /// A place that was looked at before, found again without following links.
    fn same_place(&self, path: &Path) -> Result<EntryPlace, PolicyError> {
        let spelled = self.admit(path, Access::Write)?;
        match self.resolve(&spelled, Access::Write)? {
            ResolvedPath::Entry(place) if place.path() == path => Ok(place),
            ResolvedPath::Directory(directory) if directory.path == path => {
                Err(PolicyError::NotAFile {
                    path: path.to_path_buf(),
                })
            }
            _ => Err(PolicyError::Changed {
                path: path.to_path_buf(),
            }),
        }
    }

    /// Fails if the name stands for something else than it did.
    fn check_identity(&self, found: &PlacedEntry) -> Result<(), PolicyError> {
        let now = PlacedFiles::look_name(self, &found.path)?;
        match now.identity == found.identity && now.path == found.path {
            true => Ok(()),
            false => Err(PolicyError::Changed {
                path: found.path.clone(),
            }),
        }
    }
}

fn entry(path: PathBuf, stat: &Stat) -> PlacedEntry {
    let (device, inode) = (stat.st_dev, stat.st_ino);
    // A number of a file that is gone may be given to something else.
    let kind = FileKind::of(FileType::from_raw_mode(stat.st_mode));
    let (seconds, nanos, size) = (stat.st_mtime, stat.st_mtime_nsec, stat.st_size);
    PlacedEntry {
        path,
        kind: Some(kind),
        missing: 0,
        len: u64::try_from(size).unwrap_or_default(),
        owner: stat.st_uid,
        identity: format!("{device:x}-{inode:x}-{}", kind.name()),
        version: format!("{device:x}-{inode:x}-{size:x}-{seconds:x}.{nanos:x}"),
    }
}

fn nothing(path: PathBuf, missing: usize) -> PlacedEntry {
    PlacedEntry {
        path,
        missing,
        ..PlacedEntry::default()
    }
}

impl PlacedFiles for FileDoor {
    fn look(&self, path: &Path, access: Access) -> Result<PlacedEntry, PolicyError> {
        let spelled = self.admit(path, access)?;
        match self.resolve(&spelled, access)? {
            ResolvedPath::Directory(directory) => {
                let stat = rustix::fs::fstat(&directory.handle)
                    .map_err(|error| PolicyError::io("look at", path, error))?;
                Ok(entry(directory.path, &stat))
            }
            ResolvedPath::Entry(place) => {
                let resolved = place.path();
                if place.kind.is_none() {
                    return Ok(nothing(resolved, place.missing.len()));
                }
                match kernel::stat(std::os::fd::AsFd::as_fd(&place.directory), &place.name) {
                    Ok(stat) => Ok(entry(resolved, &stat)),
                    Err(Errno::NOENT) => Ok(nothing(resolved, 0)),
                    Err(error) => Err(PolicyError::io("look at", path, error)),
                }
            }
        }
    }

    fn look_name(&self, path: &Path) -> Result<PlacedEntry, PolicyError> {
        let place = self.name_place(path)?;
        Ok(entry(place.path.clone(), place.stat()))
    }

    fn read(
        &self,
        path: &Path,
        offset: u64,
        max: usize,
        version: Option<&str>,
    ) -> Result<FilePiece, PolicyError> {
        let spelled = self.admit(path, Access::Read)?;
        let place = match self.resolve(&spelled, Access::Read)? {
            ResolvedPath::Directory(directory) => {
                return Err(PolicyError::NotAFile {
                    path: directory.path,
                });
            }
            ResolvedPath::Entry(place) => place,
        };
        let handle = ReadHere::open(&place, &spelled)?;
        self.guard
            .check_identity(handle.metadata(), handle.resolved(), Access::Read)?;
        let failed = |error: std::io::Error| PolicyError::io("read", handle.resolved(), error);
        let looked = || {
            let stat = rustix::fs::fstat(handle.file()).map_err(|error| failed(error.into()))?;
            Ok::<_, PolicyError>(entry(handle.resolved().to_path_buf(), &stat))
        };
        let file = looked()?;
        let changed = || PolicyError::Changed {
            path: file.path.clone(),
        };
        if version.is_some_and(|version| version != file.version) {
            return Err(changed());
        }
        let left = usize::try_from(file.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(max.min(left));
        let mut content = handle.file();
        content
            .seek(SeekFrom::Start(offset))
            .and_then(|_| content.take(max as u64).read_to_end(&mut bytes))
            .map_err(failed)?;
        // A file that is written meanwhile would be read half old, half new.
        if looked()?.version != file.version {
            return Err(changed());
        }
        Ok(FilePiece { file, bytes })
    }

    fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        precondition: &Precondition,
    ) -> Result<Written, PolicyError> {
        let spelled = self.admit(path, Access::Write)?;
        let ticket = WriteHere::issue(self.same_place(path)?, &spelled, Arc::clone(&self.guard))?;
        ticket.commit(bytes, precondition.clone())
    }

    fn list(&self, path: &Path, max: usize) -> Result<Listing, PolicyError> {
        FileDoor::list(self, path, max)
    }

    fn walk(&self, path: &Path, plan: &PlacedWalkPlan) -> Result<PlacedWalk, PolicyError> {
        let root = self.open_dir(path)?.path().to_path_buf();
        let closed = Arc::new(AtomicUsize::new(0));
        let guard = Arc::clone(&self.guard);
        let may_read = move |path: &Path| guard.check(path, Access::Read).is_ok();
        let hidden = HiddenNames::named_in(&plan.hidden);
        let counted = Arc::clone(&closed);
        let mut builder = walk_builder(&root, &self.working_dir, hidden, may_read, counted)?;
        let mut walk = PlacedWalk::default();
        for found in builder.max_depth(plan.max_depth).build() {
            match found {
                Ok(found) if found.depth() == 0 => {}
                Ok(_) if walk.entries.len() >= plan.max => {
                    walk.is_cut = true;
                    break;
                }
                Ok(found) => {
                    let kind = found.file_type().map_or(FileKind::Other, |kind| match () {
                        () if kind.is_dir() => FileKind::Directory,
                        () if kind.is_symlink() => FileKind::Link,
                        () if kind.is_file() => FileKind::File,
                        () => FileKind::Other,
                    });
                    let looked = found.metadata().ok();
                    walk.entries.push(WalkedEntry {
                        modified: looked.and_then(|it| it.modified().ok()),
                        path: found.into_path(),
                        kind,
                    });
                }
                Err(_) => walk.unreadable += 1,
            }
        }
        walk.closed = closed.load(Ordering::Relaxed);
        Ok(walk)
    }

    fn check_tree(&self, path: &Path, max: usize) -> Result<usize, PolicyError> {
        self.delete_here(path)?.check_tree(max)
    }

    fn remove(&self, found: &PlacedEntry, tree: Option<usize>) -> Result<(), PolicyError> {
        self.check_identity(found)?;
        let ticket = self.delete_here(&found.path)?;
        match tree {
            Some(max) if ticket.is_directory() => {
                ticket.check_tree(max)?;
                ticket.set_aside()?.discard()
            }
            _ => ticket.commit(),
        }
    }

    fn rename(&self, found: &PlacedEntry, to: &Path, over: RenameOver) -> Result<(), PolicyError> {
        self.check_identity(found)?;
        let place = self.same_place(to)?;
        if let Some(kind) = place.kind {
            read::refuse_special(kind, to, Access::Write)?;
        }
        self.prepare_rename(&found.path, to)?.commit(over)
    }

    fn create_dir(&self, path: &Path) -> Result<bool, PolicyError> {
        FileDoor::create_dir(self, path)
    }
}
