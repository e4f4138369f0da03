//! `halter trust`: lets a project's file count in full, or what a folder holds.

use crate::args::TrustArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, file_problem, usage};
use crate::harness::{self, declined_store, trust_store};
use halter::{
    PROJECT_HOOK_FILES, PluginLoader, ProjectServers, ResourceCompiler, ResourceWarning,
    SKILL_FILE, TrustedContent, UsualPlaces, files_named_in, hooks_are_trusted, named_scripts,
    project_of, trust_hooks,
};
use halter_config::{
    MCP_FILE_NAME, PROJECT_FILE_NAME, ProjectFile, TrustStore, find_project_config,
};
use halter_hooks::Hooks;
use halter_hooks::file::{HookOrigin, parse_text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Trusts a file or what a folder holds, or stops to.
pub async fn trust(context: &mut Context, arguments: TrustArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let path = chosen(arguments.path.as_deref())?;
    if arguments.revoke {
        return revoke(context, &path, arguments.json.json);
    }
    let all = match path.is_dir() {
        true => in_folder(context, &path).await?,
        false if path.extension().is_some_and(|it| it == "md") => vec![Trustable::content(&path)?],
        false => vec![Trustable::File(ProjectFile::read(&path).await?)],
    };
    let store = trust_store(context);
    let mut new = Vec::new();
    for one in &all {
        if !one.is_trusted(&store)? {
            new.push(one);
        }
    }
    if let Some(last) = new.last() {
        for one in &new {
            one.show(context).await?;
        }
        let (shown, question) = match (new.as_slice(), last) {
            ([_], Trustable::File(_)) => (last.shown(), "Trust this file?"),
            ([_], Trustable::Content(_)) => (last.shown(), "Trust this content?"),
            _ => (path.display().to_string(), "Trust all of this?"),
        };
        agree(context, &shown, arguments.yes, question)?;
        for one in &new {
            one.trust(context, &store)?;
        }
    }
    if arguments.json.json {
        context.data.json(&as_json(&path, &all))?;
        return Ok(Exit::Success);
    }
    for one in &all {
        let is_new = new.iter().any(|it| std::ptr::eq(*it, one));
        context.data.line(&match is_new {
            true => format!("trusted {}", one.shown()),
            false => format!("{} is trusted already", one.shown()),
        })?;
    }
    Ok(Exit::Success)
}

fn as_json(path: &Path, all: &[Trustable]) -> Value {
    let digest = match all {
        [Trustable::Content(contents)] => contents.first().map(|it| it.digest.as_str()),
        _ => None,
    };
    let shown = match all {
        [one] => one.shown(),
        _ => path.display().to_string(),
    };
    let holds: Vec<String> = all.iter().map(Trustable::shown).collect();
    json!({"path": shown, "trusted": true, "digest": digest, "contents": holds})
}

/// What trust is given to: each is trusted as it is now.
enum Trustable {
    /// A configuration, a hook file or a description of servers.
    File(ProjectFile),
    /// A file or folder of resources, then the files that hooks in it name.
    Content(Vec<TrustedContent>),
}

impl Trustable {
    fn content(path: &Path) -> Result<Self, Failure> {
        let look = |path: &Path| {
            TrustedContent::of(path).map_err(|error| file_problem("trust", path, &error))
        };
        let mut contents = vec![look(path)?];
        for file in files_named_in(path) {
            contents.push(look(&file)?);
        }
        Ok(Self::Content(contents))
    }

    fn shown(&self) -> String {
        let path = match self {
            Self::File(file) => Some(file.path()),
            Self::Content(contents) => contents.first().map(|it| it.path.as_path()),
        };
        path.unwrap_or(Path::new("")).display().to_string()
    }

    fn is_trusted(&self, store: &TrustStore) -> Result<bool, Failure> {
        Ok(match self {
            Self::File(file) => hooks_are_trusted(file, store)?,
            Self::Content(contents) => {
                let mut trusted = true;
                for one in contents {
                    trusted &= store.is_content_trusted(&one.path, &one.digest)?;
                }
                trusted
            }
        })
    }

    /// Says what trusting it does.
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::File(file) => show_file(context, file).await,
            Self::Content(contents) => {
                show_content(context, contents);
                Ok(())
            }
        }
    }

    fn trust(&self, context: &Context, store: &TrustStore) -> Result<(), Failure> {
        match self {
            Self::File(file) => {
                trust_hooks(file, store)?;
                // A refusal of the same content no longer holds.
                let _ = declined_store(context).revoke(file.path());
            }
            Self::Content(contents) => {
                for one in contents {
                    store.trust_content(&one.path, &one.digest)?;
                }
            }
        }
        Ok(())
    }
}

/// What a folder is or holds that needs trust: a skill or a plugin, or of a
/// project the configuration, files of hooks and servers, and resources.
async fn in_folder(context: &Context, folder: &Path) -> Result<Vec<Trustable>, Failure> {
    let looked = std::fs::canonicalize(folder);
    let top = looked.map_err(|error| file_problem("trust", folder, &error))?;
    let mut found = Vec::new();
    for path in [PROJECT_FILE_NAME, MCP_FILE_NAME].map(|name| folder.join(name)) {
        if path.is_file() {
            found.push(Trustable::File(ProjectFile::read(&path).await?));
        }
    }
    // It may be one of the folders in which a project keeps such files.
    let directories = [Some(top.as_path()), top.parent()].into_iter().flatten();
    let files = directories.flat_map(|it| PROJECT_HOOK_FILES.map(|name| it.join(name)));
    for path in files.filter(|path| path.starts_with(&top) && path.is_file()) {
        let file = ProjectFile::read(&path).await?;
        if holds_hooks(&file) {
            found.push(Trustable::File(file));
        }
    }
    let mut contents = Vec::new();
    let plugins = PluginLoader::new(&top).load().plugins;
    let runs = plugins.iter().filter(|plugin| plugin.runs().is_some());
    let is_plugin = runs.map(|it| &it.manifest.root).any(|root| *root == top);
    if is_plugin || top.join(SKILL_FILE).is_file() {
        contents.push(top.clone());
    }
    let home = context.environment.home();
    let places = UsualPlaces::of(&top, home, None).find();
    let compiler = ResourceCompiler::default().with_places(places);
    for warning in compiler.compile().await?.warnings {
        if let ResourceWarning::Untrusted { path, .. } = warning
            && path.starts_with(&top)
            && !contents.contains(&path)
        {
            contents.push(path);
        }
    }
    for path in contents {
        found.push(Trustable::content(&path)?);
    }
    match found.is_empty() {
        true => Err(usage(
            format!("there is nothing in {} that needs trust", folder.display()),
            "name a project, or the folder of a skill or plugin; `halter resources` says what \
             is withheld",
        )),
        false => Ok(found),
    }
}

fn holds_hooks(file: &ProjectFile) -> bool {
    let text = String::from_utf8_lossy(file.content());
    let origin = HookOrigin::project(file.path().display().to_string(), project_of(file.path()));
    let parsed = parse_text(&text, &origin);
    !parsed.hooks.is_empty() || !parsed.warnings.is_empty() || parsed.switches_off
}

fn show_content(context: &Context, contents: &[TrustedContent]) {
    let mut contents = contents.iter();
    let Some(content) = contents.next() else {
        return;
    };
    let shown = content.path.display();
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
    for named in contents {
        let line = format!("  with {}, as it is now", named.path.display());
        context.messages.say(&line);
    }
}

async fn show_file(context: &Context, project: &ProjectFile) -> Result<(), Failure> {
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
    Ok(())
}

fn agree(context: &Context, shown: &str, yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !context.can_ask() {
        return Err(usage(
            format!("{shown} is not trusted: nobody can be asked here"),
            format!("look at it, then run `halter trust --yes {shown}`"),
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
    let origin = HookOrigin::project(shown.to_string(), project_of(project.path()));
    let parsed = parse_text(&text, &origin);
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
    let store = trust_store(context);
    let found = match path.is_dir() {
        true => store.revoke_in(path)?,
        false => store.revoke(path)?,
    };
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
        Some(path) => Ok(path.to_owned()),
        None => find_project_config(Path::new(".")).ok_or_else(|| {
            usage(
                "there is no halter.toml here or above",
                "write one with `halter init`, or name a file or folder",
            )
        }),
    }
}
