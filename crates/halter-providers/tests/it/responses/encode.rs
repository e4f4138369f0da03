//! Requests, whole and by rule.

use super::{WIRE, check, model, wire};
use crate::wire_kit::{
    answer, assert_golden, body, call, encoder, golden_request, opaque, opening, prompt, result,
    split_body, text_of, tools,
};
use halter_protocol::{
    AssistantPart, Message, ProviderKind, ReasoningEffort, ResolvedModel, ToolResult, ToolSpec,
};
use halter_providers::wire::{ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};
use std::sync::Arc;

const REASONING: &str =
    r#"{"id":"rs_1", "type":"reasoning","encrypted_content":"gAAAA==","summary":[]}"#;
const MESSAGE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hé \/ there","annotations":[]}]}"#;
const CALL: &str = r#"{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\": \"a\"}"}"#;

fn own_answer() -> Message {
    let parts = vec![
        AssistantPart::Thinking {
            text: String::new(),
            opaque: opaque(WIRE, REASONING),
        },
        AssistantPart::Text {
            text: "Hé / there".to_owned(),
            opaque: opaque(WIRE, MESSAGE),
        },
        call("call_1", "read", json!({"path": "a"}), opaque(WIRE, CALL)),
    ];
    answer(&model(), parts, None)
}

fn conversation() -> Vec<Message> {
    let mut messages = opening(&model(), "image/tiff");
    messages.extend([
        own_answer(),
        result(
            "call_1",
            "read",
            ToolResult::json(json!({"b": 1, "a": null})),
        ),
    ]);
    messages
}

fn settings() -> RequestSettings {
    RequestSettings {
        extra_members: Some(r#""service_tier":"flex""#.to_owned()),
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
    assert_golden("responses/bodies/whole", &golden);
}

#[test]
fn the_prompt_goes_out_static_first_and_without_its_boundary() {
    let body: Value = serde_json::from_str(&body(&wire(), &model(), &conversation())).unwrap();
    assert_eq!(body["instructions"], "You are careful.\n\nSkills: none.");
    assert_eq!(
        body["input"][0],
        json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Today is a day."}]})
    );
}

#[test]
fn a_warning_is_given_once_and_the_bytes_stay() {
    let mut encoder = encoder(&wire(), &model());
    conversation()
        .iter()
        .for_each(|message| encoder.push(message));
    let first = encoder.body(&settings()).unwrap();
    let second = encoder.body(&settings()).unwrap();
    assert_eq!(first.json, second.json);
    assert!(
        first
            .warnings
            .iter()
            .any(|warning| warning.contains("left out"))
    );
    assert_eq!(second.warnings, Vec::<String>::new());
}

#[test]
fn an_answer_goes_back_raw_only_to_the_model_that_gave_it() {
    let raw = [REASONING, MESSAGE, CALL].join(",");
    let done = result("call_1", "read", ToolResult::Empty);
    let said = [own_answer(), done];
    assert!(body(&wire(), &model(), &said).contains(&raw));
    let elsewhere = [
        ResolvedModel {
            model: "gpt-5.3".to_owned(),
            ..model()
        },
        ResolvedModel {
            provider: "azure".into(),
            ..model()
        },
    ];
    for other in elsewhere {
        let body = body(&wire(), &other, &said);
        check(&body).unwrap();
        let (_, elements) = split_body(&body, "input");
        assert_eq!(
            elements[1..],
            [
                r#"{"type":"message","role":"assistant","content":"Hé / there"}"#,
                r#"{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a\"}"}"#,
                r#"{"type":"function_call_output","call_id":"call_1","output":""}"#,
            ]
        );
    }
}

#[test]
fn kept_text_that_is_damaged_or_of_another_wire_is_not_sent() {
    for wrong in [
        opaque(WIRE, "{"),
        opaque(WIRE, r#"{"type":"message"},{"type":"message"}"#),
        opaque(WIRE, "[]"),
        opaque("anthropic", MESSAGE),
    ] {
        let parts = vec![AssistantPart::Text {
            text: "neutral".to_owned(),
            opaque: wrong,
        }];
        let body = body(&wire(), &model(), &[answer(&model(), parts, None)]);
        let (_, elements) = split_body(&body, "input");
        assert_eq!(
            elements[1..],
            [r#"{"type":"message","role":"assistant","content":"neutral"}"#]
        );
    }
}

#[test]
fn reasoning_without_its_answer_or_its_content_stays_behind() {
    let cut_off = |kept: &str, rest: AssistantPart| {
        let thinking = AssistantPart::Thinking {
            text: "hm".to_owned(),
            opaque: opaque(WIRE, kept),
        };
        let said = answer(&model(), vec![thinking, rest], None);
        split_body(&body(&wire(), &model(), &[said]), "input").1[1..].to_vec()
    };
    let whole = AssistantPart::Text {
        text: "x".to_owned(),
        opaque: opaque(WIRE, MESSAGE),
    };
    assert_eq!(cut_off(REASONING, whole.clone()), [REASONING, MESSAGE]);
    let neutral = r#"{"type":"message","role":"assistant","content":"x"}"#;
    assert_eq!(cut_off(REASONING, AssistantPart::text("x")), [neutral]);
    assert_eq!(cut_off(REASONING, AssistantPart::text("")), [""; 0]);
    let id_only = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":null}"#;
    assert_eq!(cut_off(id_only, whole), [MESSAGE]);
}

#[test]
fn a_level_is_left_out_with_a_warning_where_a_model_does_not_reason() {
    let ask = |name: &str, level: Option<ReasoningEffort>| {
        let model = ResolvedModel {
            model: name.to_owned(),
            reasoning: level,
            ..model()
        };
        let mut encoder = wire().encoder(&model, ImageInput::Taken);
        let encoded = encoder
            .body(&RequestSettings {
                temperature: Some(0.5),
                ..RequestSettings::default()
            })
            .unwrap();
        let body: Value = serde_json::from_slice(&encoded.json).unwrap();
        (body, encoded.warnings)
    };
    let (body, warnings) = ask("gpt-4o", Some(ReasoningEffort::High));
    assert_eq!(body.get("reasoning"), None);
    assert_eq!(
        warnings,
        ["reasoning level 'high' was left out: model 'gpt-4o' does not reason"]
    );
    let (body, warnings) = ask("gpt-4o", None);
    assert_eq!(
        (&body["temperature"], body.get("include")),
        (&json!(0.5), None)
    );
    assert_eq!(warnings, [""; 0]);
    let (body, _) = ask("gpt-5.2", Some(ReasoningEffort::None));
    assert_eq!(body["reasoning"], json!({"effort": "none"}));
    let (body, _) = ask("gpt-5", Some(ReasoningEffort::Minimal));
    assert_eq!(
        body["reasoning"],
        json!({"effort": "minimal", "summary": "auto"})
    );
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
}

#[test]
fn a_changed_prefix_changes_only_itself() {
    let mut encoder = encoder(&wire(), &model());
    conversation()
        .iter()
        .for_each(|message| encoder.push(message));
    let before = split_body(&text_of(encoder.as_mut()), "input").1;
    encoder.set_prefix(&prompt(), &tools());
    assert_eq!(split_body(&text_of(encoder.as_mut()), "input").1, before);
    let none: Arc<[ToolSpec]> = Arc::from([]);
    encoder.set_prefix(&prompt(), &none);
    let after: Value = serde_json::from_str(&text_of(encoder.as_mut())).unwrap();
    assert_eq!(after.get("tools"), None);
    assert_eq!(split_body(&text_of(encoder.as_mut()), "input").1, before);
}

#[test]
fn names_that_the_service_does_not_take_find_their_way_back() {
    let encoder = encoder(&wire(), &model());
    let mut spec = tools()[0].clone();
    spec.provider_aliases
        .insert(ProviderKind::OpenAi, "view".into());
    let mut aliased = wire().encoder(&model(), ImageInput::Taken);
    aliased.set_prefix(&prompt(), &Arc::from([spec]));
    assert_eq!(aliased.tool_name("view"), Some("read".into()));
    assert!(text_of(aliased.as_mut()).contains(r#""name":"view""#));
    let body = body(&wire(), &model(), &[]);
    let body: Value = serde_json::from_str(&body).unwrap();
    let sent = body["tools"][1]["name"].as_str().unwrap();
    assert_eq!(encoder.tool_name(sent), Some("search.all".into()));
    assert_eq!(encoder.tool_name("read"), None);
}

#[test]
fn extra_members_must_be_json() {
    let settings = RequestSettings {
        extra_members: Some("oops".to_owned()),
        ..RequestSettings::default()
    };
    let error = encoder(&wire(), &model()).body(&settings).unwrap_err();
    assert!(!error.retryable());
}

#[test]
fn the_address_and_the_headers_are_those_of_the_service() {
    let wire = wire();
    for base in ["https://api.openai.com", "https://api.openai.com/v1/"] {
        assert_eq!(
            wire.url(base, &model()),
            "https://api.openai.com/v1/responses"
        );
    }
    let headers = wire.headers(Some("k"));
    assert!(headers.contains(&("authorization".to_owned(), "Bearer k".to_owned())));
    assert!(
        !wire
            .headers(None)
            .iter()
            .any(|(name, _)| name == "authorization")
    );
}

#[test]
fn the_list_of_models_stands_beside_the_responses() {
    assert_eq!(
        wire().models_url("https://api.openai.com").unwrap(),
        "https://api.openai.com/v1/models"
    );
}
