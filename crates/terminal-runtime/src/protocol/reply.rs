//! Replies: one line each.

use serde::{Deserialize, Serialize};

use super::error::{ErrorCode, WireError};
use super::request::RequestId;

/// What answers a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(bound(deserialize = "Data: Deserialize<'de>"))]
pub struct ReplyLine<Data> {
    /// The id of the request.
    pub id: RequestId,
    /// Whether it was fulfilled.
    pub ok: bool,
    /// What it asked for, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// Why not, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WireError>,
}

/// The line that fulfils a request, with its newline.
pub fn success<Data: Serialize>(id: &RequestId, data: &Data) -> Vec<u8> {
    #[derive(Serialize)]
    struct Success<'reply, Data> {
        id: &'reply RequestId,
        ok: bool,
        data: &'reply Data,
    }
    let reply = Success { id, ok: true, data };
    line(&reply).unwrap_or_else(|| {
        let error = WireError::new(ErrorCode::InternalError, "the reply could not be written");
        failure(id, &error)
    })
}

/// The line that refuses a request, with its newline.
#[must_use]
pub fn failure(id: &RequestId, error: &WireError) -> Vec<u8> {
    #[derive(Serialize)]
    struct Failure<'reply> {
        id: &'reply RequestId,
        ok: bool,
        error: &'reply WireError,
    }
    let reply = Failure {
        id,
        ok: false,
        error,
    };
    line(&reply).unwrap_or_default()
}

/// Most lines fit into so many bytes.
const LINE_ROOM: usize = 512;

/// A value as one line; `None` if it has no JSON form.
pub(crate) fn line<Value: Serialize>(value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(LINE_ROOM);
    serde_json::to_writer(&mut bytes, value).ok()?;
    bytes.push(b'\n');
    Some(bytes)
}
