//! Requests, whole and by rule.

use super::{WIRE, check, model, wire};
use crate::wire_kit::{
    answer, assert_golden, body, call, encoder, golden_request, opaque, opening, prompt, result,
    split_body, text_of, tools, user,
};
use halter_protocol::{
    AssistantPart, Message, ReasoningEffort, ResolvedModel, ToolResult, ToolSpec, UserPart,
};
use halter_providers::wire::{ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};
use std::sync::Arc;

const TEXT: &str = r#"[{"text":"Hé \/"},{"text": " there"}]"#;
const FIRST_CALL: &str = r#"[{"functionCall":{"name":"read","args":{"path": "a"},"id":"fc-1"},"thoughtSignature":"c2ln"}]"#;
const SECOND_CALL: &str = r#"[{"functionCall":{"name":"read","args":{"path":"b"},"id":"fc-2"}}]"#;

fn own_answer() -> Message {
    let parts = vec![
        AssistantPart::Text {
            text: "Hé / there".to_owned(),
            opaque: opaque(WIRE, TEXT),
        },
        call(
            "fc-1",
            "read",
            json!({"path": "a"}),
            opaque(WIRE, FIRST_CALL),
        ),
        call(
            "fc-2",
            "read",
            json!({"path": "b"}),
            opaque(WIRE, SECOND_CALL),
        ),
    ];
    answer(&model(), parts, None)
}

fn conversation() -> Vec<Message> {
    let mut messages = opening(&model(), "image/gif");
    messages.extend([
        own_answer(),
        result("fc-1", "read", ToolResult::json(json!({"b": 1, "a": null}))),
        result("fc-2", "read", ToolResult::Empty),
    ]);
    messages
}

fn settings() -> RequestSettings {
    RequestSettings {
        temperature: Some(0.2),
        extra_members: Some(r#""serviceTier":"flex""#.to_owned()),
        prompt_cache_key: Some("ses_1".to_owned()),
        ..RequestSettings::default()
    }
}

fn whole_request() -> (String, String) {
    let model = ResolvedModel {
        reasoning: Some(ReasoningEffort::High),
        max_output_tokens: Some(32_000),
        ..model()
    };
    golden_request(&wire(), &model, &conversation(), &settings())
}

#[test]
fn a_whole_request_is_the_golden_one() {
    let (body, golden) = whole_request();
    check(&body).unwrap();
    assert_golden("gemini/bodies/whole", &golden);
}

#[test]
fn the_prompt_goes_out_as_parts_without_its_boundary() {
    let body: Value = serde_json::from_str(&body(&wire(), &model(), &conversation())).unwrap();
    assert_eq!(
        body["systemInstruction"],
        json!({"parts": [{"text": "You are careful."}, {"text": "Skills: none."}, {"text": "Today is a day."}]})
    );
}

#[test]
fn an_answer_goes_back_raw_only_to_the_model_that_gave_it() {
    let said = [
        own_answer(),
        result("fc-1", "read", ToolResult::Empty),
        result("fc-2", "read", ToolResult::Empty),
    ];
    let inside = |kept: &str| kept[1..kept.len() - 1].to_owned();
    let raw = [TEXT, FIRST_CALL, SECOND_CALL].map(inside).join(",");
    assert!(body(&wire(), &model(), &said).contains(&raw));
    let elsewhere = [
        ResolvedModel {
            model: "gemini-3.1-pro-preview".to_owned(),
            ..model()
        },
        ResolvedModel {
            provider: "vertex".into(),
            ..model()
        },
    ];
    for other in elsewhere {
        let body = body(&wire(), &other, &said);
        check(&body).unwrap();
        let (_, contents) = split_body(&body, "contents");
        assert_eq!(
            contents[0],
            r#"{"role":"model","parts":[{"text":"Hé / there"},{"functionCall":{"id":"fc-1","name":"read","args":{"path":"a"}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"fc-2","name":"read","args":{"path":"b"}}}]}"#
        );
    }
}

#[test]
fn models_that_check_no_signatures_get_none() {
    let old = ResolvedModel {
        model: "gemini-2.5-flash".to_owned(),
        ..model()
    };
    let body = body(&wire(), &old, &conversation());
    assert!(!body.contains("thoughtSignature"));
}

#[test]
fn kept_text_that_is_damaged_or_of_another_wire_is_not_sent() {
    for wrong in [
        opaque(WIRE, "["),
        opaque(WIRE, "[]"),
        opaque(WIRE, r#"{"text":"x"}"#),
        opaque(WIRE, r#"[{"text":"x"}],[{"text":"y"}]"#),
        opaque("responses", TEXT),
    ] {
        let parts = vec![
            AssistantPart::Text {
                text: "neutral".to_owned(),
                opaque: wrong.clone(),
            },
            call("c", "read", json!({}), wrong),
        ];
        let messages = [
            answer(&model(), parts, None),
            result("c", "read", ToolResult::Empty),
        ];
        let body = body(&wire(), &model(), &messages);
        check(&body).unwrap();
        assert!(
            body.contains(r#""parts":[{"text":"neutral"},{"functionCall""#),
            "{body}"
        );
    }
}

#[test]
fn results_stand_together_in_the_order_of_the_calls() {
    let out_of_order = [
        own_answer(),
        result("fc-2", "read", ToolResult::text("second")),
        result("fc-1", "read", ToolResult::text("first")),
        user(vec![UserPart::Text {
            text: "go on".to_owned(),
        }]),
    ];
    let body = body(&wire(), &model(), &out_of_order);
    check(&body).unwrap();
    let (_, contents) = split_body(&body, "contents");
    assert_eq!(contents.len(), 3);
    assert!(contents[1].find("first").unwrap() < contents[1].find("second").unwrap());
}

#[test]
fn messages_that_say_nothing_are_not_sent() {
    let messages = [
        user(vec![UserPart::Text {
            text: String::new(),
        }]),
        user(vec![]),
        answer(&model(), vec![AssistantPart::text("")], None),
    ];
    let (_, contents) = split_body(&body(&wire(), &model(), &messages), "contents");
    assert_eq!(contents, [""; 0]);
}

#[test]
fn a_level_that_a_model_refuses_is_left_out_with_a_warning() {
    let ask = |name: &str, level: Option<ReasoningEffort>| {
        let model = ResolvedModel {
            model: name.to_owned(),
            reasoning: level,
            ..model()
        };
        let mut encoder = wire().encoder(&model, ImageInput::Taken);
        let encoded = encoder.body(&RequestSettings::default()).unwrap();
        let body: Value = serde_json::from_slice(&encoded.json).unwrap();
        (body["generationConfig"].clone(), encoded.warnings)
    };
    assert_eq!(
        ask("gemini-3-pro-preview", Some(ReasoningEffort::Minimal)),
        (
            json!({"thinkingConfig": {"includeThoughts": true}}),
            vec![
                "reasoning level 'minimal' was left out: model 'gemini-3-pro-preview' does not take it"
                    .to_owned()
            ]
        )
    );
    assert_eq!(
        ask("gemini-3-flash-preview", Some(ReasoningEffort::XHigh)).0,
        json!({"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"}})
    );
    assert_eq!(
        ask("gemini-2.5-flash", Some(ReasoningEffort::None)).0,
        json!({"thinkingConfig": {"includeThoughts": false, "thinkingBudget": 0}})
    );
    assert_eq!(ask("gemini-2.0-flash", None), (json!({}), vec![]));
}

#[test]
fn a_changed_prefix_changes_only_itself() {
    let mut encoder = encoder(&wire(), &model());
    conversation()
        .iter()
        .for_each(|message| encoder.push(message));
    let before = split_body(&text_of(encoder.as_mut()), "contents").1;
    let none: Arc<[ToolSpec]> = Arc::from([]);
    encoder.set_prefix(&prompt(), &none);
    let after: Value = serde_json::from_str(&text_of(encoder.as_mut())).unwrap();
    assert_eq!(after.get("tools"), None);
    assert_eq!(split_body(&text_of(encoder.as_mut()), "contents").1, before);
}

#[test]
fn names_that_the_service_does_not_take_find_their_way_back() {
    let encoder = encoder(&wire(), &model());
    let body: Value = serde_json::from_str(&body(&wire(), &model(), &[])).unwrap();
    let declarations = &body["tools"][0]["functionDeclarations"];
    assert_eq!(declarations.as_array().unwrap().len(), tools().len());
    let sent = declarations[1]["name"].as_str().unwrap();
    assert_eq!(encoder.tool_name(sent), Some("search.all".into()));
    assert_eq!(encoder.tool_name("read"), None);
}

#[test]
fn the_address_and_the_headers_are_those_of_the_service() {
    let wire = wire();
    let expected = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse";
    let prefixed = ResolvedModel {
        model: "models/gemini-3-flash-preview".to_owned(),
        ..model()
    };
    for base in [
        "https://generativelanguage.googleapis.com",
        "https://generativelanguage.googleapis.com/v1beta/",
    ] {
        assert_eq!(wire.url(base, &model()), expected);
        assert_eq!(wire.url(base, &prefixed), expected);
    }
    let headers = wire.headers(Some("k"));
    assert!(headers.contains(&("x-goog-api-key".to_owned(), "k".to_owned())));
    assert!(
        !wire
            .headers(None)
            .iter()
            .any(|(name, _)| name == "x-goog-api-key")
    );
}

#[test]
fn the_list_of_models_stands_under_the_version() {
    assert_eq!(
        wire().models_url("https://host/v1beta").unwrap(),
        "https://host/v1beta/models?pageSize=1000"
    );
}
