//! Messages, requests and whole answers for the tests of this crate.

use futures::StreamExt as _;
use halter_protocol::{
    AssembledPrompt, AssistantMessage, AssistantPart, Message, ProviderError, ProviderKind,
    ReplayMeta, ResolvedModel, StopReason, StreamEvent, Timestamp, ToolMessage, ToolResult,
    Transcript, UserMessage, UserPart,
};
use halter_providers::{Provider, ProviderRequest};
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub fn user(text: &str) -> Message {
    Message::User(UserMessage {
        id: "msg_user".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts: vec![UserPart::Text {
            text: text.to_owned(),
        }],
    })
}

pub fn system(text: &str) -> Message {
    let message = json!({
        "role": "system",
        "id": "msg_system",
        "created_at": Timestamp::UNIX_EPOCH,
        "text": text,
    });
    serde_json::from_value(message).unwrap()
}

pub fn assistant(parts: Vec<AssistantPart>) -> Message {
    Message::Assistant(AssistantMessage {
        id: "msg_assistant".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts,
        stop_reason: None,
        usage: None,
        replay_meta: ReplayMeta::default(),
    })
}

pub fn assistant_calls(ids: &[&str]) -> Message {
    let calls = ids.iter().map(|id| AssistantPart::ToolCall {
        id: (*id).into(),
        name: "read".into(),
        arguments: json!({"path": id}),
        malformed_arguments: None,
        opaque: None,
    });
    assistant(calls.collect())
}

pub fn tool_result(call_id: &str) -> Message {
    Message::Tool(ToolMessage {
        id: "msg_tool".into(),
        call_id: call_id.into(),
        tool_name: "read".into(),
        content: ToolResult::Empty.into(),
        error: None,
        created_at: Timestamp::UNIX_EPOCH,
        loaded: Vec::new(),
    })
}

pub fn request(messages: impl IntoIterator<Item = Message>) -> ProviderRequest {
    ProviderRequest {
        session_id: "ses_1".into(),
        turn_id: "turn_1".into(),
        model: ResolvedModel {
            id: "default".into(),
            provider: "fake".into(),
            provider_kind: ProviderKind::Custom,
            model: "m-1".to_owned(),
            max_input_tokens: None,
            max_output_tokens: None,
            reasoning: None,
            tokens_per_minute: None,
        },
        prompt: AssembledPrompt::default(),
        messages: messages.into_iter().collect::<Transcript>(),
        tools: Arc::from([]),
        response_schema: None,
        purpose: halter_providers::RequestPurpose::default(),
        attempts: None,
        loaded_tools: Arc::default(),
    }
}

/// Everything a provider says to a request; a failure to start is the first
/// item.
pub async fn answer(
    provider: &dyn Provider,
    request: ProviderRequest,
) -> Vec<Result<StreamEvent, ProviderError>> {
    match provider.stream(request, CancellationToken::new()).await {
        Ok(stream) => stream.collect().await,
        Err(error) => vec![Err(error.downcast::<ProviderError>().unwrap())],
    }
}

/// The answer to a request that must not fail.
pub async fn events(provider: &dyn Provider, request: ProviderRequest) -> Vec<StreamEvent> {
    let items = answer(provider, request).await;
    items.into_iter().map(Result::unwrap).collect()
}

/// An answer in one line per event, without ids: `text "hello"`.
pub fn outline(items: &[Result<StreamEvent, ProviderError>]) -> Vec<String> {
    items
        .iter()
        .map(|item| match item {
            Err(error) => format!("error {}: {error}", error.kind),
            Ok(StreamEvent::MessageStart { .. }) => "start".to_owned(),
            Ok(StreamEvent::TextStart { .. }) => "text {".to_owned(),
            Ok(StreamEvent::ThinkingStart { .. }) => "thinking {".to_owned(),
            Ok(StreamEvent::ToolCallStart { name, .. }) => format!("call {name} {{"),
            Ok(
                StreamEvent::TextDelta { delta, .. }
                | StreamEvent::ThinkingDelta { delta, .. }
                | StreamEvent::ToolArgsDelta { delta, .. },
            ) => delta.clone(),
            Ok(
                StreamEvent::TextEnd { .. }
                | StreamEvent::ThinkingEnd { .. }
                | StreamEvent::ToolCallEnd { .. },
            ) => "}".to_owned(),
            Ok(StreamEvent::UsageUpdate { usage }) => {
                format!("usage {}/{}", usage.input_tokens, usage.output_tokens)
            }
            Ok(StreamEvent::MessageEnd { stop_reason, .. }) => format!("end {stop_reason}"),
            Ok(StreamEvent::ProviderWarning { message }) => format!("warning {message}"),
            Ok(other) => format!("{other:?}"),
        })
        .collect()
}

/// The complete parts of an answer and why it ended.
pub fn assemble(events: &[StreamEvent]) -> (Vec<AssistantPart>, StopReason) {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut call = None;
    for event in events {
        match event {
            StreamEvent::TextDelta { delta, .. }
            | StreamEvent::ThinkingDelta { delta, .. }
            | StreamEvent::ToolArgsDelta { delta, .. } => text.push_str(delta),
            StreamEvent::ToolCallStart {
                tool_call_id, name, ..
            } => call = Some((tool_call_id.clone(), name.clone())),
            StreamEvent::TextEnd { .. } => {
                parts.push(AssistantPart::text(std::mem::take(&mut text)))
            }
            StreamEvent::ThinkingEnd { .. } => parts.push(AssistantPart::Thinking {
                text: std::mem::take(&mut text),
                opaque: None,
            }),
            StreamEvent::ToolCallEnd { .. } => {
                let (id, name) = call.take().unwrap();
                parts.push(AssistantPart::ToolCall {
                    id,
                    name,
                    arguments: serde_json::from_str(&std::mem::take(&mut text)).unwrap(),
                    malformed_arguments: None,
                    opaque: None,
                });
            }
            StreamEvent::MessageEnd { stop_reason, .. } => return (parts, stop_reason.clone()),
            _ => {}
        }
    }
    panic!("the answer has no end: {events:?}");
}

/// Panics unless the events follow the grammar of an answer: one start, each
/// block opened, grown and closed by its own events, one end, nothing after.
pub fn assert_well_formed(events: &[StreamEvent]) {
    let mut open: Option<(&str, &str)> = None;
    let mut seen = std::collections::HashSet::new();
    assert!(
        matches!(events.first(), Some(StreamEvent::MessageStart { .. })),
        "{events:?}"
    );
    assert!(
        matches!(events.last(), Some(StreamEvent::MessageEnd { .. })),
        "{events:?}"
    );
    for event in &events[1..events.len() - 1] {
        match event {
            StreamEvent::TextStart { id }
            | StreamEvent::ThinkingStart { id }
            | StreamEvent::ToolCallStart { id, .. } => {
                assert_eq!(open, None, "a block starts inside another");
                assert!(seen.insert(id.as_str()), "block id used twice");
                let kind = match event {
                    StreamEvent::TextStart { .. } => "text",
                    StreamEvent::ThinkingStart { .. } => "thinking",
                    _ => "call",
                };
                open = Some((kind, id.as_str()));
            }
            StreamEvent::TextDelta { id, .. } => assert_eq!(open, Some(("text", id.as_str()))),
            StreamEvent::ThinkingDelta { id, .. } => {
                assert_eq!(open, Some(("thinking", id.as_str())));
            }
            StreamEvent::ToolArgsDelta { id, .. } => assert_eq!(open, Some(("call", id.as_str()))),
            StreamEvent::TextEnd { id, .. } => {
                assert_eq!(open.take(), Some(("text", id.as_str())));
            }
            StreamEvent::ThinkingEnd { id, .. } => {
                assert_eq!(open.take(), Some(("thinking", id.as_str())));
            }
            StreamEvent::ToolCallEnd { id, .. } => {
                assert_eq!(open.take(), Some(("call", id.as_str())));
            }
            StreamEvent::UsageUpdate { .. } | StreamEvent::ProviderWarning { .. } => {}
            other => panic!("out of place: {other:?}"),
        }
    }
    assert_eq!(open, None, "a block never ends");
}
