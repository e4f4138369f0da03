//! `halter plugin`: installs, lists, switches and removes plugins.

use crate::args::PluginCommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, usage};
use crate::limits::GIT_DEADLINE;
use halter::{HalterError, InstalledPlugins, PluginSource, PluginSwitch};
use halter_exec::{Command, Environment};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Does what was asked.
pub async fn plugin(context: &mut Context, command: PluginCommand) -> Result<Exit, Failure> {
    let config = context.environment.user_config_path();
    let Some(directory) = config.as_deref().and_then(Path::parent) else {
        return Err(usage(
            "there is no place for plugins",
            "set HOME or XDG_CONFIG_HOME",
        ));
    };
    let installed = InstalledPlugins::at(directory);
    match command {
        PluginCommand::Install {
            source,
            revision,
            json,
        } => {
            context.errors_in_data = json.json;
            install(context, &installed, &source, revision.as_deref(), json.json).await
        }
        PluginCommand::List(json) => {
            context.errors_in_data = json.json;
            list(context, &installed, json.json)
        }
        PluginCommand::Remove { name } => {
            installed.remove(&name).map_err(failure)?;
            context.data.line(&format!("removed {name}"))?;
            Ok(Exit::Success)
        }
        PluginCommand::Enable { name } => {
            let switched = installed.set_enabled(&name, PluginSwitch::On);
            switched.map_err(failure)?;
            context.data.line(&format!("enabled {name}"))?;
            Ok(Exit::Success)
        }
        PluginCommand::Disable { name } => {
            let switched = installed.set_enabled(&name, PluginSwitch::Off);
            switched.map_err(failure)?;
            context.data.line(&format!("disabled {name}"))?;
            Ok(Exit::Success)
        }
    }
}

fn failure(error: halter::ResourceError) -> Failure {
    HalterError::new(error.code(), error.to_string()).into()
}

async fn install(
    context: &mut Context,
    installed: &InstalledPlugins,
    source: &str,
    revision: Option<&str>,
    json: bool,
) -> Result<Exit, Failure> {
    // What is recorded, and what git is told, holds from each directory.
    let folder = Path::new(source);
    let named = match folder.exists() {
        true => std::path::absolute(folder)?,
        false => folder.to_owned(),
    };
    // A working copy that is named by its path is one only if a revision is wanted.
    let copied = folder.is_dir() && revision.is_none() && !is_bare_repository(folder);
    let (plugin, warnings, commit) = if copied {
        let from = PluginSource {
            source: named.display().to_string(),
            commit: None,
        };
        let (plugin, warnings) = installed.install(folder, from).map_err(failure)?;
        (plugin, warnings, None)
    } else {
        let checkout = tempfile::tempdir()?;
        let commit = clone(context, named.as_os_str(), revision, checkout.path()).await?;
        let from = PluginSource {
            source: named.display().to_string(),
            commit: Some(commit.clone()),
        };
        let (plugin, warnings) = installed.install(checkout.path(), from).map_err(failure)?;
        (plugin, warnings, Some(commit))
    };
    for warning in &warnings {
        context.messages.warning(warning);
    }
    let parts = [
        ("skills", plugin.skills.len()),
        ("agents", plugin.agents.len()),
        ("commands", plugin.commands.len()),
        ("output styles", plugin.output_styles.len()),
        ("hook files", plugin.hooks.len()),
        ("MCP servers", plugin.mcp_servers.len()),
        ("language servers", plugin.lsp_servers.len()),
    ];
    let name = &plugin.manifest.name;
    if json {
        let parts: serde_json::Map<_, _> = parts
            .into_iter()
            .map(|(part, count)| (part.replace(' ', "_"), count.into()))
            .collect();
        context.data.json(&json!({
            "name": name,
            "version": plugin.manifest.version,
            "commit": commit,
            "enabled": plugin.default_enabled,
            "parts": parts,
            "warnings": warnings,
        }))?;
        return Ok(Exit::Success);
    }
    let present = parts.into_iter().filter(|(_, count)| *count > 0);
    let present: Vec<String> = present
        .map(|(part, count)| format!("{count} {part}"))
        .collect();
    let pinned = commit
        .map(|commit| format!(" at {commit}"))
        .unwrap_or_default();
    context
        .data
        .line(&format!("installed {name}{pinned}: {}", present.join(", ")))?;
    if let Some(runs) = plugin.runs() {
        context.messages.say(&format!(
            "its {runs} run programs as you; `halter plugin disable {name}` puts it out of force"
        ));
    }
    if !plugin.default_enabled {
        context.messages.say(&format!(
            "it is off unless you want it: `halter plugin enable {name}`"
        ));
    }
    Ok(Exit::Success)
}

/// Whether a folder is a repository without a working copy, as git tells it.
fn is_bare_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file()
        && ["objects", "refs"]
            .iter()
            .all(|it| folder.join(it).is_dir())
}

/// Clones a repository and returns the commit that is checked out.
async fn clone(
    context: &Context,
    source: &OsStr,
    revision: Option<&str>,
    to: &Path,
) -> Result<String, Failure> {
    if source.as_encoded_bytes().starts_with(b"-") || revision.is_some_and(|it| it.starts_with('-'))
    {
        return Err(usage(
            format!(
                "'{}' is neither a folder nor the address of a repository",
                source.display()
            ),
            "name a folder, an https:// address or a path of a repository",
        ));
    }
    let to_text = to.as_os_str().to_owned();
    let fetch = [
        "clone".into(),
        "--quiet".into(),
        "--no-checkout".into(),
        "--".into(),
        source.to_owned(),
        to_text,
    ];
    git(context, Path::new("/"), &fetch).await?;
    let wanted = revision.unwrap_or("HEAD");
    let name = format!("{wanted}^{{commit}}");
    let resolve = [
        "rev-parse".into(),
        "--verify".into(),
        "--quiet".into(),
        name.into(),
    ];
    let commit = match git(context, to, &resolve).await {
        Ok(commit) => commit,
        // A branch is known by the name of its remote.
        Err(_) => {
            let name = format!("origin/{wanted}^{{commit}}");
            let resolve = ["rev-parse".into(), "--verify".into(), name.into()];
            git(context, to, &resolve).await?
        }
    };
    let commit = commit.trim().to_owned();
    let checkout = ["checkout", "--quiet", "--detach", &commit].map(OsString::from);
    git(context, to, &checkout).await?;
    Ok(commit)
}

/// Runs git and returns its output.
async fn git(context: &Context, directory: &Path, words: &[OsString]) -> Result<String, Failure> {
    let variables = context.environment.variables();
    let command = git_command(variables, directory, words);
    let failed = |reason: String| -> Failure {
        let message = format!("git could not fetch the plugin: {reason}");
        HalterError::new("git_failed", message)
            .with_hint("check the address and that git is installed")
            .into()
    };
    let outcome = command
        .output()
        .await
        .map_err(|error| failed(error.to_string()))?;
    if !outcome.status.success() {
        return Err(failed(outcome.stderr.to_text().trim().to_owned()));
    }
    Ok(outcome.stdout.to_text())
}

/// Git with the user's environment: it asks nobody, and no hook of a repository
/// runs.
fn git_command(
    variables: impl Iterator<Item = (OsString, OsString)>,
    directory: &Path,
    words: &[OsString],
) -> Command {
    let environment = variables.fold(Environment::new(), |environment, (name, value)| {
        environment.with(name, value)
    });
    let environment = environment
        .with("GIT_TERMINAL_PROMPT", "0")
        .with("GIT_CONFIG_COUNT", "1")
        .with("GIT_CONFIG_KEY_0", "core.hooksPath")
        .with("GIT_CONFIG_VALUE_0", "/dev/null");
    Command::new("git", directory)
        .args(words.iter().cloned())
        .environment(environment)
        .deadline(GIT_DEADLINE)
}

fn list(context: &mut Context, installed: &InstalledPlugins, json: bool) -> Result<Exit, Failure> {
    let plugins = installed.list().map_err(failure)?;
    if json {
        context.data.json(&json!({"plugins": plugins}))?;
        return Ok(Exit::Success);
    }
    if plugins.is_empty() {
        context.messages.say("no plugin is installed");
    }
    for (name, plugin) in plugins {
        let version = plugin.version.as_deref().unwrap_or("-");
        let state = if plugin.enabled {
            "enabled"
        } else {
            "disabled"
        };
        let commit = plugin
            .commit
            .map(|it| format!(" at {it}"))
            .unwrap_or_default();
        let line = format!("{name} {version}  {state}  {}{commit}", plugin.source);
        context.data.line(&line)?;
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_has_a_deadline_and_asks_nobody() {
        let variables = [("PATH".into(), "/bin".into())].into_iter();
        let command = git_command(variables, Path::new("/"), &["status".into()]);
        assert_eq!(command.deadline, Some(GIT_DEADLINE));
        let shown = format!("{:?}", command.environment);
        assert!(shown.contains("GIT_TERMINAL_PROMPT"), "{shown}");
    }
}
