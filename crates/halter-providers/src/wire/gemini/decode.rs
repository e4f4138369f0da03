//! The chunks of a response as normalized events.
//!
//! Parts of one kind that follow each other are one block. The block carries
//! the parts exactly as they came, each on its own, because a signature
//! belongs to its part; a signature on an empty part at the end counts as text
//! and joins the text before it. Parts of kinds this wire did not ask for
//! become empty reasoning blocks that carry the part.
//!
//! The service has no event for its end: an answer is complete when the
//! stream ends after a `finishReason`.

use super::chunk::{Call, Candidate, Chunk, ChunkPart, UsageMetadata};
use super::{KEY_VARIABLE, errors};
use crate::limits::ANSWER_TOOL_CALLS;
use crate::wire::error_report::ErrorReport;
use crate::wire::names::{FNV_START, fnv1a};
use crate::wire::{Decoder, SseEvent};
use halter_protocol::{
    BlockId, MessageId, OpaquePart, ProviderError, ProviderErrorKind, StopReason, StreamEvent,
    Usage, UsageBuckets,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Takes the chunks of one response.
pub(super) struct GeminiDecoder {
    id: Option<String>,
    started: bool,
    blocks: usize,
    calls: usize,
    open: Option<OpenBlock>,
    usage: Option<UsageMetadata>,
    finish_reason: Option<String>,
    ended: bool,
    /// Of all chunks so far: names the response where the service does not.
    digest: u64,
}

/// A block that may grow.
struct OpenBlock {
    id: BlockId,
    kind: BlockKind,
    /// The parts as they came, as the inside of an array.
    parts: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thought,
}

impl GeminiDecoder {
    pub fn new() -> Self {
        Self {
            id: None,
            started: false,
            blocks: 0,
            calls: 0,
            open: None,
            usage: None,
            finish_reason: None,
            ended: false,
            digest: FNV_START,
        }
    }
}

impl Decoder for GeminiDecoder {
    fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.ended || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        if data.starts_with('[') {
            // All chunks in one list, from a server that does not stream.
            let chunks: Vec<&RawValue> = parse(data)?;
            return chunks
                .into_iter()
                .try_for_each(|chunk| self.chunk(chunk.get(), out));
        }
        self.chunk(data, out)
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        let Some(reason) = self.finish_reason.take() else {
            return Err(ProviderError::new(
                "the response ended before the service said why the model stopped",
                ProviderErrorKind::Transient,
            ));
        };
        self.ended = true;
        self.close(out);
        let stop_reason = self.stop_reason(&reason, out);
        out.push(StreamEvent::MessageEnd {
            id: self.message_id(),
            stop_reason,
        });
        Ok(())
    }
}

impl GeminiDecoder {
    fn chunk(&mut self, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let chunk: Chunk<'_> = parse(data)?;
        if let Some(error) = chunk.error {
            return Err(ErrorReport::of(&error).in_stream(Some(KEY_VARIABLE)));
        }
        self.start(&chunk, data, out);
        self.take_usage(chunk.usage_metadata, out);
        let candidate = chunk
            .candidates
            .into_iter()
            .flatten()
            .find(|candidate| candidate.index == 0);
        match (candidate, chunk.prompt_feedback) {
            (Some(candidate), _) => self.candidate(candidate, out),
            (None, Some(feedback)) => match feedback.block_reason {
                Some(reason) => Err(errors::blocked_prompt(
                    &reason,
                    feedback.block_reason_message.as_deref(),
                )),
                None => Ok(()),
            },
            (None, None) => Ok(()),
        }
    }

    fn start(&mut self, chunk: &Chunk<'_>, data: &str, out: &mut Vec<StreamEvent>) {
        if !self.started {
            self.started = true;
            self.id = chunk.response_id.clone();
            out.push(StreamEvent::MessageStart {
                id: self.message_id(),
            });
        }
        if self.id.is_none() {
            self.digest = fnv1a(self.digest, data.as_bytes());
        }
    }

    fn message_id(&self) -> MessageId {
        MessageId::from(self.stem())
    }

    fn stem(&self) -> &str {
        self.id.as_deref().unwrap_or("response")
    }

    /// An id for a call that the service gave none: the same whenever the
    /// same response is read, and different in every response.
    fn made_up_call_id(&self) -> String {
        match &self.id {
            Some(id) => format!("call_{id}_{}", self.calls),
            None => format!("call_{:016x}_{}", self.digest, self.calls),
        }
    }

    fn take_usage(&mut self, usage: Option<UsageMetadata>, out: &mut Vec<StreamEvent>) {
        if let Some(counted) = usage
            && self.usage.as_ref() != Some(&counted)
        {
            out.push(StreamEvent::UsageUpdate {
                usage: buckets(&counted),
            });
            self.usage = Some(counted);
        }
    }

    fn candidate(
        &mut self,
        candidate: Candidate<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let parts = candidate.content.and_then(|content| content.parts);
        for raw in parts.into_iter().flatten() {
            self.part(raw.get(), out)?;
        }
        let Some(reason) = candidate.finish_reason else {
            return Ok(());
        };
        if is_passing(&reason) {
            return Err(errors::malformed_answer(
                &reason,
                candidate.finish_message.as_deref(),
            ));
        }
        self.finish_reason = Some(reason);
        Ok(())
    }

    fn part(&mut self, raw: &str, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let part: ChunkPart<'_> = parse(raw)?;
        if let Some(call) = part.function_call {
            return self.call(call, raw, out);
        }
        match part.text {
            // Says nothing, and the service does not take it back.
            Some(text) if text.is_empty() && part.thought_signature.is_none() => {}
            Some(text) if part.thought == Some(true) => {
                self.grow(BlockKind::Thought, text, raw, out);
            }
            Some(text) => self.grow(BlockKind::Text, text, raw, out),
            None => {
                self.close(out);
                let id = self.next_block();
                out.push(StreamEvent::ThinkingStart { id: id.clone() });
                out.push(StreamEvent::ThinkingEnd {
                    id,
                    opaque: Some(opaque(raw)),
                });
            }
        }
        Ok(())
    }

    /// A call comes whole: it begins and ends at once.
    fn call(
        &mut self,
        call: Call<'_>,
        raw: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if call.will_continue == Some(true) || call.name.is_empty() {
            return Err(unreadable("a function call in pieces"));
        }
        if self.calls >= ANSWER_TOOL_CALLS {
            return Err(unreadable(&format!(
                "more than {ANSWER_TOOL_CALLS} function calls in one answer"
            )));
        }
        self.close(out);
        let id = self.next_block();
        self.calls += 1;
        let call_id = call
            .id
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| self.made_up_call_id());
        out.push(StreamEvent::ToolCallStart {
            id: id.clone(),
            tool_call_id: call_id.into(),
            name: call.name.as_ref().into(),
        });
        out.push(StreamEvent::ToolArgsDelta {
            id: id.clone(),
            delta: call.args.map_or("{}", |args| args.get()).to_owned(),
        });
        out.push(StreamEvent::ToolCallEnd {
            id,
            opaque: Some(opaque(raw)),
        });
        Ok(())
    }

    fn grow(&mut self, kind: BlockKind, delta: String, raw: &str, out: &mut Vec<StreamEvent>) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close(out);
            let id = self.next_block();
            out.push(match kind {
                BlockKind::Text => StreamEvent::TextStart { id: id.clone() },
                BlockKind::Thought => StreamEvent::ThinkingStart { id: id.clone() },
            });
            self.open = Some(OpenBlock {
                id,
                kind,
                parts: String::new(),
            });
        }
        let Some(open) = &mut self.open else { return };
        if !open.parts.is_empty() {
            open.parts.push(',');
        }
        open.parts.push_str(raw);
        if delta.is_empty() {
            return;
        }
        let id = open.id.clone();
        out.push(match kind {
            BlockKind::Text => StreamEvent::TextDelta { id, delta },
            BlockKind::Thought => StreamEvent::ThinkingDelta { id, delta },
        });
    }

    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        let Some(open) = self.open.take() else { return };
        let (id, opaque) = (open.id, Some(opaque(&open.parts)));
        out.push(match open.kind {
            BlockKind::Text => StreamEvent::TextEnd { id, opaque },
            BlockKind::Thought => StreamEvent::ThinkingEnd { id, opaque },
        });
    }

    fn next_block(&mut self) -> BlockId {
        self.blocks += 1;
        BlockId::from(format!("{}_{}", self.stem(), self.blocks))
    }

    fn stop_reason(&self, reason: &str, out: &mut Vec<StreamEvent>) -> StopReason {
        let stop_reason = match reason {
            "STOP" if self.calls > 0 => return StopReason::ToolUse,
            "STOP" => return StopReason::EndTurn,
            "MAX_TOKENS" => return StopReason::MaxTokens,
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => StopReason::Refusal,
            // These say that the answer is not complete.
            "OTHER" | "LANGUAGE" | "TOO_MANY_TOOL_CALLS" | "NO_IMAGE" | "IMAGE_OTHER" => {
                StopReason::Interrupted
            }
            other => StopReason::Unknown(other.to_ascii_lowercase()),
        };
        out.push(StreamEvent::ProviderWarning {
            message: format!("the service ended the answer: {reason}"),
        });
        stop_reason
    }
}

/// True for an end that says the model failed to write a call: another try
/// usually does.
fn is_passing(reason: &str) -> bool {
    reason.starts_with("MALFORMED_") || reason == "UNEXPECTED_TOOL_CALL"
}

/// Usage in disjoint buckets: the service's prompt count includes what came
/// from its cache, its candidates count does not include thoughts.
fn buckets(counted: &UsageMetadata) -> Usage {
    let cache_read = counted.cached_content_token_count.unwrap_or(0);
    Usage::from(UsageBuckets {
        uncached_input: counted
            .prompt_token_count
            .unwrap_or(0)
            .saturating_sub(cache_read)
            .saturating_add(counted.tool_use_prompt_token_count.unwrap_or(0)),
        cache_read,
        cache_write: 0,
        output: counted.candidates_token_count.unwrap_or(0),
        reasoning: counted.thoughts_token_count.unwrap_or(0),
    })
}

/// The parts as an array.
fn opaque(parts: &str) -> OpaquePart {
    OpaquePart {
        wire: super::NAME.to_owned(),
        data: format!("[{parts}]").into(),
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(what: &str) -> ProviderError {
    ProviderError::new(
        format!("the service sent a chunk that cannot be read: {what}"),
        ProviderErrorKind::Transient,
    )
}
