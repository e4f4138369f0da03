//! Stream events to normalized ones.
//!
//! Blocks without a neutral form (server tools and their results, block types
//! of a later version) become text parts with an empty text, and redacted
//! reasoning becomes a reasoning part with an empty text: the raw block
//! travels in their opaque data. Plain text carries no opaque data, because
//! its neutral form is encoded to the same bytes.

mod block;
mod event;
mod usage;

use self::block::{Ended, OpenBlock};
use self::event::{Delta, WholeMessage, WireEvent};
use self::usage::UsageCounter;
use super::KEY_VARIABLE;
use crate::wire::error_report::{self, ErrorReport, unreadable};
use crate::wire::{Decoder, SseEvent};
use halter_protocol::{BlockId, MessageId, OpaquePart, ProviderError, StopReason, StreamEvent};
use serde_json::Value;
use serde_json::value::RawValue;

/// One answer while it arrives.
#[derive(Default)]
pub(super) struct MessagesDecoder {
    message: Option<MessageId>,
    open: Vec<OpenBlock>,
    blocks: usize,
    /// A call whose block ended without complete arguments. Whether it was
    /// cut off shows in what comes next.
    doubtful: Option<DoubtfulCall>,
    usage: UsageCounter,
    stop_reason: Option<StopReason>,
    state: State,
}

struct DoubtfulCall {
    id: BlockId,
    name: String,
    opaque: Option<OpaquePart>,
}

#[derive(Default, PartialEq, Eq)]
enum State {
    #[default]
    Streaming,
    Complete,
    Failed,
}

impl Decoder for MessagesDecoder {
    fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.state != State::Streaming {
            return Ok(());
        }
        let taken = self.take(event, out);
        if taken.is_err() {
            self.state = State::Failed;
        }
        taken
    }

    fn end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.state {
            State::Complete => Ok(()),
            State::Streaming | State::Failed => Err(error_report::cut_off()),
        }
    }
}

/// The error in an event.
fn failed(data: &str) -> ProviderError {
    let report = ErrorReport::read(data.as_bytes()).unwrap_or_default();
    report.in_stream(Some(KEY_VARIABLE))
}

impl MessagesDecoder {
    fn take(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Ok(wire) = serde_json::from_str::<WireEvent<'_>>(event.data) else {
            return self.unreadable(event);
        };
        match wire.kind.as_ref() {
            "message_start" => self.message_start(wire.message, out),
            "content_block_start" => {
                return self.block_start(wire.index, wire.content_block, out);
            }
            "content_block_delta" => self.block_delta(wire, out),
            "content_block_stop" => self.block_stop(wire.index, out),
            "message_delta" => self.message_delta(wire, out),
            "message_stop" => return self.message_stop(out),
            "message" => return self.whole_message(event.data, out),
            "error" => return Err(failed(event.data)),
            _ => {}
        }
        Ok(())
    }

    /// An event of an unknown kind may be ignored; a block it belonged to is
    /// not whole then.
    fn unreadable(&mut self, event: &SseEvent<'_>) -> Result<(), ProviderError> {
        if !event::may_be_ignored(event) {
            return Err(unreadable("an event"));
        }
        for block in &mut self.open {
            block.missed_something();
        }
        Ok(())
    }

    fn message_start(&mut self, message: Option<&RawValue>, out: &mut Vec<StreamEvent>) {
        let message: Value = message
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        let id = message.get("id").and_then(Value::as_str);
        self.start(id, out);
        if let Some(usage) = message.get("usage") {
            self.count(usage, out);
        }
    }

    /// Begins the answer, once.
    fn start(&mut self, id: Option<&str>, out: &mut Vec<StreamEvent>) -> MessageId {
        let message = self.message.get_or_insert_with(|| {
            let id = MessageId::from(id.unwrap_or("msg"));
            out.push(StreamEvent::MessageStart { id: id.clone() });
            id
        });
        message.clone()
    }

    fn count(&mut self, usage: &Value, out: &mut Vec<StreamEvent>) {
        if let Some(usage) = self.usage.take(usage) {
            out.push(StreamEvent::UsageUpdate { usage });
        }
    }

    fn block_start(
        &mut self,
        index: u64,
        block: Option<&RawValue>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let message = self.start(None, out);
        self.trust_doubtful(out);
        // An index that is used again names a new block.
        self.block_stop(index, out);
        let id = BlockId(format!("{message}_{}", self.blocks));
        self.blocks += 1;
        let block = block
            .and_then(|raw| OpenBlock::read(index, id, raw))
            .ok_or_else(|| unreadable("a content block"))?;
        block.start(out);
        self.open.push(block);
        Ok(())
    }

    fn block_delta(&mut self, wire: WireEvent<'_>, out: &mut Vec<StreamEvent>) {
        let block = self.open.iter_mut().rev().find(|b| b.index == wire.index);
        if let (Some(block), Some(delta)) = (block, wire.delta) {
            block.grow(delta, out);
        }
    }

    fn block_stop(&mut self, index: u64, out: &mut Vec<StreamEvent>) {
        let Some(place) = self.open.iter().rposition(|block| block.index == index) else {
            return;
        };
        match self.open.remove(place).end(out) {
            Ended::Complete => {}
            Ended::Doubtful { id, name, opaque } => {
                self.trust_doubtful(out);
                self.doubtful = Some(DoubtfulCall { id, name, opaque });
            }
        }
    }

    fn message_delta(&mut self, wire: WireEvent<'_>, out: &mut Vec<StreamEvent>) {
        self.start(None, out);
        let usage = wire
            .usage
            .and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        if let Some(usage) = usage {
            self.count(&usage, out);
        }
        if let Some(Delta {
            stop_reason: Some(reason),
            stop_details,
            ..
        }) = wire.delta
        {
            self.stop(&reason, stop_details, out);
        }
    }

    fn stop(&mut self, reason: &str, details: Option<&RawValue>, out: &mut Vec<StreamEvent>) {
        if !was_cut_off(reason) {
            self.trust_doubtful(out);
        } else if let Some(call) = self.doubtful.take() {
            out.push(cut_off_warning(&call.name));
        }
        if reason == "refusal" {
            out.push(refusal_warning(details));
        }
        self.stop_reason = Some(StopReason::from(reason));
    }

    fn message_stop(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        let id = self.start(None, out);
        self.trust_doubtful(out);
        for block in std::mem::take(&mut self.open) {
            match block.call_name() {
                // A call that the wire did not end is not complete.
                Some(name) => out.push(cut_off_warning(name)),
                None => _ = block.end(out),
            }
        }
        let stop_reason = self.stop_reason.take().ok_or_else(error_report::cut_off)?;
        self.state = State::Complete;
        out.push(StreamEvent::MessageEnd { id, stop_reason });
        Ok(())
    }

    /// The answer of a server that does not stream, all at once.
    fn whole_message(
        &mut self,
        data: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let not_read = |_| unreadable("an answer");
        let message: WholeMessage<'_> = serde_json::from_str(data).map_err(not_read)?;
        self.message_start(serde_json::from_str(data).ok(), out);
        for (index, block) in (0..).zip(message.content) {
            self.block_start(index, Some(block), out)?;
            self.block_stop(index, out);
        }
        if let Some(reason) = message.stop_reason {
            self.stop(&reason, message.stop_details, out);
        }
        self.message_stop(out)
    }

    /// More of the answer follows the doubtful call, or the model stopped by
    /// itself: the call is as the model wanted it.
    fn trust_doubtful(&mut self, out: &mut Vec<StreamEvent>) {
        if let Some(DoubtfulCall { id, opaque, .. }) = self.doubtful.take() {
            out.push(StreamEvent::ToolCallEnd { id, opaque });
        }
    }
}

/// True if the model stopped in the middle of something.
fn was_cut_off(reason: &str) -> bool {
    matches!(reason, "max_tokens" | "model_context_window_exceeded")
}

fn cut_off_warning(tool: &str) -> StreamEvent {
    StreamEvent::ProviderWarning {
        message: format!(
            "the model was cut off while it wrote a call of '{tool}'; the call is left out"
        ),
    }
}

fn refusal_warning(details: Option<&RawValue>) -> StreamEvent {
    let details: Value = details
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    let text = |name: &str| details.get(name).and_then(Value::as_str);
    let mut message = "the model declined to answer".to_owned();
    if let Some(category) = text("category") {
        message.push_str(&format!(" ({category})"));
    }
    if let Some(explanation) = text("explanation") {
        message.push_str(&format!(": {explanation}"));
    }
    StreamEvent::ProviderWarning { message }
}
