//! What the tests of the wires share: streams from
//! files, golden files, messages, conversations.

use halter_mock::MockWire as Service;
use halter_protocol::{
    AssembledPrompt, AssistantMessage, AssistantPart, BlockId, Message, OpaquePart, PromptSegment,
    PromptSegmentKind, ProviderError, ProviderKind, ReplayMeta, ResolvedModel, StopReason,
    StreamEvent, Timestamp, ToolError, ToolErrorCode, ToolMessage, ToolResult, ToolSpec,
    UserMessage, UserPart,
};
use halter_providers::wire::{
    ConversationEncoder, ErrorResponse, HeaderLookup, ImageInput, RequestSettings, Wire,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether a service takes a request, or why not. The rules are those of the
/// model service of tests, which shares no code with the wires here.
pub fn check(service: Service, body: &str) -> Result<(), String> {
    let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    halter_mock::check_body(service, "gemini-3-flash-preview", &body)
}

pub fn fixture_dir(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(path)
}

/// The example streams of a wire by name.
pub fn streams(wire: &str) -> Vec<(String, String)> {
    let mut streams: Vec<(String, String)> = std::fs::read_dir(fixture_dir(wire).join("streams"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sse"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    streams.sort();
    assert!(!streams.is_empty());
    streams
}

/// One example stream.
pub fn stream(wire: &str, name: &str) -> String {
    let path = fixture_dir(wire)
        .join("streams")
        .join(format!("{name}.sse"));
    std::fs::read_to_string(path).unwrap()
}

/// What the bytes of a response mean: the events, and the error at the end.
pub fn decode(wire: &dyn Wire, stream: &str) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let mut events = Vec::new();
    for item in halter_providers::decode::decode(wire, [stream.as_bytes()]) {
        match item {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// An answer as lines of JSON.
pub fn rendered(items: &[Result<StreamEvent, ProviderError>]) -> String {
    let lines = items.iter().map(|item| match item {
        Ok(event) => serde_json::to_string(event).unwrap() + "\n",
        Err(error) => {
            let told = json!({
                "error": error.message,
                "kind": error.kind,
                "status": error.status,
                "request_id": error.request_id,
                "wait_ms": error.backoff_hint.map(|wait| wait.as_millis() as u64),
                "hint": error.hint,
            });
            format!("{told}\n")
        }
    });
    lines.collect()
}

/// Compares a text with a snapshot beside the fixtures: `INSTA_UPDATE=always`
/// renews what is meant to change.
pub fn assert_golden(path: &str, actual: &str) {
    let (directory, name) = path.rsplit_once('/').unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(fixture_dir(directory));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, actual));
}

/// Puts the events of an answer together as the harness does.
pub fn message_of(events: &[StreamEvent], model: &ResolvedModel) -> Message {
    let mut texts: HashMap<BlockId, String> = HashMap::new();
    let mut calls = HashMap::new();
    let mut order = Vec::new();
    let mut parts: HashMap<BlockId, AssistantPart> = HashMap::new();
    let mut reason = None;
    for event in events.iter().cloned() {
        match event {
            StreamEvent::TextStart { id } | StreamEvent::ThinkingStart { id } => order.push(id),
            StreamEvent::ToolCallStart {
                id,
                tool_call_id,
                name,
            } => {
                order.push(id.clone());
                calls.insert(id, (tool_call_id, name));
            }
            StreamEvent::TextDelta { id, delta }
            | StreamEvent::ThinkingDelta { id, delta }
            | StreamEvent::ToolArgsDelta { id, delta } => {
                texts.entry(id).or_default().push_str(&delta);
            }
            StreamEvent::TextEnd { id, opaque } => {
                let text = texts.remove(&id).unwrap_or_default();
                parts.insert(id, AssistantPart::Text { text, opaque });
            }
            StreamEvent::ThinkingEnd { id, opaque } => {
                let text = texts.remove(&id).unwrap_or_default();
                parts.insert(id, AssistantPart::Thinking { text, opaque });
            }
            StreamEvent::ToolCallEnd { id, opaque } => {
                let (call_id, name) = calls.remove(&id).unwrap();
                let written = texts.remove(&id).unwrap_or_default();
                let arguments: Result<Value, _> = serde_json::from_str(&written);
                let part = AssistantPart::ToolCall {
                    id: call_id,
                    name,
                    malformed_arguments: arguments.is_err().then_some(written),
                    arguments: arguments.unwrap_or_else(|_| json!({})),
                    opaque,
                };
                parts.insert(id, part);
            }
            StreamEvent::MessageEnd { stop_reason, .. } => reason = Some(stop_reason),
            _ => {}
        }
    }
    let parts = order.iter().filter_map(|id| parts.remove(id)).collect();
    answer(model, parts, reason)
}

pub fn model(provider: &str, kind: ProviderKind, name: &str) -> ResolvedModel {
    ResolvedModel {
        id: "default".into(),
        provider: provider.into(),
        provider_kind: kind,
        model: name.to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    }
}

pub fn prompt() -> AssembledPrompt {
    AssembledPrompt::new([
        PromptSegment::new(PromptSegmentKind::System, "You are careful."),
        PromptSegment::new(PromptSegmentKind::Skill, "Skills: none."),
        PromptSegment::new(PromptSegmentKind::Environment, "Today is a day."),
    ])
}

pub fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str, schema: Value| ToolSpec {
        name: name.into(),
        description: format!("Does \"{name}\"."),
        input_schema: schema,
        concurrency: Default::default(),
        capabilities: Default::default(),
        provider_aliases: Default::default(),
    };
    Arc::from([
        tool(
            "read",
            json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false}),
        ),
        tool(
            "search.all",
            json!({"properties": {"for": {"type": "string"}}}),
        ),
        tool(
            "either",
            json!({"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}),
        ),
    ])
}

pub fn user(parts: Vec<UserPart>) -> Message {
    Message::User(UserMessage {
        id: "msg_user".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts,
    })
}

pub fn image(media_type: &str) -> UserPart {
    UserPart::Image {
        media_type: media_type.to_owned(),
        data: Arc::from(*b"\x89PNG"),
    }
}

pub fn document(media_type: &str, data: &[u8]) -> UserPart {
    UserPart::Document {
        media_type: media_type.to_owned(),
        data: Arc::from(data),
    }
}

/// A result with text, images of a known and an unknown type, and documents.
pub fn with_media(text: &str) -> ToolResult {
    ToolResult::parts([
        UserPart::text(text),
        image("image/png"),
        image("image/tiff"),
        document("application/pdf", b"%PDF"),
        document("text/markdown", b"# Notes"),
    ])
}

/// What a model said.
pub fn answer(
    model: &ResolvedModel,
    parts: Vec<AssistantPart>,
    stop_reason: Option<StopReason>,
) -> Message {
    Message::Assistant(AssistantMessage {
        id: "msg_assistant".into(),
        created_at: Timestamp::UNIX_EPOCH,
        parts,
        stop_reason,
        usage: None,
        replay_meta: ReplayMeta {
            provider_name: Some(model.provider.clone()),
            model: Some(model.model.clone()),
        },
    })
}

pub fn call(id: &str, name: &str, arguments: Value, opaque: Option<OpaquePart>) -> AssistantPart {
    AssistantPart::ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
        malformed_arguments: None,
        opaque,
    }
}

pub fn opaque(wire: &str, data: &str) -> Option<OpaquePart> {
    Some(OpaquePart {
        wire: wire.to_owned(),
        data: data.into(),
    })
}

pub fn result(call_id: &str, name: &str, content: ToolResult) -> Message {
    Message::Tool(ToolMessage {
        id: "msg_tool".into(),
        call_id: call_id.into(),
        tool_name: name.into(),
        content: content.into(),
        error: None,
        created_at: Timestamp::UNIX_EPOCH,
        loaded: Vec::new(),
    })
}

pub fn failed(call_id: &str, name: &str) -> Message {
    Message::Tool(ToolMessage {
        id: "msg_tool".into(),
        call_id: call_id.into(),
        tool_name: name.into(),
        content: ToolResult::Empty.into(),
        error: Some(ToolError::new(ToolErrorCode::Failed, "no such file")),
        created_at: Timestamp::UNIX_EPOCH,
        loaded: Vec::new(),
    })
}

/// Attachments of every kind, one image of a type that the service does not
/// take; an answer of another service with two results; steering and a note.
pub fn opening(model: &ResolvedModel, strange_image: &str) -> Vec<Message> {
    let other = ResolvedModel {
        provider: "anthropic".into(),
        model: "claude".to_owned(),
        ..model.clone()
    };
    let parts = vec![
        AssistantPart::Thinking {
            text: "hm".to_owned(),
            opaque: opaque("anthropic", r#"{"type":"thinking"}"#),
        },
        AssistantPart::text("I shall \"read\"."),
        call("toolu_1", "search.all", json!({"for": "x", "a": 1}), None),
        call("toolu_2", "read", json!({"path": "b"}), None),
    ];
    vec![
        user(vec![
            UserPart::text("Look at\nthis: \u{1F980}"),
            image("image/png"),
            image(strange_image),
            document("application/pdf", b"%PDF-1.7"),
            document("text/markdown", b"# Notes"),
            document("application/zip", b"PK"),
        ]),
        answer(&other, parts, None),
        result("toolu_1", "search.all", ToolResult::text("found")),
        failed("toolu_2", "read"),
        user(vec![UserPart::text("Steer left.")]),
        super::support::system("The branch is now 'main'."),
    ]
}

/// An encoder with the usual prompt and tools.
pub fn encoder(wire: &dyn Wire, model: &ResolvedModel) -> Box<dyn ConversationEncoder> {
    encoder_for(wire, model, ImageInput::Taken)
}

/// The same, for a model that may take no images.
pub fn encoder_for(
    wire: &dyn Wire,
    model: &ResolvedModel,
    images: ImageInput,
) -> Box<dyn ConversationEncoder> {
    let mut encoder = wire.encoder(model, images);
    encoder.set_prefix(&prompt(), &tools());
    encoder
}

/// The body about messages.
pub fn body(wire: &dyn Wire, model: &ResolvedModel, messages: &[Message]) -> String {
    let mut encoder = encoder(wire, model);
    messages.iter().for_each(|message| encoder.push(message));
    text_of(encoder.as_mut())
}

/// The body about messages, and with the warnings behind it as golden files
/// have it.
pub fn golden_request(
    wire: &dyn Wire,
    model: &ResolvedModel,
    messages: &[Message],
    settings: &RequestSettings,
) -> (String, String) {
    let mut encoder = encoder(wire, model);
    messages.iter().for_each(|message| encoder.push(message));
    let encoded = encoder.body(settings).unwrap();
    let body = String::from_utf8(encoded.json).unwrap();
    let golden = format!("{body}\n{}\n", encoded.warnings.join("\n"));
    (body, golden)
}

/// What an error response means.
pub fn error_of(
    wire: &dyn Wire,
    status: u16,
    headers: &[(&'static str, &'static str)],
    body: &str,
) -> ProviderError {
    wire.error(&ErrorResponse {
        status,
        headers: &Headers(headers.to_vec()),
        body: body.as_bytes(),
    })
}

pub fn text_of(encoder: &mut dyn ConversationEncoder) -> String {
    let encoded = encoder.body(&RequestSettings::default()).unwrap();
    String::from_utf8(encoded.json).unwrap()
}

/// What comes before the elements of the last member, and the elements as
/// they are written.
pub fn split_body(body: &str, last: &str) -> (String, Vec<String>) {
    let members: Value = serde_json::from_str(body).unwrap();
    let names: Vec<&String> = members.as_object().unwrap().keys().collect();
    assert_eq!(names.last().unwrap().as_str(), last, "it stands last");
    let start = body.rfind(&format!("\"{last}\":[")).unwrap();
    let head = body[..start].to_owned();
    let list = body[start + last.len() + 3..].strip_suffix('}').unwrap();
    let elements: Vec<Box<RawValue>> = serde_json::from_str(list).unwrap();
    let elements = elements.iter().map(|element| element.get().to_owned());
    (head, elements.collect())
}

/// Response headers for tests.
pub struct Headers(pub Vec<(&'static str, &'static str)>);

impl HeaderLookup for Headers {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| *value)
    }
}

/// One thing that happens in a random conversation.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    User,
    Attachment,
    Note,
    /// The model answers with text and calls, as its wire wrote them.
    Own(usize),
    /// The model's calls were complete when the stream broke, its text not.
    OwnCutOff(usize),
    /// Another model answered.
    Foreign(usize),
}

pub fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::*;
    let step = prop_oneof![
        Just(Step::User),
        Just(Step::Attachment),
        Just(Step::Note),
        (0usize..4).prop_map(Step::Own),
        (1usize..4).prop_map(Step::OwnCutOff),
        (0usize..4).prop_map(Step::Foreign),
    ];
    proptest::collection::vec(step, 1..14)
}

/// How a wire writes what its model said.
pub trait OwnForm {
    fn thinking(&self, text: &str) -> String;
    fn text(&self, text: &str) -> String;
    fn call(&self, id: &str, name: &str, position: usize) -> String;
}

/// The messages of a step; `number` makes ids unique.
pub fn messages_of(
    step: Step,
    number: usize,
    wire: &str,
    form: &dyn OwnForm,
    model: &ResolvedModel,
) -> Vec<Message> {
    let text = format!("said \"{number}\"");
    let ids = |calls: usize| (0..calls).map(move |n| format!("call_{number}_{n}"));
    let results = |calls: usize| {
        ids(calls).enumerate().map(|(n, id)| match n {
            0 if number.is_multiple_of(3) => result(&id, "read", with_media(&id)),
            0 => result(&id, "read", ToolResult::text(format!("result {id}"))),
            1 => failed(&id, "read"),
            _ => result(&id, "read", ToolResult::json(json!({"b": 1, "a": [id]}))),
        })
    };
    let own_calls = |calls: usize| -> Vec<AssistantPart> {
        ids(calls)
            .enumerate()
            .map(|(n, id)| {
                let kept = opaque(wire, &form.call(&id, "read", n));
                call(&id, "read", json!({"path": "x"}), kept)
            })
            .collect()
    };
    let thinking = |text: &str| AssistantPart::Thinking {
        text: text.to_owned(),
        opaque: opaque(wire, &form.thinking(text)),
    };
    match step {
        Step::User => vec![user(vec![UserPart::Text { text }])],
        Step::Attachment => vec![user(vec![
            UserPart::Text { text },
            image("image/png"),
            document("text/plain", b"notes"),
        ])],
        Step::Note => vec![super::support::system(&text)],
        Step::Own(calls) => {
            let mut parts = vec![thinking(&text)];
            parts.push(AssistantPart::Text {
                text: text.clone(),
                opaque: opaque(wire, &form.text(&text)),
            });
            parts.extend(own_calls(calls));
            let mut messages = vec![answer(model, parts, None)];
            messages.extend(results(calls));
            messages
        }
        Step::OwnCutOff(calls) => {
            let mut parts = own_calls(calls);
            parts.push(thinking(&text));
            parts.push(AssistantPart::text(&text));
            let mut messages = vec![answer(model, parts, Some(StopReason::Interrupted))];
            messages.extend(results(calls));
            messages
        }
        Step::Foreign(calls) => {
            let other = ResolvedModel {
                model: "other-model".to_owned(),
                ..model.clone()
            };
            let mut parts = vec![thinking("foreign"), AssistantPart::text(&text)];
            parts.extend(own_calls(calls));
            let mut messages = vec![answer(&other, parts, None)];
            messages.extend(results(calls));
            messages
        }
    }
}

/// A wire whose requests only grow.
pub struct Growing<'a> {
    pub wire: &'a dyn Wire,
    pub model: ResolvedModel,
    pub form: &'a dyn OwnForm,
    /// The member of a body that holds the conversation.
    pub elements: &'static str,
    /// The same wire as the model service of tests knows it.
    pub service: Service,
}

impl Growing<'_> {
    /// Holds requests to the rule that each begins with the one before. One is
    /// sent when a step has all its results; a body that is written before
    /// must not disturb what comes later.
    pub fn assert_grows(&self, steps: impl IntoIterator<Item = Step>) {
        let mut growing = encoder(self.wire, &self.model);
        let mut messages = Vec::new();
        let (head, mut before) = split_body(&text_of(growing.as_mut()), self.elements);
        for (number, step) in steps.into_iter().enumerate() {
            for message in messages_of(step, number, self.wire.name(), self.form, &self.model) {
                growing.push(&message);
                messages.push(message);
                text_of(growing.as_mut());
            }
            let whole = text_of(growing.as_mut());
            let (new_head, elements) = split_body(&whole, self.elements);
            assert_eq!(new_head, head);
            assert_eq!(elements[..before.len()], before[..]);
            before = elements;
            // After an answer nothing is sent until there is something to say.
            if !matches!(messages.last(), Some(Message::Assistant(_))) {
                assert_eq!(check(self.service, &whole), Ok(()), "{number}");
            }
        }
        let at_once = body(self.wire, &self.model, &messages);
        assert_eq!(at_once, text_of(growing.as_mut()));
    }
}
