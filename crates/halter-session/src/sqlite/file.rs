//! The file: creating it, recognizing it, refusing what is not ours.

use super::SqliteOptions;
use super::fault::{SqliteFault, corrupt_file, io_failure};
use crate::error::StoreError;
use crate::limits::SQLITE_BUSY_MILLIS;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// The version of the tables, in SQLite's `user_version`.
pub(super) const FILE_VERSION: u32 = 1;

/// Marks the file as ours, in SQLite's `application_id`: "HALT".
const APPLICATION_ID: i32 = 0x4841_4c54;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Small rows of sessions, for listing; the blueprint lies apart. Events keep
/// a row id beside their place: lines are too long for a table clustered by it.
const TABLES: &str = "
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    parent_session_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    head INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    schema_version INTEGER NOT NULL,
    working_dir TEXT NOT NULL,
    title TEXT
) STRICT;
CREATE INDEX sessions_by_update ON sessions (updated_at, session_id);
CREATE TABLE blueprints (session INTEGER PRIMARY KEY, json TEXT NOT NULL) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    line TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_place ON events (session, sequence);
CREATE TABLE checkpoints (
    session INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE TABLE blobs (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;
CREATE TABLE blob_uses (
    session INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (session, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_uses_by_hash ON blob_uses (hash);
";

/// Opens the file for the writer, creating it if it is not there.
pub(super) fn open_writer(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    prepare(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(path, flags)
        .and_then(|mut connection| {
            initialize(&mut connection, path)?;
            limit_size(&connection, options)?;
            Ok(connection)
        })
        .map_err(|fault| fault.at("open", path))
}

/// Opens the file for reading, after the writer has.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    connect(path, flags).map_err(|fault| fault.at("open", path))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, SqliteFault> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_millis(SQLITE_BUSY_MILLIS))?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    Ok(connection)
}

/// Makes sure a file of the right kind is there, private to its user.
fn prepare(path: &Path) -> Result<(), StoreError> {
    if let Some(parent) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|error| io_failure("create the directory", parent, error))?;
    }
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match created {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => recognize(path),
        Err(error) => Err(io_failure("create", path, error)),
    }
}

/// Refuses what SQLite would refuse less clearly, or would wait for.
fn recognize(path: &Path) -> Result<(), StoreError> {
    let metadata = std::fs::metadata(path).map_err(|error| io_failure("open", path, error))?;
    if !metadata.is_file() {
        return Err(StoreError::Unusable {
            path: path.to_owned(),
            why: "it is not a regular file".into(),
            remedy: "choose the path of a file that does not exist yet".into(),
        });
    }
    if metadata.len() == 0 {
        return Ok(());
    }
    let mut start = Vec::with_capacity(MAGIC.len());
    File::open(path)
        .and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(|error| io_failure("read", path, error))?;
    if start != MAGIC {
        return Err(corrupt_file(path, "it is not a SQLite database".into()));
    }
    Ok(())
}

fn initialize(connection: &mut Connection, path: &Path) -> Result<(), SqliteFault> {
    let is_new = {
        // One moment for all that is asked: another process may be creating it.
        let snapshot = connection.transaction()?;
        check_identity(&snapshot, path)?
    };
    let mode = switch_to_wal(connection)?;
    if mode != "wal" {
        return Err(SqliteFault::Refused(StoreError::Unusable {
            path: path.to_owned(),
            why: format!("its file system has no shared memory (journal mode '{mode}')"),
            remedy: "choose a path on a local file system".into(),
        }));
    }
    connection
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 67108864;")?;
    if is_new {
        let tables = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been faster.
        if check_identity(&tables, path)? {
            tables.execute_batch(TABLES)?;
            tables.pragma_update(None, "application_id", APPLICATION_ID)?;
            tables.pragma_update(None, "user_version", FILE_VERSION)?;
        }
        tables.commit()?;
    }
    Ok(())
}

/// Sets the journal mode and returns what it is then. SQLite does not wait by
/// itself when two processes switch a new file at once.
fn switch_to_wal(connection: &Connection) -> Result<String, SqliteFault> {
    let deadline = Instant::now() + Duration::from_millis(SQLITE_BUSY_MILLIS);
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            outcome => return Ok(outcome?),
        }
    }
}

/// True for an empty database, false for one of ours, an error for any other.
fn check_identity(connection: &Connection, path: &Path) -> Result<bool, SqliteFault> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if tables == 0 && application == 0 && version == 0 {
        return Ok(true);
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(SqliteFault::Refused(StoreError::Unusable {
            path: path.to_owned(),
            why: "it is a database of another program".into(),
            remedy: "choose another path; nothing was changed".into(),
        }));
    }
    if version > i64::from(FILE_VERSION) {
        return Err(SqliteFault::Refused(StoreError::TooNew {
            what: format!("the session store '{}'", path.display()),
            found: u32::try_from(version).unwrap_or(u32::MAX),
            supported: FILE_VERSION,
        }));
    }
    Ok(false)
}

fn limit_size(connection: &Connection, options: &SqliteOptions) -> Result<(), SqliteFault> {
    let Some(max_bytes) = options.max_bytes else {
        return Ok(());
    };
    let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let pages = i64::try_from(max_bytes).unwrap_or(i64::MAX) / page.max(1);
    connection.query_row(
        &format!("PRAGMA max_page_count = {}", pages.max(1)),
        [],
        |row| row.get::<_, i64>(0),
    )?;
    Ok(())
}
