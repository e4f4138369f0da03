//! Servers that are started, looked at and ended.

use super::{error_json, with_hint};
use crate::args::JsonArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::harness::{self, Loaded};
use crate::terminal::{columns, fitted};
use halter::{DescribedServers, HalterError, ProbedServer, probe_mcp_servers};
use halter_mcp::{ServerState, ServerStatus};
use halter_protocol::public_tools::public_server_name;
use serde_json::{Value, json};

/// Says how servers are.
pub async fn test(
    context: &mut Context,
    names: &[String],
    arguments: JsonArg,
) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let probed = wanted(context, &loaded, names).await?;
    if arguments.json {
        context
            .data
            .json(&probed.iter().map(shown).collect::<Vec<_>>())?;
    } else {
        if probed.is_empty() {
            context.messages.say("no MCP servers are enabled");
        }
        for server in &probed {
            for line in lines(server) {
                context.data.line(&line)?;
            }
        }
    }
    match probed.iter().all(|server| problem(server).is_none()) {
        true => Ok(Exit::Success),
        false => Err(Failure::Told(Exit::Failed)),
    }
}

/// Lists the tools of a server, or of all. Those that cannot be used keep
/// nobody from the tools of the others.
pub async fn tools(
    context: &mut Context,
    name: Option<String>,
    arguments: JsonArg,
) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let loaded = harness::load(context).await?;
    let names: Vec<String> = name.into_iter().collect();
    let probed = wanted(context, &loaded, &names).await?;
    if let ([server], [_]) = (probed.as_slice(), names.as_slice())
        && let Some(problem) = problem(server)
    {
        return Err(problem.into());
    }
    let mut tools = Vec::new();
    let mut exit = Ok(Exit::Success);
    for server in &probed {
        match (problem(server), &server.status) {
            (None, Ok(status)) => {
                for problem in &status.problems {
                    let told = match names.is_empty() {
                        true => format!("MCP server `{}`: {problem}", server.name),
                        false => problem.clone(),
                    };
                    context.messages.warning(&told);
                }
                tools.extend(&status.tools);
            }
            (problem, _) => {
                if let Some(problem) = problem {
                    context.messages.warning(&with_hint(&problem));
                }
                exit = Err(Failure::Told(Exit::Failed));
            }
        }
    }
    if arguments.json {
        let tools = tools.iter().map(|tool| {
            let mut shown = json!(tool.spec);
            if let Some(fields) = shown.as_object_mut() {
                fields.insert("own_name".to_owned(), json!(tool.own_name));
                let digest = &tool.definition.digest;
                fields.insert("definition".to_owned(), json!(digest));
            }
            shown
        });
        context.data.json(&tools.collect::<Vec<Value>>())?;
        return exit;
    }
    let names = tools.iter().map(|tool| tool.spec.name.as_str().len());
    let width = names.max().unwrap_or(0);
    let columns = context.data.is_terminal().then(columns);
    for tool in &tools {
        let about = tool.spec.description.lines().next().unwrap_or_default();
        let line = format!("{:<width$}  {about}", tool.spec.name.as_str());
        let line = fitted(&line, columns.unwrap_or(usize::MAX));
        context.data.line(&line)?;
    }
    exit
}

async fn wanted(
    context: &Context,
    loaded: &Loaded,
    names: &[String],
) -> Result<Vec<ProbedServer>, Failure> {
    let described = harness::described_servers(context, loaded).await?;
    for problem in &described.problems {
        context.messages.warning(&with_hint(problem));
    }
    let names: Vec<String> = names.iter().map(|name| known_as(name)).collect();
    let is_known = |name: &String| described.servers.iter().any(|it| it.name == *name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(unknown(&described, name));
    }
    let config = &loaded.config.config;
    Ok(probe_mcp_servers(config, &context.environment, &described, &names).await?)
}

/// The name that a server has here, by what its file calls it.
pub(super) fn known_as(name: &str) -> String {
    public_server_name(name).into_owned()
}

pub(super) fn unknown(described: &DescribedServers, name: &str) -> Failure {
    let known = described.servers.iter();
    let known: Vec<&str> = known.map(|it| it.name.as_str()).collect();
    let hint = match known.as_slice() {
        [] => "none is configured; add one with `halter mcp add`".to_owned(),
        known => format!("there are: {}", known.join(", ")),
    };
    usage(format!("there is no MCP server `{name}`"), hint)
}

/// How all enabled servers are, each in one line, for `doctor`.
pub async fn probed(context: &Context, loaded: &Loaded) -> Result<Vec<ProbedServer>, Failure> {
    wanted(context, loaded, &[]).await
}

/// Why a server cannot be used.
pub fn problem(server: &ProbedServer) -> Option<HalterError> {
    match &server.status {
        Err(error) => Some(error.clone()),
        Ok(ServerStatus { state, .. }) => match state {
            ServerState::Ready => None,
            ServerState::Failed(error) | ServerState::Restarting(error) => {
                Some(HalterError::new(error.code(), error.to_string()))
            }
            _ => Some(HalterError::new("mcp_stopped", "it is stopped")),
        },
    }
}

/// A server in lines of text.
pub fn lines(server: &ProbedServer) -> Vec<String> {
    let name = &server.name;
    if let Some(problem) = problem(server) {
        let word = match problem.code() {
            "mcp_untrusted" => "unused",
            "mcp_login_needed" => "login ",
            _ => "failed",
        };
        return vec![format!("{word}  {name}: {}", with_hint(&problem))];
    }
    let Ok(status) = &server.status else {
        return Vec::new();
    };
    let tools = match status.tools.len() {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    };
    let who = status.implementation.as_deref().unwrap_or("unnamed");
    let revision = status.revision.as_deref().unwrap_or("unknown");
    let place = match status.sandbox {
        Some(sandbox) => format!(", in a sandbox ({sandbox})"),
        None => String::new(),
    };
    let mut lines = vec![format!(
        "ok      {name}: {tools}, {who}, protocol {revision}{place} ({})",
        server.source
    )];
    let problems = status.problems.iter();
    lines.extend(problems.map(|problem| format!("        warning: {problem}")));
    lines
}

/// A server as JSON.
pub fn shown(server: &ProbedServer) -> Value {
    let (name, source) = (&server.name, server.source.to_string());
    match (problem(server), &server.status) {
        (None, Ok(status)) => json!({
            "name": name,
            "source": source,
            "ok": true,
            "implementation": status.implementation,
            "protocol": status.revision,
            "sandbox": status.sandbox,
            "resources": status.has_resources,
            "prompts": status.has_prompts,
            "tools": status.tools.iter().map(|tool| &tool.spec.name).collect::<Vec<_>>(),
            "problems": status.problems,
        }),
        (problem, _) => json!({
            "name": name,
            "source": source,
            "ok": false,
            "error": problem.as_ref().map(error_json),
        }),
    }
}
