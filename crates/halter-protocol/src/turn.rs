//! What a caller submits.

use crate::ids::{ModelId, TurnId};
use crate::message::UserMessage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        }
    }

    /// Uses another registered model for this turn.
    pub fn with_default_model(mut self, model: impl Into<ModelId>) -> Self {
        self.default_model = Some(model.into());
        self
    }
}
