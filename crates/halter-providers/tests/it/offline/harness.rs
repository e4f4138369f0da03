//! A harness small enough to read: it answers tool calls with canned results
//! until the offline model has answered.

use crate::support::{assemble, assert_well_formed, assistant, events, request, user};
use halter_protocol::{
    Message, StopReason, Timestamp, ToolCapabilities, ToolConcurrency, ToolError, ToolErrorCode,
    ToolMessage, ToolResult, ToolSpec,
};
use halter_providers::limits::OFFLINE_STEPS;
use halter_providers::offline::OFFLINE_NOTE;
use halter_providers::{OfflineProvider, ProviderRequest, check_pairing};
use serde_json::{Value, json};

pub const TOOLS: [&str; 8] = [
    "read", "glob", "grep", "write", "edit", "shell", "process", "task",
];

pub type Outcome = Result<Value, ToolError>;

pub fn denied(message: &str) -> Outcome {
    Err(ToolError::new(ToolErrorCode::PolicyDenied, message))
}

pub fn failed(message: &str) -> Outcome {
    Err(ToolError::new(ToolErrorCode::Failed, message))
}

pub fn with_tools(mut request: ProviderRequest, tools: &[&str]) -> ProviderRequest {
    request.tools = tools
        .iter()
        .map(|name| ToolSpec {
            name: (*name).into(),
            description: format!("the tool {name}"),
            input_schema: json!({"type": "object"}),
            concurrency: ToolConcurrency::default(),
            capabilities: ToolCapabilities::default(),
            provider_aliases: Default::default(),
        })
        .collect();
    request
}

pub fn result(call_id: &str, tool: &str, outcome: Outcome) -> Message {
    returned(call_id, tool, outcome.map(ToolResult::json))
}

fn returned(call_id: &str, tool: &str, outcome: Result<ToolResult, ToolError>) -> Message {
    let (content, error) = match outcome {
        Ok(content) => (content, None),
        Err(error) => (ToolResult::Empty, Some(error)),
    };
    Message::Tool(ToolMessage {
        id: format!("msg_{call_id}").as_str().into(),
        call_id: call_id.into(),
        tool_name: tool.into(),
        content: content.into(),
        error,
        created_at: Timestamp::UNIX_EPOCH,
        loaded: Vec::new(),
    })
}

/// What a conversation came to: the calls of each step, and the last words.
pub struct Conversation {
    pub steps: Vec<Vec<String>>,
    pub answer: String,
}

pub async fn converse(
    said: &str,
    tools: &[&str],
    respond: impl Fn(&str, &Value) -> Outcome,
) -> Conversation {
    converse_with(said, tools, |tool, input| {
        respond(tool, input).map(ToolResult::json)
    })
    .await
}

/// The same with results of every kind.
pub async fn converse_with(
    said: &str,
    tools: &[&str],
    respond: impl Fn(&str, &Value) -> Result<ToolResult, ToolError>,
) -> Conversation {
    let model = OfflineProvider::new();
    let mut asked = with_tools(request([user(said)]), tools);
    let mut steps = Vec::new();
    loop {
        check_pairing(&asked.messages).unwrap();
        let stream = events(&model, asked.clone()).await;
        assert_well_formed(&stream);
        let (parts, stop) = assemble(&stream);
        let Message::Assistant(message) = assistant(parts) else {
            unreachable!()
        };
        let calls: Vec<_> = message.tool_calls().collect();
        let text = message.plain_text();
        asked.messages.push(Message::Assistant(message));
        if calls.is_empty() {
            assert_eq!(stop, StopReason::EndTurn);
            assert!(text.ends_with(OFFLINE_NOTE), "{text}");
            return Conversation {
                steps,
                answer: text,
            };
        }
        assert_eq!(stop, StopReason::ToolUse);
        steps.push(
            calls
                .iter()
                .map(|call| format!("{} {}", call.name, call.arguments))
                .collect(),
        );
        assert!(steps.len() <= OFFLINE_STEPS, "it goes on and on: {steps:?}");
        for call in calls {
            assert!(
                tools.contains(&call.name.as_str()),
                "{} is not on offer",
                call.name
            );
            let outcome = respond(call.name.as_str(), &call.arguments);
            asked
                .messages
                .push(returned(call.id.as_str(), call.name.as_str(), outcome));
        }
    }
}

pub fn matches(paths: &[&str]) -> Value {
    let matches: Vec<Value> = paths
        .iter()
        .map(|path| json!({"path": path, "file_type": "file"}))
        .collect();
    json!({"total_matches": matches.len(), "matches": matches})
}
