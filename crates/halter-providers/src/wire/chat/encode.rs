//! Writes requests: what was encoded once is copied from then on.

use super::content::{CacheMark, ChatPart, Content, result_content, user_content};
use super::dialect::{Dialect, HarnessRole};
use super::message::{AssistantTurn, Names, PlainMessage, ResultMessage};
use crate::wire::attachment::{Intake, returned_by};
use crate::wire::body::{Elements, ObjectWriter, Warnings};
use crate::wire::common::{Given, Loaded};
use crate::wire::schema::function_parameters;
use crate::wire::structured::{Asked, NamedSchema, openai_schema};
use crate::wire::{ConversationEncoder, EncodedBody, OutputWay, RequestSettings};
use halter_protocol::{
    AssembledPrompt, Message, ProviderError, ResolvedModel, SystemMessage, ToolMessage, ToolName,
    ToolSpec,
};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Models that OpenRouter caches for only when told to.
const CACHED_ON_REQUEST: &str = "anthropic/";

/// Room for the members of a message besides its content, in bytes.
const MESSAGE_BYTES: usize = 64;

/// Room for the members of a body besides tools and messages, in bytes.
const SETTINGS_BYTES: usize = 1_024;

pub(super) struct ChatEncoder {
    dialect: Dialect,
    model: ResolvedModel,
    given: Given,
    names: Names,
    encoded_prompt: Elements,
    encoded_tools: Elements,
    loaded: Loaded,
    messages: Elements,
    intake: Intake,
    /// Images and documents of the results that came last: parts of a user
    /// message that follows all of them.
    media: Elements,
    warnings: Warnings,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl ChatEncoder {
    pub fn new(dialect: Dialect, model: ResolvedModel, intake: Intake) -> Self {
        Self {
            names: Names::new(&model),
            dialect,
            model,
            given: Given::default(),
            encoded_prompt: Elements::default(),
            encoded_tools: Elements::default(),
            loaded: Loaded::default(),
            messages: Elements::default(),
            intake,
            media: Elements::default(),
            warnings: Warnings::default(),
        }
    }

    fn encode_prompt(&self, prompt: &AssembledPrompt) -> Elements {
        let mut encoded = Elements::default();
        if prompt.segments().is_empty() {
            return encoded;
        }
        let content = match self.dialect.cache_marks {
            true => Content::Parts(marked_segments(prompt)),
            false => Content::Text(prompt.text()),
        };
        encoded.push(&PlainMessage {
            role: "system",
            content,
        });
        encoded
    }

    fn encode_tools<'a>(&mut self, tools: impl IntoIterator<Item = &'a ToolSpec>) -> Elements {
        let mut encoded = Elements::default();
        for spec in tools {
            encoded.push(&Tool {
                r#type: "function",
                function: Function {
                    name: self.names.tools.sent(&spec.name),
                    description: &spec.description,
                    parameters: function_parameters(spec, &mut self.warnings),
                },
            });
        }
        encoded
    }

    /// How a structured answer is asked for.
    fn asked(&self, settings: &RequestSettings) -> Asked {
        let way = settings.output.as_ref().map(|wanted| wanted.way);
        let takes = self.dialect.schema_beside_tools
            || self.encoded_tools.is_empty()
            || way == Some(OutputWay::Both);
        Asked::of(settings, |schema| {
            openai_schema(&self.model.model, schema).filter(|_| takes)
        })
    }

    fn push_result(&mut self, result: &ToolMessage) {
        let (text, media) = result_content(result, &self.intake, &mut self.warnings);
        self.messages
            .push(&ResultMessage::new(&result.call_id, text, &self.names));
        if !media.is_empty() {
            let tool = self.names.tools.sent(&result.tool_name);
            let call = self.names.calls.written(&result.call_id);
            self.media.push(&ChatPart::text(returned_by(&tool, call)));
            media.iter().for_each(|part| self.media.push(part));
        }
    }

    /// What the last results held besides text, as a message.
    fn media_message(&self) -> Elements {
        let mut message = Elements::default();
        if !self.media.is_empty() {
            let mut user = ObjectWriter::with_capacity(self.media.bytes().len() + MESSAGE_BYTES);
            user.member("role", "user");
            user.array("content", &[&self.media]);
            message.push_written(&user.finish());
        }
        message
    }

    /// The results of a step are all there.
    fn close_step(&mut self) {
        let message = self.media_message();
        if !message.is_empty() {
            self.messages.push_written(message.bytes());
            self.media = Elements::default();
        }
    }

    fn push_note(&mut self, note: &SystemMessage) {
        self.messages.push(&match self.dialect.harness_role {
            HarnessRole::System => PlainMessage {
                role: "system",
                content: Content::Text(note.text.clone()),
            },
            HarnessRole::User => PlainMessage {
                role: "user",
                content: Content::Text(format!("<system-note>\n{}\n</system-note>", note.text)),
            },
        });
    }
}

/// The segments as parts, with a mark on the last static one.
fn marked_segments(prompt: &AssembledPrompt) -> Vec<ChatPart> {
    let boundary = prompt.static_segments().len();
    prompt
        .segments()
        .iter()
        .enumerate()
        .map(|(index, segment)| ChatPart::Text {
            text: segment.text.to_string(),
            cache_control: (index + 1 == boundary).then_some(CacheMark::EPHEMERAL),
        })
        .collect()
}

impl ConversationEncoder for ChatEncoder {
    fn set_prefix(&mut self, prompt: &AssembledPrompt, tools: &Arc<[ToolSpec]>) {
        let changed = self.given.set(prompt, tools);
        if changed.prompt {
            self.encoded_prompt = self.encode_prompt(prompt);
        }
        if changed.tools {
            self.names.tools.learn(tools.iter());
            self.encoded_tools = self.encode_tools(tools.iter());
        }
    }

    fn set_loaded(&mut self, tools: &Arc<[Arc<ToolSpec>]>) {
        if self.loaded.set(tools) {
            self.names.tools.learn(self.loaded.behind());
        }
    }

    fn push(&mut self, message: &Message) {
        if !matches!(message, Message::Tool(_)) {
            self.close_step();
        }
        match message {
            Message::System(note) => self.push_note(note),
            Message::User(user) => self.messages.push(&PlainMessage {
                role: "user",
                content: user_content(&user.parts, &self.intake, &mut self.warnings),
            }),
            Message::Assistant(assistant) => {
                if let Some(answer) = AssistantTurn::new(assistant, &self.model, &mut self.names) {
                    self.messages.push(&answer);
                }
            }
            Message::Tool(result) => self.push_result(result),
            _ => self
                .warnings
                .add("a message of an unknown role was left out".to_owned()),
        }
    }

    fn body(&mut self, settings: &RequestSettings) -> Result<EncodedBody, ProviderError> {
        let asked = self.asked(settings);
        let size = self.encoded_prompt.bytes().len()
            + self.encoded_tools.bytes().len()
            + self.messages.bytes().len()
            + self.media.bytes().len();
        let mut body = ObjectWriter::with_capacity(size + SETTINGS_BYTES);
        body.member("model", &self.model.model);
        body.member("stream", &true);
        if self.dialect.asks_for_usage {
            body.member(
                "stream_options",
                &StreamOptions {
                    include_usage: true,
                },
            );
        }
        if let Some(limit) = self.model.max_output_tokens {
            body.member(self.dialect.output_limit.member(), &limit);
        }
        if let Some(temperature) = settings.temperature {
            body.member("temperature", &temperature);
        }
        if let Some(level) = self.model.reasoning {
            let (name, value) = self.dialect.reasoning.member(level);
            body.member(name, &value);
        }
        if let Some(schema) = &asked.schema {
            let format = ResponseFormat {
                r#type: "json_schema",
                json_schema: NamedSchema::new(schema),
            };
            body.member("response_format", &format);
        }
        if let Some(key) = &settings.prompt_cache_key {
            for name in self.dialect.cache_key_members {
                body.member(name, key);
            }
        }
        if self.dialect.cache_marks && self.model.model.starts_with(CACHED_ON_REQUEST) {
            body.member("cache_control", &CacheMark::EPHEMERAL);
        }
        if let Some(members) = &settings.extra_members {
            body.written_members(members)?;
        }
        let more = self.encode_tools(asked.tool.as_ref());
        let loaded: Vec<ToolSpec> = self.loaded.behind().cloned().collect();
        let loaded = self.encode_tools(&loaded);
        let tools = [&self.encoded_tools, &more, &loaded];
        if tools.iter().any(|tools| !tools.is_empty()) {
            body.array("tools", &tools);
        }
        let media = self.media_message();
        body.array("messages", &[&self.encoded_prompt, &self.messages, &media]);
        Ok(EncodedBody {
            json: body.finish(),
            warnings: self.warnings.take_new(),
            beta: None,
        })
    }

    fn tool_name(&self, sent: &str) -> Option<ToolName> {
        self.names.tools.own(sent).cloned()
    }
}
