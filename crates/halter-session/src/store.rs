//! The store a session's log lives in.

use crate::blob::BlobHash;
use crate::error::{SessionCommitConflict, StoreError};
use crate::limits::{
    MAX_BATCH_EVENTS, MAX_BLOB_BYTES, MAX_CHECKPOINT_BYTES, MAX_EVENT_BYTES, MAX_SESSION_ID_BYTES,
};
use crate::records::{
    AppendBatch, Durability, EventRecord, OpenedSession, PageRequest, SessionPage, SessionRecord,
    WriterToken,
};
use async_trait::async_trait;
use bytes::Bytes;
use halter_protocol::SessionId;
use std::path::PathBuf;

/// Keeps the logs of sessions.
///
/// A store moves bytes: it never looks into an event line. Whoever implements
/// it runs the suite in `conformance` (feature
/// `conformance`). Dropping the future of a call does not undo the call.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Stores a new session without events and returns the token of its
    /// writer, epoch 1.
    async fn create(&self, record: SessionRecord) -> Result<WriterToken, StoreError>;

    /// Takes the session over: every older token is stale from now on.
    async fn acquire(&self, session_id: &SessionId) -> Result<WriterToken, StoreError>;

    /// Appends if `token` is the newest one and the head is `expected_head`,
    /// and returns the new head. All of the batch is stored, or nothing.
    async fn append(
        &self,
        token: &WriterToken,
        expected_head: u64,
        batch: AppendBatch,
        durability: Durability,
    ) -> Result<u64, StoreError>;

    /// The events after `after`, oldest first: at most `limit` of them, and
    /// fewer where [`limits`](crate::limits) say so. Empty at the head only.
    async fn read(
        &self,
        session_id: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>, StoreError>;

    /// The session's record, head and newest checkpoint.
    async fn open(&self, session_id: &SessionId) -> Result<OpenedSession, StoreError>;

    /// One page of sessions, most recently updated first. A session that
    /// cannot be read is named as such and hides no other.
    async fn list(&self, page: PageRequest) -> Result<SessionPage, StoreError>;

    /// Removes the session, its events, checkpoint and every blob no other
    /// session refers to; false if there was none.
    async fn delete(&self, session_id: &SessionId) -> Result<bool, StoreError>;

    /// The bytes stored under a hash.
    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError>;

    /// Finishes what was asked and releases files and threads; later calls
    /// fail with [`StoreError::Closed`]. Nothing to do for most stores.
    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The files in which sessions are kept, for a harness to keep its tools
    /// away from. None for most stores.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// What a store knows when it decides about an append.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// The sequence of the session's last event, 0 without events.
    pub head: u64,
    /// The epoch of the newest writer token.
    pub epoch: u64,
}

/// The rules every append has to keep, the same for every store. Returns the
/// head after the append.
pub fn check_append(
    standing: Standing,
    token: &WriterToken,
    expected_head: u64,
    batch: &AppendBatch,
) -> Result<u64, StoreError> {
    let conflict = || SessionCommitConflict {
        session_id: token.session_id.clone(),
        expected_head_sequence: expected_head,
        actual_head_sequence: standing.head,
    };
    if token.epoch != standing.epoch {
        return Err(StoreError::StaleWriter {
            conflict: conflict(),
            token_epoch: token.epoch,
            current_epoch: standing.epoch,
        });
    }
    if expected_head != standing.head {
        return Err(conflict().into());
    }
    check_batch(&token.session_id, expected_head, batch)
}

fn check_batch(
    session_id: &SessionId,
    expected_head: u64,
    batch: &AppendBatch,
) -> Result<u64, StoreError> {
    let refused = |reason: String| {
        Err(StoreError::InvalidBatch {
            session_id: session_id.clone(),
            reason,
        })
    };
    if batch.events.len() > MAX_BATCH_EVENTS {
        return refused(format!(
            "it has {} events, at most {MAX_BATCH_EVENTS} go together",
            batch.events.len()
        ));
    }
    let mut head = expected_head;
    for event in &batch.events {
        if event.sequence != head + 1 {
            return refused(format!(
                "event {} follows event {head}; sequences have no gaps",
                event.sequence
            ));
        }
        head = event.sequence;
        check_size("an event", event.json.len(), MAX_EVENT_BYTES)?;
    }
    for blob in &batch.blobs {
        check_size("a stored text", blob.bytes.len(), MAX_BLOB_BYTES)?;
    }
    if let Some(checkpoint) = &batch.checkpoint {
        check_checkpoint(checkpoint.json.len())?;
        if checkpoint.sequence == 0 || checkpoint.sequence > head {
            return refused(format!(
                "its checkpoint is of event {}, the head is {head}",
                checkpoint.sequence
            ));
        }
    }
    Ok(head)
}

/// The rules every new session has to keep.
pub fn check_create(record: &SessionRecord) -> Result<(), StoreError> {
    let id = &record.blueprint.session_id;
    if id.as_str().is_empty() {
        return Err(StoreError::InvalidBatch {
            session_id: id.clone(),
            reason: "a session id must not be empty".into(),
        });
    }
    check_size("a session id", id.as_str().len(), MAX_SESSION_ID_BYTES)
}

/// Whether a state of so many bytes may be stored as a checkpoint.
pub fn check_checkpoint(bytes: usize) -> Result<(), StoreError> {
    check_size("a checkpoint", bytes, MAX_CHECKPOINT_BYTES)
}

fn check_size(what: &str, bytes: usize, max: usize) -> Result<(), StoreError> {
    if bytes <= max {
        return Ok(());
    }
    Err(StoreError::TooLarge {
        what: what.to_owned(),
        bytes,
        max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blob, Checkpoint};

    const STANDING: Standing = Standing { head: 4, epoch: 2 };

    fn token(epoch: u64) -> WriterToken {
        WriterToken {
            session_id: "ses_1".into(),
            epoch,
        }
    }

    fn events(sequences: impl IntoIterator<Item = u64>) -> AppendBatch {
        AppendBatch {
            events: sequences
                .into_iter()
                .map(|sequence| EventRecord {
                    sequence,
                    json: "{}".into(),
                })
                .collect(),
            ..AppendBatch::default()
        }
    }

    fn code(batch: &AppendBatch) -> &'static str {
        match check_append(STANDING, &token(2), 4, batch) {
            Ok(_) => "ok",
            Err(error) => error.code(),
        }
    }

    #[test]
    fn a_fresh_writer_moves_the_head() {
        let head = check_append(STANDING, &token(2), 4, &events(5..8)).unwrap();
        assert_eq!(head, 7);
    }

    #[test]
    fn old_tokens_and_heads_conflict() {
        let stale = check_append(STANDING, &token(1), 4, &events([5])).unwrap_err();
        assert_eq!(stale.code(), "session_stale_writer");
        let behind = check_append(STANDING, &token(2), 3, &events([4])).unwrap_err();
        assert_eq!(behind.code(), "session_conflict");
        assert_eq!(behind.conflict().unwrap().actual_head_sequence, 4);
    }

    #[test]
    fn gaps_are_refused() {
        for sequences in [vec![6], vec![4], vec![5, 7], vec![5, 5]] {
            assert_eq!(code(&events(sequences)), "session_invalid_batch");
        }
    }

    #[test]
    fn a_batch_may_be_full_and_not_fuller() {
        let last = 4 + MAX_BATCH_EVENTS as u64;
        assert_eq!(code(&events(5..=last)), "ok");
        assert_eq!(code(&events(5..=last + 1)), "session_invalid_batch");
    }

    #[test]
    fn sizes_hold_at_their_edge() {
        let event = |bytes: usize| {
            let mut batch = events([5]);
            batch.events[0].json = " ".repeat(bytes).into();
            code(&batch)
        };
        assert_eq!(event(MAX_EVENT_BYTES), "ok");
        assert_eq!(event(MAX_EVENT_BYTES + 1), "session_too_large");
        let blob = |bytes: usize| {
            let mut batch = events([5]);
            batch.blobs = vec![Blob {
                hash: BlobHash::of(b""),
                bytes: vec![0; bytes].into(),
            }];
            code(&batch)
        };
        assert_eq!(blob(MAX_BLOB_BYTES), "ok");
        assert_eq!(blob(MAX_BLOB_BYTES + 1), "session_too_large");
        assert!(check_checkpoint(MAX_CHECKPOINT_BYTES).is_ok());
        let refused = check_checkpoint(MAX_CHECKPOINT_BYTES + 1).unwrap_err();
        assert_eq!(refused.code(), "session_too_large");
    }

    #[test]
    fn a_session_id_is_a_short_text() {
        let code = |bytes: usize| {
            let blueprint = serde_json::json!({
                "session_id": "i".repeat(bytes), "created_at": "2026-01-02T03:04:05Z",
                "working_dir": "/", "default_model": "default", "system_prompt": [],
                "snapshot_revision": "empty", "environment": {"platform": "", "date": ""},
            });
            let record = SessionRecord::new(serde_json::from_value(blueprint).unwrap());
            check_create(&record).map_err(|error| error.code())
        };
        assert_eq!(code(0), Err("session_invalid_batch"));
        assert_eq!(code(1), Ok(()));
        assert_eq!(code(MAX_SESSION_ID_BYTES), Ok(()));
        assert_eq!(code(MAX_SESSION_ID_BYTES + 1), Err("session_too_large"));
    }

    #[test]
    fn a_checkpoint_lies_within_the_log() {
        let checkpoint = |sequence| {
            let mut batch = events([5]);
            batch.checkpoint = Some(Checkpoint {
                sequence,
                json: "{}".into(),
            });
            code(&batch)
        };
        assert_eq!(
            [0, 1, 5, 6].map(checkpoint),
            ["session_invalid_batch", "ok", "ok", "session_invalid_batch"]
        );
    }
}
