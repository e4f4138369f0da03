//! `[exec]`: where commands run.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::path_text;
use crate::credentials::REDACTED;

/// Where commands run. The token is never shown by `Debug` and never written by `Serialize`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The address of the runtime instead, `https://host:port`; `http` for this machine only. Where
    /// the session's directory has other files there, tools work on those.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub url: Option<String>,
    /// The token of a runtime with an address; absent or blank: `TRL_AUTH_TOKEN`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "redacted")]
    #[schemars(extend("format" = "password"))]
    pub token: Option<String>,
    /// Authorities that vouch for the runtime, in PEM form, besides the system's; a relative path
    /// starts at the file that names it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::one"
    )]
    #[schemars(extend("format" = "path"))]
    pub ca_file: Option<PathBuf>,
    /// The image of a container that each session gets, with the session's directories in it under
    /// their own names, and without network unless the policy opens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub container: Option<String>,
    /// Files and directories besides the session's that such a container sees under their own
    /// names: those that the policy lets commands write are writable, others read-only. A relative
    /// one starts at the file that names it.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "path_text::many"
    )]
    pub mounts: Vec<PathBuf>,
}

impl fmt::Debug for ExecConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExecConfig")
            .field("backend", &self.backend)
            .field("socket", &self.socket)
            .field("url", &self.url)
            .field("token", &self.token.as_ref().map(|_| REDACTED))
            .field("ca_file", &self.ca_file)
            .field("container", &self.container)
            .field("mounts", &self.mounts)
            .finish()
    }
}

fn redacted<S: Serializer>(token: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    token.as_ref().map(|_| REDACTED).serialize(serializer)
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
