//! `[exec]`: where commands run.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::path_text;

/// Where commands run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecConfig {
    /// What runs them.
    pub backend: ExecBackendChoice,
    /// The socket of the runtime; a relative one starts at the file that names it; absent: where
    /// `terminal-runtime` listens by default.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::one"
    )]
    #[schemars(extend("format" = "path"))]
    pub socket: Option<PathBuf>,
}

/// What runs commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum ExecBackendChoice {
    /// This program, as its children.
    #[default]
    #[serde(rename = "local")]
    Local,
    /// A `terminal-runtime`, whose commands outlive a crash of it or of this program's connection;
    /// needs the cargo feature `terminal-runtime`.
    #[serde(rename = "terminal-runtime")]
    TerminalRuntime,
}
