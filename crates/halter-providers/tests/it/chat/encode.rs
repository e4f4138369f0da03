//! Requests, whole and by rule.

use super::{WIRE, model};
use crate::support::system;
use crate::wire_kit::{
    answer, assert_golden, body, call, document, encoder, failed, image, opaque, prompt, result,
    split_body, text_of, tools, user,
};
use halter_protocol::{
    AssembledPrompt, AssistantPart, Message, ProviderErrorKind, ReasoningEffort, ResolvedModel,
    ToolResult, UserPart,
};
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::{ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};
use std::sync::Arc;

fn text(text: &str) -> UserPart {
    UserPart::Text {
        text: text.to_owned(),
    }
}

fn own_answer() -> Message {
    let parts = vec![
        AssistantPart::Thinking {
            text: "hm".to_owned(),
            opaque: opaque(WIRE, r#"{"field":"reasoning_content"}"#),
        },
        AssistantPart::text("I look."),
        call(
            "functions.read:0",
            "read",
            json!({"path": "a"}),
            opaque(WIRE, r#"{"arguments":"{ \"path\": \"a\" }"}"#),
        ),
        call("call_2", "search.all", json!({"for": "x"}), None),
    ];
    answer(&model(), parts, None)
}

fn foreign_answer() -> Message {
    let other = ResolvedModel {
        provider: "anthropic".into(),
        model: "claude".to_owned(),
        ..model()
    };
    let parts = vec![
        AssistantPart::Thinking {
            text: "hm".to_owned(),
            opaque: opaque("anthropic", r#"{"type":"thinking"}"#),
        },
        call(
            "functions.read:1",
            "read",
            json!({"path": "b", "a": 1}),
            opaque(WIRE, r#"{"arguments":"other"}"#),
        ),
    ];
    answer(&other, parts, None)
}

fn conversation() -> Vec<Message> {
    vec![
        user(vec![text("Hé \"you\"")]),
        own_answer(),
        result("functions.read:0", "read", ToolResult::text("content")),
        failed("call_2", "search.all"),
        system("The mode changed."),
        user(vec![
            text("See:"),
            image("image/png"),
            document("text/plain; charset=utf-8", b"notes"),
            document("application/pdf", b"%PDF"),
            document("application/zip", b"PK"),
        ]),
        foreign_answer(),
        result(
            "functions.read:1",
            "read",
            ToolResult::json(json!({"a": [1]})),
        ),
        answer(&model(), vec![AssistantPart::text("Done.")], None),
    ]
}

#[test]
fn whole_requests_are_as_expected_in_every_dialect() {
    for dialect in Dialect::ALL {
        let body = body(&Chat::new(dialect), &model(), &conversation());
        let body: Value = serde_json::from_str(&body).unwrap();
        let shown = serde_json::to_string_pretty(&body).unwrap() + "\n";
        assert_golden(&format!("{WIRE}/bodies/{}", dialect.name), &shown);
    }
}

#[test]
fn settings_come_before_the_messages_under_the_names_of_the_dialect() {
    let model = ResolvedModel {
        model: "anthropic/claude-x".to_owned(),
        max_output_tokens: Some(100),
        reasoning: Some(ReasoningEffort::High),
        ..model()
    };
    let settings = RequestSettings {
        temperature: Some(0.5),
        extra_members: Some(r#""provider":{"order":["a"]}"#.to_owned()),
        prompt_cache_key: Some("ses_1".to_owned()),
        ..RequestSettings::default()
    };
    for (dialect, head) in [
        (
            Dialect::OPENAI,
            r#"{"model":"anthropic/claude-x","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":100,"temperature":0.5,"reasoning_effort":"high","prompt_cache_key":"ses_1","provider":{"order":["a"]},"messages":[]}"#,
        ),
        (
            Dialect::OPENROUTER,
            r#"{"model":"anthropic/claude-x","stream":true,"max_tokens":100,"temperature":0.5,"reasoning":{"effort":"high"},"prompt_cache_key":"ses_1","session_id":"ses_1","cache_control":{"type":"ephemeral"},"provider":{"order":["a"]},"messages":[]}"#,
        ),
        (
            Dialect::VLLM,
            r#"{"model":"anthropic/claude-x","stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"temperature":0.5,"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"high"},"provider":{"order":["a"]},"messages":[]}"#,
        ),
    ] {
        let mut encoder = Chat::new(dialect).encoder(&model, ImageInput::Taken);
        let body = encoder.body(&settings).unwrap();
        assert_eq!(String::from_utf8(body.json).unwrap(), head);
    }
}

#[test]
fn the_cache_mark_stands_on_the_last_static_block() {
    let body = body(&Chat::new(Dialect::OPENROUTER), &model(), &[]);
    assert_eq!(
        split_body(&body, "messages").1,
        [
            r#"{"role":"system","content":[{"type":"text","text":"You are careful."},{"type":"text","text":"Skills: none.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Today is a day."}]}"#
        ]
    );
}

#[test]
fn what_cannot_be_sent_is_said_once() {
    let mut encoder = encoder(&Chat::new(Dialect::OLLAMA), &model());
    for message in conversation() {
        encoder.push(&message);
    }
    let first = encoder.body(&RequestSettings::default()).unwrap().warnings;
    assert_eq!(first.len(), 3, "{first:?}");
    assert!(first[0].contains("'anyOf'"), "{first:?}");
    assert!(first[1].contains("application/pdf"), "{first:?}");
    let second = encoder.body(&RequestSettings::default()).unwrap().warnings;
    assert!(second.is_empty(), "{second:?}");
}

#[test]
fn odd_tool_names_are_spelled_anew_and_found_again() {
    let encoder = encoder(&Chat::new(Dialect::OPENAI), &model());
    let body = body(&Chat::new(Dialect::OPENAI), &model(), &[own_answer()]);
    let body: Value = serde_json::from_str(&body).unwrap();
    let sent = body["tools"][1]["function"]["name"].as_str().unwrap();
    assert!(sent.starts_with("search_all_"), "{sent}");
    assert_eq!(encoder.tool_name(sent), Some("search.all".into()));
    assert_eq!(
        body["messages"][1]["tool_calls"][1]["function"]["name"],
        sent
    );
}

#[test]
fn a_changed_prefix_is_encoded_anew_and_the_messages_are_kept() {
    let wire = Chat::new(Dialect::OPENAI);
    let mut encoder = encoder(&wire, &model());
    encoder.push(&user(vec![text("hi")]));
    let before = text_of(encoder.as_mut());
    encoder.set_prefix(&AssembledPrompt::default(), &Arc::from([]));
    assert_eq!(
        text_of(encoder.as_mut()),
        r#"{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}"#
    );
    encoder.set_prefix(&prompt(), &tools());
    assert_eq!(text_of(encoder.as_mut()), before);
}

#[test]
fn an_answer_of_which_nothing_is_left_is_not_sent() {
    let other = ResolvedModel {
        model: "other".to_owned(),
        ..model()
    };
    let thought = vec![AssistantPart::Thinking {
        text: "hm".to_owned(),
        opaque: None,
    }];
    let messages = [
        user(vec![text("a")]),
        answer(&other, thought, None),
        user(vec![text("b")]),
    ];
    let body = body(&Chat::new(Dialect::OPENAI), &model(), &messages);
    assert_eq!(split_body(&body, "messages").1.len(), 3, "{body}");
}

#[test]
fn members_that_are_no_json_are_refused() {
    let settings = RequestSettings {
        extra_members: Some("oops".to_owned()),
        ..RequestSettings::default()
    };
    let mut encoder = Chat::new(Dialect::OPENROUTER).encoder(&model(), ImageInput::Taken);
    let error = encoder.body(&settings).unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Fatal);
}

#[test]
fn ids_of_other_services_are_shortened_only_past_the_limit() {
    use halter_providers::limits::CHAT_CALL_ID_BYTES;
    for (length, kept) in [(CHAT_CALL_ID_BYTES, true), (CHAT_CALL_ID_BYTES + 1, false)] {
        let id = "x".repeat(length);
        let other = ResolvedModel {
            model: "other".to_owned(),
            ..model()
        };
        let messages = [
            answer(&other, vec![call(&id, "read", json!({}), None)], None),
            result(&id, "read", ToolResult::Empty),
        ];
        let body = body(&Chat::new(Dialect::OPENAI), &model(), &messages);
        let body: Value = serde_json::from_str(&body).unwrap();
        let sent = &body["messages"][1]["tool_calls"][0]["id"];
        assert_eq!(sent == id.as_str(), kept);
        assert!(sent.as_str().unwrap().len() <= CHAT_CALL_ID_BYTES);
        assert_eq!(body["messages"][2]["tool_call_id"], *sent);
    }
}
