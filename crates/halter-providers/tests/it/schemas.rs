//! Schemas of tools that services refuse at their root, on every wire.

use crate::wire_kit::{check, model, prompt};
use halter_mock::MockWire as Service;
use halter_protocol::{ProviderKind, ToolSpec};
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::wire::{ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool whose input is one of two objects.
fn choice() -> ToolSpec {
    ToolSpec {
        name: "find".into(),
        description: "Finds.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"where": {"type": "string"}},
            "oneOf": [
                {"properties": {"name": {"type": "string"}}, "required": ["name"]},
                {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
            ],
            "allOf": [{"required": ["where"]}],
        }),
        concurrency: Default::default(),
        capabilities: Default::default(),
        provider_aliases: Default::default(),
    }
}

/// The schema as the wire sends it, given at first or loaded later.
fn assert_sent(wire: &dyn Wire, service: Service, kind: ProviderKind, name: &str, schema: &str) {
    let model = model("acme", kind, name);
    for loaded in [false, true] {
        let mut encoder = wire.encoder(&model, ImageInput::Taken);
        match loaded {
            false => encoder.set_prefix(&prompt(), &Arc::from([choice()])),
            true => {
                encoder.set_prefix(&prompt(), &Arc::from([]));
                encoder.set_loaded(&Arc::from([Arc::new(choice())]));
            }
        }
        encoder.push(&crate::support::user("Hello"));
        let body = encoder.body(&RequestSettings::default()).unwrap();
        let (text, warnings) = (String::from_utf8(body.json).unwrap(), body.warnings);
        check(service, &text).unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "type": "object",
            "properties": {
                "where": {"type": "string"}, "name": {"type": "string"}, "id": {"type": "integer"},
            },
        });
        assert_eq!(body.pointer(schema), Some(&expected), "{text}");
        for keyword in ["oneOf", "allOf"] {
            let said = |it: &String| it.contains(&format!("without the '{keyword}' at its root"));
            assert!(warnings.iter().any(said), "{keyword}: {warnings:?}");
        }
    }
}

#[test]
fn anthropic_is_sent_no_choice_at_the_root_of_a_schema() {
    assert_sent(
        &Anthropic::new(),
        Service::Anthropic,
        ProviderKind::Anthropic,
        "claude-opus-4-8",
        "/tools/0/input_schema",
    );
}

#[test]
fn responses_is_sent_no_choice_at_the_root_of_a_schema() {
    assert_sent(
        &ResponsesWire,
        Service::Responses,
        ProviderKind::OpenAi,
        "gpt-5.2",
        "/tools/0/parameters",
    );
}

#[test]
fn chat_is_sent_no_choice_at_the_root_of_a_schema() {
    for dialect in [Dialect::OPENAI, Dialect::OPENROUTER, Dialect::GENERIC] {
        assert_sent(
            &Chat::new(dialect),
            Service::Chat,
            ProviderKind::Custom,
            "some-model",
            "/tools/0/function/parameters",
        );
    }
}

#[test]
fn gemini_is_sent_no_choice_at_the_root_of_a_schema() {
    assert_sent(
        &GeminiWire,
        Service::Gemini,
        ProviderKind::Gemini,
        "gemini-3-flash-preview",
        "/tools/0/functionDeclarations/0/parametersJsonSchema",
    );
}
