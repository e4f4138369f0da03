//! What an answer holds that only its own model understands, as opaque parts
//! carry it: written by the decoder, read by the encoder.

use super::NAME;
use halter_protocol::OpaquePart;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What belongs to a reasoning part.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptReasoning {
    /// The member the text came in, to send it back in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// OpenRouter's details.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Value>,
    /// LiteLLM's blocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Value>,
    /// Further members of the message.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub members: Map<String, Value>,
}

/// What belongs to a call.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptCall {
    /// The text of the arguments, where it differs from their value written
    /// compactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Further members of the call.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub members: Map<String, Value>,
}

/// The opaque part that carries what is kept; none if that is nothing.
pub(super) fn keep<T: Serialize + Default + PartialEq>(kept: &T) -> Option<OpaquePart> {
    if *kept == T::default() {
        return None;
    }
    let data = serde_json::to_string(kept).ok()?;
    Some(OpaquePart {
        wire: NAME.to_owned(),
        data: data.into(),
    })
}

/// What an opaque part of this wire carries. One that cannot be read is as
/// good as none: the neutral form is always there.
pub(super) fn kept<T: DeserializeOwned + Default>(opaque: Option<&OpaquePart>) -> T {
    opaque
        .filter(|opaque| opaque.wire == NAME)
        .and_then(|opaque| serde_json::from_str(&opaque.data).ok())
        .unwrap_or_default()
}
