//! The events of a response as normalized ones.
//!
//! One output item is one block. `output_item.done` is what counts: it has
//! the whole item, and the encrypted reasoning only it has. Deltas come before
//! it so that people can watch. Items of kinds this wire did not ask for
//! become empty reasoning blocks that carry the item, so that the service
//! gets them back.

use super::KEY_VARIABLE;
use super::events::{
    DeltaEvent, Item, ItemEvent, Kind, MessageItem, ReasoningItem, Response, ResponseEvent,
};
use super::items::is_compaction_item;
use super::open_item::{ItemKind, OpenItem};
use super::usage::usage;
use crate::limits::RESPONSES_OUTPUT_ITEMS;
use crate::wire::error_report::ErrorReport;
use crate::wire::{Decoder, SseEvent};
use halter_protocol::{
    BlockId, MessageId, OpaquePart, ProviderError, ProviderErrorKind, StopReason, StreamEvent,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Takes the events of one response.
#[derive(Default)]
pub(super) struct ResponsesDecoder {
    id: Option<String>,
    started: bool,
    ended: bool,
    items: Vec<OpenItem>,
    called: bool,
    refused: bool,
}

impl Decoder for ResponsesDecoder {
    fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.ended || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let written;
        let kind = match event.name {
            "" | "message" => {
                let head: Kind = parse(data)?;
                match (&head.kind, head.object.as_deref()) {
                    (None, Some("response")) => return self.whole_response(parse(data)?, out),
                    (None, Some("response.compaction")) => {
                        return self.compaction(&parse(data)?, out);
                    }
                    _ => {}
                }
                written = head.kind;
                written.as_deref().unwrap_or("")
            }
            name => name,
        };
        match kind {
            "response.created" | "response.queued" | "response.in_progress" => {
                self.start(response(data)?.id, out);
                Ok(())
            }
            "response.output_item.added" => self.item_added(&parse(data)?, out),
            "response.output_item.done" => {
                let event: ItemEvent<'_> = parse(data)?;
                self.item_done(event.output_index, event.item, out)
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.refused |= kind == "response.refusal.delta";
                self.text(parse(data)?, out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thinking(parse(data)?, out)
            }
            "response.function_call_arguments.delta" => self.arguments(parse(data)?, out),
            "response.completed" => self.completed(response(data)?, out),
            "response.incomplete" => self.incomplete(response(data)?, out),
            "response.failed" => self.failed(response(data)?, out),
            "error" | "" => self.error(data),
            _ => Ok(()),
        }
    }

    fn end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if self.ended {
            return Ok(());
        }
        Err(ProviderError::new(
            "the response ended before the service said that it was complete",
            ProviderErrorKind::Transient,
        ))
    }
}

impl ResponsesDecoder {
    fn start(&mut self, id: Option<String>, out: &mut Vec<StreamEvent>) {
        if !self.started {
            self.started = true;
            self.id = id;
            out.push(StreamEvent::MessageStart {
                id: self.message_id(),
            });
        }
    }

    fn message_id(&self) -> MessageId {
        MessageId::from(self.id.as_deref().unwrap_or("response"))
    }

    fn find(&mut self, index: u64) -> Option<usize> {
        self.items.iter().rposition(|item| item.index == index)
    }

    /// Opens the block of an item. A call needs its name, so it opens only
    /// where an item says it.
    fn open(
        &mut self,
        index: u64,
        kind: ItemKind,
        out: &mut Vec<StreamEvent>,
    ) -> Result<usize, ProviderError> {
        if self.items.len() >= RESPONSES_OUTPUT_ITEMS {
            return Err(unreadable(&format!(
                "more than {RESPONSES_OUTPUT_ITEMS} items in one response"
            )));
        }
        self.start(None, out);
        let block = BlockId::from(format!("{}_{index}", self.message_id()));
        match kind {
            ItemKind::Message => out.push(StreamEvent::TextStart { id: block.clone() }),
            ItemKind::Reasoning | ItemKind::Other => {
                out.push(StreamEvent::ThinkingStart { id: block.clone() });
            }
            ItemKind::Call => {}
        }
        self.items.push(OpenItem::new(index, block, kind));
        Ok(self.items.len() - 1)
    }

    fn open_item(
        &mut self,
        index: u64,
        item: &Item,
        out: &mut Vec<StreamEvent>,
    ) -> Result<usize, ProviderError> {
        let kind = ItemKind::of(&item.kind);
        let position = self.open(index, kind, out)?;
        if kind == ItemKind::Call {
            let (Some(call_id), Some(name)) = (&item.call_id, &item.name) else {
                return Err(unreadable("a function call without call_id or name"));
            };
            if let Some(open) = self.items.get(position) {
                out.push(StreamEvent::ToolCallStart {
                    id: open.block.clone(),
                    tool_call_id: call_id.as_str().into(),
                    name: name.as_str().into(),
                });
            }
        }
        Ok(position)
    }

    fn item_added(
        &mut self,
        event: &ItemEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let item: Item = parse(event.item.get())?;
        if self.find(event.output_index).is_none() {
            self.open_item(event.output_index, &item, out)?;
        }
        Ok(())
    }

    /// The open item of a kind, made if a delta is the first
    /// sign of it; none if the item there is complete or of another kind.
    fn growing(
        &mut self,
        index: u64,
        kind: ItemKind,
        out: &mut Vec<StreamEvent>,
    ) -> Result<Option<&mut OpenItem>, ProviderError> {
        let position = match self.find(index) {
            Some(position) => position,
            None if kind == ItemKind::Call => return Ok(None),
            None => self.open(index, kind, out)?,
        };
        Ok(self
            .items
            .get_mut(position)
            .filter(|item| item.kind == kind && !item.done))
    }

    fn text(&mut self, event: DeltaEvent, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        if let Some(item) = self.growing(event.output_index, ItemKind::Message, out)? {
            item.show(event.delta, out);
        }
        Ok(())
    }

    fn thinking(
        &mut self,
        event: DeltaEvent,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(item) = self.growing(event.output_index, ItemKind::Reasoning, out)? else {
            return Ok(());
        };
        let next_part = item.summary_index.is_some() && item.summary_index != event.summary_index;
        item.summary_index = event.summary_index;
        if next_part {
            item.show("\n\n".to_owned(), out);
        }
        item.show(event.delta, out);
        Ok(())
    }

    fn arguments(
        &mut self,
        event: DeltaEvent,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(item) = self.growing(event.output_index, ItemKind::Call, out)? else {
            return Ok(());
        };
        item.arguments.push_str(&event.delta);
        out.push(StreamEvent::ToolArgsDelta {
            id: item.block.clone(),
            delta: event.delta,
        });
        Ok(())
    }

    fn item_done(
        &mut self,
        index: u64,
        raw: &RawValue,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let item: Item = parse(raw.get())?;
        let position = match self.find(index) {
            Some(position) => position,
            None => self.open_item(index, &item, out)?,
        };
        let Some(open) = self.items.get_mut(position).filter(|open| !open.done) else {
            return Ok(());
        };
        if open.kind != ItemKind::of(&item.kind) {
            return Err(unreadable("an item that changed its kind"));
        }
        let whole = item.status.as_deref() != Some("incomplete");
        match open.kind {
            ItemKind::Message => {
                let message: MessageItem = parse(raw.get())?;
                self.refused |= message.refuses();
                open.show_rest(&message.text(), out);
            }
            ItemKind::Reasoning => {
                // Summary and reasoning may both have been shown: only what
                // was never shown is shown now.
                if open.shown == 0 {
                    let reasoning: ReasoningItem = parse(raw.get())?;
                    open.show(reasoning.text(), out);
                }
            }
            // What is half of a call is never a call.
            ItemKind::Call if !whole => return Ok(()),
            ItemKind::Call => {
                self.called = true;
                open.complete_arguments(&item.arguments.unwrap_or_default(), out)?;
            }
            ItemKind::Other => {}
        }
        let opaque = whole.then(|| OpaquePart {
            wire: super::NAME.to_owned(),
            data: raw.get().into(),
        });
        open.finish(opaque, out);
        Ok(())
    }

    /// A response that did not stream.
    fn whole_response(
        &mut self,
        response: Response<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match response.status.as_deref() {
            Some("completed") => self.completed(response, out),
            Some("incomplete") => {
                self.start(response.id.clone(), out);
                self.take_missed_items(&response, out)?;
                self.incomplete(response, out)
            }
            Some("failed") => self.failed(response, out),
            status => Err(unreadable(&format!(
                "a response that is neither complete nor failed: {}",
                status.unwrap_or("no status")
            ))),
        }
    }

    /// A compacted conversation: its items go back as they are, those that
    /// look like a call included.
    fn compaction(
        &mut self,
        response: &Response<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.start(response.id.clone(), out);
        let items = response.output.iter().flatten();
        if !items.clone().any(|item| is_compaction_item(item.get())) {
            return Err(unreadable("a compaction without a compaction item"));
        }
        for (index, item) in (0u64..).zip(items) {
            let place = self.open(index, ItemKind::Other, out)?;
            if let Some(open) = self.items.get_mut(place) {
                let opaque = OpaquePart {
                    wire: super::NAME.to_owned(),
                    data: item.get().into(),
                };
                open.finish(Some(opaque), out);
            }
        }
        self.report_usage(response, out);
        self.finish(StopReason::EndTurn, out);
        Ok(())
    }

    fn completed(
        &mut self,
        response: Response<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.start(response.id.clone(), out);
        self.take_missed_items(&response, out)?;
        self.report_usage(&response, out);
        let half_call = |item: &OpenItem| item.kind == ItemKind::Call && !item.done;
        if self.items.iter().any(half_call) {
            return Err(unreadable("a complete response with half a function call"));
        }
        let reason = if self.called {
            StopReason::ToolUse
        } else if self.refused {
            StopReason::Refusal
        } else {
            StopReason::EndTurn
        };
        self.finish(reason, out);
        Ok(())
    }

    /// Items that had no event of their own.
    fn take_missed_items(
        &mut self,
        response: &Response<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        for (index, item) in (0u64..).zip(response.output.iter().flatten()) {
            let done = self
                .find(index)
                .and_then(|position| self.items.get(position))
                .is_some_and(|item| item.done);
            if !done {
                self.item_done(index, item, out)?;
            }
        }
        Ok(())
    }

    fn incomplete(
        &mut self,
        response: Response<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.start(response.id.clone(), out);
        self.report_usage(&response, out);
        let reason = response
            .incomplete_details
            .and_then(|details| details.reason)
            .unwrap_or_else(|| "incomplete".to_owned());
        let stop_reason = match reason.as_str() {
            "max_output_tokens" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            // Whatever else it is: the answer is not complete.
            _ => StopReason::Interrupted,
        };
        if stop_reason != StopReason::MaxTokens {
            out.push(StreamEvent::ProviderWarning {
                message: format!("the service cut the answer off: {reason}"),
            });
        }
        self.finish(stop_reason, out);
        Ok(())
    }

    fn failed(
        &mut self,
        response: Response<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.report_usage(&response, out);
        let error = response.error.unwrap_or_default();
        Err(ErrorReport::of(&error).in_stream(Some(KEY_VARIABLE)))
    }

    fn error(&self, data: &str) -> Result<(), ProviderError> {
        let event: Value = parse(data)?;
        let report = ErrorReport::of(&event);
        match event.get("type").is_some_and(|kind| kind == "error") || report.explains() {
            true => Err(report.in_stream(Some(KEY_VARIABLE))),
            // An event without a kind that says nothing of an error.
            false => Ok(()),
        }
    }

    fn report_usage(&self, response: &Response<'_>, out: &mut Vec<StreamEvent>) {
        if let Some(counted) = &response.usage {
            out.push(StreamEvent::UsageUpdate {
                usage: usage(counted),
            });
        }
    }

    fn finish(&mut self, stop_reason: StopReason, out: &mut Vec<StreamEvent>) {
        let mut half_calls = 0;
        for item in self.items.iter_mut().filter(|item| !item.done) {
            match item.kind {
                ItemKind::Call => half_calls += 1,
                _ => item.finish(None, out),
            }
        }
        if half_calls > 0 {
            let message = "the model was cut off while it wrote a call; the call is left out";
            out.push(StreamEvent::ProviderWarning {
                message: message.to_owned(),
            });
        }
        self.ended = true;
        out.push(StreamEvent::MessageEnd {
            id: self.message_id(),
            stop_reason,
        });
    }
}

fn response(data: &str) -> Result<Response<'_>, ProviderError> {
    Ok(parse::<ResponseEvent<'_>>(data)?.response)
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))
}

pub(super) fn unreadable(what: &str) -> ProviderError {
    ProviderError::new(
        format!("the service sent an event that cannot be read: {what}"),
        ProviderErrorKind::Transient,
    )
}
