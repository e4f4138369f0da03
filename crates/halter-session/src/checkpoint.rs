//! The stored form of a state.
//!
//! `{"version":…,"state":{…},"messages":[…]}`: the messages one by one, then
//! everything else of the state, each document in the form of
//! [`codec`](crate::codec). A checkpoint is a shortcut, never the truth: one of
//! another version or shape is ignored and the events are folded instead.

use crate::blob::Blob;
use crate::codec::{Texts, encode};
use crate::error::StoreError;
use crate::store::SessionStore;
use halter_protocol::{Message, SessionState, Transcript};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Grows with every change of the fold or of this form: what an older fold
/// skipped, a newer one may have to see.
pub const CHECKPOINT_VERSION: u32 = 7;

/// The stored form of `state`. Its large texts are those of stored events, so
/// their blobs are only referred to.
pub(crate) fn encode_state(state: &SessionState) -> serde_json::Result<Arc<str>> {
    let mut known = |_: Blob| {};
    let mut rest = state.clone();
    rest.messages = Transcript::default();
    let mut json = format!("{{\"version\":{CHECKPOINT_VERSION},\"state\":");
    json.push_str(&encode(&rest, &mut known)?);
    json.push_str(",\"messages\":[");
    for (index, message) in state.messages.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push_str(&encode(message, &mut known)?);
    }
    json.push_str("]}");
    Ok(json.into())
}

/// The state a checkpoint stands for; none if it is not one of this version.
pub(crate) async fn decode_state(
    store: &dyn SessionStore,
    json: &str,
) -> Result<Option<SessionState>, StoreError> {
    #[derive(Deserialize)]
    struct Stored<'a> {
        version: u32,
        #[serde(borrow)]
        state: &'a RawValue,
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let Ok(stored) = serde_json::from_str::<Stored<'_>>(json) else {
        return Ok(None);
    };
    if stored.version != CHECKPOINT_VERSION {
        return Ok(None);
    }
    let mut texts = Texts::default();
    let Some(mut state) = restore::<SessionState>(store, &mut texts, stored.state).await? else {
        return Ok(None);
    };
    for raw in stored.messages {
        let Some(message) = restore::<Message>(store, &mut texts, raw).await? else {
            return Ok(None);
        };
        state.messages.push(message);
    }
    // A text the store cannot find may still stand in an event.
    Ok(Some(state).filter(|_| !texts.any_lost()))
}

async fn restore<T: for<'a> Deserialize<'a>>(
    store: &dyn SessionStore,
    texts: &mut Texts,
    raw: &RawValue,
) -> Result<Option<T>, StoreError> {
    texts.fetch(store, raw.get()).await?;
    Ok(texts
        .put_back(raw.get())
        .and_then(|json| serde_json::from_str(&json))
        .ok())
}
