//! A stored session as text.

use super::call::{shortcoming, summary};
use super::media::{media_tag, media_tags};
use super::resources::resource_changes;
use super::window::compacted;
use crate::limits::SHOWN_RESULT_CHARS;
use halter_protocol::{Message, SessionEvent, SessionEventPayload};

/// An event as lines for people; most events have none.
pub fn transcript_lines(event: &SessionEvent) -> String {
    match &event.payload {
        SessionEventPayload::MessageItem { message } => message_lines(message),
        SessionEventPayload::ToolExecutionCompleted { outcome } => {
            let call = summary(&outcome.call);
            match shortcoming(outcome.result.as_deref()) {
                None => format!("✓ {call}{}\n", media_tags(outcome.result.as_deref())),
                Some(reason) => format!("✗ {call}: {}\n", cut(&reason)),
            }
        }
        SessionEventPayload::ContextCompacted(compaction) => {
            format!("[{}]\n", compacted(compaction))
        }
        SessionEventPayload::ResourcesLoaded(loaded) => match resource_changes(loaded) {
            Some(changes) => format!("[{changes}]\n"),
            None => String::new(),
        },
        SessionEventPayload::BudgetWarning(limit) => format!("[budget: {limit} spent]\n"),
        SessionEventPayload::Warning { message }
        | SessionEventPayload::NetworkRefused { message, .. } => format!("warning: {message}\n"),
        SessionEventPayload::TurnFailed { error, .. } => {
            format!("error[{}]: {}\n", error.code, error.message)
        }
        _ => String::new(),
    }
}

fn message_lines(message: &Message) -> String {
    match message {
        Message::User(user) => {
            let text = user.plain_text();
            let attached = user.attachments().filter_map(media_tag);
            let lines = text.lines().map(str::to_owned).chain(attached);
            let quoted: String = lines.map(|line| format!("> {line}\n")).collect();
            format!("\n{quoted}\n")
        }
        Message::Assistant(answer) => {
            let text = answer.plain_text();
            match text.trim_end() {
                "" => String::new(),
                text => format!("{text}\n"),
            }
        }
        _ => String::new(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_RESULT_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut() {
        let fits = "é".repeat(SHOWN_RESULT_CHARS);
        assert_eq!(cut(&fits), fits);
        assert_eq!(cut(&format!("{fits}x")), format!("{fits}…"));
    }
}
