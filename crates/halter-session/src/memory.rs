//! Sessions that live as long as the process.

use crate::blob::{Blob, BlobHash};
use crate::blueprint::{decode_blueprint, encode_blueprint};
use crate::error::StoreError;
use crate::limits::{MAX_READ_BYTES, MAX_READ_EVENTS};
use crate::records::{
    AppendBatch, Checkpoint, Durability, EventRecord, OpenedSession, PageCursor, PageRequest,
    SessionPage, SessionRecord, SessionSummary, WriterToken,
};
use crate::store::{SessionStore, Standing, check_append, check_create};
use async_trait::async_trait;
use bytes::Bytes;
use halter_protocol::{SessionId, Timestamp};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store in memory: nothing survives the process, whatever the durability.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use halter_session::{InMemorySessionStore, PageRequest, SessionStore};
///
/// let store = InMemorySessionStore::new();
/// assert!(store.list(PageRequest::default()).await.unwrap().sessions.is_empty());
/// # });
/// ```
#[derive(Debug, Default)]
pub struct InMemorySessionStore {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<SessionId, Session>,
    /// Newest last; kept beside the sessions so that a page costs its size.
    by_update: BTreeSet<PageCursor>,
    blobs: HashMap<BlobHash, Shared>,
}

#[derive(Debug)]
struct Shared {
    bytes: Bytes,
    sessions: usize,
}

#[derive(Debug)]
struct Session {
    id: SessionId,
    parent: Option<SessionId>,
    created_at: Timestamp,
    working_dir: PathBuf,
    schema_version: u32,
    /// Its stored form.
    blueprint: String,
    epoch: u64,
    events: Vec<Arc<str>>,
    blobs: HashSet<BlobHash>,
    checkpoint: Option<Checkpoint>,
    updated_at: Timestamp,
    title: Option<Arc<str>>,
}

impl Session {
    fn head(&self) -> u64 {
        self.events.len() as u64
    }

    fn cursor(&self) -> PageCursor {
        PageCursor::new(self.updated_at.as_microsecond(), self.id.as_str())
    }

    fn summary(&self) -> SessionSummary {
        SessionSummary {
            session_id: self.id.clone(),
            parent_session_id: self.parent.clone(),
            created_at: to_micros(self.created_at),
            updated_at: to_micros(self.updated_at),
            head: self.head(),
            working_dir: self.working_dir.clone(),
            title: self.title.clone(),
        }
    }
}

impl InMemorySessionStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change below is made after its checks, so a panicking caller
        // leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn session(&self, id: &SessionId) -> Result<&Session, StoreError> {
        self.sessions
            .get(id)
            .ok_or_else(|| StoreError::not_found(id))
    }

    fn append(
        &mut self,
        token: &WriterToken,
        expected_head: u64,
        batch: AppendBatch,
    ) -> Result<u64, StoreError> {
        let id = &token.session_id;
        let session = self
            .sessions
            .get_mut(id)
            .ok_or_else(|| StoreError::not_found(id))?;
        let standing = Standing {
            head: session.head(),
            epoch: session.epoch,
        };
        let head = check_append(standing, token, expected_head, &batch)?;
        session
            .events
            .extend(batch.events.into_iter().map(|event| event.json));
        if let Some(checkpoint) = batch.checkpoint {
            session.checkpoint = Some(checkpoint);
        }
        if session.title.is_none() {
            session.title = batch.title;
        }
        if let Some(at) = batch.updated_at {
            self.by_update.remove(&session.cursor());
            session.updated_at = at;
            self.by_update.insert(session.cursor());
        }
        keep(&mut self.blobs, &mut session.blobs, batch.blobs);
        Ok(head)
    }

    fn delete(&mut self, id: &SessionId) -> bool {
        let Some(session) = self.sessions.remove(id) else {
            return false;
        };
        self.by_update.remove(&session.cursor());
        for hash in &session.blobs {
            if let Some(shared) = self.blobs.get_mut(hash) {
                shared.sessions -= 1;
                if shared.sessions == 0 {
                    self.blobs.remove(hash);
                }
            }
        }
        true
    }

    fn list(&self, page: &PageRequest) -> SessionPage {
        let limit = page.clamped_limit();
        let older: Box<dyn Iterator<Item = &PageCursor>> = match &page.cursor {
            Some(cursor) => Box::new(self.by_update.range(..cursor).rev()),
            None => Box::new(self.by_update.iter().rev()),
        };
        let mut found = SessionPage::default();
        let mut last: Option<&PageCursor> = None;
        for cursor in older {
            if found.sessions.len() == limit {
                found.next = last.cloned();
                break;
            }
            if let Some(session) = self.sessions.get(cursor.session_id()) {
                found.sessions.push(session.summary());
            }
            last = Some(cursor);
        }
        found
    }
}

/// Keeps the blobs of a session, each once.
fn keep(all: &mut HashMap<BlobHash, Shared>, own: &mut HashSet<BlobHash>, blobs: Vec<Blob>) {
    for Blob { hash, bytes } in blobs {
        if own.insert(hash) {
            let shared = all.entry(hash);
            shared.or_insert(Shared { bytes, sessions: 0 }).sessions += 1;
        }
    }
}

#[async_trait]
impl SessionStore for InMemorySessionStore {
    async fn create(&self, record: SessionRecord) -> Result<WriterToken, StoreError> {
        check_create(&record)?;
        let (json, blobs) = encode_blueprint(&record.blueprint)?;
        let blueprint = record.blueprint;
        let session_id = blueprint.session_id;
        let mut inner = self.lock();
        if inner.sessions.contains_key(&session_id) {
            return Err(StoreError::AlreadyExists { session_id });
        }
        let mut session = Session {
            id: session_id.clone(),
            parent: blueprint.parent_session_id,
            created_at: blueprint.created_at,
            working_dir: blueprint.working_dir,
            schema_version: record.schema_version,
            blueprint: json,
            epoch: 1,
            events: Vec::new(),
            blobs: HashSet::new(),
            checkpoint: None,
            updated_at: blueprint.created_at,
            title: None,
        };
        keep(&mut inner.blobs, &mut session.blobs, blobs);
        inner.by_update.insert(session.cursor());
        inner.sessions.insert(session_id.clone(), session);
        Ok(WriterToken {
            session_id,
            epoch: 1,
        })
    }

    async fn acquire(&self, session_id: &SessionId) -> Result<WriterToken, StoreError> {
        let mut inner = self.lock();
        let session = inner
            .sessions
            .get_mut(session_id)
            .ok_or_else(|| StoreError::not_found(session_id))?;
        session.epoch += 1;
        Ok(WriterToken {
            session_id: session_id.clone(),
            epoch: session.epoch,
        })
    }

    async fn append(
        &self,
        token: &WriterToken,
        expected_head: u64,
        batch: AppendBatch,
        _durability: Durability,
    ) -> Result<u64, StoreError> {
        self.lock().append(token, expected_head, batch)
    }

    async fn read(
        &self,
        session_id: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let inner = self.lock();
        let session = inner.session(session_id)?;
        let start = usize::try_from(after).unwrap_or(usize::MAX);
        let mut bytes = 0;
        Ok(session
            .events
            .iter()
            .zip(1u64..)
            .skip(start)
            .take(limit.min(MAX_READ_EVENTS))
            .take_while(|(line, _)| {
                let fits = bytes == 0 || bytes + line.len() <= MAX_READ_BYTES;
                bytes += line.len();
                fits
            })
            .map(|(line, sequence)| EventRecord {
                sequence,
                json: line.clone(),
            })
            .collect())
    }

    async fn open(&self, session_id: &SessionId) -> Result<OpenedSession, StoreError> {
        let inner = self.lock();
        let session = inner.session(session_id)?;
        let find = |hash: &BlobHash| -> Result<_, StoreError> {
            let shared = inner.blobs.get(hash);
            Ok(shared.map(|shared| shared.bytes.clone()))
        };
        Ok(OpenedSession {
            record: SessionRecord {
                blueprint: decode_blueprint(session_id, &session.blueprint, find)?,
                schema_version: session.schema_version,
            },
            head: session.head(),
            title: session.title.clone(),
            checkpoint: session.checkpoint.clone(),
        })
    }

    async fn list(&self, page: PageRequest) -> Result<SessionPage, StoreError> {
        Ok(self.lock().list(&page))
    }

    async fn delete(&self, session_id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.lock().delete(session_id))
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        Ok(self
            .lock()
            .blobs
            .get(hash)
            .map(|shared| shared.bytes.clone()))
    }
}

/// The precision every store lists times in.
fn to_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
