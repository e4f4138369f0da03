//! One writer's view of one session.

use crate::blob::Blob;
use crate::checkpoint::{decode_state, encode_state};
use crate::codec::{BlobSet, encode_event, read_events};
use crate::error::StoreError;
use crate::limits::{MAX_READ_EVENTS, MAX_TITLE_CHARS, MIN_CHECKPOINT_EVENTS};
use crate::records::{
    AppendBatch, Checkpoint, Durability, DurabilityPolicy, EventRecord, OpenedSession,
    SessionRecord, WriterToken,
};
use crate::store::{SessionStore, check_checkpoint};
use halter_protocol::fold::apply_event;
use halter_protocol::{
    Delivery, Message, PendingEvent, SCHEMA_VERSION, SessionBlueprint, SessionEvent,
    SessionEventPayload, SessionId, SessionState,
};
use std::sync::Arc;

/// A session as its writer sees it: the state, always equal to the fold of the
/// committed events, and the right to commit more.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use halter_protocol::{PendingEvent, SessionBlueprint, SessionEventPayload, Timestamp};
/// use halter_session::{Durability, DurabilityPolicy, InMemorySessionStore, SessionLog};
/// use std::sync::Arc;
///
/// let blueprint: SessionBlueprint = serde_json::from_value(serde_json::json!({
///     "session_id": "ses_1", "created_at": "2026-01-02T03:04:05Z", "working_dir": "/tmp",
///     "default_model": "default", "system_prompt": [], "snapshot_revision": "empty",
///     "environment": {"platform": "linux x86_64", "date": "2026-01-02"},
/// }))
/// .unwrap();
/// let store = Arc::new(InMemorySessionStore::new());
/// let mut log = SessionLog::create(store, blueprint, DurabilityPolicy::Process).await.unwrap();
///
/// let turn = SessionEventPayload::TurnStarted {
///     turn_id: "turn_1".into(),
///     response_schema: None,
/// };
/// let pending = PendingEvent::new("ses_1".into(), Timestamp::now(), turn);
/// let committed = log.append(vec![pending], Durability::Durable).await.unwrap();
/// assert_eq!(committed[0].sequence(), 1);
/// assert_eq!(log.state().live_turn, Some("turn_1".into()));
/// # });
/// ```
pub struct SessionLog {
    writer: LogWriter,
    state: SessionState,
}

impl std::fmt::Debug for SessionLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SessionLog").field(&self.writer).finish()
    }
}

impl SessionLog {
    /// Starts a session.
    pub async fn create(
        store: Arc<dyn SessionStore>,
        blueprint: SessionBlueprint,
        policy: DurabilityPolicy,
    ) -> Result<Self, StoreError> {
        let token = store.create(SessionRecord::new(blueprint.clone())).await?;
        Ok(Self {
            writer: LogWriter {
                store,
                token,
                blueprint: Arc::new(blueprint),
                policy,
                head: 0,
                checkpointed: 0,
                checkpoint: None,
                titled: false,
                poisoned: None,
            },
            state: SessionState::default(),
        })
    }

    /// Takes a stored session over: every other writer of it is stale from now
    /// on. Folds the newest checkpoint and the events after it.
    pub async fn open(
        store: Arc<dyn SessionStore>,
        session_id: &SessionId,
        policy: DurabilityPolicy,
    ) -> Result<Self, StoreError> {
        let opened = store.open(session_id).await?;
        // Before the takeover: an older program must not push out a newer one.
        refuse_newer(&opened)?;
        let token = store.acquire(session_id).await?;
        let folded = fold_stored(store.as_ref(), &opened).await?;
        Ok(Self {
            writer: LogWriter {
                store,
                token,
                blueprint: Arc::new(opened.record.blueprint),
                policy,
                head: folded.head,
                checkpointed: folded.checkpointed,
                checkpoint: None,
                titled: opened.title.is_some(),
                poisoned: None,
            },
            state: folded.state,
        })
    }

    /// What was fixed when the session started.
    pub fn blueprint(&self) -> &Arc<SessionBlueprint> {
        self.writer.blueprint()
    }

    /// The session.
    pub fn session_id(&self) -> &SessionId {
        self.writer.session_id()
    }

    /// The fold of all committed events.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// The sequence of the last committed event, 0 without events.
    pub fn head(&self) -> u64 {
        self.writer.head()
    }

    /// The store the session lives in.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.writer.store
    }

    /// Commits `events` in order, folds them, and returns them as committed.
    /// See [`LogWriter::append`].
    pub async fn append(
        &mut self,
        events: Vec<PendingEvent>,
        durability: Durability,
    ) -> Result<Vec<Arc<SessionEvent>>, StoreError> {
        if self.writer.wants_checkpoint(&self.state) {
            self.writer.take_checkpoint(self.state.clone());
        }
        let committed = self.writer.append(events, durability).await?;
        for event in &committed {
            apply_event(&mut self.state, &event.payload);
        }
        Ok(committed)
    }

    /// The right to write and the state, for an owner that folds by itself.
    pub fn into_parts(self) -> (LogWriter, SessionState) {
        (self.writer, self.state)
    }
}

/// The right to commit events to one session, for a caller that keeps the
/// state.
pub struct LogWriter {
    store: Arc<dyn SessionStore>,
    token: WriterToken,
    blueprint: Arc<SessionBlueprint>,
    policy: DurabilityPolicy,
    head: u64,
    /// The last event the newest checkpoint includes.
    checkpointed: u64,
    /// The state at the head, to be stored with the next append.
    checkpoint: Option<SessionState>,
    titled: bool,
    /// Why nothing can be appended any more.
    poisoned: Option<Arc<str>>,
}

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogWriter")
            .field("token", &self.token)
            .field("head", &self.head)
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

impl LogWriter {
    /// What was fixed when the session started.
    pub fn blueprint(&self) -> &Arc<SessionBlueprint> {
        &self.blueprint
    }

    /// The session.
    pub fn session_id(&self) -> &SessionId {
        &self.token.session_id
    }

    /// The sequence of the last committed event, 0 without events.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// True once there are as many new events as the last checkpoint covers,
    /// or as many as `state`, the fold up to the head, has messages. The
    /// cost of all checkpoints together stays proportional to the log, and
    /// opening a session costs what its window costs.
    pub fn wants_checkpoint(&self, state: &SessionState) -> bool {
        let window = state.messages.len() as u64;
        let due = self.checkpointed.min(window).max(MIN_CHECKPOINT_EVENTS);
        self.head - self.checkpointed >= due
    }

    /// Stores `state`, the fold of everything up to the head, with the next
    /// append.
    pub fn take_checkpoint(&mut self, state: SessionState) {
        self.checkpoint = Some(state);
    }

    /// Commits `events` in order and returns them as committed.
    ///
    /// All of them are committed, or none. After a conflict, and when the
    /// future of an append was dropped before its end, this writer no longer
    /// knows the log: every later append fails with [`StoreError::Poisoned`],
    /// and the session has to be opened again.
    pub async fn append(
        &mut self,
        events: Vec<PendingEvent>,
        durability: Durability,
    ) -> Result<Vec<Arc<SessionEvent>>, StoreError> {
        if let Some(reason) = &self.poisoned {
            return Err(StoreError::Poisoned {
                session_id: self.token.session_id.clone(),
                reason: reason.clone(),
            });
        }
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let (committed, mut batch) = self.number_and_encode(events)?;
        if let Some(state) = self.checkpoint.take() {
            batch.checkpoint = self.encode_checkpoint(state).await;
        }
        let checkpoint = batch.checkpoint.as_ref().map(|it| it.sequence);
        let titled = self.titled || batch.title.is_some();
        let level = self.policy.level(durability);

        self.poisoned = Some("an append was abandoned before its end".into());
        let outcome = self
            .store
            .append(&self.token, self.head, batch, level)
            .await;
        self.poisoned = None;
        match outcome {
            Ok(head) => self.head = head,
            Err(error) => {
                if error.is_conflict() || matches!(error, StoreError::NotFound { .. }) {
                    self.poisoned = Some(error.to_string().into());
                }
                return Err(error);
            }
        }
        self.checkpointed = checkpoint.unwrap_or(self.checkpointed);
        self.titled = titled;
        Ok(committed)
    }

    fn number_and_encode(
        &self,
        events: Vec<PendingEvent>,
    ) -> Result<(Vec<Arc<SessionEvent>>, AppendBatch), StoreError> {
        let mut batch = AppendBatch::default();
        let mut blobs = BlobSet::new();
        let mut committed = Vec::with_capacity(events.len());
        for (event, sequence) in events.into_iter().zip(self.head + 1..) {
            self.check_event(&event)?;
            batch.updated_at = Some(event.at);
            if !self.titled && batch.title.is_none() {
                batch.title = title_of(&event.payload);
            }
            let mut event = event.into_committed(sequence);
            if sequence == 1 {
                event = event.first_of_stream();
            }
            let json = encode_event(&event, &mut blobs)
                .map_err(|error| self.refused(error.to_string()))?;
            batch.events.push(EventRecord { sequence, json });
            committed.push(Arc::new(event));
        }
        batch.blobs = blobs.into_iter().map(Blob::from).collect();
        Ok((committed, batch))
    }

    fn check_event(&self, event: &PendingEvent) -> Result<(), StoreError> {
        if event.session_id != self.token.session_id {
            return Err(self.refused(format!("an event belongs to '{}'", event.session_id)));
        }
        if event.payload.delivery() != Delivery::Lossless {
            return Err(self.refused(format!(
                "'{}' is best effort and never stored",
                event.payload.kind()
            )));
        }
        Ok(())
    }

    fn refused(&self, reason: String) -> StoreError {
        StoreError::InvalidBatch {
            session_id: self.token.session_id.clone(),
            reason,
        }
    }

    async fn encode_checkpoint(&self, state: SessionState) -> Option<Checkpoint> {
        let encode = move || encode_state(&state);
        let encoded = match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(encode).await.ok()?,
            Err(_) => encode(),
        };
        let size = encoded.as_ref().map_or(0, |json| json.len());
        let fits = check_checkpoint(size).map_err(|error| error.to_string());
        match fits.and(encoded.map_err(|error| error.to_string())) {
            Ok(json) => Some(Checkpoint {
                sequence: self.head,
                json,
            }),
            Err(error) => {
                tracing::warn!(
                    session_id = %self.token.session_id,
                    %error,
                    "no checkpoint was written; opening the session folds all its events"
                );
                None
            }
        }
    }
}

/// A stored session, read without taking it from its writer.
#[derive(Debug, Clone)]
pub struct StoredState {
    /// What was fixed when the session started.
    pub blueprint: SessionBlueprint,
    /// The fold of its events.
    pub state: SessionState,
    /// The sequence of its last event, 0 without events.
    pub head: u64,
}

impl StoredState {
    /// Reads a session.
    pub async fn read(
        store: &dyn SessionStore,
        session_id: &SessionId,
    ) -> Result<Self, StoreError> {
        let opened = store.open(session_id).await?;
        refuse_newer(&opened)?;
        let folded = fold_stored(store, &opened).await?;
        Ok(Self {
            blueprint: opened.record.blueprint,
            state: folded.state,
            head: folded.head,
        })
    }
}

/// What a stored session folds to.
struct Folded {
    state: SessionState,
    head: u64,
    checkpointed: u64,
}

/// Folds the newest checkpoint and the events after it.
async fn fold_stored(
    store: &dyn SessionStore,
    opened: &OpenedSession,
) -> Result<Folded, StoreError> {
    let id = &opened.record.blueprint.session_id;
    let (mut state, checkpointed) = restore_checkpoint(store, opened).await?;
    let mut head = checkpointed;
    loop {
        let events = read_events(store, id, head, MAX_READ_EVENTS).await?;
        if events.is_empty() {
            break;
        }
        for event in events {
            if event.sequence() != head + 1 {
                let why = format!("event {} is missing before it", head + 1);
                return Err(StoreError::corrupt_event(id, event.sequence(), why));
            }
            apply_event(&mut state, &event.payload);
            head = event.sequence();
        }
    }
    Ok(Folded {
        state,
        head,
        checkpointed,
    })
}

fn refuse_newer(opened: &OpenedSession) -> Result<(), StoreError> {
    let found = opened.record.schema_version;
    if found > SCHEMA_VERSION {
        return Err(StoreError::TooNew {
            what: format!("session '{}'", opened.record.blueprint.session_id),
            found,
            supported: SCHEMA_VERSION,
        });
    }
    Ok(())
}

/// The state of the newest checkpoint and the last event it includes, or the
/// empty state where there is no checkpoint this version can use.
async fn restore_checkpoint(
    store: &dyn SessionStore,
    opened: &OpenedSession,
) -> Result<(SessionState, u64), StoreError> {
    if let Some(checkpoint) = &opened.checkpoint {
        if checkpoint.sequence <= opened.head
            && let Some(state) = decode_state(store, &checkpoint.json).await?
        {
            return Ok((state, checkpoint.sequence));
        }
        tracing::warn!(
            session_id = %opened.record.blueprint.session_id,
            sequence = checkpoint.sequence,
            "a checkpoint cannot be used; folding all events instead"
        );
    }
    Ok((SessionState::default(), 0))
}

/// The start of a user's text, on one line and without control characters.
fn title_of(payload: &SessionEventPayload) -> Option<Arc<str>> {
    let SessionEventPayload::MessageItem { message } = payload else {
        return None;
    };
    let Message::User(user) = message.as_ref() else {
        return None;
    };
    let text = user.plain_text();
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .take(MAX_TITLE_CHARS)
        .collect();
    let line = words.join(" ");
    if line.is_empty() {
        return None;
    }
    let mut title: String = line.chars().take(MAX_TITLE_CHARS).collect();
    if title.len() < line.len() {
        title.pop();
        title.push('…');
    }
    Some(title.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::UserMessage;

    fn title(text: &str) -> Option<String> {
        let message = Arc::new(Message::User(UserMessage::text(text)));
        title_of(&SessionEventPayload::MessageItem { message }).map(|title| title.to_string())
    }

    #[test]
    fn a_title_is_one_line_of_plain_characters() {
        assert_eq!(
            title("fix\n the\u{1b}[31m  bug"),
            Some("fix the [31m bug".into())
        );
        assert_eq!(title(" \n"), None);
    }

    #[test]
    fn a_title_is_cut_at_its_limit() {
        let fits = "ä".repeat(MAX_TITLE_CHARS);
        assert_eq!(title(&fits), Some(fits.clone()));
        let cut = title(&format!("{fits}ä")).unwrap();
        assert_eq!(cut.chars().count(), MAX_TITLE_CHARS);
        assert!(cut.ends_with('…'));
    }
}
