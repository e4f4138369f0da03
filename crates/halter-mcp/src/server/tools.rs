//! The agent as tools, and results as hosts read them.

use super::agent::{ServeError, SessionsPage, TaskReport};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halter_protocol::{ContentPart, ToolError, ToolResult, ToolSpec};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Gives the agent a task.
pub(super) const RUN_TASK: &str = "run_task";
/// Lists sessions to go on with.
pub(super) const LIST_SESSIONS: &str = "list_sessions";

/// The tools of every served agent.
pub(super) fn agent_tools() -> Vec<Tool> {
    let run = Tool::new(
        RUN_TASK,
        "Give the agent a task. It works with its own tools under the policy of this computer \
         and answers when it is done. The result names the session; give its id to go on with \
         what was said and done there.",
        object(json!({
            "type": "object",
            "properties": {
                "task": {"type": "string", "minLength": 1, "description": "What to do"},
                "session_id": {"type": "string", "description": "The session to go on with; a new one without it"},
                "model": {"type": "string", "description": "The model: default, small or subagent, or any as provider/model"},
                "timeout_secs": {"type": "integer", "minimum": 1, "description": "Cancel the task after so many seconds"},
            },
            "required": ["task"],
            "additionalProperties": false,
        })),
    )
    .with_raw_output_schema(object(json!({
        "type": "object",
        "properties": {
            "session_id": {"type": "string"},
            "answer": {"type": "string"},
            "usage": {"type": "object"},
        },
        "required": ["session_id", "answer", "usage"],
    })))
    .with_annotations(ToolAnnotations::from_raw(
        Some("Run a task".to_owned()),
        Some(false),
        Some(true),
        Some(false),
        Some(true),
    ));
    let list = Tool::new(
        LIST_SESSIONS,
        "List the agent's sessions, the most recently used first, to go on with one by run_task.",
        object(json!({
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most"},
                "cursor": {"type": "string", "description": "next_cursor of the page before"},
            },
            "additionalProperties": false,
        })),
    )
    .with_raw_output_schema(object(json!({
        "type": "object",
        "properties": {
            "sessions": {"type": "array", "items": {"type": "object"}},
            "next_cursor": {"type": "string"},
        },
        "required": ["sessions"],
    })))
    .with_annotations(ToolAnnotations::from_raw(
        Some("List sessions".to_owned()),
        Some(true),
        Some(false),
        Some(true),
        Some(false),
    ));
    vec![run, list]
}

/// A tool of the harness as hosts see it.
pub(super) fn own_tool(spec: &ToolSpec) -> Tool {
    let mutating = spec.capabilities.mutating;
    Tool::new(
        spec.name.to_string(),
        spec.description.clone(),
        object(spec.input_schema.clone()),
    )
    .with_annotations(ToolAnnotations::from_raw(
        None,
        Some(!mutating),
        Some(mutating),
        None,
        None,
    ))
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(fields) => Arc::new(fields),
        _ => Arc::default(),
    }
}

/// The result of a task.
pub(super) fn task_result(outcome: Result<TaskReport, ServeError>) -> CallToolResult {
    match outcome {
        Ok(report) => with_value(report.answer.clone(), &report),
        Err(error) => failure(&error),
    }
}

/// A page of sessions.
pub(super) fn sessions_result(outcome: Result<SessionsPage, ServeError>) -> CallToolResult {
    match outcome {
        Ok(page) => {
            let text = serde_json::to_string(&page).unwrap_or_default();
            with_value(text, &page)
        }
        Err(error) => failure(&error),
    }
}

fn with_value(text: String, value: &impl Serialize) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = serde_json::to_value(value).ok();
    result
}

/// What did not work, for the host's model to read.
pub(super) fn failure(error: &ServeError) -> CallToolResult {
    let mut told = json!({"code": error.code, "message": error.message});
    let mut text = format!("{}: {}", error.code, error.message);
    if let (Some(id), Some(fields)) = (&error.session_id, told.as_object_mut()) {
        fields.insert("session_id".to_owned(), json!(id));
        text.push_str(&format!(" (session {id})"));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({"error": told}));
    result
}

/// The result of a call of one of the harness's tools.
pub(super) fn call_result(
    outcome: Result<Result<Arc<ToolResult>, ToolError>, ServeError>,
) -> CallToolResult {
    let result = match outcome {
        Err(error) => return failure(&error),
        Ok(Err(error)) => return failure(&ServeError::new(error.code.as_str(), error.message)),
        Ok(Ok(result)) => result,
    };
    let content = match result.as_ref() {
        ToolResult::Parts { parts } => parts.iter().map(block).collect(),
        other => vec![ContentBlock::text(other.to_model_text())],
    };
    let mut told = CallToolResult::success(content);
    if let ToolResult::Json { value } = result.as_ref() {
        told.structured_content = Some(value.clone()).filter(Value::is_object);
    }
    told
}

/// A part that no host shows is described.
fn block(part: &ContentPart) -> ContentBlock {
    match part.media() {
        Some((kind, data)) if kind.starts_with("image/") => {
            ContentBlock::image(STANDARD.encode(data), kind)
        }
        _ => ContentBlock::text(part.describe()),
    }
}
