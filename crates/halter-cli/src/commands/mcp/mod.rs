//! `halter mcp`: the Model Context Protocol, used and served.

mod agent;
mod edit;
mod host_approvals;
mod login;
mod own_tools;
mod probe;
mod serve;
mod token;

use crate::args::{JsonArg, McpCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::harness;
use halter::{DescribedServer, HalterError};
use serde_json::{Value, json};

pub use probe::{lines, probed, shown};

/// Does what is asked.
pub async fn mcp(context: &mut Context, command: McpCommand) -> Result<Exit, Failure> {
    match command {
        McpCommand::Serve(arguments) => serve::serve(context, arguments).await,
        McpCommand::List(json) => list(context, json).await,
        McpCommand::Test { names, json } => probe::test(context, &names, json).await,
        McpCommand::Tools { name, json } => probe::tools(context, name, json).await,
        McpCommand::Login { name, scope, json } => login::login(context, &name, scope, json).await,
        McpCommand::Logout { name, json } => login::logout(context, &name, json).await,
        McpCommand::Add(arguments) => edit::add(context, &arguments),
        McpCommand::Remove { name, file, json } => {
            edit::remove(context, &name, file.as_deref(), json).await
        }
    }
}

async fn list(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let described = harness::described_servers(context, &loaded).await?;
    for problem in &described.problems {
        context.messages.warning(&with_hint(problem));
    }
    if arguments.json {
        let listed = described.servers.iter().map(as_json);
        context.data.json(&listed.collect::<Vec<Value>>())?;
        return Ok(Exit::Success);
    }
    if described.is_empty() {
        context
            .messages
            .say("no MCP servers are configured; add one with `halter mcp add`");
    }
    let names = described.servers.iter().map(|it| it.name.chars().count());
    let width = names.max().unwrap_or(0);
    for server in &described.servers {
        let name = &server.name;
        let (command, source) = (harness::command_line(server), &server.source);
        let state = match state(server) {
            "enabled" => String::new(),
            state => format!(", {state}"),
        };
        let line = format!("{name:<width$}  {command}  ({source}{state})");
        context.data.line(&line)?;
        if let Some(problem) = &server.problem {
            let line = format!("{:<width$}  {}", "", with_hint(problem));
            context.data.line(&line)?;
        }
    }
    Ok(Exit::Success)
}

/// What becomes of a server, in a word or two.
fn state(server: &DescribedServer) -> &'static str {
    match &server.problem {
        Some(problem) if problem.code() == "mcp_untrusted" => "not trusted",
        _ if !server.table.enabled => "disabled",
        Some(_) => "not used",
        None if server.table.required => "required",
        None => "enabled",
    }
}

fn as_json(server: &DescribedServer) -> Value {
    let mut shown = json!(server.table);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("name".to_owned(), json!(server.name));
        let source = server.source.to_string();
        fields.insert("source".to_owned(), json!(source));
        fields.insert("state".to_owned(), json!(state(server)));
        if let Some(problem) = &server.problem {
            fields.insert("problem".to_owned(), error_json(problem));
        }
    }
    shown
}

fn error_json(problem: &HalterError) -> Value {
    json!({"code": problem.code(), "message": problem.to_string(), "hint": problem.hint()})
}

fn with_hint(problem: &HalterError) -> String {
    let hint = problem.hint().map(|hint| format!("; {hint}"));
    format!("{problem}{}", hint.unwrap_or_default())
}
