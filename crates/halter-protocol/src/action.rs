//! What a call would touch, and what a policy says to it.

use crate::encoding::escaped_path;
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
        /// Its name or address, without scheme and port.
        host: String,
    },
    /// Ask the user something.
    Ask,
    /// Something else.
    Other {
        /// It has effects outside the session.
        mutating: bool,
    },
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
    /// The permission rule under which such calls would not be asked about
    /// again; absent where there is none that should be offered.
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
            always: None,
        }
    }
}
