//! Images and documents that tools return, on every wire.

use crate::support::user;
use crate::wire_kit::{
    answer, assert_golden, call, document, encoder_for, failed, image, model, result, with_media,
};
use halter_protocol::{Message, ProviderKind, ResolvedModel, ToolResult, UserPart};
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::wire::{ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};

/// A wire, a model of it, and where its conversation stands in a body.
struct Case {
    name: &'static str,
    wire: Box<dyn Wire>,
    model: ResolvedModel,
    elements: &'static str,
    images: ImageInput,
}

fn cases() -> Vec<Case> {
    let case = |name, wire: Box<dyn Wire>, kind: ProviderKind, model_name, elements| Case {
        name,
        wire,
        model: model("acme", kind, model_name),
        elements,
        images: ImageInput::Taken,
    };
    let chat = |name, dialect| {
        case(
            name,
            Box::new(Chat::new(dialect)),
            ProviderKind::Custom,
            "some-model",
            "messages",
        )
    };
    let gemini = |name, model_name| {
        case(
            name,
            Box::new(GeminiWire),
            ProviderKind::Gemini,
            model_name,
            "contents",
        )
    };
    vec![
        case(
            "anthropic/requests/media",
            Box::new(Anthropic::new()),
            ProviderKind::Anthropic,
            "claude-opus-4-8",
            "messages",
        ),
        case(
            "responses/bodies/media",
            Box::new(ResponsesWire),
            ProviderKind::OpenAi,
            "gpt-5.2",
            "input",
        ),
        chat("chat/bodies/media_openai", Dialect::OPENAI),
        chat("chat/bodies/media_ollama", Dialect::OLLAMA),
        Case {
            images: ImageInput::LeftOut,
            ..chat("chat/bodies/media_left_out", Dialect::OLLAMA)
        },
        gemini("gemini/bodies/media_nested", "gemini-3-flash-preview"),
        gemini("gemini/bodies/media_beside", "gemini-2.5-flash"),
    ]
}

/// Two results with media, one without and one that failed, and what follows.
fn conversation(model: &ResolvedModel) -> Vec<Message> {
    let calls = ["call_1", "call_2", "call_3", "call_4"]
        .map(|id| call(id, "read", json!({"path": id}), None));
    vec![
        user("Look."),
        answer(model, calls.to_vec(), None),
        result("call_1", "read", with_media("one page")),
        result("call_2", "read", ToolResult::text("plain")),
        failed("call_3", "read"),
        result("call_4", "read", ToolResult::parts([image("image/jpeg")])),
        user("And now?"),
    ]
}

/// The conversation as it goes out, and the warnings.
fn shown(case: &Case, messages: &[Message]) -> (Value, Vec<String>) {
    let mut encoder = encoder_for(case.wire.as_ref(), &case.model, case.images);
    messages.iter().for_each(|message| encoder.push(message));
    let encoded = encoder.body(&RequestSettings::default()).unwrap();
    let again = encoder.body(&RequestSettings::default()).unwrap();
    assert_eq!(again.json, encoded.json);
    assert_eq!(again.warnings, [""; 0], "each warning is given once");
    let mut body: Value = serde_json::from_slice(&encoded.json).unwrap();
    (body[case.elements].take(), encoded.warnings)
}

fn golden(case: &Case) -> String {
    let (elements, warnings) = shown(case, &conversation(&case.model));
    format!(
        "{}\n",
        serde_json::to_string_pretty(&json!({"elements": elements, "warnings": warnings})).unwrap()
    )
}

#[test]
fn what_tools_return_goes_out_as_each_wire_takes_it() {
    for case in cases() {
        assert_golden(case.name, &golden(&case));
    }
}

#[test]
fn each_request_is_a_beginning_of_the_next() {
    for case in cases() {
        let messages = conversation(&case.model);
        let step_ends_at = messages.len() - 1;
        let (before, _) = shown(&case, &messages[..step_ends_at]);
        let (after, _) = shown(&case, &messages);
        let flat = |elements: &Value| -> Vec<Value> {
            // Neighbours of one role share a message on one wire, so that its
            // blocks are what grows; its marks move.
            let elements = elements.as_array().unwrap().iter();
            elements
                .flat_map(|element| match element["content"].as_array() {
                    Some(blocks) if case.name.starts_with("anthropic") => blocks.clone(),
                    _ => vec![element.clone()],
                })
                .map(|mut element| {
                    element
                        .as_object_mut()
                        .unwrap()
                        .shift_remove("cache_control");
                    element
                })
                .collect()
        };
        let (before, after) = (flat(&before), flat(&after));
        assert_eq!(after[..before.len()], before[..], "{}", case.name);
        assert!(after.len() > before.len());
    }
}

#[test]
fn text_alone_is_sent_as_text() {
    for case in cases() {
        let texts = ToolResult::parts([UserPart::text("one"), UserPart::text("two")]);
        let send = |content| {
            let calls = vec![call("call_1", "read", json!({}), None)];
            let messages = [
                user("Look."),
                answer(&case.model, calls, None),
                result("call_1", "read", content),
            ];
            shown(&case, &messages).0
        };
        assert_eq!(
            send(texts),
            send(ToolResult::text("one\ntwo")),
            "{}",
            case.name
        );
    }
}

#[test]
fn an_image_that_the_service_would_refuse_for_its_size_is_left_out() {
    let anthropic = &cases()[0];
    let image_of = |bytes: usize| {
        let image = UserPart::image("image/png", vec![0; bytes]);
        let calls = vec![call("call_1", "read", json!({}), None)];
        let messages = [
            user("Look."),
            answer(&anthropic.model, calls, None),
            result("call_1", "read", ToolResult::parts([image])),
        ];
        let (elements, warnings) = shown(anthropic, &messages);
        let kind = elements[2]["content"][0]["content"][0]["type"].clone();
        let left_out = warnings.iter().filter(|it| it.contains("left out"));
        (kind, left_out.count())
    };
    let most = anthropic.wire.media_limits().image_bytes;
    assert_eq!(most.div_ceil(3) * 4, 5 * 1024 * 1024, "in base64");
    assert_eq!(image_of(most), (json!("image"), 0));
    assert_eq!(image_of(most + 1), (json!("text"), 1));
}

#[test]
fn an_empty_document_leaves_nothing_empty_behind() {
    for case in cases() {
        let calls = vec![call("call_1", "read", json!({}), None)];
        let empty = ToolResult::parts([document("text/plain", b"")]);
        let messages = [
            user("Look."),
            answer(&case.model, calls, None),
            result("call_1", "read", empty),
        ];
        let (elements, warnings) = shown(&case, &messages);
        let text = elements.to_string();
        assert!(!text.contains(":[]"), "{}: {text}", case.name);
        let left_out = warnings.iter().any(|warning| warning.contains("left out"));
        assert!(!left_out, "{}: {warnings:?}", case.name);
    }
}
