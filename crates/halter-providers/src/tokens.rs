//! How many tokens something is likely to be, where nobody has counted.

use crate::provider::ProviderRequest;
use halter_protocol::{
    AssembledPrompt, AssistantPart, ContentPart, Message, ToolMessage, ToolResult, ToolSpec,
};
use std::sync::Arc;

/// Bytes of text that make a token, about.
const BYTES_PER_TOKEN: usize = 4;

/// Tokens of an image, about: services scale large ones down.
const IMAGE_TOKENS: usize = 1_500;

/// Tokens of a page of a document, which services read as text and as image.
const PAGE_TOKENS: usize = 2_000;

/// Bytes of a page of a document, about.
const PAGE_BYTES: usize = 50_000;

/// Bytes of a tool's schema, about.
const SCHEMA_BYTES: usize = 400;

/// Tokens of so many bytes of text.
pub fn of_bytes(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// Tokens of a request, all of it.
pub(crate) fn of_request(request: &ProviderRequest) -> u64 {
    let messages: usize = request
        .messages
        .iter()
        .map(|message| message_tokens(message))
        .sum();
    (messages + of_prefix(request)) as u64
}

/// Tokens of a request that are not read from a cache. Looks only at what came
/// after the last answer, whose usage tells of everything before.
pub(crate) fn of_new_in(request: &ProviderRequest) -> u64 {
    let mut new = 0;
    for message in request.messages.iter_newest_first() {
        let answered = match message.as_ref() {
            Message::Assistant(assistant) => assistant.usage,
            _ => None,
        };
        if let Some(usage) = answered.filter(|usage| usage.context_tokens() > 0) {
            let cached = usage.buckets.cache_read + usage.buckets.cache_write > 0;
            let before = if cached { 0 } else { usage.context_tokens() };
            return before.saturating_add(new as u64);
        }
        new += message_tokens(message);
    }
    (new + of_prefix(request)) as u64
}

/// Tokens of a message.
pub fn of_message(message: &Message) -> u64 {
    message_tokens(message) as u64
}

/// Tokens of a system prompt.
pub fn of_prompt(prompt: &AssembledPrompt) -> u64 {
    let segments = prompt.segments().iter();
    of_bytes(segments.map(|segment| segment.text.len()).sum())
}

/// Tokens of what a model is told of tools.
pub fn of_tools(tools: &[ToolSpec]) -> u64 {
    let tools = tools.iter();
    of_bytes(
        tools
            .map(|tool| tool.description.len() + SCHEMA_BYTES)
            .sum(),
    )
}

/// Tokens of what a model is told of tools that were loaded for it.
pub fn of_loaded(tools: &[Arc<ToolSpec>]) -> u64 {
    let tools = tools.iter();
    of_bytes(
        tools
            .map(|tool| tool.description.len() + SCHEMA_BYTES)
            .sum(),
    )
}

/// Tokens of what comes before the messages.
fn of_prefix(request: &ProviderRequest) -> usize {
    (of_prompt(&request.prompt) + of_tools(&request.tools) + of_loaded(&request.loaded_tools))
        as usize
}

fn message_tokens(message: &Message) -> usize {
    match message {
        Message::System(system) => system.text.len() / BYTES_PER_TOKEN,
        Message::User(user) => user.parts.iter().map(of_part).sum(),
        Message::Assistant(assistant) => assistant.parts.iter().map(of_answer_part).sum(),
        Message::Tool(tool) => of_result(tool),
        _ => 0,
    }
}

fn of_answer_part(part: &AssistantPart) -> usize {
    match part {
        AssistantPart::Text { text, .. } | AssistantPart::Thinking { text, .. } => {
            text.len() / BYTES_PER_TOKEN
        }
        AssistantPart::ToolCall { arguments, .. } => arguments.to_string().len() / BYTES_PER_TOKEN,
        _ => 0,
    }
}

/// Tokens of what a user said or a tool returned. The bytes of an image say
/// nothing of them.
fn of_part(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text { text } => text.len() / BYTES_PER_TOKEN,
        ContentPart::Document { media_type, data } if media_type.starts_with("text/") => {
            data.len() / BYTES_PER_TOKEN
        }
        ContentPart::Document { data, .. } => {
            data.len().div_ceil(PAGE_BYTES).saturating_mul(PAGE_TOKENS)
        }
        _ => IMAGE_TOKENS,
    }
}

/// Tokens of what a call came to.
fn of_result(result: &ToolMessage) -> usize {
    match (&result.error, result.content.as_ref()) {
        (Some(error), _) => error.message.len() / BYTES_PER_TOKEN,
        (None, ToolResult::Text { text }) => text.len() / BYTES_PER_TOKEN,
        (None, ToolResult::Parts { parts }) => parts.iter().map(of_part).sum(),
        (None, content) => content.to_model_text().len() / BYTES_PER_TOKEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_not_counted_by_its_bytes() {
        let megabyte = vec![0; 1_000_000];
        for (part, tokens) in [
            (ContentPart::text("x".repeat(40)), 10),
            (
                ContentPart::image("image/png", megabyte.clone()),
                IMAGE_TOKENS,
            ),
            (ContentPart::document("text/plain", vec![b'x'; 40]), 10),
            (
                ContentPart::document("application/pdf", vec![0; 1]),
                PAGE_TOKENS,
            ),
            (
                ContentPart::document("application/pdf", megabyte),
                20 * PAGE_TOKENS,
            ),
        ] {
            assert_eq!(of_part(&part), tokens, "{}", part.describe());
        }
    }
}
