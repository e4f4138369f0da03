//! A conversation as the body of a request.
//!
//! The results of one step go out in one content, in the order of the calls.
//! They are collected until each call has its result; only then is the content
//! written, so that nothing written changes later.

use super::chunk::kept_calls;
use super::content::{Answered, Content, FunctionCall, FunctionResponse, GeminiPart};
use super::thinking::{LevelRefused, Thinking, ThinkingConfig};
use crate::limits::{GEMINI_CALL_ID_BYTES, WIRE_TOOL_NAME_BYTES};
use crate::wire::attachment::Intake;
use crate::wire::body::{Elements, ObjectWriter, Warnings, to_json};
use crate::wire::common::{Given, Loaded, is_own};
use crate::wire::names::{CallIds, ToolNames};
use crate::wire::schema::{object_root, warn_of_choices};
use crate::wire::structured::Asked;
use crate::wire::{ConversationEncoder, EncodedBody, RequestSettings};
use halter_protocol::{
    AssembledPrompt, AssistantMessage, AssistantPart, Message, OpaquePart, ProviderError,
    ResolvedModel, ToolCallId, ToolMessage, ToolName, ToolSpec, UserMessage,
};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Stands in the place of a signature on a call that the model did not make.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// Bytes that the members before the conversation take, about.
const SETTINGS_BYTES: usize = 512;

/// One conversation with one model.
pub(super) struct GeminiEncoder {
    model: ResolvedModel,
    thinking: Thinking,
    intake: Intake,
    given: Given,
    system_instruction: Option<Vec<u8>>,
    /// The `tools` of a request.
    encoded_tools: Option<Vec<u8>>,
    loaded: Loaded,
    contents: Elements,
    /// The calls of the last step, until all are answered.
    open_calls: Vec<OpenCall>,
    /// The answers so far.
    results: Vec<EncodedResult>,
    names: ToolNames,
    call_ids: CallIds,
    warnings: Warnings,
}

/// A call that waits for its result.
struct OpenCall {
    id: ToolCallId,
    name: String,
    /// The id the service knows it by, if any.
    wire_id: Option<String>,
}

/// The answer to a call, encoded.
struct EncodedResult {
    /// The place of the call.
    place: usize,
    response: Vec<u8>,
    /// Parts that go behind the responses of the step.
    behind: Elements,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionTools<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters_json_schema: Cow<'a, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl GeminiEncoder {
    pub fn new(model: &ResolvedModel, intake: Intake) -> Self {
        Self {
            model: model.clone(),
            thinking: Thinking::of(&model.model),
            intake,
            given: Given::default(),
            system_instruction: None,
            encoded_tools: None,
            loaded: Loaded::default(),
            contents: Elements::default(),
            open_calls: Vec::new(),
            results: Vec::new(),
            names: ToolNames::new(model.provider_kind.clone(), WIRE_TOOL_NAME_BYTES),
            call_ids: CallIds::new(GEMINI_CALL_ID_BYTES),
            warnings: Warnings::default(),
        }
    }

    fn encode_prompt(&mut self) {
        let parts: Vec<GeminiPart<'_>> = self
            .given
            .prompt
            .segments()
            .iter()
            .filter(|segment| !segment.text.is_empty())
            .map(|segment| GeminiPart::text(segment.text.as_ref()))
            .collect();
        self.system_instruction =
            (!parts.is_empty()).then(|| to_json(&SystemInstruction { parts }));
    }

    fn encode_tools(&mut self) {
        self.names.learn(self.given.tools.iter());
        self.names.learn(self.loaded.behind());
        let tools = self.given.tools.iter().chain(self.loaded.behind());
        warn_of_choices(tools, &mut self.warnings);
        self.encoded_tools = self.tools_json(None);
    }

    /// The tools, with one more and those that were loaded behind the others.
    fn tools_json(&self, more: Option<&ToolSpec>) -> Option<Vec<u8>> {
        let declarations: Vec<FunctionDeclaration<'_>> = self
            .given
            .tools
            .iter()
            .chain(more)
            .chain(self.loaded.behind())
            .map(|spec| FunctionDeclaration {
                name: self.names.sent(&spec.name),
                description: &spec.description,
                parameters_json_schema: object_root(&spec.input_schema),
            })
            .collect();
        (!declarations.is_empty()).then(|| {
            to_json(&[FunctionTools {
                function_declarations: declarations,
            }])
        })
    }

    /// How a structured answer is asked for. Models before the third
    /// generation take a schema or tools, not both.
    fn asked(&self, settings: &RequestSettings) -> Asked {
        let takes = self.thinking.is_third_generation() || self.given.tools.is_empty();
        Asked::of(settings, |schema| takes.then(|| schema.clone()))
    }

    fn push_parts(&mut self, role: &'static str, parts: Vec<GeminiPart<'_>>) {
        if !parts.is_empty() {
            self.contents.push(&Content { role, parts });
        }
    }

    fn push_user(&mut self, message: &UserMessage) {
        let parts = GeminiPart::all(&message.parts, &self.intake, &mut self.warnings);
        self.push_parts("user", parts);
    }

    fn push_assistant(&mut self, message: &AssistantMessage) {
        self.open_calls.clear();
        let own = is_own(message, &self.model);
        let mut parts = Elements::default();
        for part in &message.parts {
            let kept = part
                .opaque()
                .filter(|opaque| own && opaque.wire == super::NAME);
            match kept.and_then(|kept| self.keep(kept, part)) {
                Some(written) => parts.push_text(written),
                None => self.push_neutral(part, &mut parts),
            }
        }
        if !parts.is_empty() {
            let mut content = ObjectWriter::with_capacity(parts.bytes().len() + 32);
            content.member("role", "model");
            content.array("parts", &[&parts]);
            self.contents.push_written(&content.finish());
        }
    }

    /// The parts as the model wrote them; none if they cannot be read. Takes
    /// note of the call among them.
    fn keep<'a>(&mut self, kept: &'a OpaquePart, part: &AssistantPart) -> Option<&'a str> {
        let calls = kept_calls(&kept.data)?;
        let inside = kept.data.trim().strip_prefix('[')?.strip_suffix(']')?;
        if inside.trim().is_empty() {
            return None;
        }
        if let AssistantPart::ToolCall { id, .. } = part {
            let call = calls.into_iter().next()?;
            self.call_ids.keep(id);
            self.open_calls.push(OpenCall {
                id: id.clone(),
                name: call.name,
                wire_id: call.id,
            });
        }
        Some(inside)
    }

    fn push_neutral(&mut self, part: &AssistantPart, parts: &mut Elements) {
        match part {
            AssistantPart::Text { text, .. } if !text.is_empty() => {
                parts.push(&GeminiPart::text(text.as_str()));
            }
            AssistantPart::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                let first = self.open_calls.is_empty();
                let wire_id = self.call_ids.assign(id);
                let name = self.names.sent(name);
                parts.push(&GeminiPart::FunctionCall {
                    function_call: FunctionCall {
                        id: &wire_id,
                        name: &name,
                        args: arguments,
                    },
                    thought_signature: (first && self.thinking.checks_signatures())
                        .then_some(FOREIGN_CALL),
                });
                self.open_calls.push(OpenCall {
                    id: id.clone(),
                    name: name.into_owned(),
                    wire_id: Some(wire_id),
                });
            }
            // Thoughts of another model mean nothing to this one.
            _ => {}
        }
    }

    fn push_result(&mut self, message: &ToolMessage) {
        let place = self
            .open_calls
            .iter()
            .position(|call| call.id == message.call_id);
        let call = place.and_then(|place| self.open_calls.get(place));
        let takes_parts = self.thinking.is_third_generation();
        let answered = Answered::of(message, &self.intake, takes_parts, &mut self.warnings);
        let part = GeminiPart::FunctionResponse {
            function_response: FunctionResponse {
                id: match call {
                    Some(call) => call.wire_id.as_deref(),
                    None => Some(message.call_id.as_str()),
                },
                name: call.map_or(message.tool_name.as_str(), |call| &call.name),
                response: answered.outcome,
                parts: answered.inside,
            },
        };
        let mut behind = Elements::default();
        answered.behind.iter().for_each(|part| behind.push(part));
        let answer = EncodedResult {
            place: place.unwrap_or(self.open_calls.len()),
            response: to_json(&part),
            behind,
        };
        self.results.push(answer);
        if self.results.len() >= self.open_calls.len() {
            self.close_step();
        }
    }

    /// Writes the results of the step, if there are any.
    fn close_step(&mut self) {
        if let Some(content) = self.results_content() {
            self.contents.push_written(&content);
        }
        self.results.clear();
    }

    fn results_content(&self) -> Option<Vec<u8>> {
        if self.results.is_empty() {
            return None;
        }
        let mut results: Vec<&EncodedResult> = self.results.iter().collect();
        results.sort_by_key(|answer| answer.place);
        let mut parts = Elements::default();
        for answer in &results {
            parts.push_written(&answer.response);
        }
        for answer in results.iter().filter(|answer| !answer.behind.is_empty()) {
            parts.push_written(answer.behind.bytes());
        }
        let mut content = ObjectWriter::with_capacity(parts.bytes().len() + 32);
        content.member("role", "user");
        content.array("parts", &[&parts]);
        Some(content.finish())
    }

    fn thinking_config(&mut self) -> Option<ThinkingConfig> {
        let Some(level) = self.model.reasoning else {
            return self.thinking.default_config();
        };
        match self.thinking.config(level) {
            Ok(config) => config,
            Err(LevelRefused) => {
                self.warnings.add(format!(
                    "reasoning level '{}' was left out: model '{}' does not take it",
                    level.as_str(),
                    self.model.model
                ));
                self.thinking.default_config()
            }
        }
    }

    fn temperature(&mut self, settings: &RequestSettings) -> Option<f32> {
        let temperature = settings.temperature?;
        if !temperature.is_finite() {
            self.warnings.add(format!(
                "temperature {temperature} was left out: it is no number"
            ));
            return None;
        }
        Some(temperature)
    }
}

impl ConversationEncoder for GeminiEncoder {
    fn set_prefix(&mut self, prompt: &AssembledPrompt, tools: &Arc<[ToolSpec]>) {
        let changed = self.given.set(prompt, tools);
        if changed.prompt {
            self.encode_prompt();
        }
        if changed.tools {
            self.encode_tools();
        }
    }

    fn set_loaded(&mut self, tools: &Arc<[Arc<ToolSpec>]>) {
        if self.loaded.set(tools) {
            self.encode_tools();
        }
    }

    fn push(&mut self, message: &Message) {
        if !matches!(message, Message::Tool(_)) {
            self.close_step();
        }
        match message {
            Message::System(message) => {
                self.push_parts("user", vec![GeminiPart::text(message.text.as_str())]);
            }
            Message::User(message) => self.push_user(message),
            Message::Assistant(message) => self.push_assistant(message),
            Message::Tool(message) => self.push_result(message),
            _ => {}
        }
    }

    fn body(&mut self, settings: &RequestSettings) -> Result<EncodedBody, ProviderError> {
        let prefix: usize = [&self.system_instruction, &self.encoded_tools]
            .into_iter()
            .flatten()
            .map(Vec::len)
            .sum();
        let asked = self.asked(settings);
        let schema = asked.schema.as_ref();
        let capacity = SETTINGS_BYTES + prefix + self.contents.bytes().len();
        let mut body = ObjectWriter::with_capacity(capacity);
        let generation = GenerationConfig {
            max_output_tokens: self.model.max_output_tokens,
            temperature: self.temperature(settings),
            response_mime_type: schema.map(|_| "application/json"),
            response_json_schema: schema,
            thinking_config: self.thinking_config(),
        };
        body.member("generationConfig", &generation);
        if let Some(members) = &settings.extra_members {
            body.written_members(members)?;
        }
        if let Some(instruction) = &self.system_instruction {
            body.member_text("systemInstruction", instruction);
        }
        let with_more = asked
            .tool
            .as_ref()
            .and_then(|tool| self.tools_json(Some(tool)));
        if let Some(tools) = with_more.as_ref().or(self.encoded_tools.as_ref()) {
            body.member_text("tools", tools);
        }
        // Results of a step that is not complete yet are shown, not kept.
        let mut unfinished = Elements::default();
        if let Some(content) = self.results_content() {
            unfinished.push_written(&content);
        }
        body.array("contents", &[&self.contents, &unfinished]);
        Ok(EncodedBody {
            json: body.finish(),
            warnings: self.warnings.take_new(),
            beta: None,
        })
    }

    fn tool_name(&self, sent: &str) -> Option<ToolName> {
        self.names.own(sent).cloned()
    }
}
