//! The events of a stream as they are spelled.

use crate::wire::SseEvent;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Any event. Members that only some events have are read when those come.
#[derive(Deserialize)]
pub(super) struct WireEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(default)]
    pub index: u64,
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub usage: Option<&'a RawValue>,
}

/// What is new in a block or in the message.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    /// Absent in what is new in the message.
    #[serde(rename = "type", default, borrow)]
    pub kind: Cow<'a, str>,
    pub text: Option<String>,
    pub thinking: Option<String>,
    pub partial_json: Option<String>,
    pub signature: Option<String>,
    #[serde(borrow)]
    pub citation: Option<&'a RawValue>,
    pub stop_reason: Option<String>,
    #[serde(borrow)]
    pub stop_details: Option<&'a RawValue>,
}

/// An answer that is not streamed.
#[derive(Deserialize)]
pub(super) struct WholeMessage<'a> {
    #[serde(borrow)]
    pub content: Vec<&'a RawValue>,
    pub stop_reason: Option<String>,
    #[serde(borrow)]
    pub stop_details: Option<&'a RawValue>,
}

const KNOWN_EVENTS: [&str; 8] = [
    "message",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
];

const KNOWN_DELTAS: [&str; 5] = [
    "text_delta",
    "thinking_delta",
    "input_json_delta",
    "signature_delta",
    "citations_delta",
];

/// True if nothing of an answer is lost with an event that cannot be read: its
/// type, or that of its delta, is unknown.
pub(super) fn may_be_ignored(event: &SseEvent<'_>) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        delta: Option<&'a RawValue>,
    }
    let Ok(outer) = serde_json::from_str::<Typed<'_>>(event.data) else {
        let no_json = event.data.trim();
        return no_json.is_empty()
            || no_json == "[DONE]"
            || (!event.name.is_empty() && !KNOWN_EVENTS.contains(&event.name));
    };
    if outer.kind != "content_block_delta" {
        return !KNOWN_EVENTS.contains(&outer.kind.as_ref());
    }
    outer
        .delta
        .and_then(|delta| serde_json::from_str::<Typed<'_>>(delta.get()).ok())
        .is_some_and(|delta| !KNOWN_DELTAS.contains(&delta.kind.as_ref()))
}
