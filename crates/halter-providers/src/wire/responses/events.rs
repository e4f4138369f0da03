//! The events of a response, as far as they are read. Members that are not
//! listed, such as padding against traffic analysis, are skipped.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Any event, to learn its kind.
#[derive(Deserialize)]
pub(super) struct Kind {
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// `response` for a whole response, from a server that does not stream.
    #[serde(default)]
    pub object: Option<String>,
}

/// `response.created` and its like, and the three ends.
#[derive(Deserialize)]
pub(super) struct ResponseEvent<'a> {
    #[serde(borrow)]
    pub response: Response<'a>,
}

#[derive(Deserialize)]
pub(super) struct Response<'a> {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(borrow, default)]
    pub output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    pub usage: Option<ResponseUsage>,
    #[serde(default)]
    pub incomplete_details: Option<IncompleteDetails>,
    #[serde(default)]
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct IncompleteDetails {
    #[serde(default)]
    pub reason: Option<String>,
}

/// `response.output_item.added` and `.done`.
#[derive(Deserialize)]
pub(super) struct ItemEvent<'a> {
    #[serde(default)]
    pub output_index: u64,
    #[serde(borrow)]
    pub item: &'a RawValue,
}

/// An item, as far as it is read.
#[derive(Deserialize)]
pub(super) struct Item {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub call_id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub arguments: Option<String>,
}

/// The text of a message item.
#[derive(Deserialize)]
pub(super) struct MessageItem {
    #[serde(default)]
    pub content: Vec<TextPart>,
}

/// The text of a reasoning item.
#[derive(Deserialize)]
pub(super) struct ReasoningItem {
    #[serde(default)]
    pub summary: Option<Vec<TextPart>>,
    #[serde(default)]
    pub content: Option<Vec<TextPart>>,
}

impl MessageItem {
    /// All text of the message.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|part| part.text.as_deref().or(part.refusal.as_deref()))
            .collect()
    }

    /// True if the model declined.
    pub fn refuses(&self) -> bool {
        self.content.iter().any(|part| part.kind == "refusal")
    }
}

impl ReasoningItem {
    /// The summary or, where there is none, the reasoning itself.
    pub fn text(&self) -> String {
        let summary = self.summary.iter().flatten();
        let texts: Vec<&str> = summary.filter_map(|part| part.text.as_deref()).collect();
        if !texts.is_empty() {
            return texts.join("\n\n");
        }
        let content = self.content.iter().flatten();
        content.filter_map(|part| part.text.as_deref()).collect()
    }
}

#[derive(Deserialize)]
pub(super) struct TextPart {
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub refusal: Option<String>,
}

/// Every delta.
#[derive(Deserialize)]
pub(super) struct DeltaEvent {
    #[serde(default)]
    pub output_index: u64,
    #[serde(default)]
    pub summary_index: Option<u64>,
    pub delta: String,
}

#[derive(Deserialize)]
pub(super) struct ResponseUsage {
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    pub output_tokens: u64,
    #[serde(default)]
    pub output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
pub(super) struct InputDetails {
    #[serde(default)]
    pub cached_tokens: Option<u64>,
    #[serde(default)]
    pub cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct OutputDetails {
    #[serde(default)]
    pub reasoning_tokens: Option<u64>,
}
