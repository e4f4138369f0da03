//! SQLite's errors in words that name the file and the remedy.

use crate::error::StoreError;
use crate::limits::SQLITE_BUSY_MILLIS;
use rusqlite::{ErrorCode, ffi};
use rustix::fs::StatVfsMountFlags;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What SQLite needs beside the store before it can do anything: an index of
/// the log and a first page of it.
const ROOM_BESIDE_STORE_BYTES: u64 = 64 * 1024;

/// What a query came back with: SQLite failed, or the request was refused
/// before anything was written.
#[derive(Debug)]
pub(super) enum SqliteFault {
    Sqlite(rusqlite::Error),
    Refused(StoreError),
}

impl From<rusqlite::Error> for SqliteFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for SqliteFault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl SqliteFault {
    /// The error for the caller of a store at `path`.
    pub fn at(self, action: &'static str, path: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => translate(&error, action, path),
        }
    }
}

fn translate(error: &rusqlite::Error, action: &'static str, path: &Path) -> StoreError {
    let path = path.to_owned();
    let Some(cause) = error.sqlite_error() else {
        return StoreError::Backend {
            action,
            message: error.to_string(),
        };
    };
    match cause.code {
        ErrorCode::DiskFull => StoreError::DiskFull { path },
        ErrorCode::ReadOnly if cause.extended_code == ffi::SQLITE_READONLY_DBMOVED => {
            StoreError::Unusable {
                path,
                why: "the file was moved or deleted while it was open".into(),
                remedy: "put it back, or open the store again".into(),
            }
        }
        ErrorCode::ReadOnly => StoreError::ReadOnly { path },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy {
            path,
            waited_millis: SQLITE_BUSY_MILLIS,
        },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            corrupt_file(&path, error.to_string())
        }
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
            let said = io::Error::other(error.to_string());
            io_failure(action, &path, cause_on_disk(&path).unwrap_or(said))
        }
        _ => StoreError::Backend {
            action,
            message: error.to_string(),
        },
    }
}

/// What is the matter with the disk, which SQLite only calls an I/O error when
/// it happens to the files it keeps beside the store.
fn cause_on_disk(path: &Path) -> Option<io::Error> {
    let directory = path.parent()?;
    let disk = rustix::fs::statvfs(directory).ok()?;
    if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Some(io::ErrorKind::ReadOnlyFilesystem.into());
    }
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    (free < ROOM_BESIDE_STORE_BYTES).then(|| io::ErrorKind::StorageFull.into())
}

/// The file cannot be read as a session store. Nobody deletes it.
pub(super) fn corrupt_file(path: &Path, why: String) -> StoreError {
    StoreError::Corrupt {
        what: format!("the session store '{}'", path.display()),
        why,
        remedy: "nothing was changed; move it away together with its -wal and -shm files to \
                 start with an empty store, or repair a copy with `sqlite3 FILE .recover`"
            .into(),
    }
}

/// A failure of the file system while the store was prepared.
pub(super) fn io_failure(action: &'static str, path: &Path, error: io::Error) -> StoreError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::StorageFull => StoreError::DiskFull { path },
        io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path },
        _ => StoreError::Io {
            action,
            path,
            source: Arc::new(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(extended: i32) -> &'static str {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(extended), None);
        SqliteFault::from(error)
            .at("append", Path::new("/s.db"))
            .code()
    }

    #[test]
    fn each_cause_has_its_own_error() {
        assert_eq!(code(ffi::SQLITE_FULL), "store_disk_full");
        assert_eq!(code(ffi::SQLITE_READONLY), "store_read_only");
        assert_eq!(code(ffi::SQLITE_READONLY_DBMOVED), "store_unusable");
        assert_eq!(code(ffi::SQLITE_BUSY), "store_busy");
        assert_eq!(code(ffi::SQLITE_BUSY_RECOVERY), "store_busy");
        assert_eq!(code(ffi::SQLITE_CORRUPT), "store_corrupt");
        assert_eq!(code(ffi::SQLITE_NOTADB), "store_corrupt");
        assert_eq!(code(ffi::SQLITE_IOERR_WRITE), "store_io");
        assert_eq!(code(ffi::SQLITE_CANTOPEN), "store_io");
        assert_eq!(code(ffi::SQLITE_MISUSE), "store_backend");
    }

    #[test]
    fn file_system_failures_keep_their_meaning() {
        let code = |kind: io::ErrorKind| io_failure("open", Path::new("/s"), kind.into()).code();
        assert_eq!(code(io::ErrorKind::StorageFull), "store_disk_full");
        assert_eq!(code(io::ErrorKind::ReadOnlyFilesystem), "store_read_only");
        assert_eq!(code(io::ErrorKind::PermissionDenied), "store_io");
    }
}
