//! `halter mcp`: the Model Context Protocol.

mod agent;
mod host_approvals;
mod own_tools;
mod serve;
mod token;

use crate::args::McpCommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;

/// Does what is asked.
pub async fn mcp(context: &mut Context, command: McpCommand) -> Result<Exit, Failure> {
    match command {
        McpCommand::Serve(arguments) => serve::serve(context, arguments).await,
    }
}
