//! An answer goes back to the model that wrote it as it was written.

use super::{blocks, body, decoded, model};
use crate::support::{assistant, user};
use halter_protocol::{
    AssistantMessage, AssistantPart, Message, OpaquePart, ReplayMeta, StopReason, StreamEvent,
    Timestamp, ToolMessage, ToolResult,
};
use halter_providers::wire::RequestSettings;
use serde_json::{Map, Value, json};

const MODEL: &str = "claude-opus-4-8";

/// The message that a harness makes of an answer.
fn answered(stream: &str, model: &str) -> Message {
    let (events, _) = decoded(stream);
    let mut parts: Vec<AssistantPart> = Vec::new();
    let mut text = String::new();
    let mut call = None;
    let mut stop = None;
    for event in events {
        match event {
            StreamEvent::TextDelta { delta, .. }
            | StreamEvent::ThinkingDelta { delta, .. }
            | StreamEvent::ToolArgsDelta { delta, .. } => text.push_str(&delta),
            StreamEvent::ToolCallStart {
                tool_call_id, name, ..
            } => call = Some((tool_call_id, name)),
            StreamEvent::TextEnd { opaque, .. } => {
                let text = std::mem::take(&mut text);
                if !text.is_empty() || opaque.is_some() {
                    parts.push(AssistantPart::Text { text, opaque });
                }
            }
            StreamEvent::ThinkingEnd { opaque, .. } => parts.push(AssistantPart::Thinking {
                text: std::mem::take(&mut text),
                opaque,
            }),
            StreamEvent::ToolCallEnd { opaque, .. } => {
                let (id, name) = call.take().unwrap();
                let written = std::mem::take(&mut text);
                let parsed = serde_json::from_str(&written).ok().filter(Value::is_object);
                let malformed = parsed.is_none() && !written.is_empty();
                parts.push(AssistantPart::ToolCall {
                    id,
                    name,
                    arguments: parsed.unwrap_or(Value::Object(Map::new())),
                    malformed_arguments: malformed.then_some(written),
                    opaque,
                });
            }
            StreamEvent::MessageEnd { stop_reason, .. } => stop = Some(stop_reason),
            _ => {}
        }
    }
    Message::Assistant(AssistantMessage {
        id: "msg_1".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts,
        stop_reason: stop,
        usage: None,
        replay_meta: ReplayMeta {
            provider_name: Some("anthropic".into()),
            model: Some(model.to_owned()),
        },
    })
}

fn results(message: &Message) -> Vec<Message> {
    let calls = message.as_assistant().unwrap().tool_calls();
    calls
        .map(|call| {
            Message::Tool(ToolMessage {
                id: "msg_tool".into(),
                call_id: call.id,
                tool_name: call.name,
                content: ToolResult::text("ok").into(),
                error: None,
                created_at: Timestamp::UNIX_EPOCH,
                loaded: Vec::new(),
            })
        })
        .collect()
}

/// The JSON text of the assistant's blocks when it is sent back to `to`.
fn sent_back(stream: &str, from: &str, to: &str) -> String {
    let answer = answered(stream, from);
    let mut messages = vec![user("go"), answer.clone()];
    messages.extend(results(&answer));
    messages.push(user("on"));
    let encoded = super::encoder(&model(to), &messages)
        .body(&RequestSettings::default())
        .unwrap();
    let json = String::from_utf8(encoded.json).unwrap();
    let (_, after) = json
        .split_once(r#"{"role":"assistant","content":["#)
        .unwrap();
    let (blocks, _) = after.split_once(r#"]},{"role":"user""#).unwrap();
    blocks.to_owned()
}

#[test]
fn signatures_and_sealed_reasoning_return_byte_for_byte() {
    assert_eq!(
        sent_back("thinking", MODEL, MODEL),
        r#"{"type":"thinking","thinking":"Let me see.","signature":"EqQBCgIYAhIM+/=="},{"type":"text","text":"42"}"#
    );
    assert_eq!(
        sent_back("sealed_thinking", MODEL, MODEL),
        r#"{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3p=="},{"type":"thinking","thinking":"","signature":"only-a-signature"},{"type":"text","text":"Done."}"#
    );
}

#[test]
fn arguments_keep_their_own_spelling() {
    assert_eq!(
        sent_back("parallel_tools", MODEL, MODEL),
        r#"{"type":"text","text":"Two files."},{"type":"tool_use","id":"toolu_01","name":"read","input":{"path": "a.rs", "line": 1.0},"caller":{"type":"direct"}},{"type":"tool_use","id":"toolu_02","name":"read","input":{"path": "b.rs"}},{"type":"tool_use","id":"toolu_03","name":"status","input":{}}"#
    );
}

#[test]
fn malformed_arguments_are_sent_as_an_empty_object() {
    assert_eq!(
        sent_back("malformed_arguments", MODEL, MODEL),
        r#"{"type":"tool_use","id":"toolu_01","name":"read","input":{}},{"type":"tool_use","id":"toolu_02","name":"read","input":{}}"#
    );
}

#[test]
fn citations_server_blocks_and_unknown_ones_return() {
    assert_eq!(
        sent_back("citations", MODEL, MODEL),
        r#"{"type":"text","text":"Grass is green","citations":[{"type":"char_location","cited_text":"The grass is green.","document_index":0,"document_title":"facts","start_char_index":0,"end_char_index":19},{"type":"web_search_result_location","cited_text":"green","encrypted_index":"Eo8B==","title":null,"url":"https://example.com/"}]},{"type":"text","text":" and the sky is blue."}"#
    );
    assert_eq!(
        sent_back("server_tools_paused", MODEL, MODEL),
        r#"{"type":"server_tool_use","id":"srvtoolu_01","name":"web_search","input":{"query": "rust"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_01","content":[{"type":"web_search_result","url":"https://example.com/","title":"Rust","encrypted_content":"Eo8B==","page_age":null}]}"#
    );
    // The third block had a delta that nobody here understands: it is not
    // whole, so it is not sent.
    assert_eq!(
        sent_back("unknown_things", MODEL, MODEL),
        r#"{"type":"hologram","beams":[1, 2.50],"nested":{"b":1,"a":2}},{"type":"text","text":"ab","mood":"calm"}"#
    );
}

#[test]
fn another_model_gets_the_neutral_form() {
    let other = "claude-sonnet-5";
    assert_eq!(
        sent_back("thinking", MODEL, other),
        r#"{"type":"text","text":"42"}"#
    );
    assert_eq!(
        sent_back("parallel_tools", MODEL, other),
        r#"{"type":"text","text":"Two files."},{"type":"tool_use","id":"toolu_01","name":"read","input":{"path":"a.rs","line":1.0}},{"type":"tool_use","id":"toolu_02","name":"read","input":{"path":"b.rs"}},{"type":"tool_use","id":"toolu_03","name":"status","input":{}}"#
    );
    assert_eq!(
        sent_back("citations", MODEL, other),
        r#"{"type":"text","text":"Grass is green"},{"type":"text","text":" and the sky is blue."}"#
    );
}

fn said(parts: Vec<AssistantPart>, stop_reason: Option<StopReason>) -> Message {
    let mut message = assistant(parts);
    if let Message::Assistant(message) = &mut message {
        message.replay_meta.model = Some(MODEL.to_owned());
        message.stop_reason = stop_reason;
    }
    message
}

fn thinking(wire: &str, data: &str) -> AssistantPart {
    AssistantPart::Thinking {
        text: "hm".to_owned(),
        opaque: Some(OpaquePart {
            wire: wire.to_owned(),
            data: data.into(),
        }),
    }
}

const SIGNED: &str = r#"{"type":"thinking","thinking":"hm","signature":"s"}"#;

#[test]
fn opaque_data_of_other_wires_and_broken_data_are_left_out() {
    for part in [
        thinking("responses", SIGNED),
        thinking("anthropic", "not json"),
        thinking("anthropic", "[1]"),
        thinking("anthropic", r#"{"type":"thinking","thinking":"hm"}"#),
        thinking(
            "anthropic",
            r#"{"type":"thinking","thinking":"hm","signature":""}"#,
        ),
    ] {
        let messages = [
            user("go"),
            said(vec![part, AssistantPart::text("x")], None),
            user("on"),
        ];
        assert_eq!(
            blocks(&body(&model(MODEL), &messages))[1],
            ("assistant".to_owned(), json!({"type": "text", "text": "x"}))
        );
    }
}

#[test]
fn reasoning_at_the_end_of_a_broken_answer_is_left_out() {
    let sent = |parts, stop| {
        let messages = [user("go"), said(parts, stop), user("on")];
        blocks(&body(&model(MODEL), &messages)).len()
    };
    let signed = || thinking("anthropic", SIGNED);
    let text = || AssistantPart::text("x");
    assert_eq!(sent(vec![signed(), text()], None), 4);
    assert_eq!(sent(vec![signed(), text(), signed()], None), 4);
    assert_eq!(sent(vec![signed()], None), 2);
    assert_eq!(sent(vec![signed(), AssistantPart::text("\n\n")], None), 2);
    let paused = Some(StopReason::Unknown("pause_turn".into()));
    assert_eq!(sent(vec![signed(), text(), signed()], paused), 5);
}

#[test]
fn a_budget_model_does_not_reason_in_a_turn_that_another_began() {
    let mut haiku = model("claude-haiku-4-5");
    haiku.reasoning = Some(halter_protocol::ReasoningEffort::Low);
    let reasons = |messages: &[Message]| body(&haiku, messages).get("thinking").is_some();
    let call = crate::support::assistant_calls(&["a"]);
    let mut messages = vec![user("go"), call, crate::support::tool_result("a")];
    assert!(!reasons(&messages));
    messages.push(assistant(vec![AssistantPart::text("done")]));
    messages.push(user("next"));
    assert!(reasons(&messages));
}
