//! The arguments of `halter mcp`.

use super::{BudgetArgs, PermissionArgs};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

const SERVE_EXAMPLES: &str = "\
Examples:
  halter mcp serve
  halter mcp serve --cwd ~/project --permission-mode read_only
  halter mcp serve --tools --allow \"Bash(npm test:*)\"
  halter mcp serve --http 127.0.0.1:8700

A host starts this and speaks MCP with it over standard input and output. In the
configuration of most hosts:

  {\"mcpServers\": {\"halter\": {\"command\": \"halter\", \"args\": [\"mcp\", \"serve\"]}}}

Hosts call run_task, and list_sessions to find a session to go on with. What the
policy wants a person to decide is asked through the host; where the host cannot
ask, it is denied. A host that goes cancels what runs for it.

With --http the address is printed, and hosts send the token that is in the token
file: Authorization: Bearer TOKEN. Requests that name another host, and pages of
other origins, are refused.";

/// What to do with the Model Context Protocol.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Serve the agent to a host that speaks MCP
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(McpServeArgs),
}

/// How to serve.
#[derive(Debug, Args)]
pub struct McpServeArgs {
    /// Serve over HTTP at this address instead; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", env = "HALTER_MCP_HTTP")]
    pub http: Option<SocketAddr>,
    /// The file with the token that hosts send, made if it is not there; one in the state
    /// directory unless named
    #[arg(
        long,
        value_name = "FILE",
        requires = "http",
        env = "HALTER_MCP_TOKEN_FILE"
    )]
    pub token_file: Option<PathBuf>,
    /// Also answer requests for this name of the server, as host or host:port; needed for an
    /// address that is not on loopback; may be given again
    #[arg(
        long,
        value_name = "HOST",
        requires = "http",
        env = "HALTER_MCP_ALLOWED_HOST"
    )]
    pub allowed_host: Vec<String>,
    /// Also answer pages of this origin, such as https://app.example.com:443; may be given again
    #[arg(
        long,
        value_name = "ORIGIN",
        requires = "http",
        env = "HALTER_MCP_ALLOWED_ORIGIN"
    )]
    pub allowed_origin: Vec<String>,
    /// Print address and token file as JSON
    #[arg(long, requires = "http", env = "HALTER_JSON")]
    pub json: bool,
    /// Let hosts call the harness's own tools too, under the same policy
    #[arg(long, env = "HALTER_MCP_TOOLS")]
    pub tools: bool,
    /// Use this model unless a task names another: default, small or subagent, or any as
    /// provider/model
    #[arg(long, value_name = "MODEL", env = "HALTER_RUN_MODEL")]
    pub model: Option<String>,
    /// Make at most this many model calls for one task
    #[arg(long, value_name = "N", env = "HALTER_MAX_TURNS")]
    pub max_turns: Option<NonZeroU32>,
    #[command(flatten)]
    pub budget: BudgetArgs,
    #[command(flatten)]
    pub permissions: PermissionArgs,
}
