//! The Anthropic Messages wire: what is sent, what is understood.

mod decode;
mod encode;
mod errors;
mod prefix;
mod replay;

use crate::wire_kit;
use halter_protocol::{
    AssembledPrompt, Message, PromptSegment, PromptSegmentKind, ProviderError, ProviderKind,
    ResolvedModel, StreamEvent, ToolSpec,
};
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::{ConversationEncoder, ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};
use std::sync::Arc;

const WIRE: &str = "anthropic";

fn model(name: &str) -> ResolvedModel {
    ResolvedModel {
        id: "default".into(),
        provider: "anthropic".into(),
        provider_kind: ProviderKind::Anthropic,
        model: name.to_owned(),
        max_input_tokens: None,
        max_output_tokens: Some(4_096),
        reasoning: None,
        tokens_per_minute: None,
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        concurrency: Default::default(),
        capabilities: Default::default(),
        provider_aliases: Default::default(),
    }
}

fn prompt() -> AssembledPrompt {
    AssembledPrompt::new([
        PromptSegment::new(PromptSegmentKind::System, "You are careful."),
        PromptSegment::new(PromptSegmentKind::Skill, "Skills: none."),
        PromptSegment::new(PromptSegmentKind::Environment, "Today is a day."),
    ])
}

/// An encoder that has taken the messages.
fn encoder(model: &ResolvedModel, messages: &[Message]) -> Box<dyn ConversationEncoder> {
    let mut encoder = Anthropic::new().encoder(model, ImageInput::Taken);
    encoder.set_prefix(&prompt(), &Arc::from([tool("read"), tool("write")]));
    for message in messages {
        encoder.push(message);
    }
    encoder
}

/// The body about the messages.
fn body(model: &ResolvedModel, messages: &[Message]) -> Value {
    let encoded = encoder(model, messages)
        .body(&RequestSettings::default())
        .unwrap();
    serde_json::from_slice(&encoded.json).unwrap()
}

/// Every block of every message with its role, without cache marks.
fn blocks(body: &Value) -> Vec<(String, Value)> {
    let messages = body["messages"].as_array().unwrap();
    messages
        .iter()
        .flat_map(|message| {
            let role = message["role"].as_str().unwrap();
            let content = message["content"].as_array().unwrap();
            content.iter().map(move |block| {
                let mut block = block.clone();
                block.as_object_mut().unwrap().shift_remove("cache_control");
                (role.to_owned(), block)
            })
        })
        .collect()
}

/// What an example stream means.
fn decoded(name: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    wire_kit::decode(&Anthropic::new(), &wire_kit::stream(WIRE, name))
}

#[test]
fn requests_go_to_the_messages_endpoint() {
    let wire = Anthropic::new();
    for base in [
        "https://api.anthropic.com",
        "https://api.anthropic.com/",
        "https://api.anthropic.com/v1",
        "https://api.anthropic.com/v1/",
    ] {
        assert_eq!(
            wire.url(base, &model("m")),
            "https://api.anthropic.com/v1/messages"
        );
        assert_eq!(
            wire.models_url(base).as_deref(),
            Some("https://api.anthropic.com/v1/models")
        );
    }
}

#[test]
fn headers_carry_the_version_and_the_key_and_no_betas() {
    let plain = vec![
        ("anthropic-version".to_owned(), "2026-10-21".to_owned()),
        ("content-type".to_owned(), "application/json".to_owned()),
    ];
    let with = |name: &str, value: &str| {
        let mut headers = plain.clone();
        headers.push((name.to_owned(), value.to_owned()));
        headers
    };
    let key = Some("k-1");
    assert_eq!(Anthropic::new().headers(None), plain);
    assert_eq!(Anthropic::new().headers(key), with("x-api-key", "k-1"));
    assert_eq!(
        Anthropic::with_bearer_token().headers(key),
        with("authorization", "Bearer k-1")
    );
}

/// Panics with the reason for which a service would refuse the request.
fn assert_acceptable(body: &Value) {
    let last = body.as_object().unwrap().keys().next_back();
    assert_eq!(last.map(String::as_str), Some("messages"));
    let checked = halter_mock::check_body(halter_mock::MockWire::Anthropic, "", body);
    assert_eq!(checked, Ok(()), "{body:#}");
}
