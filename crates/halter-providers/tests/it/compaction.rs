//! Compactions that services make: how they are asked for, what is understood,
//! and what goes back.

use crate::wire_kit::{answer, model, opaque, prompt};
use halter_protocol::{
    AssistantPart, Message, ProviderKind, ResolvedModel, StreamEvent, UserMessage,
};
use halter_providers::Provider;
use halter_providers::decode::ResponseDecoder;
use halter_providers::http::{Endpoint, HttpProvider, NetworkTransport};
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::wire::{EncodedBody, ImageInput, RequestSettings, Wire};
use serde_json::{Value, json};
use std::sync::Arc;

const BLOCK: &str =
    r#"{"type":"compaction", "content":"What h\u00e4ppened.","signature":"c2lnbmVk"}"#;
const ITEM: &str = r#"{"id":"cmp_1", "type":"compaction","encrypted_content":"gAAAA=="}"#;
const KEPT: &str =
    r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#;

fn claude() -> ResolvedModel {
    model("anthropic", ProviderKind::Anthropic, "claude-opus-5")
}

fn gpt() -> ResolvedModel {
    model("openai", ProviderKind::OpenAi, "gpt-5.2")
}

fn user(text: &str) -> Message {
    Message::User(UserMessage::text(text))
}

/// What stands for old messages, of the parts that a service made.
fn stands_in(model: &ResolvedModel, wire: &str, parts: &[&str]) -> Message {
    let mut words = Some("in words");
    let parts = parts.iter().map(|part| AssistantPart::Text {
        text: words.take().unwrap_or_default().to_owned(),
        opaque: opaque(wire, part),
    });
    answer(model, parts.collect(), None)
}

enum Asked {
    Answer,
    Compaction,
}

fn sent(
    wire: &dyn Wire,
    model: &ResolvedModel,
    native: bool,
    messages: &[Message],
    asked: Asked,
) -> (EncodedBody, String) {
    let mut encoder = wire.encoder(model, ImageInput::Taken);
    if native {
        encoder.allow_native_compaction();
    }
    encoder.set_prefix(&prompt(), &Arc::from([]));
    messages.iter().for_each(|message| encoder.push(message));
    let settings = RequestSettings {
        prompt_cache_key: Some("ses_1".to_owned()),
        ..RequestSettings::default()
    };
    let body = match asked {
        Asked::Answer => encoder.body(&settings),
        Asked::Compaction => encoder.compaction_body(&settings),
    };
    let body = body.unwrap();
    let json = String::from_utf8(body.json.clone()).unwrap();
    (body, json)
}

/// The parts of an answer that is one document: text and the service's bytes.
fn received(wire: &dyn Wire, document: &str) -> (Vec<(String, String)>, Vec<StreamEvent>) {
    let mut decoder = ResponseDecoder::document(wire.decoder());
    let mut events = Vec::new();
    decoder.bytes(document.as_bytes(), &mut events).unwrap();
    decoder.end(&mut events).unwrap();
    let mut parts = Vec::new();
    let mut text = String::new();
    for event in &events {
        match event {
            StreamEvent::TextDelta { delta, .. } => text.push_str(delta),
            StreamEvent::TextEnd { opaque, .. } | StreamEvent::ThinkingEnd { opaque, .. } => {
                let data = opaque.as_ref().map(|it| it.data.to_string());
                parts.push((std::mem::take(&mut text), data.unwrap_or_default()));
            }
            _ => {}
        }
    }
    (parts, events)
}

fn used(events: &[StreamEvent]) -> (u64, u64) {
    let usage = events.iter().rev().find_map(|event| match event {
        StreamEvent::UsageUpdate { usage } => Some(*usage),
        _ => None,
    });
    let usage = usage.unwrap();
    (
        usage.context_tokens() - usage.output_tokens,
        usage.output_tokens,
    )
}

#[test]
fn anthropic_is_asked_for_one_and_told_of_it_ever_after() {
    let wire = Anthropic::new();
    let beta = Some(("anthropic-beta", "compact-2026-09-04"));
    let old = [user("hi"), user("more")];
    let (body, json) = sent(&wire, &claude(), true, &old, Asked::Compaction);
    assert_eq!(body.beta, beta);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["compaction"], json!({"type": "summarize"}));
    assert_eq!(json["stream"], false);
    assert!(json["system"].is_array(), "with the prompt of the session");

    let messages = [stands_in(&claude(), "anthropic", &[BLOCK]), user("now?")];
    let (body, json) = sent(&wire, &claude(), true, &messages, Asked::Answer);
    assert_eq!(body.beta, beta);
    let first = format!(r#""messages":[{{"role":"assistant","content":[{BLOCK}]}}"#);
    assert!(json.contains(&first), "{json}");

    for (native, model) in [(false, claude()), (true, other_claude())] {
        let (body, json) = sent(&wire, &model, native, &messages, Asked::Answer);
        assert_eq!(body.beta, None);
        assert!(
            !json.contains("compaction") && json.contains("in words"),
            "{json}"
        );
    }
    let (body, _) = sent(&wire, &claude(), true, &old, Asked::Answer);
    assert_eq!(body.beta, None);
}

fn other_claude() -> ResolvedModel {
    model("anthropic", ProviderKind::Anthropic, "claude-sonnet-5")
}

#[test]
fn anthropic_answers_with_a_summary_and_what_it_took() {
    let document = format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","content":[{BLOCK}],
        "stop_reason":"compaction","usage":{{"input_tokens":0,"output_tokens":0,"iterations":[
        {{"type":"compaction","input_tokens":100,"cache_read_input_tokens":40,"output_tokens":7}}]}}}}"#
    );
    let (parts, events) = received(&Anthropic::new(), &document);
    assert_eq!(parts, [("What häppened.".to_owned(), BLOCK.to_owned())]);
    assert_eq!(used(&events), (140, 7));
}

#[test]
fn a_summary_that_is_missing_stands_for_nothing() {
    let document = r#"{"id":"msg_1","type":"message","role":"assistant",
        "content":[{"type":"compaction","content":null}],"stop_reason":"compaction","usage":{}}"#;
    let (parts, _) = received(&Anthropic::new(), document);
    assert_eq!(parts, [(String::new(), String::new())]);
}

#[test]
fn openai_is_asked_for_one_elsewhere_and_gets_all_of_it_back() {
    let wire = ResponsesWire;
    let url = wire.compaction_url("https://api.openai.com", &gpt());
    assert_eq!(url, "https://api.openai.com/v1/responses/compact");
    let (_, json) = sent(&wire, &gpt(), true, &[user("hi")], Asked::Compaction);
    let json: Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["model", "prompt_cache_key", "instructions", "input"]
    );

    let messages = [stands_in(&gpt(), "responses", &[KEPT, ITEM]), user("now?")];
    let (_, json) = sent(&wire, &gpt(), true, &messages, Asked::Answer);
    assert!(json.contains(&format!("{KEPT},{ITEM}")), "{json}");
    let other = model("openai", ProviderKind::OpenAi, "gpt-5.1");
    let elsewhere = model("proxy", ProviderKind::Custom, "gpt-5.2");
    for (native, model) in [(false, gpt()), (true, other), (true, elsewhere)] {
        let (_, json) = sent(&wire, &model, native, &messages, Asked::Answer);
        assert!(
            !json.contains("compaction") && json.contains("in words"),
            "{json}"
        );
    }
}

#[test]
fn openai_answers_with_items_that_are_kept_as_they_are() {
    let document = format!(
        r#"{{"id":"resp_1","object":"response.compaction","output":[{KEPT},{ITEM}],
        "usage":{{"input_tokens":90,"output_tokens":8}}}}"#
    );
    let (parts, events) = received(&ResponsesWire, &document);
    let kept: Vec<&str> = parts.iter().map(|(_, data)| data.as_str()).collect();
    assert_eq!(kept, [KEPT, ITEM]);
    assert_eq!(used(&events), (90, 8));

    let nothing = format!(r#"{{"object":"response.compaction","output":[{KEPT}]}}"#);
    let mut decoder = ResponseDecoder::document(ResponsesWire.decoder());
    decoder.bytes(nothing.as_bytes(), &mut Vec::new()).unwrap();
    assert!(decoder.end(&mut Vec::new()).is_err());
}

#[test]
fn only_the_vendors_are_taken_to_compact_unless_told() {
    let compacts =
        |wire: Arc<dyn Wire>, address: &str, told: Option<bool>, model: ResolvedModel| {
            let endpoint = Endpoint {
                native_compaction: told,
                ..Endpoint::new(address)
            };
            let transport = Arc::new(NetworkTransport::new(Default::default()));
            let provider = HttpProvider::new(wire, endpoint, transport);
            provider.model_capabilities(&model).native_compaction
        };
    let anthropic = || Arc::new(Anthropic::new());
    let responses = || Arc::new(ResponsesWire);
    let (vendor, proxy) = ("https://api.anthropic.com", "https://proxy.example.org");
    assert!(compacts(anthropic(), vendor, None, claude()));
    assert!(!compacts(anthropic(), vendor, Some(false), claude()));
    assert!(!compacts(anthropic(), proxy, None, claude()));
    assert!(compacts(anthropic(), proxy, Some(true), claude()));
    let older = model("anthropic", ProviderKind::Anthropic, "claude-haiku-4-5");
    assert!(!compacts(anthropic(), vendor, None, older));
    assert!(compacts(
        responses(),
        "https://api.openai.com/v1",
        None,
        gpt()
    ));
    assert!(!compacts(responses(), proxy, None, gpt()));
    let chat = Arc::new(Chat::new(Dialect::OPENAI));
    assert!(!compacts(chat, "https://api.openai.com", Some(true), gpt()));
}
