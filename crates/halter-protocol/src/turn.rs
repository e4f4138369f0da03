//! What a caller submits.

use crate::ids::{ModelId, SkillName, TurnId};
use crate::message::UserMessage;
use crate::response::ResponseSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request of a user: everything until the model has answered it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Names the turn in events.
    pub id: TurnId,
    /// What the user said.
    pub user_message: UserMessage,
    /// A registered model to use for this turn instead of the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<ModelId>,
    /// A registered model for the subagents that this turn starts, where
    /// neither the call nor their type names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_model: Option<ModelId>,
    /// What the last answer of the turn must look like. The turn completes
    /// with the answer as a value, or fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<ResponseSchema>,
    /// Resources that the user wants used. Their texts join the conversation
    /// before the message, unless they are in it already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<ResourceUse>,
}

/// A resource that a user wants used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResourceUse {
    /// A skill.
    Skill {
        /// Its name.
        name: SkillName,
        /// What the user wrote after the name.
        #[serde(default)]
        arguments: String,
    },
    /// A command whose prompt is in the message: what it allows holds in the
    /// turn.
    Command {
        /// Its name.
        name: String,
    },
    /// A command whose prompt the session adds to the message, with the output
    /// of its commands and the files it refers to; what it allows holds in the
    /// turn.
    CommandPrompt {
        /// Its name.
        name: String,
        /// What the user wrote after the name.
        #[serde(default)]
        arguments: String,
    },
    /// An output style, from now on.
    OutputStyle {
        /// Its name.
        name: String,
    },
}

impl Turn {
    /// A turn of one text.
    ///
    /// ```
    /// let turn = halter_protocol::Turn::user("Summarize this repository");
    /// assert_eq!(turn.user_message.plain_text(), "Summarize this repository");
    /// ```
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(UserMessage::text(text))
    }

    /// A turn of a message with any parts.
    pub fn new(user_message: UserMessage) -> Self {
        Self {
            id: TurnId::new(),
            user_message,
            default_model: None,
            subagent_model: None,
            response_schema: None,
            uses: Vec::new(),
        }
    }

    /// Uses another registered model for this turn.
    pub fn with_default_model(mut self, model: impl Into<ModelId>) -> Self {
        self.default_model = Some(model.into());
        self
    }

    /// Uses another registered model for the subagents of this turn.
    pub fn with_subagent_model(mut self, model: impl Into<ModelId>) -> Self {
        self.subagent_model = Some(model.into());
        self
    }

    /// Uses a resource in this turn, and where it holds, from then on.
    pub fn with_use(mut self, resource: ResourceUse) -> Self {
        self.uses.push(resource);
        self
    }

    /// Asks for an answer that fits a JSON Schema. A schema that is none is
    /// refused when the turn is submitted.
    ///
    /// ```
    /// use halter_protocol::Turn;
    /// use serde_json::json;
    ///
    /// let turn = Turn::user("How many files are here?").with_response_schema(json!({
    ///     "type": "object",
    ///     "properties": {"files": {"type": "integer"}},
    ///     "required": ["files"],
    /// }));
    /// assert!(turn.response_schema.is_some());
    /// ```
    pub fn with_response_schema(mut self, schema: Value) -> Self {
        self.response_schema = Some(ResponseSchema::new(schema));
        self
    }
}
