//! OpenAI Responses.

mod check;
mod compaction;
mod encode;

use crate::codec::{Codec, Frame, ModelRequest, Place, Problem};
use crate::conversation::{Conversation, ToolResult};
use crate::fields;
use crate::model_answer::ModelAnswer;
use crate::openai;
use serde_json::{Value, json};

/// The wire.
pub(crate) struct Responses;

impl Codec for Responses {
    fn check(&self, request: &ModelRequest<'_>) -> Result<(), Problem> {
        check::check(request)
    }

    fn compaction(&self, request: &ModelRequest<'_>, input_tokens: u64) -> Option<Value> {
        let asked = request.compacting;
        asked.then(|| compaction::compacted(request.body, input_tokens))
    }

    fn conversation(&self, request: &ModelRequest<'_>) -> Conversation {
        conversation(request.body)
    }

    fn whole(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Value {
        encode::whole(answer, request.body)
    }

    fn frames(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Vec<Frame> {
        encode::frames(answer, request.body)
    }

    /// A server's fault fails the response; the others are an `error` event.
    fn error_frame(
        &self,
        problem: &Problem,
        request: &ModelRequest<'_>,
        request_id: &str,
    ) -> Frame {
        let code = openai::error_code(problem);
        if problem.status < 500 {
            let event = json!({
                "type": "error",
                "code": code,
                "message": problem.message,
                "param": problem.param,
                "sequence_number": 9_999,
            });
            return Frame::named("error", &event, Place::Last);
        }
        let model = fields::text(request.body, "model").unwrap_or_default();
        let event = json!({
            "type": "response.failed",
            "sequence_number": 9_999,
            "response": {
                "id": format!("resp_{request_id}"),
                "object": "response",
                "created_at": crate::model_answer::CREATED,
                "status": "failed",
                "model": model,
                "output": [],
                "error": {"code": code, "message": problem.message},
                "incomplete_details": null,
                "usage": null,
            },
        });
        Frame::named("response.failed", &event, Place::Last)
    }
}

/// Whether the model made an item, as far as this service can tell.
fn is_model_made(item: &Value) -> bool {
    match fields::kind(item) {
        "message" | "" => fields::text(item, "role") == Some("assistant"),
        kind => {
            !kind.ends_with("_output") && !matches!(kind, "item_reference" | "additional_tools")
        }
    }
}

fn conversation(body: &Value) -> Conversation {
    let mut conversation = Conversation::of_body(body, |tool| fields::text(tool, "name"));
    if let Some(text) = fields::text(body, "input") {
        conversation.push_user(text, 0);
    }
    for item in fields::items(body, "input") {
        let kind = fields::kind(item);
        if kind == "additional_tools" {
            let names = fields::items(item, "tools").iter();
            let names = names.filter_map(|tool| fields::text(tool, "name"));
            conversation.tools.extend(names.map(str::to_owned));
            continue;
        }
        if is_model_made(item) {
            let is_call =
                kind.ends_with("_call") && kind.contains("function") || kind == "custom_tool_call";
            conversation.push_assistant(usize::from(is_call));
        } else if kind.ends_with("_output") {
            let (text, images) = fields::content(item.get("output"));
            conversation.push_result(ToolResult { text, images });
        } else if fields::text(item, "role") == Some("user") {
            let (text, images) = fields::content(item.get("content"));
            conversation.push_user(&text, images);
        } else {
            conversation.push_note();
        }
    }
    conversation
}
