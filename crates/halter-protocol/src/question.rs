//! What a session asks a person, and what it is answered.

use crate::action::{Action, Objection};
use crate::ids::QuestionId;
use crate::open_enum::open_enum;
use crate::tool::ToolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something a person has to decide before the session goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Pairs the question with its answer.
    pub id: QuestionId,
    /// What it is about.
    pub subject: QuestionSubject,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum QuestionSubject {
    /// Whether a call may run.
    Approval {
        /// The call.
        call: ToolCall,
        /// What it would touch.
        actions: Vec<Action>,
        /// Who wants a person to decide.
        asked_by: AskedBy,
        /// Why.
        objection: Objection,
    },
}

open_enum! {
    /// Who wants a person to decide.
    pub enum AskedBy {
        /// A hook.
        Hook = "hook",
        /// The policy.
        Policy = "policy",
    }
}

/// How a question was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Yes.
    Allow,
    /// No, or nobody answered.
    Deny {
        /// Why, as a clause: `it was denied`, `nobody could be asked`.
        reason: String,
    },
}
