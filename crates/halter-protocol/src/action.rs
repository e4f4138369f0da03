//! What a call would touch, and what a policy says to it.

use crate::encoding::escaped_path;
use crate::tool::{ToolCall, ToolCapabilities};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Something a call would do, as its tool says from the input before it
/// starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Run a shell command.
    Run {
        /// The command line.
        command: String,
        /// Where it starts; a relative one is seen from the session's
        /// directory, which it is if absent.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            with = "escaped_path::option"
        )]
        #[schemars(with = "Option<String>")]
        directory: Option<PathBuf>,
    },
    /// Read a file, or look into a directory.
    Read {
        /// The path as spelled; a relative one starts at the session's
        /// directory.
        #[serde(with = "escaped_path")]
        #[schemars(with = "String")]
        path: PathBuf,
    },
    /// Create or change a file.
    Write {
        /// The path as spelled; a relative one starts at the session's
        /// directory.
        #[serde(with = "escaped_path")]
        #[schemars(with = "String")]
        path: PathBuf,
    },
    /// Reach a host over the network.
    Reach {
        /// Its name or address, without a scheme; `:` and the port after it
        /// where that is known.
        host: String,
    },
    /// Run outside the sandbox that the session's commands are in.
    LeaveSandbox,
    /// Ask the user something.
    Ask,
    /// Something else.
    Other {
        /// It has effects outside the session.
        mutating: bool,
    },
}

/// A call that a policy decides about, with everything that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallToJudge {
    /// The call.
    pub call: ToolCall,
    /// What its tool says it would touch.
    pub actions: Vec<Action>,
    /// What its tool says of all its calls: one that is mutating needs a mode
    /// that changes things, one that requires approval asks where nothing
    /// already allows it.
    pub capabilities: ToolCapabilities,
    /// What hooks say to it.
    pub hook: HookOpinion,
    /// Permission rules that a person approved for the rest of the session,
    /// oldest first.
    pub session_rules: Vec<String>,
    /// What a server says of the tool, if it is one of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<ServedDefinition>,
}

/// What a server says of one of its tools, as far as permissions want to know:
/// an approval holds for the tool as it was described when it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedDefinition {
    /// Names the whole definition: equal for equal ones. In an allow rule it
    /// stands behind the name of the tool: `mcp__server__tool@DIGEST`.
    pub digest: String,
    /// The server says that the tool may destroy something. What a server says
    /// of itself only ever narrows.
    pub destructive: bool,
}

impl ServedDefinition {
    /// The allow rule for a tool as it is defined now.
    #[must_use]
    pub fn rule_for(&self, tool: &str) -> String {
        format!("{tool}@{}", self.digest)
    }
}

impl CallToJudge {
    /// A call of which nothing else is known.
    pub fn new(call: ToolCall, actions: Vec<Action>) -> Self {
        Self {
            call,
            actions,
            capabilities: ToolCapabilities::default(),
            hook: HookOpinion::Nothing,
            session_rules: Vec::new(),
            definition: None,
        }
    }
}

/// What hooks say to a call they do not deny.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookOpinion {
    /// Nothing.
    #[default]
    Nothing,
    /// It need not be approved. That spares the question of a tool that
    /// requires approval, and nothing else.
    Allow,
    /// A person has to decide, for this reason.
    Ask(String),
}

/// What a policy says to a call before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyVerdict {
    /// It may run.
    Allow,
    /// A person has to decide.
    Ask(Objection),
    /// It must not run.
    Deny(Objection),
}

/// The rule of an objection by a hook that wants a person to decide.
pub const HOOK_ASKS: &str = "hook_asks";

/// The rule of an objection to a tool that requires approval. A hook may spare
/// the question it asks.
pub const REQUIRES_APPROVAL: &str = "requires_approval";

/// The rule of an objection to a host that a list which was set does not name.
pub const HOST_NOT_LISTED: &str = "network.host";

/// The rule of an objection to a program that a list which was set does not
/// name.
pub const PROGRAM_NOT_LISTED: &str = "shell.not_in_list";

/// Rules about lists that were set. A person widens such a list for a call or
/// a session; no rule of a file and no mode does.
pub const SET_LIST_RULES: [&str; 2] = [HOST_NOT_LISTED, PROGRAM_NOT_LISTED];

/// The rule of an objection to a tool of a server that says of itself to
/// destroy something. No hook spares the question it asks.
pub const DESTRUCTIVE_TOOL: &str = "destructive_tool";

/// What speaks against a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Objection {
    /// The rule; stable, for programs to match on.
    pub rule: String,
    /// What is wrong, for a model and a person to read.
    pub message: String,
    /// The part of the call that the rule applies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
    /// The setting that would have to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The commands of a command line, in order; the one that the rule applies
    /// to is the fragment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// A permission rule under which such a call is not asked about again;
    /// absent where there is none, or none that should be offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
}

impl Objection {
    /// An objection by a rule.
    pub fn new(rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            rule: rule.into(),
            message: message.into(),
            fragment: None,
            remedy: None,
            parts: Vec::new(),
            always: None,
        }
    }
}
