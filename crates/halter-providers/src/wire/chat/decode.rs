//! Reads the chunks of an answer.

use super::calls::{Calls, Names};
use super::details;
use super::dialect::Dialect;
use super::kept::{KeptReasoning, keep};
use super::think_tags::{TaggedText, ThinkTags};
use super::usage::normalize;
use crate::wire::error_report::{self, ErrorReport};
use crate::wire::names::{FNV_START, fnv1a};
use crate::wire::{Decoder, SseEvent};
use halter_protocol::{BlockId, MessageId, ProviderError, StopReason, StreamEvent, Usage};
use serde::Deserialize;
use serde_json::Value;

/// The last event of a stream.
const DONE: &str = "[DONE]";

/// One chunk. Members that servers fill in odd ways stay values.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk {
    id: Value,
    object: Value,
    choices: Option<Vec<Choice>>,
    usage: Value,
    error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    index: Value,
    #[serde(alias = "message")]
    delta: Option<Delta>,
    finish_reason: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Value,
    refusal: Value,
    reasoning_content: Value,
    reasoning: Value,
    reasoning_text: Value,
    reasoning_opaque: Value,
    reasoning_details: Value,
    thinking_blocks: Value,
    tool_calls: Value,
}

/// Decodes one answer.
#[derive(Debug)]
pub(super) struct ChatDecoder {
    /// What all ids of this answer have in common; empty before it begins.
    stem: String,
    message_id: MessageId,
    blocks: usize,
    open: Option<Open>,
    tags: ThinkTags,
    kept: KeptReasoning,
    calls: Calls,
    usage: Option<Usage>,
    refused: bool,
    finish: Option<String>,
    ended: bool,
}

#[derive(Debug)]
struct Open {
    id: BlockId,
    kind: BlockKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
}

impl ChatDecoder {
    pub fn new(dialect: Dialect) -> Self {
        Self {
            stem: String::new(),
            message_id: MessageId(String::new()),
            blocks: 0,
            open: None,
            tags: ThinkTags::new(dialect.think_tags),
            kept: KeptReasoning::default(),
            calls: Calls::default(),
            usage: None,
            refused: false,
            finish: None,
            ended: false,
        }
    }

    fn start(&mut self, chunk: &Chunk, data: &str, out: &mut Vec<StreamEvent>) {
        if !self.stem.is_empty() {
            return;
        }
        // Servers repeat ids or leave them out; the first chunk, which has
        // the time, tells answers apart and is the same for any cutting.
        self.stem = format!("{:016x}", fnv1a(FNV_START, data.as_bytes()));
        self.message_id = match &chunk.id {
            Value::String(id) if !id.is_empty() => MessageId(id.clone()),
            _ => MessageId(format!("msg_{}", self.stem)),
        };
        let id = self.message_id.clone();
        out.push(StreamEvent::MessageStart { id });
    }

    fn chunk(&mut self, chunk: Chunk, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let choices = chunk.choices.unwrap_or_default();
        let choice = choices
            .into_iter()
            .find(|choice| choice.index.as_u64().unwrap_or(0) == 0);
        if let Some(choice) = choice {
            self.delta(choice.delta.unwrap_or_default(), out)?;
            if let Value::String(reason) = choice.finish_reason
                && !reason.is_empty()
            {
                self.finish = Some(reason);
            }
        }
        if let Some(usage) = normalize(&chunk.usage)
            && self.usage != Some(usage)
        {
            self.usage = Some(usage);
            out.push(StreamEvent::UsageUpdate { usage });
        }
        match self.finish.as_deref() {
            Some("error") => Err(unexplained()),
            _ => Ok(()),
        }
    }

    fn delta(&mut self, delta: Delta, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        self.reasoning(&delta, out);
        if let Value::Array(pieces) = delta.reasoning_details {
            for piece in pieces {
                details::merge(&mut self.kept.details, piece);
            }
        }
        if let Value::Array(pieces) = delta.thinking_blocks {
            for piece in pieces {
                details::merge_block(&mut self.kept.blocks, piece);
            }
        }
        if let opaque @ Value::String(_) = delta.reasoning_opaque {
            self.kept
                .members
                .insert("reasoning_opaque".to_owned(), opaque);
        }
        match &delta.content {
            Value::String(text) => self.content(text, out),
            Value::Array(parts) => self.content_parts(parts, out),
            _ => {}
        }
        if let Value::String(text) = delta.refusal
            && !text.is_empty()
        {
            self.refused = true;
            self.grow(BlockKind::Text, text, out);
        }
        if !matches!(delta.tool_calls, Value::Null) {
            self.tool_calls(delta.tool_calls, out)?;
        }
        Ok(())
    }

    fn reasoning(&mut self, delta: &Delta, out: &mut Vec<StreamEvent>) {
        let fields = [
            ("reasoning_content", &delta.reasoning_content),
            ("reasoning", &delta.reasoning),
            ("reasoning_text", &delta.reasoning_text),
        ];
        let said = fields.iter().find_map(|(field, value)| {
            let text = value.as_str().filter(|text| !text.is_empty())?;
            Some((*field, text))
        });
        if let Some((field, text)) = said {
            self.grow(BlockKind::Thinking, text.to_owned(), out);
            self.kept.field = Some(field.to_owned());
            return;
        }
        let pieces = [&delta.reasoning_details, &delta.thinking_blocks];
        let pieces = pieces.into_iter().filter_map(Value::as_array).flatten();
        for text in pieces.filter_map(details::shown) {
            self.grow(BlockKind::Thinking, text.to_owned(), out);
        }
    }

    fn content(&mut self, text: &str, out: &mut Vec<StreamEvent>) {
        let mut said = Vec::new();
        self.tags.take(text, &mut said);
        self.say(said, out);
    }

    /// Content in parts, as Mistral's models send it when they reason.
    fn content_parts(&mut self, parts: &[Value], out: &mut Vec<StreamEvent>) {
        for part in parts {
            if let Some(text) = part.get("text").and_then(Value::as_str) {
                self.content(text, out);
            }
            let thoughts = part.get("thinking").and_then(Value::as_array);
            for thought in thoughts.into_iter().flatten() {
                if let Some(text) = thought.get("text").and_then(Value::as_str) {
                    self.grow(BlockKind::Thinking, text.to_owned(), out);
                }
            }
        }
    }

    fn say(&mut self, said: Vec<TaggedText>, out: &mut Vec<StreamEvent>) {
        for piece in said {
            match piece {
                TaggedText::Thinking(text) => self.grow(BlockKind::Thinking, text, out),
                TaggedText::Text(text) => self.grow(BlockKind::Text, text, out),
            }
        }
    }

    fn tool_calls(
        &mut self,
        fragments: Value,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if fragments.as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        self.end_text(out);
        let mut names = Names {
            stem: &self.stem,
            blocks: &mut self.blocks,
        };
        self.calls.take(fragments, &mut names, out)
    }

    fn grow(&mut self, kind: BlockKind, delta: String, out: &mut Vec<StreamEvent>) {
        let id = self.block(kind, out);
        out.push(match kind {
            BlockKind::Text => StreamEvent::TextDelta { id, delta },
            BlockKind::Thinking => StreamEvent::ThinkingDelta { id, delta },
        });
    }

    /// The open block, if it is of that kind, or a new one.
    fn block(&mut self, kind: BlockKind, out: &mut Vec<StreamEvent>) -> BlockId {
        if let Some(open) = &self.open
            && open.kind == kind
        {
            return open.id.clone();
        }
        self.end_block(out);
        let mut names = Names {
            stem: &self.stem,
            blocks: &mut self.blocks,
        };
        let id = names.block();
        out.push(match kind {
            BlockKind::Text => StreamEvent::TextStart { id: id.clone() },
            BlockKind::Thinking => StreamEvent::ThinkingStart { id: id.clone() },
        });
        self.open = Some(Open {
            id: id.clone(),
            kind,
        });
        id
    }

    fn end_block(&mut self, out: &mut Vec<StreamEvent>) {
        let Some(Open { id, kind }) = self.open.take() else {
            return;
        };
        out.push(match kind {
            BlockKind::Text => StreamEvent::TextEnd { id, opaque: None },
            BlockKind::Thinking => {
                let opaque = keep(&std::mem::take(&mut self.kept));
                StreamEvent::ThinkingEnd { id, opaque }
            }
        });
    }

    /// Ends what is not a call.
    fn end_text(&mut self, out: &mut Vec<StreamEvent>) {
        let mut said = Vec::new();
        self.tags.finish(&mut said);
        self.say(said, out);
        self.end_block(out);
    }

    fn complete(&mut self, reason: &str, out: &mut Vec<StreamEvent>) {
        self.ended = true;
        self.end_text(out);
        if self.kept != KeptReasoning::default() {
            // Details that came after the reasoning was shown, or alone.
            self.block(BlockKind::Thinking, out);
            self.end_block(out);
        }
        let mut names = Names {
            stem: &self.stem,
            blocks: &mut self.blocks,
        };
        let unfinished = self.calls.finish(reason == "length", &mut names, out);
        if unfinished > 0 {
            let message = "the answer reached its output limit inside a tool call; \
                           the call is not run"
                .to_owned();
            out.push(StreamEvent::ProviderWarning { message });
        }
        let id = self.message_id.clone();
        let stop_reason = self.stop_reason(reason);
        out.push(StreamEvent::MessageEnd { id, stop_reason });
    }

    /// Servers say `stop` although there are calls: the calls decide.
    fn stop_reason(&self, reason: &str) -> StopReason {
        match reason {
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            _ if !self.calls.is_empty() => StopReason::ToolUse,
            _ if self.refused => StopReason::Refusal,
            "stop" | "tool_calls" | "function_call" | "eos" => StopReason::EndTurn,
            other => StopReason::from(other),
        }
    }
}

impl Decoder for ChatDecoder {
    fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if data.is_empty() || self.ended {
            return Ok(());
        }
        if data == DONE {
            return self.end(out);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| unreadable(data))?;
        if !chunk.error.is_null() || chunk.object == "error" {
            return Err(failed(data));
        }
        self.start(&chunk, data, out);
        self.chunk(chunk, out)
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        match self.finish.take() {
            Some(reason) => {
                self.complete(&reason, out);
                Ok(())
            }
            None => Err(error_report::cut_off()),
        }
    }
}

/// The error in an event.
fn failed(data: &str) -> ProviderError {
    let report = ErrorReport::read(data.as_bytes()).filter(ErrorReport::explains);
    report.map_or_else(unexplained, |report| report.in_stream(None))
}

fn unexplained() -> ProviderError {
    ErrorReport::default().in_stream(None)
}

/// An event that is not a chunk may still be an error in some other shape.
fn unreadable(data: &str) -> ProviderError {
    match ErrorReport::read(data.as_bytes()).filter(ErrorReport::explains) {
        Some(report) => report.in_stream(None),
        None => error_report::unreadable("an event"),
    }
}
