//! Sessions and events to test with.

use crate::{
    AppendBatch, DurabilityPolicy, EventRecord, SessionLog, SessionRecord, SessionStore,
    StoreError, WriterToken, read_events,
};
use halter_protocol::{
    EnvironmentSnapshot, Message, PendingEvent, ReplayMeta, SessionBlueprint, SessionEvent,
    SessionEventPayload, Timestamp, ToolCall, ToolExecutionOutcome, ToolMessage, ToolResult,
    TurnId, Usage, UserMessage,
};
use serde_json::json;
use std::sync::Arc;

/// A blueprint for tests: `working_dir` is `/work`, times are fixed.
pub fn blueprint(id: &str) -> SessionBlueprint {
    SessionBlueprint {
        session_id: id.into(),
        parent_session_id: None,
        created_at: at(0),
        working_dir: "/work".into(),
        default_model: "default".into(),
        system_prompt: Vec::new(),
        environment: EnvironmentSnapshot::default(),
        instructions: Vec::new(),
        snapshot_revision: "empty".into(),
        tools_revision: None,
        max_turns: None,
        bounds: Default::default(),
        subagent_model: None,
        subagent_event_forwarding: Default::default(),
        subagent: None,
        budget: Default::default(),
    }
}

/// A pending event of session `id` at second `second`.
pub fn pending(id: &str, second: i64, payload: SessionEventPayload) -> PendingEvent {
    PendingEvent::new(id.into(), at(second), payload)
}

/// A turn of seven events with one tool call that returned `output`.
pub fn turn(number: usize, output: ToolResult) -> Vec<SessionEventPayload> {
    let turn_id = TurnId(format!("turn_{number}"));
    let output = Arc::new(output);
    let call = ToolCall {
        id: format!("call_{number}").as_str().into(),
        name: "shell".into(),
        arguments: json!({"command": "ls", "ratio": 0.1 + number as f64}),
    };
    vec![
        SessionEventPayload::TurnStarted {
            turn_id: turn_id.clone(),
            response_schema: None,
        },
        user(&format!("question {number}")),
        assistant(&call),
        SessionEventPayload::ToolExecutionStarted { call: call.clone() },
        SessionEventPayload::ToolExecutionCompleted {
            outcome: ToolExecutionOutcome::new(call.clone(), Ok(output.clone())),
        },
        SessionEventPayload::MessageItem {
            message: Arc::new(Message::Tool(ToolMessage {
                id: "msg_result".into(),
                call_id: call.id,
                tool_name: call.name,
                content: output,
                error: None,
                created_at: at(0),
                loaded: Vec::new(),
            })),
        },
        SessionEventPayload::TurnCompleted {
            turn_id,
            usage: Usage::default(),
            structured_output: None,
            answered_by: ReplayMeta::default(),
        },
    ]
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub(super) fn user(text: &str) -> SessionEventPayload {
    let mut message = UserMessage::text(text);
    message.created_at = at(0);
    SessionEventPayload::MessageItem {
        message: Arc::new(Message::User(message)),
    }
}

fn assistant(call: &ToolCall) -> SessionEventPayload {
    let message = json!({
        "role": "assistant", "id": "msg_a", "created_at": at(0),
        "parts": [
            {"kind": "text", "text": "let me see"},
            {"kind": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments},
        ],
        "usage": {"buckets": {"uncached_input": 7, "output": 3}},
    });
    SessionEventPayload::MessageItem {
        message: Arc::new(serde_json::from_value(message).unwrap()),
    }
}

pub(super) fn lines(sequences: impl IntoIterator<Item = u64>) -> AppendBatch {
    AppendBatch {
        events: sequences
            .into_iter()
            .map(|sequence| EventRecord {
                sequence,
                json: format!("{{\"line\":{sequence}}}").into(),
            })
            .collect(),
        ..AppendBatch::default()
    }
}

pub(super) async fn create(store: &dyn SessionStore, id: &str) -> WriterToken {
    let record = SessionRecord::new(blueprint(id));
    store.create(record).await.unwrap()
}

pub(super) async fn new_log(store: &Arc<dyn SessionStore>, id: &str) -> SessionLog {
    let policy = DurabilityPolicy::Process;
    SessionLog::create(store.clone(), blueprint(id), policy)
        .await
        .unwrap()
}

pub(super) async fn open_log(
    store: &Arc<dyn SessionStore>,
    id: &str,
) -> Result<SessionLog, StoreError> {
    SessionLog::open(store.clone(), &id.into(), DurabilityPolicy::Process).await
}

pub(super) async fn all_events(store: &dyn SessionStore, id: &str) -> Vec<SessionEvent> {
    let mut events: Vec<SessionEvent> = Vec::new();
    loop {
        let head = events.last().map_or(0, SessionEvent::sequence);
        let page = read_events(store, &id.into(), head, 100).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}
