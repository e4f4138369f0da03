//! The messages of a transcript.

use crate::content::{ContentPart, attachments, joined_text};
use crate::ids::{MessageId, ProviderName, ToolCallId, ToolName};
use crate::open_enum::open_enum;
use crate::session::{EnvironmentSnapshot, InstructionFile};
use crate::tool::{ToldTool, ToolCall, ToolError, ToolResult};
use crate::usage::Usage;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

pub use crate::content::ContentPart as UserPart;

/// One message, by role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// The harness speaks: context added after the session started.
    System(SystemMessage),
    /// The user speaks.
    User(UserMessage),
    /// The model speaks.
    Assistant(AssistantMessage),
    /// A tool answers a call.
    Tool(ToolMessage),
}

impl Message {
    /// The id of the message.
    pub fn id(&self) -> &MessageId {
        match self {
            Self::System(message) => &message.id,
            Self::User(message) => &message.id,
            Self::Assistant(message) => &message.id,
            Self::Tool(message) => &message.id,
        }
    }

    /// The assistant message, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        match self {
            Self::Assistant(message) => Some(message),
            _ => None,
        }
    }
}

/// Context from the harness: a hook's words, a changed environment, instruction
/// files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemMessage {
    /// Names the message.
    pub id: MessageId,
    /// When it was added.
    pub created_at: Timestamp,
    /// What it says.
    pub text: String,
    /// The environment it tells of, where that has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentSnapshot>,
    /// The instruction files it holds or withdraws.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionFile>,
    /// The tools it tells of that joined the session late, changed or left it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToldTool>,
}

/// What a user said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// Names the message.
    pub id: MessageId,
    /// When it was said.
    pub created_at: Timestamp,
    /// The content, in order.
    pub parts: Vec<UserPart>,
}

impl UserMessage {
    /// A message of one text, stamped with the system's clock.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            id: MessageId::new(),
            created_at: Timestamp::now(),
            parts: vec![UserPart::Text { text: text.into() }],
        }
    }

    /// The message with one more part at its end.
    #[must_use]
    pub fn with_part(mut self, part: ContentPart) -> Self {
        self.parts.push(part);
        self
    }

    /// The message with an image: PNG, JPEG, GIF or WebP, which all model
    /// services take.
    ///
    /// ```
    /// use halter_protocol::{Turn, UserMessage};
    ///
    /// # let screenshot = Vec::new();
    /// let message = UserMessage::text("What is wrong on this page?")
    ///     .with_image("image/png", screenshot)
    ///     .with_document("text/plain", *b"the log of the server");
    /// assert_eq!(message.attachments().count(), 2);
    /// let turn = Turn::new(message);
    /// ```
    #[must_use]
    pub fn with_image(self, media_type: impl Into<String>, data: impl Into<Arc<[u8]>>) -> Self {
        self.with_part(ContentPart::image(media_type, data))
    }

    /// The message with a document: a PDF, or a text of any type. A model
    /// service that does not take it gets a note in its place.
    #[must_use]
    pub fn with_document(self, media_type: impl Into<String>, data: impl Into<Arc<[u8]>>) -> Self {
        self.with_part(ContentPart::document(media_type, data))
    }

    /// The images and documents, in order.
    pub fn attachments(&self) -> impl Iterator<Item = &ContentPart> {
        attachments(&self.parts)
    }

    /// The text parts, joined by newlines.
    pub fn plain_text(&self) -> String {
        joined_text(&self.parts)
    }
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    /// Names the message.
    pub id: MessageId,
    /// When it was complete.
    pub created_at: Timestamp,
    /// The content, in the order the model produced it.
    pub parts: Vec<AssistantPart>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// What the call used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Who said it.
    #[serde(default)]
    pub replay_meta: ReplayMeta,
}

impl AssistantMessage {
    /// The text parts, joined.
    pub fn plain_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall {
                id,
                name,
                arguments,
                ..
            } => Some(ToolCall {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            }),
            _ => None,
        })
    }

    /// The message without opaque provider data, as stream consumers see it.
    pub fn without_opaque(&self) -> Self {
        let mut message = self.clone();
        for part in &mut message.parts {
            match part {
                AssistantPart::Text { opaque, .. }
                | AssistantPart::Thinking { opaque, .. }
                | AssistantPart::ToolCall { opaque, .. } => *opaque = None,
            }
        }
        message
    }

    /// True if any part carries opaque provider data.
    pub fn has_opaque(&self) -> bool {
        self.parts.iter().any(|part| part.opaque().is_some())
    }
}

/// A piece of what a model said. The neutral fields alone are enough to go on
/// with any provider; `opaque` lets the same model have its own bytes back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssistantPart {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// The provider's own form of the part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<OpaquePart>,
    },
    /// Reasoning the model showed.
    Thinking {
        /// The reasoning, or a summary of it.
        text: String,
        /// The provider's own form of the part, signatures included.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<OpaquePart>,
    },
    /// A wish to run a tool.
    ToolCall {
        /// Pairs the call with its result.
        id: ToolCallId,
        /// The tool.
        name: ToolName,
        /// The input. An empty object if what the model wrote is not a JSON
        /// object; then `malformed_arguments` holds what it wrote.
        arguments: Value,
        /// What the model wrote, where it is not a JSON object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        malformed_arguments: Option<String>,
        /// The provider's own form of the part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<OpaquePart>,
    },
}

impl AssistantPart {
    /// A text part without provider data.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            opaque: None,
        }
    }

    /// The provider's own form of the part, if kept.
    pub fn opaque(&self) -> Option<&OpaquePart> {
        match self {
            Self::Text { opaque, .. }
            | Self::Thinking { opaque, .. }
            | Self::ToolCall { opaque, .. } => opaque.as_ref(),
        }
    }
}

/// A part exactly as a provider wrote it: text that is replayed, never parsed
/// and written anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpaquePart {
    /// The wire the text belongs to.
    pub wire: String,
    /// The text.
    pub data: Arc<str>,
}

/// Which provider and model produced a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayMeta {
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_name: Option<ProviderName>,
    /// The provider's name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ReplayMeta {
    /// True if it names nobody.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Provider and model as one name, such as `openai/gpt-5`.
    pub fn label(&self) -> String {
        let provider = self
            .provider_name
            .as_ref()
            .map_or("unknown", |name| name.as_str());
        let model = self.model.as_deref().unwrap_or("unknown");
        format!("{provider}/{model}")
    }
}

/// A tool's answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolMessage {
    /// Names the message.
    pub id: MessageId,
    /// The call it answers.
    pub call_id: ToolCallId,
    /// The tool that was called.
    pub tool_name: ToolName,
    /// What the tool returned; empty when there is an error.
    pub content: Arc<ToolResult>,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The tools that the call loaded: the model may call them from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<ToolName>,
    /// When the answer was recorded.
    pub created_at: Timestamp,
}

impl ToolMessage {
    /// The answer as the text a model reads.
    pub fn to_model_text(&self) -> String {
        match &self.error {
            Some(error) => format!("error ({}): {}", error.code, error.message),
            None => self.content.to_model_text(),
        }
    }
}

open_enum! {
    /// Why a model stopped.
    pub enum StopReason {
        /// It was done.
        EndTurn = "end_turn",
        /// It waits for tool results.
        ToolUse = "tool_use",
        /// It was cut off by a cancel or a broken stream.
        Interrupted = "interrupted",
        /// It reached its output limit.
        MaxTokens = "max_tokens",
        /// It declined to answer.
        Refusal = "refusal",
        /// Its context window is full.
        ContextWindowExceeded = "model_context_window_exceeded",
        /// It pauses and goes on when it gets its answer back as it is.
        Pause = "pause_turn",
    }
}
