//! Long texts as references, and how they are found again.
//!
//! A reference names what was said by its content: `blob:` and the start of a
//! hash. It is looked up in the session's own log, and means the same in a
//! session that is run again.

use crate::limits::{CATCH_UP_PAGE, REFERENCE_EXCERPT_BYTES};
use async_trait::async_trait;
use halter_protocol::{
    ContentHash, Message, SessionEventPayload, SessionId, ToolMessage, ToolResult, UserMessage,
    UserPart,
};
use halter_session::{SessionStore, read_events};
use halter_tools::{EARLIER_MESSAGE, EarlierMessages};
use serde::Serialize;
use std::sync::Arc;

/// Hexadecimal digits of a hash that a reference has.
const DIGITS: usize = 12;

/// What a reference says of an output.
const MOVED_OUT: &str = "of output were moved out of the context";

/// What stands before the path in a reference.
const PATH: &str = "read {\"path\": \"";

/// What names what a tool returned or a user said; none for other messages.
fn name_of(message: &Message) -> Option<String> {
    match message {
        Message::Tool(tool) => hash(tool.content.as_ref()),
        Message::User(user) => hash(&user.parts),
        _ => None,
    }
}

fn hash(content: &impl Serialize) -> Option<String> {
    let mut hash = ContentHash::default();
    hash.update(&serde_json::to_vec(content).ok()?);
    let mut name = hash.hex();
    name.truncate(DIGITS);
    Some(name)
}

/// The path under which `read` shows a tool's output again, also one that is a
/// reference already.
pub(super) fn path_of(tool: &ToolMessage) -> String {
    let text = tool.content.to_model_text();
    let path = text
        .split_once(MOVED_OUT)
        .filter(|_| is_reference(&text))
        .and_then(|(_, rest)| rest.split_once(PATH)?.1.split_once('"'));
    match path {
        Some((path, _)) => path.to_owned(),
        None => path_to(hash(tool.content.as_ref())),
    }
}

fn path_to(name: Option<String>) -> String {
    format!("{EARLIER_MESSAGE}{}", name.unwrap_or_default())
}

/// The result with a reference in place of what the tool returned.
pub(super) fn shrunk_result(tool: &ToolMessage) -> Message {
    let text = tool.content.to_model_text();
    let reference = format!(
        "[{} bytes {MOVED_OUT}; {PATH}{}\"}} to see them. They begin: {}]",
        text.len(),
        path_of(tool),
        one_line(&text, REFERENCE_EXCERPT_BYTES),
    );
    Message::Tool(ToolMessage {
        content: ToolResult::text(reference).into(),
        ..tool.clone()
    })
}

/// True for the text of a [`shrunk_result`].
pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with('[') && text.contains(MOVED_OUT)
}

/// A user's message with a reference in place of what is more than so many
/// bytes of text, and of what is attached.
pub(super) fn shrunk_user(user: &UserMessage, bytes: usize) -> UserMessage {
    let text = user.plain_text();
    let over = text.len().saturating_sub(bytes);
    let attached = user.attachments().map(|part| part.describe());
    let text_over = (over > 0).then(|| format!("{over} bytes"));
    let what: Vec<String> = text_over.into_iter().chain(attached).collect();
    let note = format!(
        "[{} were moved out of the context; {PATH}{}\"}} to see them]",
        what.join(", "),
        path_to(hash(&user.parts)),
    );
    let text = match over {
        0 => format!("{text}\n{note}"),
        _ => {
            let (start, end) = ends_of(&text, bytes);
            format!("{start}\n{note}\n{end}")
        }
    };
    UserMessage {
        parts: vec![UserPart::Text { text }],
        ..user.clone()
    }
}

/// The start and the end of a text, together of at most so many bytes, which
/// are fewer than it has. The start gets three quarters.
pub(super) fn ends_of(text: &str, bytes: usize) -> (&str, &str) {
    let start = text.get(..text.floor_char_boundary(bytes / 4 * 3));
    let end = text.len().saturating_sub(bytes / 4);
    let end = text.get(text.ceil_char_boundary(end)..);
    (start.unwrap_or_default(), end.unwrap_or_default())
}

/// The start of a text on one line.
pub(crate) fn one_line(text: &str, bytes: usize) -> String {
    let start = text.get(..text.floor_char_boundary(bytes)).unwrap_or(text);
    let words: Vec<&str> = start.split_whitespace().collect();
    let line = words.join(" ");
    match start.len() < text.len() {
        true => format!("{line} …"),
        false => line,
    }
}

/// The messages of one session, read from its log.
pub(crate) struct LoggedMessages {
    pub store: Arc<dyn SessionStore>,
    pub session_id: SessionId,
    pub head: u64,
}

#[async_trait]
impl EarlierMessages for LoggedMessages {
    /// From the newest page to the oldest: what was moved out of the context
    /// lately is found soon.
    async fn find(&self, id: &str) -> anyhow::Result<Option<Arc<Message>>> {
        let page = CATCH_UP_PAGE as u64;
        let mut end = self.head;
        while end > 0 {
            let mut after = end.saturating_sub(page);
            let start = after;
            let mut found = None;
            while after < end {
                let wanted = usize::try_from(end - after).unwrap_or(CATCH_UP_PAGE);
                let store = self.store.as_ref();
                let events = read_events(store, &self.session_id, after, wanted).await?;
                let Some(last) = events.last() else { break };
                after = last.sequence();
                found = events.iter().rev().find_map(|event| match &event.payload {
                    SessionEventPayload::MessageItem { message }
                        if name_of(message).as_deref() == Some(id) =>
                    {
                        Some(message.clone())
                    }
                    _ => None,
                });
                if found.is_some() {
                    break;
                }
            }
            if found.is_some() {
                return Ok(found);
            }
            end = start;
        }
        Ok(None)
    }
}
