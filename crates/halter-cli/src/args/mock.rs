//! The arguments of `halter mock`.

use super::JsonArg;
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  halter mock serve
  halter mock serve --address 127.0.0.1:8080 --scenarios mine.toml --default mine
  halter mock scenarios

Point a client at the printed address, with any key; add /anthropic, /openai,
/openrouter or /gemini to say whose service it is. In halter.toml:

  [providers.anthropic]
  base_url = \"http://127.0.0.1:8080/anthropic\"
  api_key = \"any\"

The word mock:NAME in a prompt chooses a scenario, such as
\"mock:streaming_text\". GET /mock/requests shows what was asked. Ctrl-C stops
the service.";

/// What to do with the scripted model service.
#[derive(Debug, Subcommand)]
pub enum MockCommand {
    /// Serve scripted answers on loopback until interrupted, and print the address
    #[command(after_help = EXAMPLES)]
    Serve(MockServeArgs),
    /// List the built-in scenarios
    Scenarios(JsonArg),
}

/// How to serve.
#[derive(Debug, Args)]
pub struct MockServeArgs {
    /// Where to listen, on loopback; port 0 takes any free one
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:0",
        env = "HALTER_MOCK_ADDRESS"
    )]
    pub address: SocketAddr,
    /// Add the scenarios of this TOML or JSON script; may be given again
    #[arg(long, value_name = "FILE", env = "HALTER_MOCK_SCENARIOS")]
    pub scenarios: Vec<PathBuf>,
    /// What answers a prompt that names no scenario
    #[arg(long, value_name = "NAME", env = "HALTER_MOCK_DEFAULT")]
    pub default: Option<String>,
    /// Take unknown fields, unknown betas and foreign signatures, as gateways do
    #[arg(long, env = "HALTER_MOCK_LENIENT")]
    pub lenient: bool,
    #[command(flatten)]
    pub json: JsonArg,
}
