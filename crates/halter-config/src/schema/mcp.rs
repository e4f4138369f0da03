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

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum McpTransport {
    /// A program that is started, over its standard streams.
    Stdio,
    /// A service, by streamable HTTP.
    Http,
    /// A service, by the older transport with an event stream.
    Sse,
}

/// One server. In `command`, `args`, `env`, `cwd`, `url` and `headers`, `${NAME}` stands for a
/// variable of the environment and `${NAME:-text}` for one that may be absent. Values of `env` and
/// `headers` are never shown by `Debug` and never written by `Serialize`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerTable {
    /// How it is reached; absent: `stdio` with a `command`, `http` with a `url`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub transport: Option<McpTransport>,
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
    /// The address of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub url: Option<String>,
    /// Headers added to each request.
    #[serde(
        skip_serializing_if = "IndexMap::is_empty",
        serialize_with = "redact_values"
    )]
    pub headers: IndexMap<String, String>,
    /// Seconds that a call may take without a sign of progress; absent: 60, or 30 by HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = MAX_MCP_TIMEOUT_SECS))]
    pub timeout_secs: Option<f64>,
    /// Seconds that it has to start and say what it has; absent: 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = MAX_MCP_TIMEOUT_SECS))]
    pub start_timeout_secs: Option<f64>,
    /// Seconds that an event stream may be silent; absent: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = MAX_MCP_TIMEOUT_SECS))]
    pub sse_read_timeout_secs: Option<f64>,
    /// Whether its session is deleted when the connection closes; absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate_on_close: Option<bool>,
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
            transport: None,
            command: None,
            args: Vec::new(),
            env: IndexMap::new(),
            cwd: None,
            url: None,
            headers: IndexMap::new(),
            timeout_secs: None,
            start_timeout_secs: None,
            sse_read_timeout_secs: None,
            terminate_on_close: None,
            tools: Vec::new(),
            without_tools: Vec::new(),
            required: false,
            enabled: true,
        }
    }
}

impl fmt::Debug for McpServerTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |map: &IndexMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
        formatter
            .debug_struct("McpServerTable")
            .field("type", &self.transport)
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names(&self.env))
            .field("cwd", &self.cwd)
            .field("url", &self.url)
            .field("headers", &names(&self.headers))
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
