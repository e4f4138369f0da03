//! What the reader answers.

use super::fault::SqliteFault;
use super::{integer, natural};
use crate::blob::BlobHash;
use crate::blueprint::decode_blueprint;
use crate::error::StoreError;
use crate::limits::{MAX_READ_BYTES, MAX_READ_EVENTS};
use crate::records::{
    Checkpoint, EventRecord, OpenedSession, PageCursor, PageRequest, SessionPage, SessionRecord,
    SessionSummary, UnreadableSession,
};
use bytes::Bytes;
use halter_protocol::encoding::unescape_path;
use halter_protocol::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;

pub(super) fn read(
    connection: &Connection,
    session_id: &SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRecord>, SqliteFault> {
    let key: Option<i64> = connection
        .prepare_cached("SELECT key FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.as_str()], |row| row.get(0))
        .optional()?;
    let key = key.ok_or_else(|| StoreError::not_found(session_id))?;
    let limit = i64::try_from(limit.min(MAX_READ_EVENTS)).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(
        "SELECT sequence, line FROM events WHERE session = ?1 AND sequence > ?2 \
         ORDER BY sequence LIMIT ?3",
    )?;
    let mut rows = select.query(params![key, integer(after), limit])?;
    let mut events = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let sequence = natural(row.get(0)?);
        let line = row
            .get_ref(1)?
            .as_str()
            .map_err(|error| StoreError::corrupt_event(session_id, sequence, error.to_string()))?;
        bytes += line.len();
        if bytes > MAX_READ_BYTES && !events.is_empty() {
            break;
        }
        events.push(EventRecord {
            sequence,
            json: line.into(),
        });
    }
    Ok(events)
}

pub(super) fn open(
    connection: &Connection,
    session_id: &SessionId,
) -> Result<OpenedSession, SqliteFault> {
    // One statement, so that head and checkpoint are of one moment.
    let row = connection
        .prepare_cached(
            "SELECT s.schema_version, s.head, s.title, b.json, c.sequence, c.json \
             FROM sessions AS s LEFT JOIN blueprints AS b ON b.session = s.key \
             LEFT JOIN checkpoints AS c ON c.session = s.key WHERE s.session_id = ?1",
        )?
        .query_row([session_id.as_str()], |row| {
            Ok((
                row.get::<_, u32>(0)?,
                natural(row.get(1)?),
                row.get::<_, Option<Arc<str>>>(2)?,
                row.get::<_, Option<String>>(3)?,
                checkpoint(row),
            ))
        })
        .optional()?;
    let (schema_version, head, title, blueprint, checkpoint) =
        row.ok_or_else(|| StoreError::not_found(session_id))?;
    let stored = blueprint.unwrap_or_default();
    let blueprint = decode_blueprint(session_id, &stored, |hash| blob(connection, hash))?;
    Ok(OpenedSession {
        record: SessionRecord {
            blueprint,
            schema_version,
        },
        head,
        title,
        checkpoint,
    })
}

/// A checkpoint that cannot be read is none: the events are folded instead.
fn checkpoint(row: &Row<'_>) -> Option<Checkpoint> {
    let sequence: i64 = row.get(4).ok()?;
    Some(Checkpoint {
        sequence: natural(sequence),
        json: row.get(5).ok()?,
    })
}

const FIRST_PAGE: &str = "
SELECT session_id, updated_at, parent_session_id, created_at, head, working_dir, title
FROM sessions ORDER BY updated_at DESC, session_id DESC LIMIT ?1";

const NEXT_PAGE: &str = "
SELECT session_id, updated_at, parent_session_id, created_at, head, working_dir, title
FROM sessions WHERE (updated_at, session_id) < (?2, ?3)
ORDER BY updated_at DESC, session_id DESC LIMIT ?1";

pub(super) fn list(
    connection: &Connection,
    page: &PageRequest,
) -> Result<SessionPage, SqliteFault> {
    let limit = page.clamped_limit();
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut select;
    let mut rows = match &page.cursor {
        Some(cursor) => {
            select = connection.prepare_cached(NEXT_PAGE)?;
            let place = (cursor.updated_at_micros(), cursor.session_id());
            select.query(params![one_more, place.0, place.1])?
        }
        None => {
            select = connection.prepare_cached(FIRST_PAGE)?;
            select.query(params![one_more])?
        }
    };
    let mut found = SessionPage::default();
    let mut last = None;
    while let Some(row) = rows.next()? {
        if found.sessions.len() + found.unreadable.len() == limit {
            found.next = last;
            break;
        }
        let id = String::from_utf8_lossy(row.get_ref(0)?.as_bytes().unwrap_or_default());
        last = Some(PageCursor::new(row.get(1)?, id.as_ref()));
        match summary(row) {
            Ok(summary) => found.sessions.push(summary),
            Err(reason) => found.unreadable.push(UnreadableSession {
                session_id: id.as_ref().into(),
                reason,
            }),
        }
    }
    Ok(found)
}

fn summary(row: &Row<'_>) -> Result<SessionSummary, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let time = |index: usize| {
        row.get(index)
            .map_err(text)
            .and_then(|at| Timestamp::from_microsecond(at).map_err(|error| error.to_string()))
    };
    let directory: String = row.get(5).map_err(text)?;
    Ok(SessionSummary {
        session_id: SessionId(row.get(0).map_err(text)?),
        parent_session_id: row.get::<_, Option<_>>(2).map_err(text)?.map(SessionId),
        created_at: time(3)?,
        updated_at: time(1)?,
        head: natural(row.get(4).map_err(text)?),
        working_dir: unescape_path(&directory).map_err(|error| error.to_string())?,
        title: row.get(6).map_err(text)?,
    })
}

pub(super) fn blob(connection: &Connection, hash: &BlobHash) -> Result<Option<Bytes>, SqliteFault> {
    let bytes: Option<Vec<u8>> = connection
        .prepare_cached("SELECT bytes FROM blobs WHERE hash = ?1")?
        .query_row([hash.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(bytes.map(Bytes::from))
}
