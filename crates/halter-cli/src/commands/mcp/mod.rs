//! `halter mcp`: the Model Context Protocol, used and served.

mod agent;
mod edit;
mod host_approvals;
mod own_tools;
mod probe;
mod serve;
mod token;

use crate::args::{JsonArg, McpCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness;
use halter_config::McpServerTable;
use serde_json::{Value, json};

pub use probe::{lines, probed, shown};

/// Does what is asked.
pub async fn mcp(context: &mut Context, command: McpCommand) -> Result<Exit, Failure> {
    match command {
        McpCommand::Serve(arguments) => serve::serve(context, arguments).await,
        McpCommand::List(json) => list(context, json).await,
        McpCommand::Test { names, json } => probe::test(context, &names, json).await,
        McpCommand::Tools { name, json } => probe::tools(context, &name, json).await,
        McpCommand::Add(arguments) => edit::add(context, &arguments),
        McpCommand::Remove { name, file, json } => {
            edit::remove(context, &name, file.as_deref(), json)
        }
    }
}

async fn list(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let servers = &loaded.config.config.mcp.servers;
    if arguments.json {
        let listed = servers.iter().map(|(name, table)| {
            let mut shown = json!(table);
            if let Some(fields) = shown.as_object_mut() {
                fields.insert("name".to_owned(), json!(name));
            }
            shown
        });
        context.data.json(&listed.collect::<Vec<Value>>())?;
        return Ok(Exit::Success);
    }
    if servers.is_empty() {
        context
            .messages
            .say("no MCP servers are configured; add one with `halter mcp add`");
    }
    let width = servers.keys().map(String::len).max().unwrap_or(0);
    for (name, table) in servers {
        let state = match (table.enabled, table.required) {
            (false, _) => " (disabled)",
            (true, true) => " (required)",
            (true, false) => "",
        };
        let line = format!("{name:<width$}  {}{state}", command_line(table));
        context.data.line(&line)?;
    }
    Ok(Exit::Success)
}

/// The program with its arguments.
fn command_line(table: &McpServerTable) -> String {
    let words = table.command.iter().chain(&table.args);
    words.map(String::as_str).collect::<Vec<_>>().join(" ")
}
