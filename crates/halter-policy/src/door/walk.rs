//! Resolving a path one component at a time, from pinned handle to pinned
//! handle.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use crate::error::{Access, PolicyError};
use crate::limits::{MAX_LINKS_FOLLOWED, MAX_OPEN_DIRECTORIES};

use super::kernel::{self, NameKind};
use super::roots::{Base, SessionRoot, SessionRoots};
use super::spelled::{self, Spelled};

/// Where a path leads.
#[derive(Debug)]
pub(super) enum ResolvedPath {
    Directory(FoundDirectory),
    Entry(EntryPlace),
}

/// A directory, held by a handle.
#[derive(Debug)]
pub(super) struct FoundDirectory {
    pub(super) handle: Arc<OwnedFd>,
    pub(super) path: PathBuf,
}

/// A name in a directory, which is held by a handle. The name was no link and
/// no directory when it was looked at.
#[derive(Debug)]
pub(super) struct EntryPlace {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) directory_path: PathBuf,
    /// Directories that do not exist yet, between `directory` and `name`.
    pub(super) missing: Vec<OsString>,
    pub(super) name: OsString,
    /// What is there; `None`: nothing.
    pub(super) kind: Option<FileType>,
}

impl EntryPlace {
    pub(super) fn path(&self) -> PathBuf {
        let mut path = self.directory_path.clone();
        path.extend(&self.missing);
        path.push(&self.name);
        path
    }
}

impl ResolvedPath {
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.path.clone(),
            Self::Entry(place) => place.path(),
        }
    }

    /// The handle everything else is relative to.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        match self {
            Self::Directory(directory) => directory.handle.as_fd(),
            Self::Entry(place) => place.directory.as_fd(),
        }
    }
}

/// Resolves a spelled path below the roots that allow the access.
pub(super) fn locate(
    roots: &SessionRoots,
    spelled: &Spelled,
    access: Access,
) -> Result<ResolvedPath, PolicyError> {
    let (root, rest) = roots.covering(spelled.absolute(), access)?;
    let walk = PathWalk::new(roots, spelled, access);
    match walk.direct(root, rest)? {
        Some(found) => Ok(found),
        None => walk.step_by_step(root, rest),
    }
}

/// One step of a walk.
#[derive(Debug)]
enum PathStep {
    Up,
    Into(OsString),
}

struct PathWalk<'a> {
    roots: &'a SessionRoots,
    spelled: &'a Spelled,
    access: Access,
    /// The root the walk is below, and where that is.
    base: PathBuf,
    base_handle: Option<Arc<OwnedFd>>,
    /// Directories below the base, each reached without following a link.
    below: Vec<(OsString, Arc<OwnedFd>)>,
    steps: VecDeque<PathStep>,
    links: usize,
}

impl<'a> PathWalk<'a> {
    fn new(roots: &'a SessionRoots, spelled: &'a Spelled, access: Access) -> Self {
        Self {
            roots,
            spelled,
            access,
            base: PathBuf::new(),
            base_handle: None,
            below: Vec::new(),
            steps: VecDeque::new(),
            links: 0,
        }
    }

    /// The common case, in few system calls: a path without links whose parent
    /// exists. `None`: take it step by step.
    fn direct(&self, root: &SessionRoot, rest: &Path) -> Result<Option<ResolvedPath>, PolicyError> {
        let (Some(name), Some(parent)) = (rest.file_name(), rest.parent()) else {
            return Ok(None);
        };
        let Base::Here { directory, path } = root.base()? else {
            return Ok(None);
        };
        let handle = if parent.as_os_str().is_empty() {
            directory
        } else {
            match kernel::open_descendant(directory.as_fd(), parent) {
                Some(handle) => Arc::new(handle),
                None => return Ok(None),
            }
        };
        let directory_path = path.join(parent);
        let kind = match self.look(handle.as_fd(), name)? {
            NameKind::Link(_) => return Ok(None),
            NameKind::Directory(child) => {
                return Ok(Some(ResolvedPath::Directory(FoundDirectory {
                    handle: Arc::new(child),
                    path: directory_path.join(name),
                })));
            }
            NameKind::Missing => None,
            NameKind::Other(kind) => Some(kind),
        };
        Ok(Some(ResolvedPath::Entry(EntryPlace {
            directory: handle,
            directory_path,
            missing: Vec::new(),
            name: name.to_owned(),
            kind,
        })))
    }

    fn step_by_step(
        mut self,
        root: &SessionRoot,
        rest: &Path,
    ) -> Result<ResolvedPath, PolicyError> {
        self.steps = spelled::names(rest)
            .map(|name| PathStep::Into(name.to_owned()))
            .collect();
        if let Some(absent) = self.enter(root)? {
            return Ok(absent);
        }
        while let Some(step) = self.steps.pop_front() {
            let done = match step {
                PathStep::Up if self.below.pop().is_some() => None,
                PathStep::Up => self.leave_base()?,
                PathStep::Into(name) => self.descend(name)?,
            };
            if let Some(found) = done {
                return Ok(found);
            }
        }
        Ok(ResolvedPath::Directory(FoundDirectory {
            handle: self.current()?,
            path: self.current_path(),
        }))
    }

    /// Starts over at a root. `Some`: the root does not exist yet, so the rest
    /// is missing.
    fn enter(&mut self, root: &SessionRoot) -> Result<Option<ResolvedPath>, PolicyError> {
        self.below.clear();
        match root.base()? {
            Base::Here { directory, path } => {
                self.base = path;
                self.base_handle = Some(directory);
                Ok(None)
            }
            Base::Absent {
                directory,
                path,
                below,
            } => {
                self.base = path;
                self.base_handle = Some(directory);
                for name in below.into_iter().rev() {
                    self.steps.push_front(PathStep::Into(name));
                }
                self.missing_from_here().map(Some)
            }
        }
    }

    fn descend(&mut self, name: OsString) -> Result<Option<ResolvedPath>, PolicyError> {
        let current = self.current()?;
        match self.look(current.as_fd(), &name)? {
            NameKind::Directory(child) => {
                if self.below.len() >= MAX_OPEN_DIRECTORIES {
                    return Err(self.invalid("it leads through too many directories"));
                }
                self.below.push((name, Arc::new(child)));
                Ok(None)
            }
            NameKind::Link(target) => self.follow(&target),
            NameKind::Missing => {
                self.steps.push_front(PathStep::Into(name));
                self.missing_from_here().map(Some)
            }
            NameKind::Other(kind) if self.steps.is_empty() => {
                Ok(Some(ResolvedPath::Entry(EntryPlace {
                    directory: current,
                    directory_path: self.current_path(),
                    missing: Vec::new(),
                    name,
                    kind: Some(kind),
                })))
            }
            NameKind::Other(_) => Err(PolicyError::NotADirectory {
                path: self.current_path().join(name),
            }),
        }
    }

    /// Goes where a link points: a relative one from where it lies, an
    /// absolute one only into a root.
    fn follow(&mut self, target: &Path) -> Result<Option<ResolvedPath>, PolicyError> {
        self.links += 1;
        if self.links > MAX_LINKS_FOLLOWED {
            return Err(self.invalid("it leads through too many symbolic links"));
        }
        for component in target.components().rev() {
            match component {
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
                Component::ParentDir => self.steps.push_front(PathStep::Up),
                Component::Normal(name) => self.steps.push_front(PathStep::Into(name.to_owned())),
            }
        }
        if target.is_absolute() {
            self.rebase(PathBuf::from("/"))
        } else {
            Ok(None)
        }
    }

    /// A link's `..` above the root the walk is in: that may still lie in
    /// another root. The base is free of links, so its parent is plain.
    fn leave_base(&mut self) -> Result<Option<ResolvedPath>, PolicyError> {
        let mut above = self.base.clone();
        above.pop();
        while let Some(PathStep::Up) = self.steps.front() {
            self.steps.pop_front();
            above.pop();
        }
        self.rebase(above)
    }

    /// Goes on from `start`, by the root it and the coming steps lie in.
    fn rebase(&mut self, start: PathBuf) -> Result<Option<ResolvedPath>, PolicyError> {
        let mut target = start;
        while let Some(PathStep::Into(name)) = self.steps.front() {
            target.push(name);
            self.steps.pop_front();
        }
        let Some((root, rest)) = self.roots.find(&target, self.access) else {
            return Err(PolicyError::SymlinkEscape {
                path: self.spelled.original().to_path_buf(),
                target,
                access: self.access,
            });
        };
        let names: Vec<_> = spelled::names(rest).map(ToOwned::to_owned).collect();
        for name in names.into_iter().rev() {
            self.steps.push_front(PathStep::Into(name));
        }
        self.enter(root)
    }

    /// Nothing is at the next step. That is a place to write to if only names
    /// follow.
    fn missing_from_here(&mut self) -> Result<ResolvedPath, PolicyError> {
        let mut names = Vec::new();
        for step in std::mem::take(&mut self.steps) {
            match step {
                PathStep::Into(name) => names.push(name),
                PathStep::Up => return Err(self.not_found()),
            }
        }
        let Some(name) = names.pop() else {
            return Err(self.not_found());
        };
        if self.access == Access::Read && !names.is_empty() {
            return Err(self.not_found());
        }
        Ok(ResolvedPath::Entry(EntryPlace {
            directory: self.current()?,
            directory_path: self.current_path(),
            missing: names,
            name,
            kind: None,
        }))
    }

    fn look(
        &self,
        directory: BorrowedFd<'_>,
        name: &std::ffi::OsStr,
    ) -> Result<NameKind, PolicyError> {
        kernel::look(directory, name)
            .map_err(|error| PolicyError::io("look at", self.spelled.original(), error))
    }

    fn current(&self) -> Result<Arc<OwnedFd>, PolicyError> {
        let handle = self.below.last().map(|(_, handle)| handle);
        handle
            .or(self.base_handle.as_ref())
            .cloned()
            .ok_or_else(|| self.not_found())
    }

    fn current_path(&self) -> PathBuf {
        let mut path = self.base.clone();
        path.extend(self.below.iter().map(|(name, _)| name));
        path
    }

    fn not_found(&self) -> PolicyError {
        PolicyError::NotFound {
            path: self.spelled.original().to_path_buf(),
        }
    }

    fn invalid(&self, reason: &'static str) -> PolicyError {
        PolicyError::InvalidPath {
            path: self.spelled.original().to_path_buf(),
            reason,
        }
    }
}
