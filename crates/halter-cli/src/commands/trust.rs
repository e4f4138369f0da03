//! `halter trust`: lets a project's file count in full.

use crate::args::TrustArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, file_problem, usage};
use crate::harness::{self, declined_store, trust_store};
use halter::{
    PluginLoader, ProjectServers, TrustedContent, hooks_are_trusted, named_scripts, trust_hooks,
};
use halter_config::{MCP_FILE_NAME, ProjectFile, find_project_config};
use halter_hooks::Hooks;
use halter_hooks::file::{HookOrigin, parse_text};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Trusts a file, or stops to.
pub async fn trust(context: &mut Context, arguments: TrustArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let path = chosen(arguments.path.as_deref())?;
    if is_content(&path) && !arguments.revoke {
        return trust_content(context, &path, &arguments);
    }
    if arguments.revoke {
        return revoke(context, &path, arguments.json.json);
    }
    let project = ProjectFile::read(&path).await?;
    let store = trust_store(context);
    let already = hooks_are_trusted(&project, &store)?;
    if !already {
        consent(context, &project, arguments.yes).await?;
        trust_hooks(&project, &store)?;
        // A refusal of the same content no longer holds.
        let _ = declined_store(context).revoke(&path);
    }
    let shown = path.display().to_string();
    match arguments.json.json {
        true => context
            .data
            .json(&json!({"path": shown, "trusted": true}))?,
        false if already => context.data.line(&format!("{shown} is trusted already"))?,
        false => context.data.line(&format!("trusted {shown}"))?,
    }
    Ok(Exit::Success)
}

/// True for a folder, or a file that is no configuration: something that holds
/// resources.
fn is_content(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|it| it == "md")
}

/// Lets a folder or file of resources run the programs it names.
fn trust_content(
    context: &mut Context,
    path: &Path,
    arguments: &TrustArgs,
) -> Result<Exit, Failure> {
    let content = TrustedContent::of(path).map_err(|error| file_problem("trust", path, &error))?;
    let store = trust_store(context);
    let shown = content.path.display().to_string();
    let already = store.is_content_trusted(&content.path, &content.digest)?;
    if !already {
        context.messages.say(&format!(
            "Trusting {shown} lets its hooks and servers run programs as you, as long as none \
             of its {} files changes.",
            content.files
        ));
        for plugin in PluginLoader::new(&content.path).load().plugins {
            let runs = plugin
                .runs()
                .unwrap_or_else(|| "nothing that runs".to_owned());
            context
                .messages
                .say(&format!("  plugin {}: {runs}", plugin.manifest.name));
        }
        agree(context, &shown, arguments.yes, "Trust this content?")?;
        store.trust_content(&content.path, &content.digest)?;
    }
    match arguments.json.json {
        true => context
            .data
            .json(&json!({"path": shown, "trusted": true, "digest": content.digest}))?,
        false if already => context.data.line(&format!("{shown} is trusted already"))?,
        false => context.data.line(&format!("trusted {shown}"))?,
    }
    Ok(Exit::Success)
}

/// Shows what trusting the file does, and asks unless told not to.
async fn consent(context: &Context, project: &ProjectFile, yes: bool) -> Result<(), Failure> {
    let shown = project.path().display();
    let path = project.path();
    let is_json = path.extension().is_some_and(|it| it == "json");
    match is_json {
        true if path.file_name().is_some_and(|it| it == MCP_FILE_NAME) => {
            let described = ProjectServers::of(project.clone(), &trust_store(context));
            context
                .messages
                .say(&format!("Trusting {shown} starts these servers as you:"));
            harness::show_servers(context, described.servers());
        }
        true => show_hooks(context, project),
        false => {
            context.messages.say(&format!("Trusting {shown} sets:"));
            harness::show_effect(context, project, &harness::paths(context)).await?;
        }
    }
    agree(context, &shown.to_string(), yes, "Trust this file?")
}

fn agree(context: &Context, shown: &str, yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !context.can_ask() {
        return Err(usage(
            format!("{shown} is not trusted: nobody can be asked here"),
            "look at it, then run `halter trust --yes`",
        ));
    }
    match context.confirm(question)? {
        true => Ok(()),
        false => Err(Failure::Told(Exit::Failed)),
    }
}

/// Says what the hooks of a file would run.
fn show_hooks(context: &Context, project: &ProjectFile) {
    let shown = project.path().display();
    let text = String::from_utf8_lossy(project.content());
    let parsed = parse_text(&text, &HookOrigin::project(shown.to_string()));
    let mut hooks = Hooks::new();
    let warnings = hooks.add_file(parsed);
    context
        .messages
        .say(&format!("Trusting {shown} lets these hooks run as you:"));
    for hook in hooks.listings() {
        let matcher = hook.matcher.unwrap_or_default();
        let runs = hook.runs.unwrap_or_default();
        let line = format!(
            "  {} {matcher}: {}",
            hook.event,
            runs.replace(char::is_control, " ")
        );
        context.messages.say(&line);
    }
    if hooks.is_empty() {
        context.messages.say("  none");
    }
    for script in named_scripts(project) {
        let line = format!("  with {}, as it is now", script.display());
        context.messages.say(&line);
    }
    for warning in warnings {
        context.messages.warning(&warning.to_string());
    }
}

fn revoke(context: &mut Context, path: &Path, json: bool) -> Result<Exit, Failure> {
    let found = trust_store(context).revoke(path)?;
    let shown = path.display().to_string();
    match (json, found) {
        (true, _) => context
            .data
            .json(&json!({"path": shown, "trusted": false, "revoked": found}))?,
        (false, true) => context
            .data
            .line(&format!("{shown} is no longer trusted"))?,
        (false, false) => context.data.line(&format!("{shown} was not trusted"))?,
    }
    Ok(Exit::Success)
}

fn chosen(path: Option<&Path>) -> Result<PathBuf, Failure> {
    match path {
        Some(path) if path.join(halter_config::PROJECT_FILE_NAME).exists() => {
            Ok(path.join(halter_config::PROJECT_FILE_NAME))
        }
        Some(path) => Ok(path.to_owned()),
        None => find_project_config(Path::new(".")).ok_or_else(|| {
            usage(
                "there is no halter.toml here or above",
                "write one with `halter init`, or name a file",
            )
        }),
    }
}
