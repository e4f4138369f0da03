//! Paths as callers spell them, made absolute without touching the disk.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Access, PolicyError};
use crate::limits::MAX_PATH_BYTES;

use super::roots::SessionRoots;

/// A path as spelled, and the absolute path it stands for, free of `.` and
/// `..`.
#[derive(Debug)]
pub(super) struct Spelled {
    original: PathBuf,
    absolute: PathBuf,
}

impl Spelled {
    /// Reads a spelled path. `..` is taken lexically, and only as long as
    /// every step stays inside a root: beyond that, what it means depends on
    /// links that the checks would not have seen.
    pub(super) fn read(
        path: &Path,
        access: Access,
        working_dir: &Path,
        roots: &SessionRoots,
    ) -> Result<Self, PolicyError> {
        check_text(path)?;
        let mut absolute = if path.is_absolute() {
            PathBuf::from("/")
        } else {
            working_dir.to_path_buf()
        };
        for component in path.components() {
            match component {
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => absolute.push(name),
                Component::ParentDir => {
                    absolute.pop();
                    if !roots.admit_step(&absolute) {
                        return Err(PolicyError::ParentTraversal {
                            path: path.to_path_buf(),
                            access,
                        });
                    }
                }
            }
        }
        Ok(Self {
            original: path.to_path_buf(),
            absolute,
        })
    }

    pub(super) fn original(&self) -> &Path {
        &self.original
    }

    /// The error about the path as it was spelled, where that is what the error
    /// names: elsewhere only absolute paths are known.
    pub(super) fn named_in(&self, error: PolicyError) -> PolicyError {
        match error {
            PolicyError::NotFound { path } if path == self.absolute => PolicyError::NotFound {
                path: self.original.clone(),
            },
            other => other,
        }
    }

    pub(super) fn into_original(self) -> PathBuf {
        self.original
    }

    /// The directory the path lies in, and its name there.
    pub(super) fn split(&self) -> Result<(Self, OsString), PolicyError> {
        let parts = self.absolute.parent().zip(self.absolute.file_name());
        let (around, name) = parts.ok_or_else(|| PolicyError::InvalidPath {
            path: self.original.clone(),
            reason: "it names no entry of a directory",
        })?;
        let around = Self {
            original: self.original.clone(),
            absolute: around.to_path_buf(),
        };
        Ok((around, name.to_owned()))
    }

    pub(super) fn absolute(&self) -> &Path {
        &self.absolute
    }
}

fn check_text(path: &Path) -> Result<(), PolicyError> {
    let bytes = path.as_os_str().as_bytes();
    let reason = if bytes.is_empty() {
        "it is empty; name a file"
    } else if bytes.contains(&0) {
        "it holds a NUL byte"
    } else if bytes.len() > MAX_PATH_BYTES {
        "it is too long"
    } else {
        return Ok(());
    };
    Err(PolicyError::InvalidPath {
        path: path.to_path_buf(),
        reason,
    })
}

/// The session's directory, which must be absolute and exist.
pub(super) fn session_directory(path: &Path) -> Result<PathBuf, PolicyError> {
    let unusable = |reason: &str| PolicyError::NonexistentRoot {
        path: path.to_path_buf(),
        reason: reason.to_owned(),
    };
    if !path.is_absolute() {
        return Err(unusable("it is not an absolute path"));
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(lexical(path)),
        Ok(_) => Err(unusable("it is not a directory")),
        Err(error) => Err(unusable(&error.to_string())),
    }
}

/// A configured directory made absolute. These come from the user, not from a
/// model, so `..` is taken as written.
pub(super) fn configured(path: &Path, working_dir: &Path) -> PathBuf {
    lexical(&working_dir.join(path))
}

/// An absolute path without `.` and `..`. Where `..` follows a link, the
/// link's own target decides, as it does for the system.
fn lexical(path: &Path) -> PathBuf {
    if path.components().any(|part| part == Component::ParentDir)
        && let Ok(real) = std::fs::canonicalize(path)
    {
        return real;
    }
    without_dots(path)
}

/// An absolute path without `.` and `..`, whatever is there.
pub(crate) fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Normal(name) => clean.push(name),
        }
    }
    clean
}

/// Splits a path into the steps a walk takes.
pub(super) fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    })
}
