//! How many tokens a request has, and how many it may have.

use super::{ContextRequest, ContextSettings};
use crate::limits::{COMPACTION_PERCENT, CONTEXT_HEADROOM_TOKENS};
use halter_protocol::{Message, Transcript};
use halter_providers::catalog::DEFAULT_CONTEXT_WINDOW;
use halter_providers::tokens::{of_loaded, of_message, of_prompt, of_tools};

/// How large a context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSize {
    /// Tokens of the next request.
    pub tokens: u64,
    /// True if most of them were counted by the model service; else all are
    /// estimated.
    pub measured: bool,
    /// Tokens that the model takes, the answer included.
    pub window: u64,
    /// Tokens at which the context is compacted.
    pub limit: u64,
}

/// How large the context of a request is. Looks only at what came after the
/// last answer, compaction or count, which tell of everything before.
pub fn size(request: &ContextRequest<'_>, settings: &ContextSettings) -> ContextSize {
    let (tokens, measured) = tokens(request);
    let window = window(request);
    ContextSize {
        tokens,
        measured,
        window,
        limit: limit(request, window, settings),
    }
}

fn tokens(request: &ContextRequest<'_>) -> (u64, bool) {
    let messages = &request.state.messages;
    let mark = request.counted.or(request.state.context_mark);
    let mut before = messages.len();
    let mut new = 0;
    for message in messages.iter_newest_first() {
        if let Some(mark) = mark.filter(|mark| before <= mark.messages) {
            return (mark.tokens.saturating_add(new), false);
        }
        let answered = message.as_assistant().and_then(|answer| answer.usage);
        if let Some(usage) = answered.filter(|usage| usage.context_tokens() > 0) {
            return (usage.context_tokens().saturating_add(new), true);
        }
        new += of_message(message);
        before -= 1;
    }
    (new + overhead(request), false)
}

/// Tokens of what comes before the messages, estimated.
pub(super) fn overhead(request: &ContextRequest<'_>) -> u64 {
    of_prompt(request.prompt) + of_tools(request.tools) + of_loaded_tools(request)
}

/// Tokens of deferred tools that were loaded, estimated.
fn of_loaded_tools(request: &ContextRequest<'_>) -> u64 {
    let loaded = request.state.memory.loaded_tools.iter();
    let loaded: Vec<_> = loaded.map(|tool| tool.spec.clone()).collect();
    of_loaded(&loaded)
}

/// Tokens of messages, estimated.
pub(super) fn estimate(messages: &Transcript) -> u64 {
    messages.iter().map(|message| of_message(message)).sum()
}

fn window(request: &ContextRequest<'_>) -> u64 {
    let configured = request.model.max_input_tokens;
    let known = match (configured, request.capabilities.context_window) {
        (Some(configured), Some(known)) => Some(configured.min(known)),
        (configured, known) => configured.or(known),
    };
    u64::from(known.unwrap_or(DEFAULT_CONTEXT_WINDOW)).max(1)
}

/// The smaller of the configured threshold and what leaves room for an answer.
fn limit(request: &ContextRequest<'_>, window: u64, settings: &ContextSettings) -> u64 {
    let output = request.model.max_output_tokens;
    let headroom = match output.or(request.capabilities.output_limit) {
        Some(output) => u64::from(output).min(window / 2),
        None => CONTEXT_HEADROOM_TOKENS.min(window / 4),
    };
    let threshold = settings
        .threshold
        .unwrap_or(window / 100 * COMPACTION_PERCENT);
    threshold.min(window - headroom).max(1)
}

/// What fills a context, in tokens. Where the model service counted the whole,
/// the estimated parts are scaled to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextFill {
    /// The system prompt.
    pub prompt: u64,
    /// What the model is told of tools.
    pub tools: u64,
    /// What stands for messages that were cut.
    pub summary: u64,
    /// What users and the harness said.
    pub user: u64,
    /// What the model said, its calls included.
    pub assistant: u64,
    /// What tools returned.
    pub results: u64,
}

impl ContextFill {
    /// What fills the context of a request of `total` tokens.
    pub fn of(request: &ContextRequest<'_>, total: u64) -> Self {
        let mut fill = Self {
            prompt: of_prompt(request.prompt),
            tools: of_tools(request.tools) + of_loaded_tools(request),
            ..Self::default()
        };
        for message in request.state.messages.iter() {
            let part = match message.as_ref() {
                message if super::summary::stands_for_others(message) => &mut fill.summary,
                Message::Assistant(_) => &mut fill.assistant,
                Message::Tool(_) => &mut fill.results,
                _ => &mut fill.user,
            };
            *part += of_message(message);
        }
        let estimated: u64 = fill.parts().iter().map(|(_, tokens)| tokens).sum();
        let scaled = |tokens: u64| scale(tokens, total, estimated);
        Self {
            prompt: scaled(fill.prompt),
            tools: scaled(fill.tools),
            summary: scaled(fill.summary),
            user: scaled(fill.user),
            assistant: scaled(fill.assistant),
            results: scaled(fill.results),
        }
    }

    /// The parts by name, in the order they are sent.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("system prompt", self.prompt),
            ("tools", self.tools),
            ("summary", self.summary),
            ("user and notes", self.user),
            ("answers", self.assistant),
            ("tool results", self.results),
        ]
    }
}

/// `tokens` times `to / of`.
pub(super) fn scale(tokens: u64, to: u64, of: u64) -> u64 {
    let scaled = u128::from(tokens) * u128::from(to) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
