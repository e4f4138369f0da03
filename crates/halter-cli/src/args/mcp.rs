//! The arguments of `halter mcp`.

use super::{BudgetArgs, PermissionArgs};
use clap::{Args, Subcommand};
use std::num::NonZeroU32;

const SERVE_EXAMPLES: &str = "\
Examples:
  halter mcp serve
  halter mcp serve --cwd ~/project --permission-mode read_only
  halter mcp serve --tools --allow \"Bash(npm test:*)\"

A host starts this and speaks MCP with it over standard input and output. In the
configuration of most hosts:

  {\"mcpServers\": {\"halter\": {\"command\": \"halter\", \"args\": [\"mcp\", \"serve\"]}}}

Hosts call run_task, and list_sessions to find a session to go on with. What the
policy wants a person to decide is asked through the host; where the host cannot
ask, it is denied. A host that goes cancels what runs for it.";

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
