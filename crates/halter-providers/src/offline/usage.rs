//! What an answer of the offline model would about cost: four bytes a token.

use crate::provider::ProviderRequest;
use crate::tokens::{BYTES_PER_TOKEN, of_part, of_result};
use halter_protocol::{AssistantPart, ContentPart, Message, ToolResult, Usage, UsageBuckets};
use serde_json::Value;
use std::io::Write;

/// The usage of a request with this much reasoning and other output, in bytes.
pub fn usage(request: &ProviderRequest, thinking_bytes: usize, output_bytes: usize) -> Usage {
    let prompt: usize = request.prompt.segments().iter().map(|s| s.text.len()).sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| {
            tool.name.as_str().len() + tool.description.len() + json_len(&tool.input_schema)
        })
        .sum();
    let messages: usize = request.messages.iter().map(|m| message_len(m)).sum();
    Usage::from(UsageBuckets {
        uncached_input: tokens(prompt + tools + messages),
        output: tokens(output_bytes),
        reasoning: tokens(thinking_bytes),
        ..UsageBuckets::default()
    })
}

fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

fn message_len(message: &Message) -> usize {
    match message {
        Message::System(system) => system.text.len(),
        Message::User(user) => user.parts.iter().map(user_part_len).sum(),
        Message::Assistant(assistant) => assistant.parts.iter().map(assistant_part_len).sum(),
        Message::Tool(tool) => match (&tool.error, &tool.content) {
            (Some(error), _) => error.message.len(),
            (None, ToolResult::Text { text }) => text.len(),
            (None, ToolResult::Json { value }) => json_len(value),
            (None, _) => of_result(tool) * BYTES_PER_TOKEN,
        },
        _ => 0,
    }
}

fn user_part_len(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text { text } => text.len(),
        other => of_part(other) * BYTES_PER_TOKEN,
    }
}

fn assistant_part_len(part: &AssistantPart) -> usize {
    match part {
        AssistantPart::Text { text, .. } | AssistantPart::Thinking { text, .. } => text.len(),
        AssistantPart::ToolCall {
            name, arguments, ..
        } => name.as_str().len() + json_len(arguments),
        _ => 0,
    }
}

/// The length of a value as JSON text, without building the text.
fn json_len(value: &Value) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Counting cannot fail, and a value is always JSON.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}
