//! What a request is likely to cost, from what is new in it.

use crate::provider::ProviderRequest;
use crate::tokens::{BYTES_PER_TOKEN, of_part, of_result};
use halter_protocol::{AssistantPart, Message};

/// Bytes of a tool's schema, about.
const SCHEMA_BYTES: usize = 400;

/// Tokens of the request that are not read from a cache, about. Looks only at
/// what came after the last answer, whose usage tells of everything before.
pub(super) fn tokens_of(request: &ProviderRequest) -> u64 {
    let mut new = 0;
    for message in request.messages.iter_newest_first() {
        let answered = match message.as_ref() {
            Message::Assistant(assistant) => assistant.usage,
            _ => None,
        };
        if let Some(usage) = answered.filter(|usage| !usage.is_zero()) {
            let cached = usage.buckets.cache_read + usage.buckets.cache_write > 0;
            let before = if cached { 0 } else { usage.context_tokens() };
            return before.saturating_add(count(new));
        }
        new += message_tokens(message);
    }
    let prompt: usize = request
        .prompt
        .segments()
        .iter()
        .map(|segment| segment.text.len())
        .sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.description.len() + SCHEMA_BYTES)
        .sum();
    count(new + (prompt + tools) / BYTES_PER_TOKEN)
}

fn count(tokens: usize) -> u64 {
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

fn message_tokens(message: &Message) -> usize {
    match message {
        Message::System(system) => system.text.len() / BYTES_PER_TOKEN,
        Message::User(user) => user.parts.iter().map(of_part).sum(),
        Message::Assistant(assistant) => assistant.parts.iter().map(assistant_tokens).sum(),
        Message::Tool(tool) => of_result(tool),
        _ => 0,
    }
}

fn assistant_tokens(part: &AssistantPart) -> usize {
    match part {
        AssistantPart::Text { text, .. } | AssistantPart::Thinking { text, .. } => {
            text.len() / BYTES_PER_TOKEN
        }
        AssistantPart::ToolCall { arguments, .. } => arguments.to_string().len() / BYTES_PER_TOKEN,
        _ => 0,
    }
}
