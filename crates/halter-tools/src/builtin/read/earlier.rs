//! Reading again what was said earlier in the session.

use super::{Page, ReadDeadline, ReadInput};
use crate::context::ToolContext;
use anyhow::{Context as _, bail};
use halter_protocol::{Message, ToolResult};
use std::io::Cursor;

/// The result for a message that was moved out of the context. Images and
/// documents come whole, with what else the tool returned.
pub(super) async fn look_up(
    context: &ToolContext,
    id: &str,
    input: &ReadInput,
    stop: &ReadDeadline<'_>,
) -> anyhow::Result<ToolResult> {
    let path = &input.path;
    let Some(message) = context.earlier.find(id).await? else {
        bail!(
            "this session has nothing under '{path}'; copy the whole path from where it was \
             named, or write ./{path} for a file of that name"
        );
    };
    let text = match message.as_ref() {
        Message::Tool(tool) if tool.content.attachments().next().is_some() => {
            return Ok(tool.content.as_ref().clone());
        }
        Message::User(user) if user.attachments().next().is_some() => {
            return Ok(ToolResult::parts(user.parts.iter().cloned()));
        }
        Message::Tool(tool) => tool.to_model_text(),
        Message::User(user) => user.plain_text(),
        Message::Assistant(assistant) => assistant.plain_text(),
        Message::System(system) => system.text.clone(),
        _ => String::new(),
    };
    let mut page = Page::new(input, context.policy.max_read_bytes());
    let sha256 = page
        .scan(Cursor::new(text.into_bytes()), stop)
        .with_context(|| format!("cannot read '{path}'"))?;
    page.into_result(path.clone(), &sha256, input.line_numbers)
}
