//! Servers written into and taken out of a configuration file.

use super::login;
use crate::args::{JsonArg, McpAddArgs, TransportArg};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use halter_config::{
    McpOAuthTable, McpServerTable, McpTransport, remove_mcp_server, save_mcp_server,
};
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

/// Takes a server out of a file, and forgets its tokens if no other file has it.
pub async fn remove(
    context: &mut Context,
    name: &str,
    from: Option<&Path>,
    arguments: JsonArg,
) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let file = file(context, from)?;
    let shown = file.display().to_string();
    let known = login::known(context, name).await;
    if !remove_mcp_server(&file, name)? {
        return Err(usage(
            format!("{shown} has no MCP server `{name}`"),
            "`halter mcp list` shows all; name the file of this one with --file",
        ));
    }
    let logged_out = match known {
        Some(settings) if login::known(context, name).await.is_none() => {
            login::forget(&settings).await?
        }
        _ => false,
    };
    match (arguments.json, logged_out) {
        (true, logged_out) => context.data.json(
            &json!({"name": name, "file": shown, "removed": true, "logged_out": logged_out}),
        )?,
        (false, true) => context
            .data
            .line(&format!("took {name} out of {shown} and logged out of it"))?,
        (false, false) => context.data.line(&format!("took {name} out of {shown}"))?,
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
    let first = words.next().unwrap_or_default();
    let is_address = first.starts_with("http://") || first.starts_with("https://");
    let transport = match arguments.transport {
        TransportArg::Stdio if is_address => {
            return Err(usage(
                format!("{first} is no program"),
                "write --transport http, or --transport sse for the older transport",
            ));
        }
        TransportArg::Stdio => {
            let unused = [&arguments.header, &arguments.header_env];
            if unused.iter().any(|given| !given.is_empty()) || arguments.client_id.is_some() {
                return Err(usage(
                    "a program is sent no headers and has no login",
                    "use --env, or --transport http and an address",
                ));
            }
            return Ok(McpServerTable {
                command: Some(first),
                args: words.collect(),
                env: pairs("--env", &arguments.env, '=')?,
                required: arguments.required,
                ..McpServerTable::default()
            });
        }
        TransportArg::Http => McpTransport::Http,
        TransportArg::Sse => McpTransport::Sse,
    };
    // An address may begin with a variable.
    if !(is_address || first.starts_with("${")) || words.next().is_some() {
        return Err(usage(
            "a server over HTTP has one address",
            "write it as https://HOST/PATH",
        ));
    }
    if !arguments.env.is_empty() {
        return Err(usage(
            "--env is for programs",
            "send a header: --header 'NAME: VALUE'",
        ));
    }
    let secret = arguments.client_secret_env.as_ref();
    Ok(McpServerTable {
        transport,
        url: Some(first),
        headers: pairs("--header", &arguments.header, ':')?,
        headers_from_env: pairs("--header-env", &arguments.header_env, '=')?,
        oauth: McpOAuthTable {
            client_id: arguments.client_id.clone(),
            client_secret: secret.map(|variable| format!("${{{variable}}}")),
            ..McpOAuthTable::default()
        },
        required: arguments.required,
        ..McpServerTable::default()
    })
}

/// Names and values, as an option gives them. A value is not repeated: it may be a secret.
fn pairs(option: &str, given: &[String], by: char) -> Result<IndexMap<String, String>, Failure> {
    let pairs = given.iter().map(|pair| {
        let split = pair
            .split_once(by)
            .map(|(name, value)| (name.trim(), value));
        let split = split.filter(|(name, _)| !name.is_empty());
        let (name, value) = split.ok_or_else(|| {
            let hint = format!("write NAME{by}VALUE");
            usage(format!("a {option} has no name or no value"), hint)
        })?;
        Ok((name.to_owned(), value.trim_start().to_owned()))
    });
    pairs.collect()
}
