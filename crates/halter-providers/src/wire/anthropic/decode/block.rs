//! A content block while it arrives.

use super::event::Delta;
use crate::wire::anthropic::NAME;
use halter_protocol::{BlockId, OpaquePart, StreamEvent, ToolCallId, ToolName};
use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};

/// A block that has started and not ended.
pub(super) struct OpenBlock {
    pub index: u64,
    id: BlockId,
    kind: Kind,
    /// The block as it started, member by member.
    members: IndexMap<String, Box<RawValue>>,
    /// The block as it started, in one piece.
    whole: Box<RawValue>,
    /// Text, reasoning or the JSON text of arguments.
    grown: String,
    signature: String,
    citations: Vec<Box<RawValue>>,
    /// A delta came that is not understood: what is kept of the block is not
    /// all of it.
    incomplete: bool,
}

enum Kind {
    Text,
    Thinking,
    Call {
        id: ToolCallId,
        name: String,
    },
    /// Reasoning that is not shown.
    Sealed,
    /// A summary of the conversation.
    Compaction,
    /// A block without a neutral form.
    Kept,
}

/// How a block ended.
pub(super) enum Ended {
    Complete,
    /// A call whose arguments are no JSON object.
    Doubtful {
        id: BlockId,
        name: String,
        opaque: Option<OpaquePart>,
    },
}

impl OpenBlock {
    /// Reads the block of a start event; none if it is not an object with a
    /// type.
    pub fn read(index: u64, id: BlockId, raw: &RawValue) -> Option<Self> {
        let members: IndexMap<String, Box<RawValue>> = serde_json::from_str(raw.get()).ok()?;
        let text = |name: &str| string(&members, name);
        let kind = match text("type")?.as_str() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "redacted_thinking" => Kind::Sealed,
            "compaction" => Kind::Compaction,
            "tool_use" => Kind::Call {
                id: ToolCallId(
                    text("id")
                        .filter(|id| !id.is_empty())
                        .unwrap_or_else(|| format!("toolu_{id}")),
                ),
                name: text("name")?,
            },
            _ => Kind::Kept,
        };
        let grown = match kind {
            Kind::Text => text("text"),
            Kind::Thinking => text("thinking"),
            Kind::Compaction => text("content"),
            _ => None,
        };
        Some(Self {
            index,
            id,
            kind,
            grown: grown.unwrap_or_default(),
            signature: text("signature").unwrap_or_default(),
            whole: raw.to_owned(),
            members,
            citations: Vec::new(),
            incomplete: false,
        })
    }

    /// The tool, if the block is a call.
    pub fn call_name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Call { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Says that the block has started, and with what.
    pub fn start(&self, out: &mut Vec<StreamEvent>) {
        let id = self.id.clone();
        out.push(match &self.kind {
            Kind::Text | Kind::Compaction | Kind::Kept => StreamEvent::TextStart { id },
            Kind::Thinking | Kind::Sealed => StreamEvent::ThinkingStart { id },
            Kind::Call {
                id: tool_call_id,
                name,
            } => StreamEvent::ToolCallStart {
                id,
                tool_call_id: tool_call_id.clone(),
                name: ToolName(name.clone()),
            },
        });
        if !self.grown.is_empty() {
            out.extend(self.grown_event(self.grown.clone()));
        }
    }

    /// Takes what is new in the block.
    pub fn grow(&mut self, delta: Delta<'_>, out: &mut Vec<StreamEvent>) {
        let new = match (delta.kind.as_ref(), &self.kind) {
            ("text_delta", Kind::Text) => delta.text,
            ("thinking_delta", Kind::Thinking) => delta.thinking,
            ("input_json_delta", Kind::Call { .. } | Kind::Kept) => delta.partial_json,
            ("signature_delta", Kind::Thinking) => {
                self.signature
                    .push_str(&delta.signature.unwrap_or_default());
                None
            }
            ("citations_delta", Kind::Text) => {
                self.citations
                    .extend(delta.citation.map(|citation| citation.to_owned()));
                None
            }
            _ => {
                self.missed_something();
                None
            }
        };
        if let Some(new) = new.filter(|new| !new.is_empty()) {
            self.grown.push_str(&new);
            out.extend(self.grown_event(new));
        }
    }

    /// Notes that part of the block may be lost.
    pub fn missed_something(&mut self) {
        self.incomplete = true;
    }

    fn grown_event(&self, delta: String) -> Option<StreamEvent> {
        let id = self.id.clone();
        match self.kind {
            Kind::Text | Kind::Compaction => Some(StreamEvent::TextDelta { id, delta }),
            Kind::Thinking => Some(StreamEvent::ThinkingDelta { id, delta }),
            Kind::Call { .. } => Some(StreamEvent::ToolArgsDelta { id, delta }),
            Kind::Sealed | Kind::Kept => None,
        }
    }

    /// Says that the block is complete, unless it is a call that may have been
    /// cut off.
    pub fn end(mut self, out: &mut Vec<StreamEvent>) -> Ended {
        if let Kind::Call { .. } = self.kind {
            return self.end_call(out);
        }
        let opaque = self.raw().map(opaque);
        let id = self.id;
        out.push(match self.kind {
            Kind::Thinking | Kind::Sealed => StreamEvent::ThinkingEnd { id, opaque },
            _ => StreamEvent::TextEnd { id, opaque },
        });
        Ended::Complete
    }

    fn end_call(mut self, out: &mut Vec<StreamEvent>) -> Ended {
        let nothing_written = self.grown.trim().is_empty();
        if nothing_written
            && let Some(input) = self.members.get("input").filter(|input| is_object(input))
            && input.get() != "{}"
        {
            // The arguments came with the start, all at once.
            self.grown = input.get().to_owned();
            out.extend(self.grown_event(self.grown.clone()));
        }
        let written = match nothing_written && self.grown.trim().is_empty() {
            true => "{}".to_owned(),
            false => self.grown.clone(),
        };
        let input = RawValue::from_string(written)
            .ok()
            .filter(|raw| is_object(raw));
        let opaque = input.and_then(|input| {
            self.members.insert("input".to_owned(), input);
            self.rewritten().map(opaque)
        });
        let doubtful = opaque.is_none() || self.grown.is_empty();
        let id = self.id;
        match self.kind {
            Kind::Call { name, .. } if doubtful => Ended::Doubtful { id, name, opaque },
            _ => {
                out.push(StreamEvent::ToolCallEnd { id, opaque });
                Ended::Complete
            }
        }
    }

    /// The block as the model would want it back; none where the neutral form
    /// says the same, or where it could not be kept whole.
    fn raw(&mut self) -> Option<String> {
        match self.kind {
            Kind::Text => {
                let annotated = self.members.iter().any(|(name, value)| {
                    !matches!(name.as_str(), "type" | "text")
                        && !matches!(value.get(), "null" | "[]")
                });
                if self.grown.is_empty() || (self.citations.is_empty() && !annotated) {
                    return None;
                }
                self.set("text", &self.grown.clone())?;
                if !self.citations.is_empty() {
                    let citations = std::mem::take(&mut self.citations);
                    self.set("citations", &citations)?;
                }
                self.rewritten()
            }
            Kind::Thinking => {
                self.set("thinking", &self.grown.clone())?;
                if !self.signature.is_empty() {
                    self.set("signature", &self.signature.clone())?;
                }
                self.rewritten()
            }
            _ if self.incomplete => None,
            // One without a summary stands for nothing.
            Kind::Compaction if self.grown.is_empty() => None,
            Kind::Compaction => Some(self.whole.get().to_owned()),
            _ if self.grown.is_empty() => Some(self.whole.get().to_owned()),
            _ => {
                let input = RawValue::from_string(std::mem::take(&mut self.grown)).ok()?;
                self.members.insert("input".to_owned(), input);
                self.rewritten()
            }
        }
    }

    fn set<T: serde::Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Option<()> {
        let value = to_raw_value(value).ok()?;
        self.members.insert(name.to_owned(), value);
        Some(())
    }

    fn rewritten(&self) -> Option<String> {
        serde_json::to_string(&self.members).ok()
    }
}

fn opaque(data: String) -> OpaquePart {
    OpaquePart {
        wire: NAME.to_owned(),
        data: data.into(),
    }
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().trim_start().starts_with('{')
}

fn string(members: &IndexMap<String, Box<RawValue>>, name: &str) -> Option<String> {
    serde_json::from_str(members.get(name)?.get()).ok()
}
