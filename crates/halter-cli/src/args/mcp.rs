//! The arguments of `halter mcp`.

use super::{BudgetArgs, JsonArg, PermissionArgs};
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
    /// List the servers that are configured, without starting them
    List(JsonArg),
    /// Start servers and say how they are
    #[command(after_help = "Exits with 1 if one of them cannot be used.")]
    Test {
        /// The servers; all that are enabled if none is named
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Start servers and list their tools
    #[command(
        after_help = "Exits with 1 if one of them cannot be used, after listing the others' tools."
    )]
    Tools {
        /// The server; all that are enabled if none is named
        #[arg(value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Write a server into the user's halter.toml, or into another file
    #[command(
        after_help = "Examples:\n  halter mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n  \
            halter mcp add docs --env 'TOKEN=${DOCS_TOKEN}' -- docs-server --read-only\n  \
            halter mcp add issues --transport http https://issues.example/mcp\n  \
            halter mcp add wiki --transport http --header 'X-Key: ${WIKI_KEY}' https://wiki.example/mcp\n\n\
            A value written as ${NAME} is taken from the environment when the server starts."
    )]
    Add(McpAddArgs),
    /// Log in to a server over HTTP
    #[command(
        after_help = "Prints the address of a page to open in any browser. Where that browser runs on this\n\
            machine, the login ends by itself. Else paste the address that it was sent to in the end,\n\
            or the code in it. The tokens stay in a file that only you can read."
    )]
    Login {
        /// The server
        name: String,
        /// A right to ask for besides those that the server says it needs; may be given again
        #[arg(long, value_name = "SCOPE", env = "HALTER_MCP_SCOPE")]
        scope: Vec<String>,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Forget the tokens of a server over HTTP
    Logout {
        /// The server
        name: String,
        #[command(flatten)]
        json: JsonArg,
    },
    /// Take a server out of the user's halter.toml, or out of another file, and forget its login
    Remove {
        /// The server
        name: String,
        /// The file; the user's halter.toml if none is named
        #[arg(long, value_name = "FILE", env = "HALTER_MCP_FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        json: JsonArg,
    },
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

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TransportArg {
    /// A program, over its standard streams
    Stdio,
    /// An address: streamable HTTP
    Http,
    /// An address: the older transport
    Sse,
}

/// The arguments of `mcp add`.
#[derive(Debug, Args)]
pub struct McpAddArgs {
    /// The server: part of the names of its tools
    pub name: String,
    /// How it is reached
    #[arg(
        long,
        value_name = "KIND",
        default_value = "stdio",
        env = "HALTER_MCP_TRANSPORT"
    )]
    pub transport: TransportArg,
    /// What a server over HTTP is sent with each request; may be given again
    #[arg(long, value_name = "NAME: VALUE", env = "HALTER_MCP_HEADER")]
    pub header: Vec<String>,
    /// A header whose value is that of a variable when the server is used; may be given again
    #[arg(long, value_name = "NAME=VARIABLE", env = "HALTER_MCP_HEADER_ENV")]
    pub header_env: Vec<String>,
    /// A client that was registered for logging in
    #[arg(long, value_name = "ID", env = "HALTER_MCP_CLIENT_ID")]
    pub client_id: Option<String>,
    /// The variable with the secret of that client
    #[arg(
        long,
        value_name = "VARIABLE",
        requires = "client_id",
        env = "HALTER_MCP_CLIENT_SECRET_ENV"
    )]
    pub client_secret_env: Option<String>,
    /// The program and its arguments, or the address of a server over HTTP
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// A variable that the program sees
    #[arg(long, value_name = "NAME=VALUE", env = "HALTER_MCP_ENV")]
    pub env: Vec<String>,
    /// Start nothing without it
    #[arg(long, env = "HALTER_MCP_REQUIRED")]
    pub required: bool,
    /// The file; the user's halter.toml if none is named
    #[arg(long, value_name = "FILE", env = "HALTER_MCP_FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArg,
}
