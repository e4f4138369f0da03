//! The directories a session may use, chosen when it starts.
//!
//! A session remembers which directory each root was, and opens it for the time
//! of an operation: a session that does nothing holds no descriptor, and a
//! directory put in a root's place later is not taken for it.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::error::{Access, PolicyError};
use crate::settings::{PolicySettings, SessionScope};

use super::elsewhere::PlacedFiles;
use super::kernel::{self, NameKind};
use super::spelled;

/// Every root of a session.
#[derive(Debug)]
pub(super) struct SessionRoots {
    roots: Vec<SessionRoot>,
    /// Whether `..` may pass through directories beyond the roots.
    parents_judged: bool,
}

/// One directory that may be read, or read and written.
#[derive(Debug)]
pub(super) struct SessionRoot {
    /// As configured, made absolute.
    spelled: PathBuf,
    place: RootPlace,
    writable: bool,
}

#[derive(Debug)]
enum RootPlace {
    Here(RootHere),
    /// Not on this machine: there it is this directory, free of links.
    Elsewhere(PathBuf),
}

#[derive(Debug)]
struct RootHere {
    /// The directory that was there when the session started: the root
    /// itself, or the nearest ancestor of a root that did not exist yet.
    anchor: Anchor,
    /// What is missing between `anchor` and the root.
    missing: Vec<OsString>,
    /// Others may create entries in `anchor`, so what appears under the name
    /// of a missing root must be ours.
    shared_anchor: bool,
}

/// A directory by identity, open only while somebody uses it.
#[derive(Debug)]
struct Anchor {
    /// Where it was found, free of links.
    path: PathBuf,
    /// What tells it from another directory at the same path.
    identity: Stat,
    /// The handle of the operations that are going on.
    open: Mutex<Weak<OwnedFd>>,
}

/// Where a walk below a root starts.
pub(super) enum Base {
    /// The root exists.
    Here {
        directory: Arc<OwnedFd>,
        path: PathBuf,
    },
    /// It does not: `below` the directory, these names are missing.
    Absent {
        directory: Arc<OwnedFd>,
        path: PathBuf,
        below: Vec<OsString>,
    },
}

impl SessionRoots {
    pub(super) fn bind(
        settings: &PolicySettings,
        scope: &SessionScope,
        working_dir: &Path,
    ) -> Result<Self, PolicyError> {
        let read_roots = given_read_roots(settings, scope);
        let writable = settings
            .allowed_write_roots
            .iter()
            .chain(&scope.extra_write_roots)
            .chain(&scope.scratch_dir);
        let readable = read_roots.iter().chain(&scope.extra_read_roots);
        let mut roots = Self {
            roots: Vec::new(),
            parents_judged: scope.parents_judged,
        };
        for path in writable {
            roots.add(path, working_dir, Access::Write)?;
        }
        for path in readable {
            roots.add(path, working_dir, Access::Read)?;
        }
        Ok(roots)
    }

    /// The roots of a session whose files are elsewhere. What the harness itself
    /// gives it, such as its scratch directory and its skills, is here.
    pub(super) fn bind_elsewhere(
        settings: &PolicySettings,
        scope: &SessionScope,
        working_dir: &Path,
        files: &dyn PlacedFiles,
    ) -> Result<Self, PolicyError> {
        let mut roots = Self {
            roots: Vec::new(),
            parents_judged: scope.parents_judged,
        };
        if let Some(path) = &scope.scratch_dir {
            roots.add(path, working_dir, Access::Write)?;
        }
        for path in &scope.extra_read_roots {
            roots.add(path, working_dir, Access::Read)?;
        }
        let writable = settings.allowed_write_roots.iter();
        let readable = given_read_roots(settings, scope);
        for (path, writable) in writable
            .map(|path| (path, true))
            .chain(readable.iter().map(|path| (path, false)))
        {
            let spelled = spelled::without_dots(&working_dir.join(path));
            let known = |root: &SessionRoot| root.is_elsewhere() && root.spelled == spelled;
            if let Some(root) = roots.roots.iter().find(|root| known(root)) {
                let place = RootPlace::Elsewhere(root.real());
                if writable && !root.writable {
                    roots.roots.push(SessionRoot {
                        spelled,
                        place,
                        writable,
                    });
                }
                continue;
            }
            // One that is not there yet may be made there later.
            let real = match files.look(&spelled, Access::Read) {
                Ok(found) => found.path,
                Err(PolicyError::NotFound { .. }) => spelled.clone(),
                // It is no root there.
                Err(error) if error.is_denial() => continue,
                Err(error) => return Err(error),
            };
            roots.roots.push(SessionRoot {
                spelled,
                place: RootPlace::Elsewhere(real),
                writable,
            });
        }
        Ok(roots)
    }

    fn add(&mut self, path: &Path, working_dir: &Path, access: Access) -> Result<(), PolicyError> {
        let spelled = spelled::configured(path, working_dir);
        // The user stands in the session's directory, so it is meant whoever
        // owns it.
        let chosen = working_dir.starts_with(&spelled);
        if let Some(root) = SessionRoot::bind(spelled, access, chosen)? {
            self.roots.push(root);
        }
        Ok(())
    }

    /// The root a path lies in, and what follows the root in the path. Of
    /// nested roots the outermost is taken, so that an inner one may be
    /// removed and created again while the session lives.
    pub(super) fn covering<'a>(
        &'a self,
        path: &'a Path,
        access: Access,
    ) -> Result<(&'a SessionRoot, &'a Path), PolicyError> {
        self.find(path, access)
            .ok_or_else(|| PolicyError::NotInRoot {
                path: path.to_path_buf(),
                access,
                roots: self.listed(access),
            })
    }

    /// As [`SessionRoots::covering`], for a caller that has its own error.
    pub(super) fn find<'a>(
        &'a self,
        path: &'a Path,
        access: Access,
    ) -> Option<(&'a SessionRoot, &'a Path)> {
        // What is on this machine lies in directories that nobody names there.
        self.allowing(access)
            .filter_map(|root| root.rest_of(path).map(|rest| (root, rest)))
            .max_by_key(|(root, rest)| (!root.is_elsewhere(), rest.components().count()))
    }

    /// Whether `..` may lead here on its way.
    pub(super) fn admit_step(&self, path: &Path) -> bool {
        self.parents_judged || self.find(path, Access::Read).is_some()
    }

    fn allowing(&self, access: Access) -> impl Iterator<Item = &SessionRoot> {
        self.roots.iter().filter(move |root| match access {
            Access::Read => true,
            Access::Write => root.writable,
        })
    }

    pub(super) fn writable_elsewhere(&self) -> Vec<PathBuf> {
        self.allowing(Access::Write)
            .filter(|root| root.is_elsewhere())
            .map(SessionRoot::real)
            .collect()
    }

    fn listed(&self, access: Access) -> Vec<PathBuf> {
        let mut listed: Vec<_> = self
            .allowing(access)
            .map(|root| root.spelled.clone())
            .collect();
        listed.sort();
        listed.dedup();
        listed
    }
}

impl SessionRoot {
    /// Pins a root. `None`: somebody else's directory in a place everybody can
    /// write to, which is ignored.
    fn bind(spelled: PathBuf, access: Access, chosen: bool) -> Result<Option<Self>, PolicyError> {
        let (existing, missing) = nearest_existing(&spelled)?;
        let writable = access == Access::Write;
        if writable && !chosen && missing.is_empty() && planted_by_another(&existing)? {
            tracing::warn!(root = %spelled.display(), "ignoring a write root that another user owns");
            return Ok(None);
        }
        let failed = |error| PolicyError::io("open the root", &existing, error);
        let path = std::fs::canonicalize(&existing)
            .map_err(|error| PolicyError::io("open the root", &existing, error))?;
        let found = rustix::fs::stat(&path).map_err(failed)?;
        Ok(Some(Self {
            spelled,
            place: RootPlace::Here(RootHere {
                anchor: Anchor {
                    path,
                    identity: found,
                    open: Mutex::default(),
                },
                missing,
                shared_anchor: others_may_write(&found),
            }),
            writable,
        }))
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.place, RootPlace::Elsewhere(_))
    }

    /// The root as a directory of this machine.
    fn here(&self) -> Result<&RootHere, PolicyError> {
        match &self.place {
            RootPlace::Here(here) => Ok(here),
            RootPlace::Elsewhere(_) => Err(self.unusable("it is not on this machine")),
        }
    }

    /// Where the root is, free of links as far as it existed.
    fn real(&self) -> PathBuf {
        match &self.place {
            RootPlace::Here(here) => {
                let mut real = here.anchor.path.clone();
                real.extend(&here.missing);
                real
            }
            RootPlace::Elsewhere(real) => real.clone(),
        }
    }

    fn rest_of<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.spelled)
            .or_else(|_| path.strip_prefix(self.real()))
            .ok()
    }

    /// Where to start a walk. A root that did not exist when the session
    /// started is looked for without following links: one planted in its
    /// place meanwhile does not become a root.
    pub(super) fn base(&self) -> Result<Base, PolicyError> {
        let RootHere {
            anchor,
            missing,
            shared_anchor,
        } = self.here()?;
        let mut directory = self.open_anchor()?;
        let mut path = anchor.path.clone();
        for (index, name) in missing.iter().enumerate() {
            let entry = kernel::look(directory.as_fd(), name)
                .map_err(|error| PolicyError::io("open the root", &self.spelled, error))?;
            match entry {
                NameKind::Directory(child) => {
                    if index == 0 && *shared_anchor && !owned_by_us(&child, &self.spelled)? {
                        return Err(self.unusable("another user owns it"));
                    }
                    path.push(name);
                    directory = Arc::new(child);
                }
                NameKind::Missing => {
                    return Ok(Base::Absent {
                        directory,
                        path,
                        below: missing.iter().skip(index).cloned().collect(),
                    });
                }
                NameKind::Link(_) => return Err(self.unusable("a link has been put in its place")),
                NameKind::Other(_) => return Err(self.unusable("it is not a directory")),
            }
        }
        Ok(Base::Here { directory, path })
    }

    /// The handle of the root's directory. As long as it is held, others get
    /// the same.
    pub(super) fn open_anchor(&self) -> Result<Arc<OwnedFd>, PolicyError> {
        let Anchor {
            path,
            identity,
            open,
        } = &self.here()?.anchor;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = open.upgrade() {
            return Ok(handle);
        }
        let failed = |error: Errno| match error {
            Errno::NOENT | Errno::NOTDIR => self.unusable("it has been removed"),
            error => PolicyError::io("open the root", path, error),
        };
        let handle = kernel::open_root(path).map_err(failed)?;
        let found = rustix::fs::fstat(&handle).map_err(failed)?;
        if (found.st_dev, found.st_ino) != (identity.st_dev, identity.st_ino) {
            return Err(self.unusable("another directory is in its place"));
        }
        let handle = Arc::new(handle);
        *open = Arc::downgrade(&handle);
        Ok(handle)
    }

    fn unusable(&self, reason: &str) -> PolicyError {
        PolicyError::NonexistentRoot {
            path: self.spelled.clone(),
            reason: reason.to_owned(),
        }
    }
}

/// The directories that may be read, as configured.
pub(super) fn given_read_roots(settings: &PolicySettings, scope: &SessionScope) -> Vec<PathBuf> {
    match settings.allowed_read_roots.is_empty() && !scope.only_given_roots {
        true => vec![PathBuf::from(".")],
        false => settings.allowed_read_roots.clone(),
    }
}

/// The deepest ancestor that exists as a directory, and the names below it.
fn nearest_existing(path: &Path) -> Result<(PathBuf, Vec<OsString>), PolicyError> {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        match std::fs::metadata(ancestor) {
            Ok(metadata) if metadata.is_dir() => {
                missing.reverse();
                return Ok((ancestor.to_path_buf(), missing));
            }
            Ok(_) => {
                return Err(PolicyError::NotADirectory {
                    path: ancestor.to_path_buf(),
                });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                missing.extend(ancestor.file_name().map(OsString::from));
            }
            Err(error) => return Err(PolicyError::io("look at the root", ancestor, error)),
        }
    }
    Err(PolicyError::NotFound {
        path: path.to_path_buf(),
    })
}

/// Whether the directory was put there by another user, in a place where
/// everybody may put things, such as `/tmp`. The name itself is looked at, so
/// a planted link counts as well.
fn planted_by_another(path: &Path) -> Result<bool, PolicyError> {
    let (Some(parent), Some(_)) = (path.parent(), path.file_name()) else {
        return Ok(false);
    };
    let failed = |error: Errno| PolicyError::io("look at the root", path, error);
    let around = rustix::fs::stat(parent).map_err(failed)?;
    let itself = rustix::fs::lstat(path).map_err(failed)?;
    Ok(others_may_write(&around) && itself.st_uid != rustix::process::geteuid().as_raw())
}

fn owned_by_us(directory: &OwnedFd, path: &Path) -> Result<bool, PolicyError> {
    let stat = rustix::fs::fstat(directory)
        .map_err(|error| PolicyError::io("look at the root", path, error))?;
    Ok(stat.st_uid == rustix::process::geteuid().as_raw())
}

fn others_may_write(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory && stat.st_mode & 0o002 != 0
}
