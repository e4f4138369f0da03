//! What a model said, as it is sent back to it or to another model.

use super::log::{put, put_text_block};
use crate::wire::anthropic::NAME;
use crate::wire::anthropic::model::ModelTraits;
use crate::wire::body::write_json;
use crate::wire::names::{CallIds, ToolNames};
use halter_protocol::{AssistantMessage, AssistantPart, OpaquePart, ToolCallId, ToolName};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A block to write.
pub(super) enum Block<'a> {
    /// Reasoning as the model wrote it.
    Thinking(&'a str),
    /// A summary of what came before, as the service wrote it.
    Compaction(&'a str),
    /// Another block as the model wrote it, without a meaning of its own here.
    Kept(&'a str),
    /// Text as the model wrote it, with citations.
    RawText(&'a str),
    /// Text.
    Text(&'a str),
    /// A call.
    Call {
        id: &'a ToolCallId,
        sent: String,
        name: &'a ToolName,
        arguments: &'a Value,
    },
    /// A call as the model wrote it.
    RawCall { id: &'a ToolCallId, json: &'a str },
}

/// The blocks of a message, none if nothing of it can be sent.
pub(super) fn blocks<'a>(
    message: &'a AssistantMessage,
    model: &str,
    traits: ModelTraits,
    takes_compaction: bool,
    ids: &mut CallIds,
) -> Vec<Block<'a>> {
    let same_model = message.replay_meta.model.as_deref() == Some(model);
    let mut blocks: Vec<Block<'a>> = message
        .parts
        .iter()
        .filter_map(|part| block(part, same_model, traits, takes_compaction, ids))
        .collect();
    // A pause is resumed by sending the answer back unchanged.
    let paused = message
        .stop_reason
        .as_ref()
        .is_some_and(|reason| reason.as_str() == "pause_turn");
    if !(paused && same_model) {
        while blocks.last().is_some_and(Block::is_thinking) {
            blocks.pop();
        }
    }
    blocks
}

fn block<'a>(
    part: &'a AssistantPart,
    same_model: bool,
    traits: ModelTraits,
    takes_compaction: bool,
    ids: &mut CallIds,
) -> Option<Block<'a>> {
    let raw = part
        .opaque()
        .filter(|_| same_model)
        .and_then(RawBlock::read);
    match part {
        AssistantPart::Text { text, .. } => match raw {
            Some(raw) if raw.kind == "compaction" && takes_compaction => {
                Some(Block::Compaction(raw.json))
            }
            Some(raw) if raw.kind == "compaction" => Some(Block::Text(text)),
            Some(raw) if raw.kind != "text" => Some(Block::Kept(raw.json)),
            _ if text.trim().is_empty() => None,
            Some(raw) => Some(Block::RawText(raw.json)),
            None => Some(Block::Text(text)),
        },
        AssistantPart::Thinking { .. } => raw
            .filter(|raw| !traits.signs_thinking || raw.is_signed())
            .map(|raw| Block::Thinking(raw.json)),
        AssistantPart::ToolCall {
            id,
            name,
            arguments,
            ..
        } => {
            if let Some(raw) = raw.filter(|raw| raw.is_call(id)) {
                ids.keep(id);
                return Some(Block::RawCall { id, json: raw.json });
            }
            let sent = ids.assign(id);
            Some(Block::Call {
                id,
                sent,
                name,
                arguments,
            })
        }
        _ => None,
    }
}

impl Block<'_> {
    pub fn is_thinking(&self) -> bool {
        matches!(self, Self::Thinking(_))
    }

    pub fn is_compaction(&self) -> bool {
        matches!(self, Self::Compaction(_))
    }

    /// The service refuses marks on reasoning; whether it takes them on blocks
    /// that are merely kept is not known.
    pub fn markable(&self) -> bool {
        !matches!(
            self,
            Self::Thinking(_) | Self::Kept(_) | Self::Compaction(_)
        )
    }

    /// The call, if it is one.
    pub fn call(&self) -> Option<&ToolCallId> {
        match self {
            Self::Call { id, .. } | Self::RawCall { id, .. } => Some(id),
            _ => None,
        }
    }

    pub fn write(&self, out: &mut Vec<u8>, names: &ToolNames) {
        match self {
            Self::Thinking(json)
            | Self::Kept(json)
            | Self::Compaction(json)
            | Self::RawText(json)
            | Self::RawCall { json, .. } => put(out, json),
            Self::Text(text) => put_text_block(out, text),
            Self::Call {
                sent,
                name,
                arguments,
                ..
            } => {
                put(out, "{\"type\":\"tool_use\",\"id\":");
                write_json(out, sent);
                put(out, ",\"name\":");
                write_json(out, &*names.sent(name));
                put(out, ",\"input\":");
                match arguments {
                    Value::Object(arguments) => write_json(out, arguments),
                    _ => put(out, "{}"),
                }
                put(out, "}");
            }
        }
    }
}

/// A block as this wire wrote it, as far as it matters here.
struct RawBlock<'a> {
    json: &'a str,
    kind: Cow<'a, str>,
    id: Option<&'a RawValue>,
    seal: Option<&'a RawValue>,
}

impl<'a> RawBlock<'a> {
    /// None if another wire wrote it or it is no JSON object.
    fn read(opaque: &'a OpaquePart) -> Option<Self> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            id: Option<&'a RawValue>,
            #[serde(borrow)]
            signature: Option<&'a RawValue>,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
        }
        let json = opaque.data.trim();
        if opaque.wire != NAME || !json.starts_with('{') {
            return None;
        }
        let fields: Fields<'a> = serde_json::from_str(json).ok()?;
        Some(Self {
            json,
            kind: fields.kind,
            id: fields.id,
            seal: fields.signature.or(fields.data),
        })
    }

    fn is_call(&self, id: &ToolCallId) -> bool {
        let own = self
            .id
            .map(|json| serde_json::from_str::<Cow<'_, str>>(json.get()));
        self.kind == "tool_use" && matches!(own, Some(Ok(own)) if own == id.as_str())
    }

    /// True if the service can tell that the reasoning is its own.
    fn is_signed(&self) -> bool {
        self.seal.is_some_and(|seal| seal.get() != "\"\"")
    }
}
