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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum McpTransport {
    /// A program that is started, over its standard streams.
    #[default]
    Stdio,
    /// An address that messages are posted to: streamable HTTP.
    Http,
    /// The older transport: an event stream that names the address to post to.
    Sse,
}

/// How users log in to a server, where it does not say all there is to know. Nothing here is shown
/// by `Debug`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpOAuthTable {
    /// The client that was registered beforehand; absent: one is registered at the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub client_id: Option<String>,
    /// Its secret, such as `${NAME}`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "redact_value"
    )]
    pub client_secret: Option<String>,
    /// An address with a description of the client, for authorization servers that take one
    /// instead of a registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub client_metadata_url: Option<String>,
    /// What is asked for; empty: what the server says it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The port of this machine that the browser is sent to in the end; absent: any free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub callback_port: Option<u32>,
}

impl fmt::Debug for McpOAuthTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("McpOAuthTable")
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// One server: a program that is started, over its standard streams, or with a `type` of `http` or
/// `sse` one at a `url`. In `command`, `args`, `env`, `cwd`, `url`, `headers` and `oauth`, `${NAME}`
/// stands for a variable of the environment and `${NAME:-text}` for one that may be absent. Values
/// of `env` and `headers` are never shown by `Debug` and never written by `Serialize`.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerTable {
    /// How it is reached.
    #[serde(rename = "type", skip_serializing_if = "is_stdio")]
    pub transport: McpTransport,
    /// Where it is, for a `type` of `http` or `sse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub url: Option<String>,
    /// What it is sent with each request.
    #[serde(
        skip_serializing_if = "IndexMap::is_empty",
        serialize_with = "redact_values"
    )]
    pub headers: IndexMap<String, String>,
    /// Headers whose values are those of variables of the environment, by the variables' names.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers_from_env: IndexMap<String, String>,
    /// How users log in to it.
    #[serde(skip_serializing_if = "is_default")]
    pub oauth: McpOAuthTable,
    /// Seconds that an event stream of it may be silent; absent: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = MAX_MCP_TIMEOUT_SECS))]
    pub sse_read_timeout_secs: Option<f64>,
    /// Whether a server over HTTP is told that its session has ended.
    pub terminate_on_close: bool,
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
    /// Seconds that a call may take without a sign of progress; absent: 60, over HTTP 30.
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
    /// Whether it may have models of a session answer, at that session's expense.
    pub sampling: bool,
    /// Whether it runs in a sandbox, as the commands of a session would; where there is none it
    /// does not run.
    pub sandbox: bool,
    /// Whether nothing starts without it.
    pub required: bool,
    /// Whether it is used at all.
    pub enabled: bool,
}

impl Default for McpServerTable {
    fn default() -> Self {
        Self {
            transport: McpTransport::default(),
            url: None,
            headers: IndexMap::new(),
            headers_from_env: IndexMap::new(),
            oauth: McpOAuthTable::default(),
            sse_read_timeout_secs: None,
            terminate_on_close: true,
            command: None,
            args: Vec::new(),
            env: IndexMap::new(),
            cwd: None,
            timeout_secs: None,
            start_timeout_secs: None,
            tools: Vec::new(),
            without_tools: Vec::new(),
            sampling: false,
            sandbox: false,
            required: false,
            enabled: true,
        }
    }
}

impl fmt::Debug for McpServerTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("McpServerTable")
            .field("type", &self.transport)
            .field("url", &self.url)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

fn is_stdio(transport: &McpTransport) -> bool {
    *transport == McpTransport::Stdio
}

fn is_default(table: &McpOAuthTable) -> bool {
    *table == McpOAuthTable::default()
}

fn redact_value<S: Serializer>(value: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(|_| REDACTED).serialize(serializer)
}

fn redact_values<S: Serializer>(
    values: &IndexMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.keys().map(|name| (name, REDACTED)))
}
