//! Sessions in one SQLite file.
//!
//! The file is in WAL mode. A thread of its own owns the writing connection
//! and commits waiting requests together; another owns a reading one. Buffered
//! and durable appends are in the write-ahead log when they return, which
//! survives the death of the process; power-safe ones are also synced to the
//! disk. Space of deleted sessions is used again, not given back.

mod fault;
mod file;
mod reads;
mod workers;
mod writes;

use crate::blob::BlobHash;
use crate::error::StoreError;
use crate::records::{
    AppendBatch, Durability, EventRecord, OpenedSession, PageRequest, SessionPage, SessionRecord,
    WriterToken,
};
use crate::store::{SessionStore, check_create};
use async_trait::async_trait;
use bytes::Bytes;
use halter_protocol::{SessionId, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::watch;
use workers::Workers;

/// How a file is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The largest size of the file; beyond it appends fail with
    /// [`StoreError::DiskFull`]. None leaves it to the disk.
    pub max_bytes: Option<u64>,
}

/// A store in one SQLite file, shared by any number of processes.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use halter_session::{PageRequest, SessionStore, SqliteSessionStore};
///
/// # let dir = tempfile::tempdir().unwrap();
/// let store = SqliteSessionStore::open(dir.path().join("sessions.db")).await.unwrap();
/// assert!(store.list(PageRequest::default()).await.unwrap().sessions.is_empty());
/// store.close().await.unwrap();
/// # });
/// ```
///
/// [`close`](SessionStore::close) ends the requests under way and closes the
/// file. So does dropping the store, which blocks its thread meanwhile: a
/// program that ends then leaves no write-ahead log behind.
pub struct SqliteSessionStore {
    path: Arc<Path>,
    workers: Mutex<Option<Workers>>,
    closed: watch::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for SqliteSessionStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteSessionStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl SqliteSessionStore {
    /// Opens the file, creating it (readable by its user only) and missing
    /// directories above it. A file that is damaged, of a newer version or of
    /// another program is refused and left as it is.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// Opens the file with options.
    pub async fn open_with(
        path: impl Into<PathBuf>,
        options: SqliteOptions,
    ) -> Result<Self, StoreError> {
        let path: Arc<Path> = path.into().into();
        let (workers, closed, thread) = Workers::start(path.clone(), options).await?;
        Ok(Self {
            path,
            workers: Mutex::new(Some(workers)),
            closed,
            thread: Some(thread),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn workers(&self) -> Result<Workers, StoreError> {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.clone().ok_or(StoreError::Closed)
    }
}

#[async_trait]
impl SessionStore for SqliteSessionStore {
    async fn create(&self, record: SessionRecord) -> Result<WriterToken, StoreError> {
        check_create(&record)?;
        let run = move |connection: &_| writes::create(connection, &record);
        self.workers()?
            .write(false, "create a session in", run)
            .await
    }

    async fn acquire(&self, session_id: &SessionId) -> Result<WriterToken, StoreError> {
        let id = session_id.clone();
        let run = move |connection: &_| writes::acquire(connection, &id);
        self.workers()?
            .write(false, "acquire a session in", run)
            .await
    }

    async fn append(
        &self,
        token: &WriterToken,
        expected_head: u64,
        batch: AppendBatch,
        durability: Durability,
    ) -> Result<u64, StoreError> {
        let token = token.clone();
        let power_safe = durability == Durability::PowerSafe;
        let run = move |connection: &_| writes::append(connection, &token, expected_head, &batch);
        self.workers()?.write(power_safe, "append to", run).await
    }

    async fn read(
        &self,
        session_id: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let id = session_id.clone();
        let run = move |connection: &_| reads::read(connection, &id, after, limit);
        self.workers()?.read("read", run).await
    }

    async fn open(&self, session_id: &SessionId) -> Result<OpenedSession, StoreError> {
        let id = session_id.clone();
        let run = move |connection: &_| reads::open(connection, &id);
        self.workers()?.read("read", run).await
    }

    async fn list(&self, page: PageRequest) -> Result<SessionPage, StoreError> {
        let run = move |connection: &_| reads::list(connection, &page);
        self.workers()?.read("list", run).await
    }

    async fn delete(&self, session_id: &SessionId) -> Result<bool, StoreError> {
        let id = session_id.clone();
        let run = move |connection: &_| writes::delete(connection, &id);
        self.workers()?.write(false, "delete from", run).await
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        let hash = *hash;
        let run = move |connection: &_| reads::blob(connection, &hash);
        self.workers()?.read("read", run).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        let workers = {
            let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            workers.take()
        };
        drop(workers);
        // An error says that the thread is gone, which is what we wait for.
        drop(self.closed.clone().changed().await);
        Ok(())
    }

    fn files(&self) -> Vec<PathBuf> {
        let beside = |suffix: &str| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        ["", "-wal", "-shm", "-journal"].map(beside).to_vec()
    }
}

impl Drop for SqliteSessionStore {
    fn drop(&mut self) {
        let workers = self
            .workers
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // The threads end with the last sender. A request that is still under
        // way holds one and borrows the store, so there is none now.
        drop(workers.take());
        if let Some(thread) = self.thread.take() {
            // It reports its errors to the callers of its requests.
            let _ = thread.join();
        }
    }
}

/// SQLite has signed integers only; no sequence reaches their end.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}
