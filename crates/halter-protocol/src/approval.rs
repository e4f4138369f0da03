//! What a person is asked about a call, and what they decide.

use crate::action::{Action, Objection};
use crate::ids::ApprovalId;
use crate::open_enum::open_enum;
use crate::subagent::RequestOrigin;
use crate::tool::ToolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A call that runs only if a person says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// Pairs the request with its resolution.
    pub approval_id: ApprovalId,
    /// The call, with its arguments in full.
    pub call: ToolCall,
    /// What it would touch.
    pub actions: Vec<Action>,
    /// What it would change, as a unified diff; absent where no text changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Who wants a person to decide.
    pub asked_by: AskedBy,
    /// The rule that asks, and why.
    pub objection: Objection,
    /// What may be chosen.
    pub choices: Vec<ApprovalChoice>,
    /// The subagent whose call it is, in the log of the session above all
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RequestOrigin>,
}

impl ApprovalRequest {
    /// The rule that `session` and `always` stand for, unless the answer names
    /// a narrower one.
    pub fn rule(&self) -> Option<&str> {
        self.objection.always.as_deref()
    }
}

open_enum! {
    /// Who wants a person to decide.
    pub enum AskedBy {
        /// A hook.
        Hook = "hook",
        /// The policy.
        Policy = "policy",
        /// A call that runs, and waits for the answer.
        RunningCall = "running_call",
    }
}

open_enum! {
    /// What a person may choose.
    pub enum ApprovalChoice {
        /// This call runs.
        Once = "once",
        /// This call runs, and what the rule covers is not asked about again in
        /// this session.
        Session = "session",
        /// The same, in every session: the rule is saved.
        Always = "always",
        /// The call does not run.
        Deny = "deny",
    }
}

open_enum! {
    /// Who resolved a request.
    pub enum ResolvedBy {
        /// A person, through the session.
        User = "user",
        /// The handler of the embedding program.
        Handler = "handler",
        /// Nobody could be asked.
        Unattended = "unattended",
        /// Nobody: the turn or the session ended first.
        Withdrawn = "withdrawn",
        /// Nobody: the process ended, or its store failed.
        Interrupted = "interrupted",
    }
}

/// What was chosen.
///
/// ```
/// use halter_protocol::{ApprovalAnswer, ApprovalChoice};
///
/// let narrower = ApprovalAnswer::from(ApprovalChoice::Always).with_rule("Bash(npm test)");
/// let refused = ApprovalAnswer::deny("use the staging server");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The choice.
    pub choice: ApprovalChoice,
    /// With `session` and `always`: a rule in place of the one that was
    /// offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// With `deny`: why, for the model to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ApprovalAnswer {
    /// No, and why, for the model to read.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..ApprovalChoice::Deny.into()
        }
    }

    /// The answer with another rule than the one that was offered.
    #[must_use]
    pub fn with_rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }
}

impl From<ApprovalChoice> for ApprovalAnswer {
    fn from(choice: ApprovalChoice) -> Self {
        Self {
            choice,
            rule: None,
            reason: None,
        }
    }
}
