//! Servers written into and taken out of a configuration file.

use crate::args::{JsonArg, McpAddArgs, ServerKind};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use halter_config::{McpServerTable, McpTransport, remove_mcp_server, save_mcp_server};
use halter_mcp::ServerName;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Writes a server into a file.
pub fn add(context: &mut Context, arguments: &McpAddArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let file = file(context, arguments.file.as_deref())?;
    if let Err(error) = ServerName::new(arguments.name.as_str()) {
        return Err(halter::HalterError::new("usage", error.to_string()).into());
    }
    let table = table(arguments)?;
    save_mcp_server(&file, &arguments.name, &table)?;
    let (name, shown) = (&arguments.name, file.display().to_string());
    match arguments.json.json {
        true => context.data.json(&json!({"name": name, "file": shown}))?,
        false => context.data.line(&format!("wrote {name} into {shown}"))?,
    }
    Ok(Exit::Success)
}

/// Takes a server out of a file.
pub fn remove(
    context: &mut Context,
    name: &str,
    from: Option<&Path>,
    arguments: JsonArg,
) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let file = file(context, from)?;
    let shown = file.display().to_string();
    if !remove_mcp_server(&file, name)? {
        return Err(usage(
            format!("{shown} has no MCP server `{name}`"),
            "`halter mcp list` shows all; name the file of this one with --file",
        ));
    }
    match arguments.json {
        true => context
            .data
            .json(&json!({"name": name, "file": shown, "removed": true}))?,
        false => context.data.line(&format!("took {name} out of {shown}"))?,
    }
    Ok(Exit::Success)
}

fn file(context: &Context, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let usual = || context.environment.user_config_path();
    named.map(Path::to_path_buf).or_else(usual).ok_or_else(|| {
        usage(
            "there is no place for the user's configuration",
            "set HOME, or name a file with --file",
        )
    })
}

fn table(arguments: &McpAddArgs) -> Result<McpServerTable, Failure> {
    let mut table = McpServerTable {
        required: arguments.required,
        ..McpServerTable::default()
    };
    let first = arguments.target.first().cloned().unwrap_or_default();
    let is_address = first.starts_with("http://") || first.starts_with("https://");
    let kind = arguments.kind.unwrap_or(match is_address {
        true => ServerKind::Http,
        false => ServerKind::Stdio,
    });
    match kind {
        ServerKind::Stdio => {
            table.args = arguments.target.iter().skip(1).cloned().collect();
            table.command = Some(first);
            table.env.extend(pairs(&arguments.env, "--env")?);
            if !arguments.header.is_empty() {
                return Err(usage("a program has no headers", "use --env"));
            }
        }
        ServerKind::Http | ServerKind::Sse => {
            if !is_address || arguments.target.len() > 1 {
                return Err(usage(
                    "a service has one address, and nothing else",
                    "write its address, such as https://x.example/mcp",
                ));
            }
            if !arguments.env.is_empty() {
                return Err(usage("a service sees no variables", "use --header"));
            }
            table.transport = Some(match kind {
                ServerKind::Sse => McpTransport::Sse,
                _ => McpTransport::Http,
            });
            table.url = Some(first);
            table.headers.extend(pairs(&arguments.header, "--header")?);
        }
    }
    Ok(table)
}

fn pairs(given: &[String], flag: &str) -> Result<Vec<(String, String)>, Failure> {
    let pairs = given.iter().map(|pair| {
        let split = pair.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) = split
            .ok_or_else(|| usage(format!("{flag} {pair} has no value"), "write NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}
