//! From files and variables to a harness.

use crate::context::Context;
use crate::failure::Failure;
use halter::session::InMemorySessionStore;
use halter::{
    Approvals, CompiledResources, ConfigRules, DescribedServer, DescribedServers, Halter,
    HalterBuilder, HookFiles, LocalServer, ProjectServers, ResourceCompiler, UserResources,
};
use halter_config::{
    ConfigWarning, LayeredConfigPaths, LoadedConfig, LoadedProject, ModelChoice, OFFLINE_MODEL,
    ProjectFile, TrustStore, effect_of, load_layered,
};
use halter_mcp::ServerState;
use halter_mcp::limits::START_TIMEOUT;
use halter_providers::Provider;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where refusals are remembered, below the state directory.
const DECLINED: &str = "declined";

/// A configuration, and what is worth saying about it.
pub struct Loaded {
    /// The configuration with its origins.
    pub config: LoadedConfig,
    /// Why the default model is the one it is.
    pub choice: ModelChoice,
    /// True if nobody chose where sessions are kept and no place was found.
    pub without_home: bool,
}

/// The files of the layers.
pub fn paths(context: &Context) -> LayeredConfigPaths {
    LayeredConfigPaths::usual(&context.environment, context.globals.config.clone())
}

/// The record of trusted project files.
pub fn trust_store(context: &Context) -> TrustStore {
    TrustStore::of(&context.environment)
}

/// The record of project files the user has been asked about and refused.
pub fn declined_store(context: &Context) -> TrustStore {
    match context.environment.state_dir() {
        Some(state) => TrustStore::open(state.join(DECLINED)),
        None => TrustStore::none(),
    }
}

/// Loads the configuration, asking about an untrusted project file where
/// somebody can answer, and says what is worth saying.
pub async fn load(context: &Context) -> Result<Loaded, Failure> {
    load_for(context, None).await
}

/// The same with the model that `--model` names. One that is written as
/// provider/model takes the place of the default, so that nothing of the
/// latter is needed.
pub async fn load_for(context: &Context, model: Option<&str>) -> Result<Loaded, Failure> {
    let mut loaded = load_silently(context).await?;
    if let Some(id) = model {
        // Said before anything else is: how models are named.
        loaded.config.config.model_with_id(id)?;
    }
    if let Some(id) = model.filter(|id| id.contains('/') || *id == OFFLINE_MODEL) {
        let environment = &context.environment;
        loaded.config.use_model(id, "--model", environment)?;
        loaded.choice = ModelChoice::Named;
    }
    for warning in warnings(&loaded.config) {
        context.messages.warning(&warning);
    }
    Ok(loaded)
}

/// Loads the configuration without printing its warnings.
pub async fn load_silently(context: &Context) -> Result<Loaded, Failure> {
    let (paths, trust) = (paths(context), trust_store(context));
    let mut config = load_layered(paths.clone(), &context.environment, &trust).await?;
    if let Some(project) = untrusted(&config)
        && may_ask_about(context, project)
    {
        let shown = project.path().display();
        context
            .messages
            .say(&format!("{shown} is new or has changed. Trusting it sets:"));
        show_effect(context, project, &paths).await?;
        if ask_for_trust(context, project)? {
            config = load_layered(paths, &context.environment, &trust).await?;
        }
    }
    let choice = config.choose_model(&context.environment)?;
    let without_home = !config.keep_sessions(&context.environment);
    Ok(Loaded {
        config,
        choice,
        without_home,
    })
}

fn untrusted(loaded: &LoadedConfig) -> Option<&ProjectFile> {
    let LoadedProject { file, trusted } = loaded.project.as_ref()?;
    // A file that asks for nothing it does not get needs no trust.
    let refused = |warning: &ConfigWarning| matches!(warning, ConfigWarning::Untrusted { .. });
    (!trusted && loaded.warnings.iter().any(refused)).then_some(file)
}

/// Whether somebody can be asked about a file and has not refused it.
fn may_ask_about(context: &Context, project: &ProjectFile) -> bool {
    context.can_ask() && !declined_store(context).is_trusted(project).unwrap_or(false)
}

/// Asks whether to trust a file, and remembers the answer.
fn ask_for_trust(context: &Context, project: &ProjectFile) -> Result<bool, Failure> {
    if context.confirm("Trust this file?")? {
        halter::trust_hooks(project, &trust_store(context))?;
        return Ok(true);
    }
    // The only consequence is being asked again.
    if let Err(error) = declined_store(context).trust(project) {
        tracing::debug!(%error, "refusal not recorded");
    }
    Ok(false)
}

/// Prints which programs trusting the file of a project would start.
pub fn show_servers(context: &Context, servers: &[DescribedServer]) {
    for server in servers {
        let line = format!("  {}: {}", server.name, command_line(server));
        context.messages.say(&line);
    }
    if servers.is_empty() {
        context.messages.say("  none");
    }
}

/// The program of a server with its arguments, or its address, in one line. Neither is expanded:
/// what variables hold is not shown.
pub fn command_line(server: &DescribedServer) -> String {
    let table = &server.table;
    let words = table.url.iter().chain(&table.command).chain(&table.args);
    let words: Vec<&str> = words.map(String::as_str).collect();
    words.join(" ").replace(char::is_control, " ")
}

/// Prints what trusting a file would change.
pub async fn show_effect(
    context: &Context,
    project: &ProjectFile,
    paths: &LayeredConfigPaths,
) -> Result<(), Failure> {
    let effects = effect_of(project, paths).await?;
    for effect in &effects {
        context.messages.say(&format!("  {effect}"));
    }
    if effects.is_empty() {
        context.messages.say("  nothing that is not so already");
    }
    Ok(())
}

/// The warnings of a configuration, those about trust gathered under one.
pub fn warnings(loaded: &LoadedConfig) -> Vec<String> {
    let mut lines = Vec::new();
    let mut refused = Vec::new();
    for warning in &loaded.warnings {
        match warning {
            ConfigWarning::Untrusted {
                key,
                location,
                reason,
            } => refused.push(format!("\n  line {}: `{key}`: {reason}", location.line)),
            other => lines.push(other.to_string()),
        }
    }
    if let (Some(project), false) = (&loaded.project, refused.is_empty()) {
        lines.push(format!(
            "{} is not trusted and only narrows what is allowed; \
             trust it with `halter trust`, or name it with `--config`{}",
            project.file.path().display(),
            refused.concat()
        ));
    }
    lines
}

/// Says which model answers where nobody chose one, and which servers on this
/// computer could.
pub async fn explain_model(context: &Context, loaded: &Loaded) {
    if loaded.choice != ModelChoice::Named && context.messages.shows_notes() {
        let servers = LocalServer::usual(&context.environment);
        let servers = LocalServer::listening(servers).await;
        context
            .messages
            .note(&explanation(&loaded.choice, &servers));
    }
    if loaded.without_home {
        context
            .messages
            .warning("this session is not kept: set HOME or XDG_DATA_HOME to give it a place");
    }
}

/// Why a model answers, and how to have another one.
fn explanation(choice: &ModelChoice, servers: &[LocalServer]) -> String {
    let mut text = format!(
        "{choice}; name another with --model provider/model, or under [models.default] in a \
         halter.toml, which `halter init` writes"
    );
    for server in servers {
        text.push_str(&format!(
            "; {server} listens, use it with --model {}/NAME",
            server.provider
        ));
    }
    text
}

/// The servers of tools that settings, project and plugins describe here.
pub async fn described_servers(
    context: &Context,
    loaded: &Loaded,
) -> Result<DescribedServers, Failure> {
    let resources = compile(context, loaded).await?;
    let project = ProjectServers::find(directory(loaded), &trust_store(context)).await;
    let config = &loaded.config.config;
    Ok(DescribedServers::of(
        config,
        &project,
        &resources.mcp_servers,
    ))
}

/// The servers of the project, asked about where somebody can answer.
async fn project_servers(context: &Context, loaded: &Loaded) -> Result<ProjectServers, Failure> {
    let (directory, trust) = (directory(loaded), trust_store(context));
    let found = ProjectServers::find(directory, &trust).await;
    let Some(file) = found.untrusted_file() else {
        return Ok(found);
    };
    if may_ask_about(context, file) {
        let shown = file.path().display();
        context.messages.say(&format!(
            "{shown} is new or has changed. Trusting it starts these servers as you:"
        ));
        show_servers(context, found.servers());
        if ask_for_trust(context, file)? {
            return Ok(ProjectServers::of(file.clone(), &trust));
        }
    }
    Ok(found)
}

/// Where sessions work.
fn directory(loaded: &Loaded) -> &Path {
    let configured = loaded.config.config.runtime.working_dir.as_deref();
    configured.unwrap_or(Path::new("."))
}

/// Compiles what the user and the project have here.
pub async fn compile(context: &Context, loaded: &Loaded) -> Result<CompiledResources, Failure> {
    Ok(compiler(context, loaded).compile().await?)
}

/// Finds what the user and the project have here.
pub fn compiler(context: &Context, loaded: &Loaded) -> ResourceCompiler {
    let directory = resource_directory(context, loaded);
    ResourceCompiler::of_user(&loaded.config, &context.environment, directory)
}

/// The same, to be found again and again.
pub fn watched(context: &Context, loaded: &Loaded) -> UserResources {
    let directory = resource_directory(context, loaded);
    UserResources::new(&loaded.config, &context.environment, directory)
}

fn resource_directory<'a>(context: &Context, loaded: &'a Loaded) -> &'a Path {
    let configured = loaded.config.config.runtime.working_dir.as_deref();
    // A directory that was asked for is where we are.
    let directory = configured.filter(|_| context.globals.cwd.is_none());
    directory.unwrap_or(Path::new("."))
}

/// Who answers in a harness.
pub enum Models {
    /// The configured models.
    Configured,
    /// The same, recorded into this file.
    Recorded(PathBuf),
    /// What this recording holds.
    Replayed(PathBuf),
    /// This provider, whatever is configured: no key is needed.
    Injected(Arc<dyn Provider>),
}

/// Where a harness keeps its sessions.
pub enum Store {
    /// Where the configuration says.
    Configured,
    /// Nowhere.
    Memory,
}

/// Puts a harness together that asks somebody. Rules that shall hold for good
/// go to the user's own configuration.
pub async fn build_attended(
    context: &Context,
    loaded: &Loaded,
    resources: CompiledResources,
    models: Models,
    approvals: Approvals,
) -> Result<Halter, Failure> {
    let servers = project_servers(context, loaded).await?;
    let builder = builder(context, loaded, resources, models, Store::Configured).await;
    let mut builder = builder.with_approvals(approvals);
    builder = builder.with_project_servers(servers);
    if let Some(file) = context.environment.user_config_path() {
        builder = builder.with_rule_store(Arc::new(ConfigRules::new(file)));
    }
    let harness = builder.build().await?;
    say_where_commands_run(context, &harness).await;
    warn_of_servers(context, &harness);
    Ok(harness)
}

/// Says what the place where commands run does not do, or that none can run.
async fn say_where_commands_run(context: &Context, harness: &Halter) {
    match harness.check_exec().await {
        Ok(lacks) => {
            for lack in lacks {
                let note = format!("commands run by a runtime: {lack}");
                context.messages.note(&note);
            }
        }
        Err(error) => {
            let problem = format!("commands cannot run: {error:#}");
            context.messages.warning(&problem);
        }
    }
}

/// Puts a harness together that works for hosts. `stand_in` serves models of
/// its own name.
pub async fn build_served(
    context: &Context,
    loaded: &Loaded,
    resources: CompiledResources,
    approvals: Approvals,
    stand_in: Option<(&str, Arc<dyn Provider>)>,
) -> Result<Halter, Failure> {
    let models = Models::Configured;
    let builder = builder(context, loaded, resources, models, Store::Configured).await;
    let mut builder = builder.with_approvals(approvals);
    let servers = ProjectServers::find(directory(loaded), &trust_store(context)).await;
    builder = builder.with_project_servers(servers);
    if let Some((name, provider)) = stand_in {
        builder = builder.with_named_provider(name, provider);
    }
    let harness = builder.build().await?;
    say_where_commands_run(context, &harness).await;
    warn_of_servers(context, &harness);
    Ok(harness)
}

/// Puts a harness together that asks nobody, and starts no servers: it is
/// looked at, or calls no tools of theirs.
pub async fn build(
    context: &Context,
    loaded: &Loaded,
    mut resources: CompiledResources,
    models: Models,
    store: Store,
) -> Result<Halter, Failure> {
    let mut config = loaded.config.config.clone();
    config.mcp.servers.clear();
    resources.mcp_servers.clear();
    let builder = builder(context, loaded, resources, models, store).await;
    let builder = builder.with_config(config);
    Ok(builder.build().await?)
}

/// Puts a harness together with all tools that a session would have.
pub async fn build_with_servers(
    context: &Context,
    loaded: &Loaded,
    resources: CompiledResources,
    models: Models,
    approvals: Approvals,
) -> Result<Halter, Failure> {
    let servers = project_servers(context, loaded).await?;
    let builder = builder(context, loaded, resources, models, Store::Memory).await;
    let builder = builder.with_approvals(approvals);
    let harness = builder.with_project_servers(servers).build().await?;
    harness.mcp_started(START_TIMEOUT).await;
    warn_of_servers(context, &harness);
    Ok(harness)
}

/// Says which servers cannot be used, or cannot be used yet.
pub fn warn_of_servers(context: &Context, harness: &Halter) {
    for problem in harness.mcp_problems() {
        let hint = problem.hint().map(|hint| format!("; {hint}"));
        let hint = hint.unwrap_or_default();
        context.messages.warning(&format!("{problem}{hint}"));
    }
    for server in harness.mcp_servers() {
        match server.state {
            ServerState::Failed(error) | ServerState::Restarting(error) => {
                context.messages.warning(&error.to_string());
            }
            ServerState::Starting => {
                let name = &server.name;
                let note = format!("MCP server `{name}` is still starting");
                context.messages.note(&note);
            }
            _ => {}
        }
        for problem in server.problems {
            let name = &server.name;
            let warning = format!("MCP server `{name}`: {problem}");
            context.messages.warning(&warning);
        }
    }
}

async fn builder(
    context: &Context,
    loaded: &Loaded,
    resources: CompiledResources,
    models: Models,
    store: Store,
) -> HalterBuilder {
    let config = &loaded.config.config;
    let trust = trust_store(context);
    let hooks = HookFiles::find(
        &loaded.config,
        &context.environment,
        resource_directory(context, loaded),
        &trust,
    )
    .await;
    let mut builder = HalterBuilder::new()
        .with_config(config.clone())
        .with_compiled_resources(resources)
        .with_hook_files(hooks)
        .with_environment(context.environment.clone());
    builder = match models {
        Models::Configured => builder,
        Models::Injected(provider) => builder.with_provider(provider),
        Models::Recorded(file) => builder.with_recording(file),
        Models::Replayed(file) => builder.with_replay(file),
    };
    if let Store::Memory = store {
        builder = builder.with_session_store(Arc::new(InMemorySessionStore::new()));
    }
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_computer_is_named_and_not_chosen() {
        let server = |provider: &str, title: &str, port: u16| LocalServer {
            provider: provider.to_owned(),
            title: title.to_owned(),
            address: ([127, 0, 0, 1], port).into(),
        };
        let servers = [
            server("ollama", "Ollama", 5000),
            server("vllm", "vLLM", 5001),
        ];
        let said = explanation(&ModelChoice::Offline, &servers);
        for part in [
            "no model is configured",
            "offline model answers",
            "Ollama at 127.0.0.1:5000 listens, use it with --model ollama/NAME",
            "vLLM at 127.0.0.1:5001 listens, use it with --model vllm/NAME",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!explanation(&ModelChoice::Offline, &[]).contains("listens"));
    }
}
