//! Conversations to request bodies.
//!
//! Each message is written once, when it is pushed, to the end of one buffer.
//! A body is that buffer copied out behind the settings, the tools and the
//! system prompt, with cache marks put in on the way.

mod assistant;
mod log;
mod prefix;
mod user;

use self::assistant::Block;
use self::log::{MessageLog, Role, put};
use self::prefix::Prefix;
use super::COMPACTION_BETA;
use super::limits::{CACHE_LOOKBACK_BLOCKS, CALL_ID_BYTES, TOOL_NAME_BYTES};
use super::model::{ModelTraits, ReasoningMembers, Thinking};
use crate::wire::attachment::Intake;
use crate::wire::body::{ObjectWriter, Warnings};
use crate::wire::names::{CallIds, ToolNames};
use crate::wire::schema::warn_of_choices;
use crate::wire::structured::{Asked, closed};
use crate::wire::{ConversationEncoder, EncodedBody, RequestSettings};
use halter_protocol::{
    AssembledPrompt, AssistantMessage, Message, ProviderError, ProviderErrorKind, ResolvedModel,
    ToolCallId, ToolMessage, ToolName, ToolSpec,
};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Bytes to reserve for what is neither messages, tools nor system prompt.
const BODY_HEAD_BYTES: usize = 1_024;

/// One conversation, encoded as it grows.
pub(super) struct MessagesEncoder {
    /// The service's name of the model.
    model: String,
    traits: ModelTraits,
    max_tokens: u32,
    reasoning: ReasoningMembers,
    intake: Intake,
    prefix: Prefix,
    names: ToolNames,
    log: MessageLog,
    ids: CallIds,
    /// Calls of the last assistant message without a result yet.
    open_calls: Vec<ToolCallId>,
    /// Messages that came between calls and their results.
    held: Vec<Message>,
    /// What results say that stands behind them.
    notes: Vec<String>,
    turn: TurnMarks,
    /// Why no body can be written, if the conversation cannot be sent.
    fault: Option<ProviderError>,
    warnings: Warnings,
    compactions: Compactions,
}

/// What becomes of a compaction that the service made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compactions {
    /// It is sent as text.
    InWords,
    /// It is sent as it came.
    Taken,
    /// It was sent so, and the service must be told with each request.
    Sent,
}

/// The `output_config` of a request.
#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    r#type: &'static str,
    schema: &'a Value,
}

/// Where the current turn stands.
#[derive(Default)]
struct TurnMarks {
    /// Blocks that were there when the last answer was pushed: where the
    /// request that it answers ended.
    answered_blocks: Option<usize>,
    /// The last answer has calls, so the model goes on with its turn.
    in_tool_use: bool,
    /// An answer of this turn began with reasoning.
    began_with_thinking: bool,
}

impl MessagesEncoder {
    pub fn new(model: &ResolvedModel, intake: Intake) -> Self {
        let traits = ModelTraits::of(&model.model);
        let reasoning = traits.reasoning(model);
        let mut warnings = Warnings::default();
        if let Some(warning) = &reasoning.warning {
            warnings.add(warning.clone());
        }
        Self {
            model: model.model.clone(),
            max_tokens: traits.max_tokens(model),
            traits,
            reasoning,
            intake,
            prefix: Prefix::default(),
            names: ToolNames::new(model.provider_kind.clone(), TOOL_NAME_BYTES),
            log: MessageLog::default(),
            ids: CallIds::new(CALL_ID_BYTES),
            open_calls: Vec::new(),
            held: Vec::new(),
            notes: Vec::new(),
            turn: TurnMarks::default(),
            fault: None,
            warnings,
            compactions: Compactions::InWords,
        }
    }

    fn take(&mut self, message: &Message) {
        match message {
            Message::Tool(result) => self.tool_result(result),
            _ if !self.open_calls.is_empty() => self.out_of_place(message),
            Message::Assistant(message) => self.assistant(message),
            Message::User(message) => {
                if !self.turn.in_tool_use {
                    self.turn.began_with_thinking = false;
                }
                user::push(&mut self.log, message, &self.intake, &mut self.warnings);
            }
            Message::System(message) => user::push_note(&mut self.log, &message.text),
            _ => {}
        }
    }

    fn assistant(&mut self, message: &AssistantMessage) {
        let opens = self.log.last_role().is_none();
        let takes_compaction = opens && self.compactions == Compactions::Taken;
        let blocks = assistant::blocks(
            message,
            &self.model,
            self.traits,
            takes_compaction,
            &mut self.ids,
        );
        let answered = self.log.block_count();
        if blocks.first().is_some_and(Block::is_compaction) {
            self.compactions = Compactions::Sent;
        } else if !blocks.is_empty() && opens {
            user::push_text(&mut self.log, user::OPENING);
        }
        let starts_thinking = blocks.first().is_some_and(|block| block.is_thinking());
        self.turn.in_tool_use = false;
        for block in &blocks {
            if let Some(id) = block.call() {
                self.turn.in_tool_use = true;
                self.open_calls.push(id.clone());
            }
            self.log.append(Role::Assistant, block.markable(), |out| {
                block.write(out, &self.names);
            });
        }
        self.turn.began_with_thinking |= starts_thinking;
        self.turn.answered_blocks = Some(answered);
    }

    /// A result goes right behind its call; words wait until all results of
    /// the step are there; a further answer cannot be placed.
    fn out_of_place(&mut self, message: &Message) {
        if message.as_assistant().is_none() {
            self.held.push(message.clone());
        } else if let Some(call) = self.open_calls.first() {
            let what = format!("the call '{call}' has no result");
            self.refuse(what);
        }
    }

    fn tool_result(&mut self, result: &ToolMessage) {
        let place = self
            .open_calls
            .iter()
            .position(|call| *call == result.call_id);
        let Some(place) = place else {
            let what = format!("the result of '{}' answers no open call", result.call_id);
            return self.refuse(what);
        };
        let call = self.open_calls.remove(place);
        let loaded = self.prefix.loaded.place(result);
        let written = self.ids.written(&call);
        if loaded.is_empty() {
            let warnings = &mut self.warnings;
            user::push_result(&mut self.log, written, result, &self.intake, warnings);
        } else {
            let names = loaded.iter().map(|tool| self.names.sent(&tool.name));
            user::push_references(&mut self.log, written, names);
            // The service shows the tools; what else was said stands behind the
            // results.
            if result.error.is_some() {
                self.notes.push(result.to_model_text());
            }
        }
        if self.open_calls.is_empty() {
            for note in std::mem::take(&mut self.notes) {
                user::push_note(&mut self.log, &note);
            }
            for message in std::mem::take(&mut self.held) {
                self.take(&message);
            }
        }
    }

    fn refuse(&mut self, what: String) {
        self.fault.get_or_insert_with(|| unsendable(&what));
    }

    fn check(&self) -> Result<(), ProviderError> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if let Some(call) = self.open_calls.first() {
            return Err(unsendable(&format!("the call '{call}' has no result")));
        }
        match self.log.last_role() {
            Some(_) => Ok(()),
            None => Err(unsendable("there is no message with content")),
        }
    }

    /// A model with a reasoning budget refuses to reason in a turn of tool use
    /// that began without reasoning, as after a switch of models.
    fn may_reason(&self) -> bool {
        self.traits.thinking != Thinking::Budget
            || !self.traits.signs_thinking
            || !self.turn.in_tool_use
            || self.turn.began_with_thinking
    }

    /// Blocks of the messages to mark: the end of the previous request if the
    /// service would not look back that far, and the end of this one.
    fn marked_blocks(&self) -> Vec<usize> {
        let Some(tail) = self.log.last_markable(self.log.block_count()) else {
            return Vec::new();
        };
        let previous = self
            .turn
            .answered_blocks
            .and_then(|blocks| self.log.last_markable(blocks))
            .filter(|previous| tail - previous >= CACHE_LOOKBACK_BLOCKS);
        previous.into_iter().chain([tail]).collect()
    }

    fn write_settings(
        &mut self,
        settings: &RequestSettings,
        asked: &Asked,
        wanted: Wanted,
        body: &mut ObjectWriter,
    ) -> Result<(), ProviderError> {
        body.member("model", &self.model);
        body.member("max_tokens", &self.max_tokens);
        body.member("stream", &(wanted == Wanted::Answer));
        if wanted == Wanted::Compaction {
            body.member_text("compaction", br#"{"type":"summarize"}"#);
        }
        let mut config = OutputConfig {
            effort: None,
            format: asked.schema.as_ref().map(|schema| OutputFormat {
                r#type: "json_schema",
                schema,
            }),
        };
        if self.may_reason() {
            config.effort = self.reasoning.effort;
            if let Some(thinking) = &self.reasoning.thinking {
                body.member_text("thinking", thinking.as_bytes());
            }
        } else if self.reasoning.thinking.is_some() {
            self.warnings.add(format!(
                "reasoning is off until the turn ends: '{}' did not begin the turn",
                self.model
            ));
        }
        if config.effort.is_some() || config.format.is_some() {
            body.member("output_config", &config);
        }
        if settings.temperature.is_some() {
            self.warnings.add(format!(
                "`temperature` was not sent to '{}': its wire has none",
                self.model
            ));
        }
        body.written_members(settings.extra_members.as_deref().unwrap_or_default())
    }
}

impl ConversationEncoder for MessagesEncoder {
    fn set_prefix(&mut self, prompt: &AssembledPrompt, tools: &Arc<[ToolSpec]>) {
        for warning in self.prefix.set(prompt, tools, &mut self.names) {
            self.warnings.add(warning);
        }
        warn_of_choices(tools.iter(), &mut self.warnings);
    }

    fn set_loaded(&mut self, tools: &Arc<[Arc<ToolSpec>]>) {
        if self.prefix.loaded.set(tools) {
            warn_of_choices(tools.iter().map(AsRef::as_ref), &mut self.warnings);
            self.names.learn(tools.iter().map(AsRef::as_ref));
        }
    }

    fn load_natively(&mut self) {
        self.prefix.loaded.place_with_messages();
    }

    fn push(&mut self, message: &Message) {
        self.take(message);
    }

    fn allow_native_compaction(&mut self) {
        self.compactions = Compactions::Taken;
    }

    fn compaction_body(
        &mut self,
        settings: &RequestSettings,
    ) -> Result<EncodedBody, ProviderError> {
        // The service refuses to keep a summary to a schema.
        let settings = RequestSettings {
            output: None,
            ..settings.clone()
        };
        self.write_body(&settings, Wanted::Compaction)
    }

    fn body(&mut self, settings: &RequestSettings) -> Result<EncodedBody, ProviderError> {
        self.write_body(settings, Wanted::Answer)
    }

    fn tool_name(&self, sent: &str) -> Option<ToolName> {
        self.names.own(sent).cloned()
    }
}

/// What a body asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Answer,
    Compaction,
}

impl MessagesEncoder {
    fn write_body(
        &mut self,
        settings: &RequestSettings,
        wanted: Wanted,
    ) -> Result<EncodedBody, ProviderError> {
        self.check()?;
        let capacity = self.log.len() + self.prefix.len() + BODY_HEAD_BYTES;
        let mut body = ObjectWriter::with_capacity(capacity);
        let asked = Asked::of(settings, |schema| {
            closed(schema).filter(|_| self.traits.takes_output_schema)
        });
        self.write_settings(settings, &asked, wanted, &mut body)?;
        self.prefix
            .write(&mut body, asked.tool.as_ref(), &self.names);
        let mut json = body.finish();
        // The messages are copied to their place, not through another buffer.
        json.pop();
        put(&mut json, ",\"messages\":[");
        self.log.write(&mut json, &self.marked_blocks());
        put(&mut json, "]}");
        Ok(EncodedBody {
            json,
            warnings: self.warnings.take_new(),
            beta: (wanted == Wanted::Compaction || self.compactions == Compactions::Sent)
                .then_some(("anthropic-beta", COMPACTION_BETA)),
        })
    }
}

fn unsendable(what: &str) -> ProviderError {
    ProviderError::new(
        format!("the conversation cannot be sent: {what}"),
        ProviderErrorKind::Fatal,
    )
}
