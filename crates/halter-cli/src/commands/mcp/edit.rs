//! Servers written into and taken out of a configuration file.

use crate::args::{JsonArg, McpAddArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use halter_config::{McpServerTable, remove_mcp_server, save_mcp_server};
use halter_mcp::ServerName;
use indexmap::IndexMap;
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
    let mut words = arguments.command.iter().cloned();
    let command = words.next().unwrap_or_default();
    if command.starts_with("http://") || command.starts_with("https://") {
        return Err(usage(
            "servers over HTTP are not built yet",
            "use a command: a program that speaks MCP over its standard streams",
        ));
    }
    Ok(McpServerTable {
        command: Some(command),
        args: words.collect(),
        env: variables(&arguments.env)?,
        required: arguments.required,
        ..McpServerTable::default()
    })
}

fn variables(given: &[String]) -> Result<IndexMap<String, String>, Failure> {
    let pairs = given.iter().map(|pair| {
        let split = pair.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) =
            split.ok_or_else(|| usage(format!("--env {pair} has no value"), "write NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}
