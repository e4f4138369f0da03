//! A conversation as text, within a bound.

use super::reference::{ends_of, is_reference, one_line, path_of};
use super::summary::stands_for_others;
use halter_protocol::{AssistantPart, Message, ToolMessage};
use std::collections::HashMap;
use std::sync::Arc;

/// The most of each kind of text that is shown, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub user: usize,
    pub answer: usize,
    pub arguments: usize,
    pub output: usize,
    pub summary: usize,
}

/// What a model that summarises is shown.
pub(super) const FULL: Bounds = Bounds {
    user: 8_000,
    answer: 4_000,
    arguments: 600,
    output: 2_000,
    summary: 32_000,
};

/// What stands in a list that no model wrote.
pub(super) const BRIEF: Bounds = Bounds {
    user: 300,
    answer: 200,
    arguments: 120,
    output: 0,
    summary: 0,
};

impl Bounds {
    fn halved(self) -> Self {
        Self {
            user: self.user / 2,
            answer: self.answer / 2,
            arguments: self.arguments / 2,
            output: self.output / 2,
            summary: self.summary,
        }
    }
}

/// Messages as text of at most `most` bytes. What is too much is shown
/// shorter; if that is not enough, messages are left out, the oldest last but
/// for an earlier summary and what the user said first.
pub(super) fn render(messages: &[Arc<Message>], bounds: Bounds, most: usize) -> String {
    let mut bounds = bounds;
    for _ in 0..4 {
        let lines = lines(messages, bounds);
        if lines.iter().map(|line| line.len() + 1).sum::<usize>() <= most {
            return lines.join("\n");
        }
        bounds = bounds.halved();
    }
    within(lines(messages, bounds), most)
}

/// The first line and as many of the last as fit.
fn within(lines: Vec<String>, most: usize) -> String {
    let mut room = most.saturating_sub(80);
    let mut lines = lines.into_iter();
    let mut first = lines.next().unwrap_or_default();
    first.truncate(first.floor_char_boundary(room / 2));
    room -= first.len();
    let rest: Vec<String> = lines.collect();
    let mut start = rest.len();
    for line in rest.iter().rev() {
        if line.len() + 1 > room {
            break;
        }
        room -= line.len() + 1;
        start -= 1;
    }
    let shown = rest.get(start..).unwrap_or_default();
    match start {
        0 => format!("{first}\n{}", shown.join("\n")),
        left_out => format!(
            "{first}\n[{left_out} messages are left out here]\n{}",
            shown.join("\n")
        ),
    }
}

fn lines(messages: &[Arc<Message>], bounds: Bounds) -> Vec<String> {
    let shown = messages
        .iter()
        .filter_map(|message| match message.as_ref() {
            message if stands_for_others(message) && bounds.summary == 0 => None,
            Message::User(user) if stands_for_others(message) => {
                Some(clipped(&user.plain_text(), bounds.summary))
            }
            Message::User(user) => Some(format!(
                "user: {}",
                clipped(&user.plain_text(), bounds.user)
            )),
            Message::System(system) => {
                Some(format!("note: {}", clipped(&system.text, bounds.answer)))
            }
            Message::Assistant(answer) => {
                let parts = answer
                    .parts
                    .iter()
                    .filter_map(|part| shown_part(part, bounds));
                let parts: Vec<String> = parts.collect();
                (!parts.is_empty()).then(|| parts.join("\n"))
            }
            Message::Tool(tool) => Some(shown_result(tool, bounds)),
            _ => None,
        });
    shown.collect()
}

fn shown_part(part: &AssistantPart, bounds: Bounds) -> Option<String> {
    match part {
        AssistantPart::Text { text, .. } if text.trim().is_empty() => None,
        AssistantPart::Text { text, .. } => {
            Some(format!("assistant: {}", clipped(text, bounds.answer)))
        }
        AssistantPart::ToolCall {
            name, arguments, ..
        } => {
            let arguments = one_line(&arguments.to_string(), bounds.arguments);
            Some(format!("call: {name} {arguments}"))
        }
        _ => None,
    }
}

fn shown_result(tool: &ToolMessage, bounds: Bounds) -> String {
    let text = tool.to_model_text();
    match (&tool.error, bounds.output) {
        (Some(error), 0) => format!("result: {}", one_line(&error.message, 120)),
        (None, 0) => format!("result: {} bytes, {}", text.len(), path_of(tool)),
        (_, most) => format!("result of {}: {}", tool.tool_name, clipped(&text, most)),
    }
}

/// The start and the end of a text.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (start, end) = ends_of(text, most);
    let over = text.len() - most;
    format!("{start} [… {over} bytes …] {end}")
}

/// A line for each long output of old messages: what was called, and where the
/// output can be read again.
pub(super) fn outputs(messages: &[Arc<Message>], least: usize) -> Vec<String> {
    let mut calls: HashMap<String, String> = HashMap::new();
    let mut lines = Vec::new();
    for message in messages {
        match message.as_ref() {
            Message::Assistant(answer) => calls.extend(answer.tool_calls().map(|call| {
                let arguments = one_line(&call.arguments.to_string(), BRIEF.arguments);
                (call.id.0, format!("{} {arguments}", call.name))
            })),
            Message::Tool(tool) if tool.error.is_none() => {
                let text = tool.content.to_model_text();
                if (text.len() >= least || is_reference(&text))
                    && let Some(call) = calls.get(tool.call_id.as_str())
                {
                    lines.push(format!("- {}: {call}", path_of(tool)));
                }
            }
            _ => {}
        }
    }
    lines
}
