//! What the tree decides about a call, and by what.

use halter_protocol::action::{
    DESTRUCTIVE_TOOL, HOOK_ASKS, HOST_NOT_LISTED, PROGRAM_NOT_LISTED, REQUIRES_APPROVAL,
};
use halter_protocol::{Objection, PermissionMode, PolicyVerdict, RuleEffect};

use super::SourcedRule;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// The verdict as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of the call.
    pub verdict: Verdict,
    /// What decided.
    pub by: DecidedBy,
    /// Why, for a person and a model to read.
    pub why: String,
    /// The part of the call it is about.
    pub fragment: Option<String>,
    /// An allow rule under which such a call would not be asked about again;
    /// absent where there is none, or none that should be offered.
    pub always: Option<String>,
}

/// What decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecidedBy {
    /// A rule.
    Rule(SourcedRule),
    /// A hook.
    Hook,
    /// The tool wants a person to approve it.
    RequiresApproval,
    /// A server says of its tool that it destroys something.
    DestructiveTool,
    /// The shell judge: a program outside the list, or a form that destroys
    /// something. The text is its rule.
    Shell(&'static str),
    /// The file lies beyond roots that nobody has set.
    BeyondRoots,
    /// The network is off and nobody has set anything about it, or the list that
    /// was set does not name the host. The text is the rule.
    Network(&'static str),
    /// The command would run outside the sandbox.
    LeavesSandbox,
    /// The mode.
    Mode(PermissionMode),
}

/// The rule of a question about a file beyond the roots.
pub(crate) const BEYOND_ROOTS: &str = "not_in_root";

/// The rule of a question about a command outside the sandbox.
pub(crate) const LEAVES_SANDBOX: &str = "leaves_sandbox";

impl DecidedBy {
    /// A stable name, for programs to match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Rule(rule) => match rule.effect {
                RuleEffect::Allow => "allow_rule",
                RuleEffect::Ask => "ask_rule",
                RuleEffect::Deny => "deny_rule",
            },
            Self::Hook => HOOK_ASKS,
            Self::RequiresApproval => REQUIRES_APPROVAL,
            Self::DestructiveTool => DESTRUCTIVE_TOOL,
            Self::Shell(rule) | Self::Network(rule) => rule,
            Self::BeyondRoots => BEYOND_ROOTS,
            Self::LeavesSandbox => LEAVES_SANDBOX,
            Self::Mode(_) => "permission_mode",
        }
    }

    /// The setting that would have to change.
    fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Rule(rule) => match rule.effect {
                RuleEffect::Allow => None,
                RuleEffect::Ask => Some("permissions.ask"),
                RuleEffect::Deny => Some("permissions.deny"),
            },
            Self::Hook => None,
            Self::LeavesSandbox => Some("policy.sandbox"),
            Self::Shell(PROGRAM_NOT_LISTED) => Some("policy.shell.allow"),
            Self::Network(HOST_NOT_LISTED) => Some("policy.network.allowed_hosts"),
            Self::RequiresApproval
            | Self::DestructiveTool
            | Self::Shell(_)
            | Self::BeyondRoots
            | Self::Network(_) => Some("permissions.allow"),
            Self::Mode(_) => Some("permissions.mode"),
        }
    }
}

impl Decision {
    pub(super) fn allow(by: DecidedBy) -> Self {
        let why = match &by {
            DecidedBy::Rule(rule) => format!("{} covers it", rule.described()),
            DecidedBy::Mode(mode) => format!("the mode {mode} does not ask about it"),
            _ => String::new(),
        };
        Self {
            verdict: Verdict::Allow,
            by,
            why,
            fragment: None,
            always: None,
        }
    }

    /// The decision as the engine takes it.
    #[must_use]
    pub fn into_verdict(self) -> PolicyVerdict {
        let verdict = self.verdict;
        let objection = Objection {
            rule: self.by.code().to_owned(),
            remedy: self.by.remedy().map(str::to_owned),
            message: self.why,
            fragment: self.fragment,
            parts: Vec::new(),
            always: self.always,
        };
        match verdict {
            Verdict::Allow => PolicyVerdict::Allow,
            Verdict::Ask => PolicyVerdict::Ask(objection),
            Verdict::Deny => PolicyVerdict::Deny(objection),
        }
    }
}
