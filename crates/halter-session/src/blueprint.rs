//! The stored form of a blueprint, for stores.
//!
//! As in an event, a string longer than
//! [`MAX_INLINE_STRING_BYTES`](crate::limits::MAX_INLINE_STRING_BYTES) is a blob
//! of the session: instruction files and prompts that many sessions start with
//! are stored once. A blueprint of an earlier version holds all of its strings
//! itself.

use crate::blob::{Blob, BlobHash};
use crate::codec::{BlobSet, Texts, encode};
use crate::error::StoreError;
use bytes::Bytes;
use halter_protocol::{SessionBlueprint, SessionId};

/// The JSON to store, and the blobs it refers to: the session's like those of
/// its events.
///
/// # Errors
/// If the blueprint cannot be written as JSON.
pub fn encode_blueprint(blueprint: &SessionBlueprint) -> Result<(String, Vec<Blob>), StoreError> {
    let mut blobs = BlobSet::new();
    let mut keep = |blob: Blob| {
        blobs.insert(blob.hash, blob.bytes);
    };
    let json = encode(blueprint, &mut keep).map_err(|error| StoreError::InvalidBatch {
        session_id: blueprint.session_id.clone(),
        reason: error.to_string(),
    })?;
    Ok((json, blobs.into_iter().map(Blob::from).collect()))
}

/// The blueprint that a stored JSON stands for; `find` looks up the bytes of a
/// blob.
///
/// # Errors
/// If it is damaged, or `find` fails.
pub fn decode_blueprint<E: From<StoreError>>(
    session_id: &SessionId,
    json: &str,
    mut find: impl FnMut(&BlobHash) -> Result<Option<Bytes>, E>,
) -> Result<SessionBlueprint, E> {
    let mut texts = Texts::default();
    for hash in texts.missing(json) {
        texts.add(hash, find(&hash)?);
    }
    let blueprint = texts
        .put_back(json)
        .and_then(|json| serde_json::from_str(&json));
    blueprint.map_err(|error| {
        E::from(StoreError::Corrupt {
            what: format!("the blueprint of session '{session_id}'"),
            why: error.to_string(),
            remedy: "delete the session and start a new one; no other session is affected".into(),
        })
    })
}
