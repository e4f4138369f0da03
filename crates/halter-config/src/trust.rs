//! Which project files the user has trusted, by path and content.
//!
//! The record is a text file in the state directory: one line per trusted file, the hash of its
//! content and its path. Changing a file, or moving it, makes it untrusted again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_protocol::ContentHash;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::limits::{MAX_TRUST_FILE_BYTES, TRUST_LOCK_WAIT};
use crate::lock::lock_within;
use crate::project::ProjectFile;

const RECORD_NAME: &str = "trusted-configs";
const LOCK_NAME: &str = "trusted-configs.lock";

/// The record of trusted project files.
#[derive(Debug, Clone)]
pub struct TrustStore {
    directory: Option<PathBuf>,
}

impl TrustStore {
    /// The record in a state directory. Nothing is read or created yet.
    pub fn open(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: Some(directory.into()),
        }
    }

    /// The record of the user of an environment; [`none`](Self::none) without a home.
    pub fn of(environment: &Environment) -> Self {
        Self {
            directory: environment.state_dir(),
        }
    }

    /// A record that trusts nothing and cannot be written, for programs without a user.
    pub fn none() -> Self {
        Self { directory: None }
    }

    /// The file that holds the record.
    pub fn path(&self) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(RECORD_NAME))
    }

    /// Whether exactly this content at exactly this path is trusted.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Refused`] when the record cannot be read, or when others could have
    /// written it. Treat the file as untrusted then.
    pub fn is_trusted(&self, project: &ProjectFile) -> Result<bool, ConfigError> {
        let Some(file) = self.path() else {
            return Ok(false);
        };
        let line = line_of(project);
        Ok(read_record(&file)?.lines().any(|recorded| recorded == line))
    }

    /// Records that this content at this path is trusted.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Refused`] when the record cannot be written.
    pub fn trust(&self, project: &ProjectFile) -> Result<(), ConfigError> {
        let line = line_of(project);
        self.rewrite(|recorded| {
            let mut lines: Vec<&str> = recorded.lines().filter(|other| *other != line).collect();
            lines.push(&line);
            lines.join("\n") + "\n"
        })
    }

    /// Whether a file or folder is trusted with the content that a digest of 64 hexadecimal
    /// digits stands for. `path` is canonical.
    ///
    /// # Errors
    ///
    /// As for [`is_trusted`](Self::is_trusted).
    pub fn is_content_trusted(&self, path: &Path, digest: &str) -> Result<bool, ConfigError> {
        let Some(file) = self.path() else {
            return Ok(false);
        };
        let line = content_line(path, digest);
        Ok(read_record(&file)?.lines().any(|recorded| recorded == line))
    }

    /// Records that a file or folder is trusted with this content, and with no other.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Refused`] when the record cannot be written.
    pub fn trust_content(&self, path: &Path, digest: &str) -> Result<(), ConfigError> {
        let line = content_line(path, digest);
        let suffix = format!(" {}", escaped(path));
        self.rewrite(|recorded| {
            let others = recorded.lines().filter(|other| !other.ends_with(&suffix));
            let mut lines: Vec<&str> = others.collect();
            lines.push(&line);
            lines.join("\n") + "\n"
        })
    }

    /// Forgets every content that was trusted at this path. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Refused`] when the record cannot be written.
    pub fn revoke(&self, path: &Path) -> Result<bool, ConfigError> {
        let gone = recorded_path(path);
        self.forget(|path| path == gone)
    }

    /// The same for a folder and all that is in it.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Refused`] when the record cannot be written.
    pub fn revoke_in(&self, folder: &Path) -> Result<bool, ConfigError> {
        let gone = recorded_path(folder);
        let below = format!("{}/", gone.trim_end_matches('/'));
        self.forget(|path| path == gone || path.starts_with(&below))
    }

    fn forget(&self, is_gone: impl Fn(&str) -> bool) -> Result<bool, ConfigError> {
        let mut found = false;
        self.rewrite(|recorded| {
            let mut text = String::new();
            for line in recorded.lines() {
                if line.split_once(' ').is_some_and(|(_, path)| is_gone(path)) {
                    found = true;
                } else {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            text
        })?;
        Ok(found)
    }

    fn rewrite(&self, change: impl FnOnce(&str) -> String) -> Result<(), ConfigError> {
        let (Some(directory), Some(file)) = (&self.directory, self.path()) else {
            return Err(trust_fault(
                Path::new(RECORD_NAME),
                "there is no state directory to keep it in",
                "set HOME or XDG_STATE_HOME",
            ));
        };
        let fault = |error: io::Error| system_fault(&file, &error);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(fault)?;
        let _lock = lock(directory, &file, TRUST_LOCK_WAIT)?;
        let text = change(&read_record(&file)?);
        if text.len() as u64 > MAX_TRUST_FILE_BYTES {
            return Err(too_large(&file));
        }
        // Readable by the owner alone from the start, complete or not there at all.
        let mut temporary = tempfile::Builder::new()
            .prefix(RECORD_NAME)
            .tempfile_in(directory)
            .map_err(fault)?;
        temporary.write_all(text.as_bytes()).map_err(fault)?;
        temporary.as_file().sync_all().map_err(fault)?;
        temporary
            .persist(&file)
            .map_err(|error| system_fault(&file, &error.error))?;
        Ok(())
    }
}

/// Waits its turn among the writers. The lock ends with the returned file.
fn lock(directory: &Path, record: &Path, wait: Duration) -> Result<File, ConfigError> {
    let lock_file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(directory.join(LOCK_NAME))
        .map_err(|error| system_fault(record, &error))?;
    match lock_within(&lock_file, wait) {
        Ok(()) => Ok(lock_file),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(trust_fault(
            record,
            "another process has been writing it for too long",
            "try again when that process has ended",
        )),
        Err(error) => Err(system_fault(record, &error)),
    }
}

/// The record as text; empty when there is none yet. Lines that are not understood are kept.
fn read_record(file: &Path) -> Result<String, ConfigError> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(system_fault(file, &error)),
    };
    let metadata = opened
        .metadata()
        .map_err(|error| system_fault(file, &error))?;
    let others_may_write = metadata.mode() & 0o022 != 0;
    let foreign = metadata.uid() != rustix::process::geteuid().as_raw();
    if others_may_write || foreign {
        return Err(trust_fault(
            file,
            "others can write it, so nothing in it is believed",
            "check its content, then make it yours with mode 600",
        ));
    }
    let mut bytes = Vec::new();
    opened
        .take(MAX_TRUST_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| system_fault(file, &error))?;
    if bytes.len() as u64 > MAX_TRUST_FILE_BYTES {
        return Err(too_large(file));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn trust_fault(
    file: &Path,
    problem: impl std::fmt::Display,
    hint: impl Into<String>,
) -> ConfigError {
    let problem = format!("record of trusted files {}: {problem}", file.display());
    ConfigError::refused("config_trust_store", problem, hint)
}

fn too_large(file: &Path) -> ConfigError {
    trust_fault(
        file,
        format!("it would be larger than {MAX_TRUST_FILE_BYTES} bytes"),
        "delete it and trust the files you still use again",
    )
}

fn system_fault(file: &Path, error: &io::Error) -> ConfigError {
    trust_fault(
        file,
        error.to_string(),
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there",
            io::ErrorKind::ReadOnlyFilesystem => {
                "make its directory writable, or set XDG_STATE_HOME to one that is"
            }
            _ => "check the permissions of the state directory",
        },
    )
}

fn line_of(project: &ProjectFile) -> String {
    let digest = ContentHash::hex_of(project.content());
    content_line(project.canonical_path(), &digest)
}

fn content_line(path: &Path, digest: &str) -> String {
    format!("{digest} {}", escaped(path))
}

/// The path of a line about a file or folder.
fn recorded_path(path: &Path) -> String {
    escaped(&fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()))
}

/// A path on one line of text, one to one also when it is not UTF-8.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_graphic() && *byte != b'%' {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_waits_too_long_gives_up() {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join(RECORD_NAME);
        let held = lock(directory.path(), &record, TRUST_LOCK_WAIT).unwrap();
        let error = lock(directory.path(), &record, Duration::ZERO).unwrap_err();
        assert_eq!(error.code(), "config_trust_store");
        assert!(error.to_string().contains("another process"), "{error}");
        drop(held);
        lock(directory.path(), &record, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_path_on_a_line_is_one_to_one() {
        assert_eq!(escaped(Path::new("/a b%/\n")), "/a%20b%25/%0a");
        assert_ne!(escaped(Path::new("/%20")), escaped(Path::new("/ ")));
    }
}
