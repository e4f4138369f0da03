//! A conversation as the body of a request.
//!
//! The static part of the system prompt is `instructions`. The dynamic part
//! is a developer message at the head of `input`: a service reads
//! instructions and tools first, so sessions of one configuration share
//! everything up to it in the service's cache.

use super::items::{Content, InputItem, InputPart, Output, Replay, is_compaction_item, replay_of};
use super::tools::FunctionTool;
use crate::limits::{RESPONSES_CALL_ID_BYTES, WIRE_TOOL_NAME_BYTES};
use crate::wire::attachment::Intake;
use crate::wire::body::{Elements, ObjectWriter, Warnings, to_json};
use crate::wire::common::{Given, Loaded, is_own};
use crate::wire::names::{CallIds, ToolNames};
use crate::wire::structured::{Asked, NamedSchema, openai_schema};
use crate::wire::{ConversationEncoder, EncodedBody, RequestSettings};
use halter_protocol::{
    AssembledPrompt, AssistantMessage, AssistantPart, Message, PromptSegment, ProviderError,
    ReasoningEffort, ResolvedModel, ToolMessage, ToolName, ToolSpec, UserMessage,
};
use serde::Serialize;
use std::sync::Arc;

/// Bytes that the members before the conversation take, about.
const SETTINGS_BYTES: usize = 512;

/// One conversation with one model.
pub(super) struct ResponsesEncoder {
    model: ResolvedModel,
    /// False for a model known not to reason.
    reasons: bool,
    intake: Intake,
    given: Given,
    instructions: Option<Vec<u8>>,
    functions: Elements,
    loaded: Loaded,
    /// The dynamic part of the prompt, first of the input.
    opening: Elements,
    input: Elements,
    names: ToolNames,
    call_ids: CallIds,
    warnings: Warnings,
    /// Whether compactions of the service go back to it.
    takes_compactions: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    format: TextFormat<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TextFormat<'a> {
    JsonSchema(NamedSchema<'a>),
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

impl ResponsesEncoder {
    pub fn new(model: &ResolvedModel, intake: Intake) -> Self {
        Self {
            model: model.clone(),
            reasons: reasons(&model.model),
            intake,
            given: Given::default(),
            instructions: None,
            functions: Elements::default(),
            loaded: Loaded::default(),
            opening: Elements::default(),
            input: Elements::default(),
            names: ToolNames::new(model.provider_kind.clone(), WIRE_TOOL_NAME_BYTES),
            call_ids: CallIds::new(RESPONSES_CALL_ID_BYTES),
            warnings: Warnings::default(),
            takes_compactions: false,
        }
    }

    fn encode_prompt(&mut self) {
        self.instructions = joined(self.given.prompt.static_segments()).map(|text| to_json(&text));
        self.opening = Elements::default();
        if let Some(text) = joined(self.given.prompt.dynamic_segments()) {
            self.opening.push(&developer_message(&text));
        }
    }

    fn encode_tools(&mut self) {
        self.names.learn(self.given.tools.iter());
        self.functions = Elements::default();
        for spec in self.given.tools.iter() {
            let name = self.names.sent(&spec.name);
            self.functions
                .push(&FunctionTool::new(spec, name, &mut self.warnings));
        }
    }

    fn push_user(&mut self, message: &UserMessage) {
        let parts = InputPart::all(&message.parts, &self.intake, &mut self.warnings);
        if !parts.is_empty() {
            self.input.push(&InputItem::Message {
                role: "user",
                content: Content::Parts(parts),
            });
        }
    }

    fn push_assistant(&mut self, message: &AssistantMessage) {
        let own =
            is_own(message, &self.model) && (self.takes_compactions || !is_compaction(message));
        let mut kept: Vec<Option<Replay>> = message
            .parts
            .iter()
            .map(|part| part.opaque().filter(|_| own))
            .map(|opaque| opaque.filter(|opaque| opaque.wire == super::NAME))
            .map(|opaque| opaque.and_then(|opaque| replay_of(&opaque.data)))
            .collect();
        drop_dangling_reasoning(&mut kept);
        for (part, kept) in message.parts.iter().zip(kept) {
            match (kept, part.opaque()) {
                (Some(Replay::Never), _) => {}
                (Some(Replay::AsIs | Replay::Reasoning), Some(opaque)) => {
                    if let AssistantPart::ToolCall { id, .. } = part {
                        self.call_ids.keep(id);
                    }
                    self.input.push_text(&opaque.data);
                }
                _ => self.push_neutral(part),
            }
        }
    }

    fn push_neutral(&mut self, part: &AssistantPart) {
        match part {
            AssistantPart::Text { text, .. } if !text.is_empty() => {
                self.input.push(&InputItem::Message {
                    role: "assistant",
                    content: Content::Text(text),
                });
            }
            AssistantPart::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                self.input.push(&InputItem::FunctionCall {
                    call_id: &self.call_ids.assign(id),
                    name: &self.names.sent(name),
                    arguments: arguments.to_string(),
                });
            }
            // Reasoning of another model means nothing to this one.
            _ => {}
        }
    }

    fn push_result(&mut self, message: &ToolMessage) {
        self.input.push(&InputItem::FunctionCallOutput {
            call_id: self.call_ids.written(&message.call_id),
            output: Output::of(message, &self.intake, &mut self.warnings),
        });
        let placed = self.loaded.place(message);
        if !placed.is_empty() {
            let tools = placed.iter().map(|spec| {
                let name = self.names.sent(&spec.name);
                FunctionTool::new(spec, name, &mut self.warnings)
            });
            let tools = tools.collect();
            let role = "developer";
            self.input.push(&InputItem::AdditionalTools { role, tools });
        }
    }

    /// Those that were loaded and stand behind the others.
    fn loaded_functions(&mut self) -> Elements {
        let mut functions = Elements::default();
        for spec in self.loaded.behind() {
            let name = self.names.sent(&spec.name);
            functions.push(&FunctionTool::new(spec, name, &mut self.warnings));
        }
        functions
    }

    fn reasoning(&mut self) -> Option<Reasoning> {
        let level = self.model.reasoning?;
        if !self.reasons {
            if level != ReasoningEffort::None {
                self.warnings.add(format!(
                    "reasoning level '{}' was left out: model '{}' does not reason",
                    level.as_str(),
                    self.model.model
                ));
            }
            return None;
        }
        Some(Reasoning {
            effort: level.as_str(),
            summary: (level != ReasoningEffort::None).then_some("auto"),
        })
    }

    fn write_settings(
        &mut self,
        body: &mut ObjectWriter,
        settings: &RequestSettings,
        asked: &Asked,
    ) -> Result<(), ProviderError> {
        body.member("model", &self.model.model);
        body.member("stream", &true);
        body.member("store", &false);
        if self.reasons {
            body.member("include", &["reasoning.encrypted_content"]);
        }
        if let Some(limit) = self.model.max_output_tokens {
            body.member("max_output_tokens", &limit);
        }
        if let Some(temperature) = settings.temperature.filter(|one| one.is_finite()) {
            body.member("temperature", &temperature);
        }
        if let Some(reasoning) = self.reasoning() {
            body.member("reasoning", &reasoning);
        }
        if let Some(schema) = &asked.schema {
            let format = TextFormat::JsonSchema(NamedSchema::new(schema));
            body.member("text", &Text { format });
        }
        if let Some(key) = &settings.prompt_cache_key {
            body.member("prompt_cache_key", key);
        }
        if let Some(members) = &settings.extra_members {
            body.written_members(members)?;
        }
        Ok(())
    }
}

impl ConversationEncoder for ResponsesEncoder {
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
            self.names.learn(tools.iter().map(AsRef::as_ref));
        }
    }

    fn load_natively(&mut self) {
        self.loaded.place_with_messages();
    }

    fn push(&mut self, message: &Message) {
        match message {
            Message::System(message) => self.input.push(&developer_message(&message.text)),
            Message::User(message) => self.push_user(message),
            Message::Assistant(message) => self.push_assistant(message),
            Message::Tool(message) => self.push_result(message),
            _ => {}
        }
    }

    fn allow_native_compaction(&mut self) {
        self.takes_compactions = true;
    }

    fn compaction_body(
        &mut self,
        settings: &RequestSettings,
    ) -> Result<EncodedBody, ProviderError> {
        let mut body = ObjectWriter::with_capacity(SETTINGS_BYTES + self.input.bytes().len());
        body.member("model", &self.model.model);
        if let Some(key) = &settings.prompt_cache_key {
            body.member("prompt_cache_key", key);
        }
        if let Some(instructions) = &self.instructions {
            body.member_text("instructions", instructions);
        }
        // The opening is sent with every request, so it need not be compacted.
        body.array("input", &[&self.input]);
        Ok(EncodedBody {
            json: body.finish(),
            warnings: self.warnings.take_new(),
            beta: None,
        })
    }

    fn body(&mut self, settings: &RequestSettings) -> Result<EncodedBody, ProviderError> {
        let instructions = self.instructions.as_ref().map_or(0, Vec::len);
        let mut body = ObjectWriter::with_capacity(
            SETTINGS_BYTES
                + instructions
                + self.functions.bytes().len()
                + self.opening.bytes().len()
                + self.input.bytes().len(),
        );
        let asked = Asked::of(settings, |schema| openai_schema(&self.model.model, schema));
        self.write_settings(&mut body, settings, &asked)?;
        if let Some(instructions) = &self.instructions {
            body.member_text("instructions", instructions);
        }
        let mut more = Elements::default();
        if let Some(tool) = &asked.tool {
            let name = tool.name.as_str().into();
            more.push(&FunctionTool::new(tool, name, &mut self.warnings));
        }
        let loaded = self.loaded_functions();
        let tools = [&self.functions, &more, &loaded];
        if tools.iter().any(|tools| !tools.is_empty()) {
            body.array("tools", &tools);
        }
        body.array("input", &[&self.opening, &self.input]);
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

/// True for what stands for messages that the service compacted: it has words
/// for others. An item of the kind in an answer has none and goes back with it.
fn is_compaction(message: &AssistantMessage) -> bool {
    let opaque = message.parts.iter().filter_map(|part| match part {
        AssistantPart::Text { opaque, .. } => opaque.as_ref(),
        _ => None,
    });
    opaque
        .filter(|opaque| opaque.wire == super::NAME)
        .any(|opaque| is_compaction_item(&opaque.data))
}

/// False for families known not to reason, which refuse to be asked for
/// encrypted reasoning. Levels that a model does not take are the catalog's.
fn reasons(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or(&model);
    let families = ["gpt-3.5", "gpt-4", "chatgpt-4o"];
    let chat = name.starts_with("gpt-5") && name.contains("-chat");
    !chat && !families.iter().any(|family| name.starts_with(family))
}

/// A service refuses reasoning without the item that followed it. That item is
/// missing where an answer was cut off, or goes out in the neutral form.
fn drop_dangling_reasoning(kept: &mut [Option<Replay>]) {
    let mut anchored = false;
    for replay in kept.iter_mut().rev() {
        match replay {
            Some(Replay::AsIs) => anchored = true,
            Some(Replay::Reasoning) if !anchored => *replay = Some(Replay::Never),
            Some(_) => {}
            None => anchored = false,
        }
    }
}

fn developer_message(text: &str) -> InputItem<'_> {
    InputItem::Message {
        role: "developer",
        content: Content::input_text(text),
    }
}

fn joined(segments: &[PromptSegment]) -> Option<String> {
    let texts: Vec<&str> = segments
        .iter()
        .map(|segment| segment.text.as_ref())
        .filter(|text| !text.is_empty())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_needs_what_followed_it() {
        use Replay::{AsIs, Never, Reasoning};
        let cases = [
            (
                vec![Some(Reasoning), Some(AsIs)],
                vec![Some(Reasoning), Some(AsIs)],
            ),
            (
                vec![Some(Reasoning), Some(Reasoning), Some(AsIs)],
                vec![Some(Reasoning), Some(Reasoning), Some(AsIs)],
            ),
            (vec![Some(Reasoning)], vec![Some(Never)]),
            (vec![Some(Reasoning), None], vec![Some(Never), None]),
            (
                vec![Some(Reasoning), Some(AsIs), Some(Reasoning), None],
                vec![Some(Reasoning), Some(AsIs), Some(Never), None],
            ),
        ];
        for (mut given, expected) in cases {
            drop_dangling_reasoning(&mut given);
            assert_eq!(given, expected);
        }
    }
}
