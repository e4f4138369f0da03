//! Anthropic Messages.

mod check;
mod compaction;
mod encode;

use crate::codec::{Codec, Frame, ModelRequest, Place, Problem};
use crate::conversation::{Conversation, ToolResult};
use crate::fields;
use crate::model_answer::{ModelAnswer, StopKind};
use crate::models::ModelEntry;
use crate::wire::Dialect;
use serde_json::{Value, json};

/// The wire.
pub(crate) struct Anthropic;

impl Codec for Anthropic {
    fn authenticate<'a>(&self, request: &ModelRequest<'a>) -> Result<Option<&'a str>, Problem> {
        request
            .header("x-api-key")
            .or_else(|| request.bearer())
            .map(Some)
            .ok_or_else(|| Problem::new(401, "x-api-key header is required"))
    }

    fn check(&self, request: &ModelRequest<'_>) -> Result<(), Problem> {
        check::check(request)
    }

    fn compaction(&self, request: &ModelRequest<'_>, input_tokens: u64) -> Option<Value> {
        let asked = fields::present(request.body, "compaction").is_some();
        asked.then(|| compaction::compacted(request.body, input_tokens))
    }

    fn conversation(&self, request: &ModelRequest<'_>) -> Conversation {
        conversation(request.body)
    }

    fn whole(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Value {
        if request.body.get("max_tokens").and_then(Value::as_u64) == Some(0) {
            // Nothing is said: the request only fills the cache.
            let mut silent = answer.clone();
            silent.parts.clear();
            silent.stop = StopKind::MaxTokens;
            return encode::whole(&silent, request.body);
        }
        encode::whole(answer, request.body)
    }

    fn frames(&self, answer: &ModelAnswer, request: &ModelRequest<'_>) -> Vec<Frame> {
        encode::frames(answer, request.body)
    }

    fn error_body(&self, problem: &Problem, _dialect: Dialect, request_id: &str) -> Value {
        let mut error = json!({"type": error_type(problem), "message": problem.message});
        if let (Some(code), Some(error)) = (&problem.code, error.as_object_mut()) {
            error.insert("details".to_owned(), json!({"error_code": code}));
        }
        json!({"type": "error", "error": error, "request_id": request_id})
    }

    fn error_frame(
        &self,
        problem: &Problem,
        request: &ModelRequest<'_>,
        request_id: &str,
    ) -> Frame {
        let body = self.error_body(problem, request.dialect, request_id);
        Frame::named("error", &body, Place::Last)
    }

    fn token_count(&self, tokens: u64) -> Value {
        json!({"input_tokens": tokens})
    }

    fn model(&self, entry: &ModelEntry) -> Value {
        let supported = json!({"supported": true});
        json!({
            "type": "model",
            "id": entry.id,
            "display_name": entry.id,
            "created_at": "2026-10-21T00:00:00Z",
            "max_input_tokens": entry.input_tokens,
            "max_tokens": entry.output_tokens,
            "capabilities": {
                "batch": supported,
                "citations": supported,
                "code_execution": supported,
                "context_management": supported,
                "effort": {"supported": true, "low": supported, "medium": supported, "high": supported},
                "image_input": supported,
                "pdf_input": supported,
                "structured_outputs": supported,
                "thinking": {"supported": true, "types": {"adaptive": supported, "enabled": supported}},
            },
        })
    }

    fn model_list(&self, entries: &[ModelEntry]) -> Value {
        let data: Vec<_> = entries.iter().map(|entry| self.model(entry)).collect();
        json!({
            "data": data,
            "has_more": false,
            "first_id": entries.first().map(|entry| &entry.id),
            "last_id": entries.last().map(|entry| &entry.id),
        })
    }
}

fn error_type(problem: &Problem) -> &str {
    match (&problem.kind, problem.status) {
        (Some(kind), _) => kind,
        (None, 401) => "authentication_error",
        (None, 402) => "billing_error",
        (None, 403) => "permission_error",
        (None, 404) => "not_found_error",
        (None, 409) => "conflict_error",
        (None, 413) => "request_too_large",
        (None, 429) => "rate_limit_error",
        (None, 504) => "timeout_error",
        (None, 529) => "overloaded_error",
        (None, 500..) => "api_error",
        (None, _) => "invalid_request_error",
    }
}

fn conversation(body: &Value) -> Conversation {
    let mut conversation = Conversation::of_body(body, |tool| fields::text(tool, "name"));
    // A model sees a deferred tool where a result refers to it.
    let referenced = references(body);
    for tool in fields::items(body, "tools") {
        let name = fields::text(tool, "name").unwrap_or_default();
        if fields::flag(tool, "defer_loading") && !referenced.contains(&name) {
            conversation.tools.retain(|known| known != name);
        }
    }
    for message in fields::items(body, "messages") {
        match fields::text(message, "role") {
            Some("assistant") => {
                let calls = fields::items(message, "content")
                    .iter()
                    .filter(|block| fields::kind(block) == "tool_use")
                    .count();
                conversation.push_assistant(calls);
            }
            Some("user") => push_user(&mut conversation, message),
            _ => {}
        }
    }
    conversation
}

fn push_user(conversation: &mut Conversation, message: &Value) {
    for block in fields::items(message, "content") {
        if fields::kind(block) == "tool_result" {
            let (text, images) = fields::content(block.get("content"));
            conversation.push_result(ToolResult { text, images });
        }
    }
    let (text, images) = fields::content(message.get("content"));
    conversation.push_user(&text, images);
}

/// The names of the tools that results refer to.
fn references(body: &Value) -> Vec<&str> {
    let messages = fields::items(body, "messages").iter();
    let blocks = messages.flat_map(|message| fields::items(message, "content"));
    let results = blocks.filter(|block| fields::kind(block) == "tool_result");
    let parts = results.flat_map(|result| fields::items(result, "content"));
    let references = parts.filter(|part| fields::kind(part) == "tool_reference");
    references
        .filter_map(|part| fields::text(part, "tool_name"))
        .collect()
}
