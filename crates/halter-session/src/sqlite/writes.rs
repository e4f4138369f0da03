//! What the writer does inside a transaction. Each function refuses before it
//! writes, so a refused request leaves a shared transaction as it was.

use super::fault::SqliteFault;
use super::{integer, micros, natural};
use crate::blob::Blob;
use crate::blueprint::encode_blueprint;
use crate::error::StoreError;
use crate::records::{AppendBatch, SessionRecord, WriterToken};
use crate::store::{Standing, check_append};
use halter_protocol::SessionId;
use halter_protocol::encoding::escape_path;
use rusqlite::{Connection, OptionalExtension, params};

pub(super) fn create(
    connection: &Connection,
    record: &SessionRecord,
) -> Result<WriterToken, SqliteFault> {
    let blueprint = &record.blueprint;
    let session_id = blueprint.session_id.clone();
    if key_of(connection, &session_id)?.is_some() {
        return Err(StoreError::AlreadyExists { session_id }.into());
    }
    let (json, blobs) = encode_blueprint(blueprint)?;
    let created_at = micros(blueprint.created_at);
    connection
        .prepare_cached(
            "INSERT INTO sessions (session_id, parent_session_id, created_at, updated_at, head, \
             epoch, schema_version, working_dir) VALUES (?1, ?2, ?3, ?3, 0, 1, ?4, ?5)",
        )?
        .execute(params![
            session_id.as_str(),
            blueprint.parent_session_id.as_ref().map(SessionId::as_str),
            created_at,
            record.schema_version,
            escape_path(&blueprint.working_dir),
        ])?;
    let key = connection.last_insert_rowid();
    connection
        .prepare_cached("INSERT INTO blueprints (session, json) VALUES (?1, ?2)")?
        .execute(params![key, json])?;
    insert_blobs(connection, key, &blobs)?;
    Ok(WriterToken {
        session_id,
        epoch: 1,
    })
}

pub(super) fn acquire(
    connection: &Connection,
    session_id: &SessionId,
) -> Result<WriterToken, SqliteFault> {
    let epoch: Option<i64> = connection
        .prepare_cached(
            "UPDATE sessions SET epoch = epoch + 1 WHERE session_id = ?1 RETURNING epoch",
        )?
        .query_row([session_id.as_str()], |row| row.get(0))
        .optional()?;
    let epoch = epoch.ok_or_else(|| StoreError::not_found(session_id))?;
    Ok(WriterToken {
        session_id: session_id.clone(),
        epoch: natural(epoch),
    })
}

pub(super) fn append(
    connection: &Connection,
    token: &WriterToken,
    expected_head: u64,
    batch: &AppendBatch,
) -> Result<u64, SqliteFault> {
    let (key, standing) = standing(connection, &token.session_id)?;
    let head = check_append(standing, token, expected_head, batch)?;
    let mut insert = connection
        .prepare_cached("INSERT INTO events (session, sequence, line) VALUES (?1, ?2, ?3)")?;
    for event in &batch.events {
        insert.execute(params![key, integer(event.sequence), &*event.json])?;
    }
    insert_blobs(connection, key, &batch.blobs)?;
    if let Some(checkpoint) = &batch.checkpoint {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO checkpoints (session, sequence, json) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![
                key,
                integer(checkpoint.sequence),
                &*checkpoint.json
            ])?;
    }
    connection
        .prepare_cached(
            "UPDATE sessions SET head = ?2, updated_at = coalesce(?3, updated_at), \
             title = coalesce(title, ?4) WHERE key = ?1",
        )?
        .execute(params![
            key,
            integer(head),
            batch.updated_at.map(micros),
            batch.title.as_deref(),
        ])?;
    Ok(head)
}

fn insert_blobs(connection: &Connection, key: i64, blobs: &[Blob]) -> Result<(), SqliteFault> {
    if blobs.is_empty() {
        return Ok(());
    }
    let mut store =
        connection.prepare_cached("INSERT OR IGNORE INTO blobs (hash, bytes) VALUES (?1, ?2)")?;
    let mut note = connection
        .prepare_cached("INSERT OR IGNORE INTO blob_uses (session, hash) VALUES (?1, ?2)")?;
    for blob in blobs {
        let hash = blob.hash.as_bytes();
        // What this session refers to already is stored already.
        if note.execute(params![key, hash])? == 1 {
            store.execute(params![hash, &*blob.bytes])?;
        }
    }
    Ok(())
}

pub(super) fn delete(connection: &Connection, session_id: &SessionId) -> Result<bool, SqliteFault> {
    let Some(key) = key_of(connection, session_id)? else {
        return Ok(false);
    };
    for sql in [
        "DELETE FROM blobs WHERE hash IN (SELECT hash FROM blob_uses WHERE session = ?1) \
         AND NOT EXISTS (SELECT 1 FROM blob_uses AS other \
                         WHERE other.hash = blobs.hash AND other.session <> ?1)",
        "DELETE FROM blob_uses WHERE session = ?1",
        "DELETE FROM events WHERE session = ?1",
        "DELETE FROM checkpoints WHERE session = ?1",
        "DELETE FROM blueprints WHERE session = ?1",
        "DELETE FROM sessions WHERE key = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([key])?;
    }
    Ok(true)
}

fn key_of(connection: &Connection, session_id: &SessionId) -> Result<Option<i64>, SqliteFault> {
    Ok(connection
        .prepare_cached("SELECT key FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.as_str()], |row| row.get(0))
        .optional()?)
}

fn standing(
    connection: &Connection,
    session_id: &SessionId,
) -> Result<(i64, Standing), SqliteFault> {
    connection
        .prepare_cached("SELECT key, head, epoch FROM sessions WHERE session_id = ?1")?
        .query_row([session_id.as_str()], |row| {
            let standing = Standing {
                head: natural(row.get(1)?),
                epoch: natural(row.get(2)?),
            };
            Ok((row.get(0)?, standing))
        })
        .optional()?
        .ok_or_else(|| StoreError::not_found(session_id).into())
}
