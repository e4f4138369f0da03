//! `[mcp.servers.*]`: servers of the Model Context Protocol.

use std::fmt;
use std::path::PathBuf;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::path_text;
use crate::credentials::REDACTED;
use crate::limits::MAX_MCP_TIMEOUT_SECS;

/// Servers of the Model Context Protocol.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    /// One table per server, by name. The name is part of the names of its tools.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub servers: IndexMap<String, McpServerTable>,
}

/// One server: a program that is started, over its standard streams. In `command`, `args`, `env`
/// and `cwd`, `${NAME}` stands for a variable of the environment and `${NAME:-text}` for one that
/// may be absent. Values of `env` are never shown by `Debug` and never written by `Serialize`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerTable {
    /// The program to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables it sees besides those of commands; keys and tokens reach it only from here.
    #[serde(
        skip_serializing_if = "IndexMap::is_empty",
        serialize_with = "redact_values"
    )]
    pub env: IndexMap<String, String>,
    /// Where it starts; absent: where the session works.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::one"
    )]
    #[schemars(extend("format" = "path"))]
    pub cwd: Option<PathBuf>,
    /// Seconds that a call may take without a sign of progress; absent: 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = MAX_MCP_TIMEOUT_SECS))]
    pub timeout_secs: Option<f64>,
    /// Seconds that it has to start and say what it has; absent: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = MAX_MCP_TIMEOUT_SECS))]
    pub start_timeout_secs: Option<f64>,
    /// Its tools that there are, by its own names; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Its tools that there are not, by its own names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_tools: Vec<String>,
    /// Whether nothing starts without it.
    pub required: bool,
    /// Whether it is used at all.
    pub enabled: bool,
}

impl Default for McpServerTable {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: IndexMap::new(),
            cwd: None,
            timeout_secs: None,
            start_timeout_secs: None,
            tools: Vec::new(),
            without_tools: Vec::new(),
            required: false,
            enabled: true,
        }
    }
}

impl fmt::Debug for McpServerTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("McpServerTable")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

fn redact_values<S: Serializer>(
    values: &IndexMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.keys().map(|name| (name, REDACTED)))
}
