//! A model without a model: it understands a few kinds of requests by fixed
//! rules, calls the session's real tools, and answers from their results.
//!
//! It is for the first minutes with Halter, for demonstrations and for tests
//! of everything around a model: no key, no network, and the same request
//! always gets the same answer. It keeps no state: what it does next follows
//! from the messages and the tools of the request. It says in every answer
//! that it is the offline model, and how to use a real one.
//!
//! | module | does |
//! |---|---|
//! | `intent` | what the user's sentence asks for |
//! | `exchange` | what was asked and what tools have said since |
//! | `plan` | which tools to call next, or that it is time to answer |
//! | `results` | reads tool results |
//! | `repository`, `project` | facts about a directory and its files |
//! | `render`, `summary` | the words of the answer |

mod exchange;
mod intent;
mod plan;
mod project;
mod render;
mod repository;
mod results;
mod summary;
mod usage;
mod words;

pub use render::OFFLINE_NOTE;

use crate::answer::AnswerWriter;
use crate::limits::OFFLINE_DELTA_CHARS;
use crate::playback::{Cue, play};
use crate::provider::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use async_trait::async_trait;
use exchange::Exchange;
use halter_protocol::{StopReason, StreamEvent};
use plan::{Step, next_step};
use tokio_util::sync::CancellationToken;

/// The built-in offline model. See the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineProvider;

impl OfflineProvider {
    /// The offline model.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Provider for OfflineProvider {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let step = next_step(&Exchange::of(&request));
        let events = write(&request, step);
        Ok(play(events.into_iter().map(Cue::Event), cancel))
    }
}

fn write(request: &ProviderRequest, step: Step) -> Vec<StreamEvent> {
    let mut writer = AnswerWriter::new(format!("offline_{:016x}", fingerprint(request)));
    for delta in deltas(&step.thinking) {
        writer.thinking(delta);
    }
    for delta in deltas(&step.text) {
        writer.text(delta);
    }
    let mut output = step.text.len();
    let stop_reason = match step.calls.is_empty() {
        true => StopReason::EndTurn,
        false => StopReason::ToolUse,
    };
    for call in step.calls {
        let arguments = call.arguments.to_string();
        output += call.tool.len() + arguments.len();
        let id = writer.next_call_id();
        writer.tool_call(id, call.tool.into());
        for delta in deltas(&arguments) {
            writer.arguments(delta);
        }
    }
    writer.end_block();
    let usage = usage::usage(request, step.thinking.len(), output);
    writer.event(StreamEvent::UsageUpdate { usage });
    writer.end(stop_reason);
    writer.take_events()
}

/// The text in pieces, each ending after a space where there is one.
fn deltas(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut length = 0;
    for character in text.chars() {
        piece.push(character);
        length += 1;
        let long = length >= OFFLINE_DELTA_CHARS && character.is_whitespace();
        if long || length >= OFFLINE_DELTA_CHARS * 2 {
            pieces.push(std::mem::take(&mut piece));
            length = 0;
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// Tells the requests of a session apart, so that ids are not used twice, and
/// is the same for the same request. This is FNV-1a: it only has to be stable.
fn fingerprint(request: &ProviderRequest) -> u64 {
    let count = request.messages.len().to_string();
    let last = request
        .messages
        .last()
        .map_or("", |last| last.id().as_str());
    let texts = [
        request.session_id.as_str(),
        request.turn_id.as_str(),
        last,
        &count,
    ];
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn deltas_add_up_to_the_text_and_are_bounded(text in "\\PC{0,400}") {
            let pieces = deltas(&text);
            prop_assert_eq!(pieces.concat(), text);
            let bounds = 1..=OFFLINE_DELTA_CHARS * 2;
            prop_assert!(pieces.iter().all(|piece| bounds.contains(&piece.chars().count())));
        }
    }
}
