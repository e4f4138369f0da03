//! A store that fails, waits and recovers on command.

use async_trait::async_trait;
use bytes::Bytes;
use halter_protocol::SessionId;
use halter_providers::Gate;
use halter_session::{
    AppendBatch, BlobHash, Durability, EventRecord, InMemorySessionStore, OpenedSession,
    PageRequest, SessionCommitConflict, SessionPage, SessionRecord, SessionStore, StoreError,
    WriterToken,
};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How an append fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// No space is left.
    DiskFull,
    /// The operating system refused.
    Io,
    /// Somebody else wrote to the session, or so it seems.
    Conflict,
}

/// Any store, with faults. Appends are counted from 1, failed ones included.
///
/// ```
/// use halter_testkit::{StoreFault, FaultyStore};
///
/// let store = FaultyStore::in_memory();
/// store.fail_append(3, StoreFault::DiskFull);
/// assert_eq!(store.appends(), 0);
/// ```
pub struct FaultyStore {
    inner: Arc<dyn SessionStore>,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    appends: usize,
    faults: BTreeMap<usize, StoreFault>,
    from_now_on: Option<StoreFault>,
    reads: Option<StoreFault>,
    gates: BTreeMap<usize, Gate>,
    delay: Option<Duration>,
}

impl FaultyStore {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn SessionStore>) -> Self {
        Self {
            inner,
            plan: Mutex::default(),
        }
    }

    /// Wraps a fresh store in memory.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(InMemorySessionStore::new()))
    }

    /// Fails the `nth` append, once.
    pub fn fail_append(&self, nth: usize, fault: StoreFault) {
        self.plan().faults.insert(nth, fault);
    }

    /// Fails every append until [`recover`](Self::recover).
    pub fn fail_appends(&self, fault: StoreFault) {
        self.plan().from_now_on = Some(fault);
    }

    /// Fails every read of events until [`recover`](Self::recover).
    pub fn fail_reads(&self, fault: StoreFault) {
        self.plan().reads = Some(fault);
    }

    /// Ends all faults.
    pub fn recover(&self) {
        let mut plan = self.plan();
        plan.faults.clear();
        plan.from_now_on = None;
        plan.reads = None;
    }

    /// Takes so long for every append from now on.
    pub fn slow_down(&self, delay: Duration) {
        self.plan().delay = Some(delay);
    }

    /// Holds the `nth` append at a gate before the store sees it.
    pub fn hold_append(&self, nth: usize, gate: &Gate) {
        self.plan().gates.insert(nth, gate.clone());
    }

    /// Holds the next append at a gate before the store sees it.
    pub fn hold_next_append(&self, gate: &Gate) {
        let mut plan = self.plan();
        let next = plan.appends + 1;
        plan.gates.insert(next, gate.clone());
    }

    /// The number of appends so far.
    pub fn appends(&self) -> usize {
        self.plan().appends
    }

    /// Nothing under this lock is ever half done.
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failure(fault: StoreFault, token: &WriterToken, expected_head: u64) -> StoreError {
    match fault {
        StoreFault::Conflict => StoreError::Conflict(SessionCommitConflict {
            session_id: token.session_id.clone(),
            expected_head_sequence: expected_head,
            actual_head_sequence: expected_head + 1,
        }),
        other => disk_failure(other),
    }
}

fn disk_failure(fault: StoreFault) -> StoreError {
    let path = PathBuf::from("/faulty/store");
    match fault {
        StoreFault::DiskFull => StoreError::DiskFull { path },
        StoreFault::Io | StoreFault::Conflict => StoreError::Io {
            action: "use",
            path,
            source: Arc::new(io::Error::other("an injected fault")),
        },
    }
}

#[async_trait]
impl SessionStore for FaultyStore {
    async fn create(&self, record: SessionRecord) -> Result<WriterToken, StoreError> {
        self.inner.create(record).await
    }

    async fn acquire(&self, session_id: &SessionId) -> Result<WriterToken, StoreError> {
        self.inner.acquire(session_id).await
    }

    async fn append(
        &self,
        token: &WriterToken,
        expected_head: u64,
        batch: AppendBatch,
        durability: Durability,
    ) -> Result<u64, StoreError> {
        let (fault, gate, delay) = {
            let mut plan = self.plan();
            plan.appends += 1;
            let nth = plan.appends;
            let once = plan.faults.remove(&nth);
            let gate = plan.gates.remove(&nth);
            (once.or(plan.from_now_on), gate, plan.delay)
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if let Some(gate) = gate {
            gate.pass().await;
        }
        match fault {
            Some(fault) => Err(failure(fault, token, expected_head)),
            None => {
                self.inner
                    .append(token, expected_head, batch, durability)
                    .await
            }
        }
    }

    async fn read(
        &self,
        session_id: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let fault = self.plan().reads;
        match fault {
            Some(fault) => Err(disk_failure(fault)),
            None => self.inner.read(session_id, after, limit).await,
        }
    }

    async fn open(&self, session_id: &SessionId) -> Result<OpenedSession, StoreError> {
        self.inner.open(session_id).await
    }

    async fn list(&self, page: PageRequest) -> Result<SessionPage, StoreError> {
        self.inner.list(page).await
    }

    async fn delete(&self, session_id: &SessionId) -> Result<bool, StoreError> {
        self.inner.delete(session_id).await
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        self.inner.blob(hash).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}
