//! Requests as they are sent.

use super::{WIRE, assert_acceptable, blocks, body, encoder, model, prompt, tool};
use crate::support::{assistant, assistant_calls, system, tool_result, user};
use crate::wire_kit::assert_golden;
use halter_protocol::{
    AssembledPrompt, AssistantPart, Message, ProviderErrorKind, ProviderKind, ReasoningEffort,
    ResolvedModel, Timestamp, ToolError, ToolErrorCode, ToolMessage, ToolResult, UserMessage,
    UserPart,
};
use halter_providers::wire::anthropic::{Anthropic, limits::CACHE_MARKS};
use halter_providers::wire::{ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};
use std::sync::Arc;

fn golden(name: &str, model: &ResolvedModel, messages: &[Message]) {
    let body = body(model, messages);
    assert_acceptable(&body);
    assert_golden(&format!("{WIRE}/requests/{name}"), &format!("{body:#}\n"));
}

fn result(call_id: &str, content: ToolResult, error: Option<ToolError>) -> Message {
    Message::Tool(ToolMessage {
        id: "msg_tool".into(),
        call_id: call_id.into(),
        tool_name: "read".into(),
        content: content.into(),
        error,
        created_at: Timestamp::UNIX_EPOCH,
        loaded: Vec::new(),
    })
}

fn parts(parts: Vec<UserPart>) -> Message {
    Message::User(UserMessage {
        id: "msg_user".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts,
    })
}

fn image(media_type: &str) -> UserPart {
    UserPart::Image {
        media_type: media_type.to_owned(),
        data: Arc::from(*b"\x89PNG"),
    }
}

fn document(media_type: &str, data: &[u8]) -> UserPart {
    UserPart::Document {
        media_type: media_type.to_owned(),
        data: Arc::from(data),
    }
}

#[test]
fn a_first_request() {
    golden(
        "first",
        &model("claude-opus-4-8"),
        &[user("Hello \"you\"\n✓")],
    );
}

#[test]
fn a_step_with_parallel_tools_steering_and_a_note() {
    let failed = ToolError::new(ToolErrorCode::PolicyDenied, "not there");
    let messages = [
        system("The branch is now main."),
        user("Look."),
        assistant_calls(&["toolu_1", "toolu_2", "toolu_3"]),
        result("toolu_1", ToolResult::text("one"), None),
        result("toolu_2", ToolResult::Empty, None),
        result("toolu_3", ToolResult::Empty, Some(failed)),
        user("Hurry."),
        system("A hook says </system-note> hi."),
        assistant(vec![AssistantPart::text("Done.")]),
        user("Thanks."),
    ];
    golden("step", &model("claude-opus-4-8"), &messages);
}

#[test]
fn reasoning_and_files() {
    let mut opus = model("claude-opus-5");
    opus.reasoning = Some(ReasoningEffort::XHigh);
    let files = parts(vec![
        UserPart::Text {
            text: "See:".into(),
        },
        image("image/png"),
        document("application/pdf", b"%PDF-1.7"),
        document("text/markdown", "# Grüße".as_bytes()),
        document("application/zip", b"PK"),
        image("image/bmp"),
        UserPart::Text { text: "  ".into() },
    ]);
    golden("files", &opus, &[files]);
}

#[test]
fn words_between_calls_and_results_wait_for_the_results() {
    let messages = [
        user("go"),
        assistant_calls(&["a", "b"]),
        tool_result("b"),
        user("wait"),
        tool_result("a"),
    ];
    let body = body(&model("claude-opus-4-8"), &messages);
    assert_acceptable(&body);
    assert_eq!(blocks(&body)[5].1["text"], "wait");
}

#[test]
fn conversations_that_no_server_takes_are_refused() {
    for (messages, reason) in [
        (vec![], "there is no message with content"),
        (vec![user("")], "there is no message with content"),
        (
            vec![user("go"), assistant_calls(&["a"])],
            "the call 'a' has no result",
        ),
        (
            vec![user("go"), assistant_calls(&["a"]), assistant_calls(&["b"])],
            "the call 'a' has no result",
        ),
        (
            vec![user("go"), tool_result("x")],
            "the result of 'x' answers no open call",
        ),
    ] {
        let error = encoder(&model("claude-opus-4-8"), &messages)
            .body(&RequestSettings::default())
            .unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Fatal);
        assert_eq!(
            error.message,
            format!("the conversation cannot be sent: {reason}")
        );
    }
}

#[test]
fn a_conversation_that_begins_with_the_model_is_given_a_beginning() {
    let messages = [assistant(vec![AssistantPart::text("Hi.")]), user("Hello")];
    assert_acceptable(&body(&model("claude-opus-4-8"), &messages));
}

#[test]
fn ids_of_other_services_are_spelled_for_this_one() {
    let calls = ["functions.Bash:0", "call_1", ""];
    let mut messages = vec![user("go")];
    for _ in 0..2 {
        messages.push(assistant_calls(&calls));
        messages.extend(calls.iter().map(|id| tool_result(id)));
    }
    assert_acceptable(&body(&model("claude-opus-4-8"), &messages));
}

#[test]
fn tool_names_are_aliased_and_spelled_and_found_again() {
    let mut renamed = tool("shell");
    renamed
        .provider_aliases
        .insert(ProviderKind::Anthropic, "bash".into());
    let tools = Arc::from([renamed, tool("files.read"), tool("plain"), tool("plain")]);
    let mut encoder = Anthropic::new().encoder(&model("claude-opus-4-8"), ImageInput::Taken);
    encoder.set_prefix(&AssembledPrompt::default(), &tools);
    encoder.push(&user("go"));
    let encoded = encoder.body(&RequestSettings::default()).unwrap();
    let body: Value = serde_json::from_slice(&encoded.json).unwrap();
    let names: Vec<&str> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 3);
    assert_eq!((names[0], names[2]), ("bash", "plain"));
    assert!(names[1].starts_with("files_read_"), "{names:?}");
    assert_eq!(encoder.tool_name("bash"), Some("shell".into()));
    assert_eq!(encoder.tool_name(names[1]), Some("files.read".into()));
    assert_eq!(encoder.tool_name("plain"), None);
    assert_eq!(encoded.warnings.len(), 1, "{:?}", encoded.warnings);
}

#[test]
fn a_schema_without_a_type_gets_one() {
    let mut bare = tool("bare");
    bare.input_schema = json!({"properties": {}});
    let mut odd = tool("odd");
    odd.input_schema = json!(true);
    let mut encoder = Anthropic::new().encoder(&model("claude-opus-4-8"), ImageInput::Taken);
    encoder.set_prefix(&AssembledPrompt::default(), &Arc::from([bare, odd]));
    encoder.push(&user("go"));
    let encoded = encoder.body(&RequestSettings::default()).unwrap();
    let body: Value = serde_json::from_slice(&encoded.json).unwrap();
    for tool in body["tools"].as_array().unwrap() {
        assert_eq!(tool["input_schema"]["type"], "object");
    }
    assert!(body.get("system").is_none());
}

#[test]
fn what_is_dropped_is_said_once() {
    let mut fable = model("claude-fable-5");
    fable.reasoning = Some(ReasoningEffort::None);
    let mut encoder = encoder(&fable, &[user("go")]);
    let settings = RequestSettings {
        temperature: Some(0.5),
        ..RequestSettings::default()
    };
    let first = encoder.body(&settings).unwrap();
    assert_eq!(
        first.warnings,
        [
            "reasoning `none` was not sent to 'claude-fable-5': the model always reasons; \
             `minimal` asks for the least",
            "`temperature` was not sent to 'claude-fable-5': its wire has none",
        ]
    );
    let second = encoder.body(&settings).unwrap();
    assert_eq!(second.warnings, [""; 0]);
    assert_eq!(first.json, second.json);
}

#[test]
fn extra_members_are_sent_before_the_messages_if_they_are_json() {
    let mut encoder = encoder(&model("m"), &[user("go")]);
    let mut with = |extra: &str| {
        encoder.body(&RequestSettings {
            extra_members: Some(extra.to_owned()),
            ..RequestSettings::default()
        })
    };
    let encoded = with(r#""provider":{"order":["x"]}"#).unwrap();
    let body: Value = serde_json::from_slice(&encoded.json).unwrap();
    assert_eq!(body["provider"]["order"][0], "x");
    assert_acceptable(&body);
    assert!(with("").is_ok());
    for wrong in [r#""a":"#, r#""a":1},{"b":2"#] {
        assert_eq!(with(wrong).unwrap_err().kind, ProviderErrorKind::Fatal);
    }
}

/// The places of the marked blocks among all blocks of the messages.
fn marked(body: &Value) -> Vec<usize> {
    let messages = body["messages"].as_array().unwrap();
    messages
        .iter()
        .flat_map(|message| message["content"].as_array().unwrap())
        .enumerate()
        .filter(|(_, block)| block.get("cache_control").is_some())
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn a_second_mark_bridges_what_the_server_does_not_look_back_over() {
    let step = |calls: usize| {
        let ids: Vec<String> = (0..calls).map(|n| format!("c{n}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut messages = vec![user("go"), assistant_calls(&ids)];
        messages.extend(ids.iter().map(|id| tool_result(id)));
        messages
    };
    let sonnet = model("claude-sonnet-5");
    // 18 new blocks: the mark at the end finds block 0 by itself.
    assert_eq!(marked(&body(&sonnet, &step(9))), [18]);
    // 20 new blocks: it does not.
    let long = body(&sonnet, &step(10));
    assert_eq!(marked(&long), [0, 20]);
    let all_marks = long.to_string().matches("\"cache_control\"").count();
    assert_eq!(all_marks, CACHE_MARKS);
    let mut odd = step(9);
    odd.push(user("and"));
    assert_eq!(marked(&body(&sonnet, &odd)), [19]);
}

#[test]
fn an_unchanged_prefix_is_not_encoded_anew_and_a_changed_one_is() {
    let mut encoder = encoder(&model("claude-opus-4-8"), &[user("go")]);
    let settings = RequestSettings::default();
    let before = encoder.body(&settings).unwrap().json;
    encoder.set_prefix(&prompt(), &Arc::from([tool("read"), tool("write")]));
    assert_eq!(encoder.body(&settings).unwrap().json, before);
    encoder.set_prefix(&prompt(), &Arc::from([tool("read")]));
    let after: Value = serde_json::from_slice(&encoder.body(&settings).unwrap().json).unwrap();
    assert_eq!(after["tools"].as_array().unwrap().len(), 1);
}
