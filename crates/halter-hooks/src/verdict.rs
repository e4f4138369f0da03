//! What the answers of an event's hooks add up to.

use crate::response::PermissionDecision;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The merged answer of all hooks of one event.
///
/// The parts that matter, by event (anything else a hook answers is reported
/// in its run as having no effect):
///
/// | event | parts |
/// |---|---|
/// | `SessionStart` | `stop`, messages, context |
/// | `SessionEnd`, `Notification` | messages, context |
/// | `UserPromptSubmit` | `block`, `stop`, `permission`, messages, context |
/// | `PreToolUse` | all but `updated_output` |
/// | `PermissionRequest` | `block`, `stop`, `permission`, messages, context |
/// | `PermissionDenied` | `stop`, messages, context |
/// | `PostToolUse` | `block`, `stop`, `updated_output`, messages, context |
/// | `PostToolUseFailure` | `block`, `stop`, messages, context |
/// | `PreCompact` | `block` (nothing is made smaller), `stop`, messages, context |
/// | `PostCompact` | `stop`, messages, context |
/// | `Stop` | `block` (the turn goes on), `stop` (it ends all the same), messages, context |
/// | `SubagentStart` | `stop`, messages, context for the subagent |
/// | `SubagentStop` | `block` (the subagent goes on), `stop`, messages, context |
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HookVerdict {
    /// Why what the event announces must not happen: every blocking hook's
    /// reason, a line each, the first one first. Also set, on blocking events,
    /// when a hook failed, was cancelled or competed with another.
    pub block: Option<String>,
    /// Why the turn must end.
    pub stop: Option<String>,
    /// The strongest permission any hook answered with.
    pub permission: PermissionDecision,
    /// The reason of the first hook that answered with that permission.
    pub permission_reason: Option<String>,
    /// What the tool is to be called with instead.
    pub updated_input: Option<Value>,
    /// What the model is to see as the result instead.
    pub updated_output: Option<Value>,
    /// Two hooks of equal priority rewrote the same thing differently: the
    /// call fails with this. Neither rewrite is in the verdict.
    pub conflict: Option<RewriteConflict>,
    /// Messages for the transcript, in the order the hooks ran.
    pub system_messages: Vec<String>,
    /// Context for the model, in the order the hooks ran.
    pub additional_context: Vec<String>,
    /// True if any hook asked for its words to be kept out of sight.
    pub suppress_output: bool,
    /// The token was cancelled before all hooks had answered.
    pub cancelled: bool,
}

impl HookVerdict {
    /// What the hooks want said to the model, in the order they ran.
    pub fn words(&self) -> impl Iterator<Item = String> + '_ {
        let words = self.system_messages.iter().chain(&self.additional_context);
        words.cloned()
    }

    /// What the hooks object to, a stop aside, which ends the turn and hides
    /// nothing, and a wish to ask.
    pub fn objection(&self) -> Option<String> {
        let denied = self.permission == PermissionDecision::Deny && self.stop.is_none();
        let denied = denied.then(|| {
            let reason = self.permission_reason.as_deref();
            reason.unwrap_or("denied by a hook").to_owned()
        });
        self.block.clone().or(denied)
    }

    /// True if a hook wants a person to decide.
    pub fn asks(&self) -> bool {
        self.permission == PermissionDecision::Ask
    }

    /// Why what a blocking event announces must not happen, or `None` if no
    /// hook objects. Counts, in this order, `stop`, `block` (which includes
    /// failed hooks, conflicts and cancellation) and a permission of deny or
    /// ask: for events about which nobody is asked.
    pub fn denial(&self) -> Option<String> {
        if let Some(reason) = self.stop.as_ref().or(self.block.as_ref()) {
            return Some(reason.clone());
        }
        let reason = self.permission_reason.as_deref();
        match self.permission {
            PermissionDecision::Deny => Some(reason.unwrap_or("denied by a hook").to_owned()),
            PermissionDecision::Ask => Some(format!(
                "a hook wants a person to approve this, and nobody is asked about it{}",
                reason.map(|r| format!(": {r}")).unwrap_or_default()
            )),
            PermissionDecision::Passthrough | PermissionDecision::Allow => None,
        }
    }
}

/// What competing hooks both rewrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RewriteTarget {
    /// A tool's input.
    Input,
    /// A tool's output.
    Output,
}

impl RewriteTarget {
    pub(crate) const fn payload_field(self) -> &'static str {
        match self {
            Self::Input => "tool_input",
            Self::Output => "tool_response",
        }
    }
}

impl fmt::Display for RewriteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// Two hooks of equal priority rewrote the same thing differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "the hooks `{first}` and `{second}` both rewrote the {target} of this call, differently and \
     with equal priority; give one of them another priority or let only one rewrite"
)]
#[non_exhaustive]
pub struct RewriteConflict {
    /// What they rewrote.
    pub target: RewriteTarget,
    /// The hook that ran first.
    pub first: String,
    /// The hook that ran second.
    pub second: String,
}

impl RewriteConflict {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        "hook_rewrite_conflict"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_no_denial_and_allow_is_none_either() {
        assert_eq!(HookVerdict::default().denial(), None);
        let allowed = HookVerdict {
            permission: PermissionDecision::Allow,
            ..HookVerdict::default()
        };
        assert_eq!(allowed.denial(), None);
    }

    #[test]
    fn asking_denies_where_nobody_is_asked() {
        let verdict = HookVerdict {
            permission: PermissionDecision::Ask,
            permission_reason: Some("production".into()),
            ..HookVerdict::default()
        };
        let reason = verdict.denial().unwrap();
        assert!(reason.contains("approve") && reason.ends_with("production"));
    }

    #[test]
    fn a_block_outranks_a_permission() {
        let verdict = HookVerdict {
            block: Some("frozen".into()),
            permission: PermissionDecision::Deny,
            ..HookVerdict::default()
        };
        assert_eq!(verdict.denial().as_deref(), Some("frozen"));
    }
}
