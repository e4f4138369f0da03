//! A model without a model: it recognises a few kinds of requests by fixed
//! rules, calls the session's real tools, and answers from their results.
//!
//! It is for the first minutes with Halter, for demonstrations and for tests
//! of everything around a model: no key, no network, and the same request
//! always gets the same answer. It keeps no state: what it does next follows
//! from the messages and the tools of the request. Every answer says that it
//! comes from the offline model, and how to use a real one.
//!
//! | module | holds |
//! |---|---|
//! | `intent` | what the user's sentence asks for |
//! | `turn` | what was asked and what tools have returned since |
//! | `plan` | which tools to call next, or that it is time to answer |
//! | `wording` | the text of the answer |
//! | `summary` | a repository described from its files |

mod intent;
mod plan;
mod summary;
mod turn;
mod wording;

pub use wording::OFFLINE_NOTE;

use crate::answer_writer::AnswerWriter;
use crate::playback::{Cue, play};
use crate::provider::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use crate::tokens;
use async_trait::async_trait;
use halter_protocol::{Prices, StopReason, StreamEvent, Usage, UsageBuckets};
use tokio_util::sync::CancellationToken;
use turn::CurrentTurn;

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
        ProviderCapabilities::new().with_prices(Prices::default())
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let events = answer(&request);
        Ok(play(events.into_iter().map(Cue::Event), cancel))
    }
}

/// The next step: tool calls, or the answer.
fn answer(request: &ProviderRequest) -> Vec<StreamEvent> {
    let turn = CurrentTurn::of(request);
    let intent = intent::understand(&turn.asked);
    let calls = plan::next_calls(&intent, &turn);
    let (thinking, text, stop_reason) = match calls.is_empty() {
        true => (
            "I have what I need to answer.",
            wording::answer(&intent, &turn),
            StopReason::EndTurn,
        ),
        false => (
            "I take a look before I answer.",
            wording::announcement(&calls),
            StopReason::ToolUse,
        ),
    };
    // Tells the requests of a session apart, and is the same for the same request.
    let stem = format!("{}_{}", request.turn_id, request.messages.len());
    let mut writer = AnswerWriter::new(stem);
    deltas(thinking).for_each(|delta| writer.thinking(delta));
    deltas(&text).for_each(|delta| writer.text(delta));
    let mut output = text.len();
    for call in calls {
        let arguments = call.arguments.to_string();
        output += call.tool.len() + arguments.len();
        let id = writer.next_call_id();
        writer.tool_call(id, call.tool.into());
        deltas(&arguments).for_each(|delta| writer.arguments(delta));
    }
    writer.end_block();
    let usage = Usage::from(UsageBuckets {
        uncached_input: tokens::of_request(request),
        output: tokens::of_bytes(output),
        reasoning: tokens::of_bytes(thinking.len()),
        ..UsageBuckets::default()
    });
    writer.event(StreamEvent::UsageUpdate { usage });
    writer.end(stop_reason);
    writer.take_events()
}

/// The text word by word.
fn deltas(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(char::is_whitespace).map(str::to_owned)
}
