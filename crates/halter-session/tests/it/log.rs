//! The log over a store that fails, hangs or is watched.

use async_trait::async_trait;
use bytes::Bytes;
use halter_protocol::{
    DeltaItem, Message, SessionEventPayload, SessionId, ToolResult, UserMessage,
};
use halter_session::conformance::{blueprint, pending, turn};
use halter_session::limits::{MAX_EVENT_BYTES, MAX_READ_BYTES, MIN_CHECKPOINT_EVENTS};
use halter_session::{
    AppendBatch, BlobHash, Durability, DurabilityPolicy, EventRecord, InMemorySessionStore,
    OpenedSession, PageRequest, SessionLog, SessionPage, SessionRecord, SessionStore, StoreError,
    WriterToken, read_events,
};
use std::sync::{Arc, Mutex};

/// What the watched store does with the next append.
#[derive(Default)]
enum Next {
    #[default]
    Store,
    Fail,
    StoreAndHang,
}

/// A store in memory that notes levels and checkpoints, and fails on demand.
#[derive(Default)]
struct Watched {
    inner: InMemorySessionStore,
    next: Mutex<Next>,
    levels: Mutex<Vec<Durability>>,
    checkpoints: Mutex<Vec<u64>>,
}

impl Watched {
    fn on_next(&self, next: Next) {
        *self.next.lock().unwrap() = next;
    }
}

#[async_trait]
impl SessionStore for Watched {
    async fn create(&self, record: SessionRecord) -> Result<WriterToken, StoreError> {
        self.inner.create(record).await
    }

    async fn acquire(&self, id: &SessionId) -> Result<WriterToken, StoreError> {
        self.inner.acquire(id).await
    }

    async fn append(
        &self,
        token: &WriterToken,
        head: u64,
        batch: AppendBatch,
        durability: Durability,
    ) -> Result<u64, StoreError> {
        let next = std::mem::take(&mut *self.next.lock().unwrap());
        if let Next::Fail = next {
            let path = "/full".into();
            return Err(StoreError::DiskFull { path });
        }
        self.levels.lock().unwrap().push(durability);
        let checkpoint = batch.checkpoint.as_ref().map(|it| it.sequence);
        self.checkpoints.lock().unwrap().extend(checkpoint);
        let outcome = self.inner.append(token, head, batch, durability).await;
        if let Next::StoreAndHang = next {
            std::future::pending::<()>().await;
        }
        outcome
    }

    async fn read(
        &self,
        id: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        self.inner.read(id, after, limit).await
    }

    async fn open(&self, id: &SessionId) -> Result<OpenedSession, StoreError> {
        self.inner.open(id).await
    }

    async fn list(&self, page: PageRequest) -> Result<SessionPage, StoreError> {
        self.inner.list(page).await
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.inner.delete(id).await
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        self.inner.blob(hash).await
    }
}

async fn new_log(policy: DurabilityPolicy) -> (Arc<Watched>, SessionLog) {
    let store = Arc::new(Watched::default());
    let log = SessionLog::create(store.clone(), blueprint("ses_1"), policy).await;
    (store, log.unwrap())
}

fn warning(message: impl Into<String>) -> SessionEventPayload {
    SessionEventPayload::Warning {
        message: message.into(),
    }
}

fn started(turn: &str) -> SessionEventPayload {
    SessionEventPayload::TurnStarted {
        turn_id: turn.into(),
        response_schema: None,
    }
}

async fn append(log: &mut SessionLog, payload: SessionEventPayload) -> Result<u64, &'static str> {
    let event = pending("ses_1", 1, payload);
    let outcome = log.append(vec![event], Durability::Durable).await;
    outcome
        .map(|committed| committed[0].sequence())
        .map_err(|error| error.code())
}

#[tokio::test]
async fn a_failed_append_leaves_the_log_as_it_was() {
    let (store, mut log) = new_log(DurabilityPolicy::Process).await;
    append(&mut log, started("turn_1")).await.unwrap();
    let before = log.state().clone();
    store.on_next(Next::Fail);
    assert_eq!(
        append(&mut log, started("turn_2")).await,
        Err("store_disk_full")
    );
    assert_eq!((log.state(), log.head()), (&before, 1));
    assert_eq!(append(&mut log, started("turn_2")).await, Ok(2));
    assert_eq!(log.state().live_turn, Some("turn_2".into()));
}

#[tokio::test]
async fn an_abandoned_append_poisons_the_log_and_reopening_heals() {
    let (store, mut log) = new_log(DurabilityPolicy::Process).await;
    store.on_next(Next::StoreAndHang);
    {
        let mut append = Box::pin(append(&mut log, started("turn_1")));
        assert!(poll_once(append.as_mut()).await.is_none());
    }
    assert_eq!(
        append(&mut log, started("turn_2")).await,
        Err("session_poisoned")
    );
    let policy = DurabilityPolicy::Process;
    let mut log = SessionLog::open(store, &"ses_1".into(), policy)
        .await
        .unwrap();
    assert_eq!(log.state().live_turn, Some("turn_1".into()));
    assert_eq!(append(&mut log, started("turn_2")).await, Ok(2));
}

async fn poll_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn what_does_not_belong_in_the_log_is_refused() {
    let (_store, mut log) = new_log(DurabilityPolicy::Process).await;
    let delta = SessionEventPayload::DeltaItem {
        delta: DeltaItem { text: "x".into() },
    };
    assert_eq!(append(&mut log, delta).await, Err("session_invalid_batch"));
    let foreign = pending("ses_2", 1, warning("hm"));
    let error = log
        .append(vec![foreign], Durability::Durable)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "session_invalid_batch");
    assert!(error.to_string().contains("ses_2"), "{error}");
    assert!(
        log.append(Vec::new(), Durability::Durable)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(log.head(), 0);
}

#[tokio::test]
async fn an_event_that_stays_too_large_is_refused() {
    let (_store, mut log) = new_log(DurabilityPolicy::Process).await;
    // Many small strings: nothing to move out of the line.
    let values: Vec<String> = vec!["v".repeat(1_000); MAX_EVENT_BYTES / 1_000];
    let mut events = turn(1, ToolResult::json(serde_json::json!(values)));
    let completed = events.remove(4);
    assert_eq!(append(&mut log, completed).await, Err("session_too_large"));
    assert_eq!(append(&mut log, started("turn_1")).await, Ok(1));
}

#[tokio::test]
async fn the_policy_decides_what_durable_means() {
    for (policy, level) in [
        (DurabilityPolicy::Process, Durability::Durable),
        (DurabilityPolicy::Power, Durability::PowerSafe),
    ] {
        let (store, mut log) = new_log(policy).await;
        append(&mut log, started("turn_1")).await.unwrap();
        assert_eq!(*store.levels.lock().unwrap(), [level]);
    }
}

#[tokio::test]
async fn the_first_event_carries_the_schema_version() {
    let (_store, mut log) = new_log(DurabilityPolicy::Process).await;
    let events = vec![
        pending("ses_1", 1, warning("1")),
        pending("ses_1", 1, warning("2")),
    ];
    let committed = log.append(events, Durability::Durable).await.unwrap();
    let versions: Vec<_> = committed.iter().map(|event| event.schema_version).collect();
    assert_eq!(versions, [Some(halter_protocol::SCHEMA_VERSION), None]);
}

fn said(text: &str) -> SessionEventPayload {
    let message = Message::User(UserMessage::text(text));
    SessionEventPayload::MessageItem {
        message: Arc::new(message),
    }
}

#[tokio::test]
async fn checkpoints_of_a_growing_window_double_their_distance() {
    let (store, mut log) = new_log(DurabilityPolicy::Process).await;
    for number in 0..MIN_CHECKPOINT_EVENTS * 9 {
        if number == MIN_CHECKPOINT_EVENTS {
            assert!(store.checkpoints.lock().unwrap().is_empty());
        }
        append(&mut log, said("hm")).await.unwrap();
        if number == MIN_CHECKPOINT_EVENTS * 3 {
            // A checkpoint that was not stored is due again.
            store.on_next(Next::Fail);
            append(&mut log, warning("hm")).await.unwrap_err();
        }
    }
    let expected = [1, 2, 4, 8].map(|times| times * MIN_CHECKPOINT_EVENTS);
    assert_eq!(*store.checkpoints.lock().unwrap(), expected);
}

/// A session whose window does not grow is opened at the cost of its window.
#[tokio::test]
async fn checkpoints_of_a_small_window_keep_their_distance() {
    let (store, mut log) = new_log(DurabilityPolicy::Process).await;
    append(&mut log, said("hm")).await.unwrap();
    for _ in 1..MIN_CHECKPOINT_EVENTS * 5 {
        append(&mut log, warning("hm")).await.unwrap();
    }
    let expected = [1, 2, 3, 4].map(|times| times * MIN_CHECKPOINT_EVENTS);
    assert_eq!(*store.checkpoints.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_page_of_events_is_bounded_with_its_texts() {
    let (store, mut log) = new_log(DurabilityPolicy::Process).await;
    let large = "x".repeat(MAX_READ_BYTES / 2);
    for _ in 0..3 {
        append(&mut log, warning(large.clone())).await.unwrap();
    }
    let sizes = async |after| {
        let page = read_events(store.as_ref(), &"ses_1".into(), after, 10).await;
        page.unwrap().len()
    };
    assert_eq!(
        [
            sizes(0).await,
            sizes(1).await,
            sizes(2).await,
            sizes(3).await
        ],
        [1, 1, 1, 0]
    );
}
