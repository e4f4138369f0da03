//! Finding and reading configuration files.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::ConfigError;
use crate::limits::MAX_CONFIG_FILE_BYTES;

/// The name of a project's configuration file.
pub const PROJECT_FILE_NAME: &str = "halter.toml";

/// A project's configuration file as it was read once: what is shown to the user, what is
/// trusted and what is loaded are the same bytes. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct ProjectFile {
    path: PathBuf,
    canonical: PathBuf,
    content: Vec<u8>,
}

impl ProjectFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Read`], [`ConfigError::Refused`] or [`ConfigError::Refused`].
    pub async fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref().to_path_buf();
        blocking(move || Self::read_now(&path)).await
    }

    pub(crate) fn read_now(path: &Path) -> Result<Self, ConfigError> {
        let fault = |source| read_fault(path, source);
        let path = std::path::absolute(path).map_err(fault)?;
        let content = read_found(&path)?;
        Ok(Self {
            canonical: fs::canonicalize(&path).map_err(fault)?,
            path,
            content,
        })
    }

    /// The path under which the file was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path without links.
    pub fn canonical_path(&self) -> &Path {
        &self.canonical
    }

    /// The bytes of the file.
    pub fn content(&self) -> &[u8] {
        &self.content
    }
}

impl fmt::Debug for ProjectFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProjectFile")
            .field("path", &self.path)
            .field("bytes", &self.content.len())
            .finish_non_exhaustive()
    }
}

/// The project file that holds in a directory: the nearest `halter.toml` from there up to the
/// root of the git repository. Outside a repository only the directory itself is searched, so
/// that nobody else's file in a shared parent is picked up.
pub fn find_project_config(start: &Path) -> Option<PathBuf> {
    find_project_file(start, PROJECT_FILE_NAME)
}

/// The same for another file of a project, such as `.halter/hooks.json`. An empty directory of
/// that name is nothing: a sandbox puts one where no command may make the file.
pub fn find_project_file(start: &Path, name: &str) -> Option<PathBuf> {
    let start = fs::canonicalize(start)
        .or_else(|_| std::path::absolute(start))
        .ok()?;
    let repository = start
        .ancestors()
        .find(|directory| directory.join(".git").exists())
        .unwrap_or(&start);
    start
        .ancestors()
        .take_while(|directory| directory.starts_with(repository))
        .map(|directory| directory.join(name))
        .find(|file| file.symlink_metadata().is_ok() && !is_empty_directory(file))
}

fn is_empty_directory(path: &Path) -> bool {
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_directory && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Reads a file that was found rather than named: only a regular one, and never waiting for it,
/// since a repository may hold a pipe of that name.
pub(crate) fn read_found(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let descriptor = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| read_fault(path, error.into()))?;
    let file = File::from(descriptor);
    let metadata = file.metadata().map_err(|error| read_fault(path, error))?;
    if !metadata.is_file() {
        return Err(ConfigError::refused(
            "config_not_a_file",
            format!("configuration {} is not a regular file", path.display()),
            "replace it with a regular file",
        ));
    }
    read_bounded(path, file)
}

/// Reads a file that the user named, which may be a pipe.
pub(crate) fn read_named(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let file = File::open(path).map_err(|error| read_fault(path, error))?;
    read_bounded(path, file)
}

fn read_bounded(path: &Path, file: File) -> Result<Vec<u8>, ConfigError> {
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| read_fault(path, error))?;
    if bytes.len() as u64 > MAX_CONFIG_FILE_BYTES {
        return Err(ConfigError::refused(
            "config_too_large",
            format!(
                "configuration {} is larger than {MAX_CONFIG_FILE_BYTES} bytes",
                path.display()
            ),
            "move long texts into skills",
        ));
    }
    Ok(bytes)
}

pub(crate) fn read_fault(path: &Path, source: io::Error) -> ConfigError {
    ConfigError::Read {
        file: path.to_path_buf(),
        source,
    }
}

/// Runs file work where it may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConfigError> + Send + 'static,
) -> Result<T, ConfigError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(read_fault(Path::new(""), io::Error::other(error))),
    }
}
