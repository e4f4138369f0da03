//! Chat Completions: OpenAI's, and the dialects of compatible servers.

mod check;
mod encode;
mod reasoning;

use crate::codec::{Codec, Frame, ModelRequest, Place, Problem};
use crate::conversation::{Conversation, ToolResult};
use crate::fields;
use crate::model_answer::ModelAnswer;
use crate::openai;
use crate::wire::Dialect;
use serde_json::{Value, json};

/// The wire.
pub(crate) struct Chat;

impl Codec for Chat {
    fn check(&self, request: &ModelRequest<'_>) -> Result<(), Problem> {
        check::check(request)
    }

    fn conversation(&self, request: &ModelRequest<'_>) -> Conversation {
        conversation(request.body)
    }

    fn whole(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Value {
        encode::whole(answer, request)
    }

    fn frames(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Vec<Frame> {
        encode::frames(answer, request)
    }

    fn error_frame(
        &self,
        problem: &Problem,
        request: &ModelRequest<'_>,
        request_id: &str,
    ) -> Frame {
        let mut event = openai::error_body(problem, request.dialect);
        if let (Dialect::OpenRouter, Some(object)) = (request.dialect, event.as_object_mut()) {
            object.insert("id".to_owned(), json!(request_id));
            object.insert("object".to_owned(), json!("chat.completion.chunk"));
            object.insert(
                "choices".to_owned(),
                json!([{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]),
            );
        }
        Frame::data(&event, Place::Last)
    }
}

/// What a tool or a call is about, under the name of its type.
fn definition(tool: &Value) -> Option<&Value> {
    tool.get(fields::kind(tool))
}

fn conversation(body: &Value) -> Conversation {
    let mut conversation =
        Conversation::of_body(body, |tool| fields::text(definition(tool)?, "name"));
    for message in fields::items(body, "messages") {
        let (text, images) = fields::content(message.get("content"));
        match fields::text(message, "role") {
            Some("assistant") => {
                conversation.push_assistant(fields::items(message, "tool_calls").len());
            }
            Some("tool") => conversation.push_result(ToolResult { text, images }),
            Some("user") => conversation.push_user(&text, images),
            _ => conversation.push_note(),
        }
    }
    conversation
}
