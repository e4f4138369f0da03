//! Puts a harness together.

use crate::error::{config_failure, invalid};
use crate::harness::{Halter, StoreOwner};
use crate::hook_files::HookFiles;
use crate::hook_outside::{HarnessOutside, Judges};
use crate::models::{InjectedProviders, registry};
use crate::permissions::permissions;
use crate::place::configured_exec;
use crate::recording;
use crate::resources::{CompiledResources, ResourceCompiler};
use crate::services::{ServiceSettings, Services};
use crate::web::web_settings;
use halter_config::{
    DeferralWord, DeferredTools, Environment, HarnessConfig, KnownTools, ModelChoice,
    SandboxChoice, SessionBackend, SessionDurability, SystemPromptPreset, check_tool_names,
};
use halter_hooks::{Hook, Hooks, RegisteredHookPriority};
use halter_lsp::{DiagnosticsAfterChanges, ServerSettings, language_tools};
use halter_protocol::{PluginId, ProviderName, ResourceSnapshot, SessionBudget};
use halter_providers::Provider;
use halter_providers::cassette::Cassette;
use halter_providers::layers::RateLimiter;
use halter_providers::resilience::{ProviderErrorClassifier, ResiliencePolicy};
use halter_resources::{LoadedLspServer, LoadedPlugin, LoadedSkill};
use halter_runtime::prompt::{CODING_GUIDANCE, GENERAL_GUIDANCE};
use halter_runtime::{
    AgentTypes, ApprovalHandler, Approvals, ContextManager, ContextSettings, EnvironmentProbe,
    HalterError, HarnessBudget, InstructionSettings, PromptAssembler, PromptSettings, ResourceCell,
    RuntimeServices, SessionRuntime, SharedLedger, StandardContext, ToolDeferral,
};
use halter_session::{DurabilityPolicy, InMemorySessionStore, SessionStore, TraceRecorder};
use halter_tools::policy::{
    NetworkSwitch, Permissions, PolicySettings, ProgramList, RuleStore, SandboxMode, SoftRoots,
};
use halter_tools::web::WebSearch;
use halter_tools::{
    ExecBackend, HarnessFacts, LateTools, Tool, ToolRuntime, WebSettings, builtin_tools_with,
    command_environment, left_out_tools, planned_tools, subagent_tools,
};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// Builds a [`Halter`] with parts of one's own.
///
/// ```
/// use halter::prelude::*;
/// use halter::providers::FakeProvider;
/// use std::sync::Arc;
///
/// # async fn example() -> anyhow::Result<()> {
/// let harness = HalterBuilder::new()
///     .with_resource_snapshot(ResourceSnapshot::empty())
///     .with_provider(Arc::new(FakeProvider::default()))
///     .build()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Default)]
#[must_use = "nothing happens before `build`"]
pub struct HalterBuilder {
    config: Option<HarnessConfig>,
    snapshot: Option<ResourceSnapshot>,
    compiled: Option<CompiledResources>,
    loaded_skills: Vec<LoadedSkill>,
    loaded_plugins: Vec<LoadedPlugin>,
    hooks: Vec<(PluginId, RegisteredHookPriority, Hook)>,
    hook_files: Option<HookFiles>,
    tools: Vec<Arc<dyn Tool>>,
    late_tools: Option<Arc<LateTools>>,
    web_search: Option<Arc<dyn WebSearch>>,
    store: Option<Arc<dyn SessionStore>>,
    providers: InjectedProviders,
    services: ServiceSettings,
    chooses_model: bool,
    prompt_assembler: Option<Arc<dyn PromptAssembler>>,
    context_manager: Option<Arc<dyn ContextManager>>,
    ledger: Option<SharedLedger>,
    exec: Option<Arc<dyn ExecBackend>>,
    approvals: Approvals,
    rule_store: Option<Arc<dyn RuleStore>>,
    environment: Option<Environment>,
    scratch_root: Option<PathBuf>,
    protected_paths: Vec<PathBuf>,
}

impl HalterBuilder {
    /// A builder of nothing yet. It needs resources before
    /// [`build`](Self::build), and a model: a configured or an injected one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses a configuration.
    pub fn with_config(mut self, config: HarnessConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Uses a snapshot of resources, which brings no hooks.
    pub fn with_resource_snapshot(mut self, snapshot: ResourceSnapshot) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    /// Uses compiled resources, their hooks and warnings included.
    pub fn with_compiled_resources(mut self, resources: CompiledResources) -> Self {
        self.compiled = Some(resources);
        self
    }

    /// Compiles these skills.
    pub fn with_loaded_skills(mut self, skills: Vec<LoadedSkill>) -> Self {
        self.loaded_skills = skills;
        self
    }

    /// Compiles these plugins.
    pub fn with_loaded_plugins(mut self, plugins: Vec<LoadedPlugin>) -> Self {
        self.loaded_plugins = plugins;
        self
    }

    /// Adds a hook that runs after those of plugins.
    pub fn with_plugin_hook(self, owner: PluginId, hook: Hook) -> Self {
        self.with_plugin_hook_priority(owner, RegisteredHookPriority::default(), hook)
    }

    /// Adds a hook at a priority.
    pub fn with_plugin_hook_priority(
        mut self,
        owner: PluginId,
        priority: RegisteredHookPriority,
        hook: Hook,
    ) -> Self {
        self.hooks.push((owner, priority, hook));
        self
    }

    /// Uses the hooks of these files, instead of those that `hooks.files` of
    /// the configuration names. They stay when resources are replaced.
    pub fn with_hook_files(mut self, files: HookFiles) -> Self {
        self.hook_files = Some(files);
        self
    }

    /// Adds a tool, or replaces the built-in one of that name.
    pub fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Lets tools join while sessions run, such as those of servers that are
    /// still starting. They are deferred: models load them with `tool_search`.
    pub fn with_late_tools(mut self, tools: Arc<LateTools>) -> Self {
        self.late_tools = Some(tools);
        self
    }

    /// Has the tool `web_search` ask this service, whatever the configuration
    /// says.
    pub fn with_web_search(mut self, service: Arc<dyn WebSearch>) -> Self {
        self.web_search = Some(service);
        self
    }

    /// Keeps sessions here instead of in the configured backend.
    pub fn with_session_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Serves every model role with this provider. No key is needed, and no
    /// configured model.
    pub fn with_provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.all = Some(provider);
        self
    }

    /// Serves the models configured for a provider of that name, such as
    /// `openai`, with this provider.
    pub fn with_named_provider(
        mut self,
        name: impl Into<ProviderName>,
        provider: Arc<dyn Provider>,
    ) -> Self {
        self.providers.named.insert(name.into(), provider);
        self
    }

    /// Where no model is configured, uses that of the first service whose key
    /// is in the environment, else the offline one. Which and why is told by
    /// [`Halter::model_choice`].
    pub fn with_available_model(mut self) -> Self {
        self.chooses_model = true;
        self
    }

    /// Uses these deadlines and attempts for every configured service,
    /// whatever the configuration says.
    pub fn with_resilience_policy(mut self, policy: ResiliencePolicy) -> Self {
        self.services.resilience = Some(policy);
        self
    }

    /// Has errors of configured services judged by this classifier.
    pub fn with_provider_error_classifier(
        mut self,
        classifier: Arc<dyn ProviderErrorClassifier>,
    ) -> Self {
        self.services.classifier = Some(classifier);
        self
    }

    /// Shares the rates of models with other harnesses of this process. All
    /// sessions of one harness share them anyway.
    pub fn with_rate_limiter(mut self, rates: RateLimiter) -> Self {
        self.services.rates = rates;
        self
    }

    /// Records the traffic with configured services into a file. Keys are not
    /// in it. It takes the place of one that is there when the harness shuts
    /// down or is dropped; see [`Halter::finish_recording`].
    pub fn with_recording(mut self, file: impl Into<PathBuf>) -> Self {
        self.services.cassette = Some(Cassette::Record(file.into()));
        self
    }

    /// Answers from a recording, as the default model that was recorded: no
    /// service is reached and no key needed. A request that was not recorded
    /// fails the turn and names the first difference; the directory may be
    /// another one.
    pub fn with_replay(mut self, file: impl Into<PathBuf>) -> Self {
        self.services.cassette = Some(Cassette::Replay(file.into()));
        self
    }

    /// Has sessions spend from this ledger, whatever the configuration says.
    /// Several harnesses that are given one share its budget.
    pub fn with_ledger(mut self, ledger: SharedLedger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Makes system prompts another way.
    pub fn with_prompt_assembler(mut self, assembler: Arc<dyn PromptAssembler>) -> Self {
        self.prompt_assembler = Some(assembler);
        self
    }

    /// Decides another way what of a session models see.
    pub fn with_context_manager(mut self, manager: Arc<dyn ContextManager>) -> Self {
        self.context_manager = Some(manager);
        self
    }

    /// Says who is asked when a call needs a person's approval. Nobody, unless
    /// this says otherwise: what would be asked is denied then.
    ///
    /// [`Approvals::Attended`]: whoever reads the events of a session and calls
    /// [`resolve_approval`](halter_runtime::SessionHandle::resolve_approval).
    pub fn with_approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = approvals;
        self
    }

    /// Has a handler decide about calls that need a person's approval.
    pub fn with_approval_handler(self, handler: Arc<dyn ApprovalHandler>) -> Self {
        self.with_approvals(Approvals::Handler(handler))
    }

    /// Keeps the permission rules of answers that hold for good here. Without
    /// a place for them, `always` is not offered.
    pub fn with_rule_store(mut self, store: Arc<dyn RuleStore>) -> Self {
        self.rule_store = Some(store);
        self
    }

    /// Runs the commands of sessions elsewhere than as children of this process.
    pub fn with_exec(mut self, exec: Arc<dyn ExecBackend>) -> Self {
        self.exec = Some(exec);
        self
    }

    /// Uses a captured environment instead of the process's own: for
    /// credentials, `HALTER_MODEL`, and what commands of sessions see.
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Makes private scratch directories of sessions here instead of in the
    /// system's temporary directory.
    pub fn with_scratch_root(mut self, directory: impl Into<PathBuf>) -> Self {
        self.scratch_root = Some(directory.into());
        self
    }

    /// Keeps all tools away from a file or directory of the embedding program.
    /// The files of the harness need not be named: configuration, session
    /// store, traces, recordings and the user's state are closed anyway.
    pub fn with_protected_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.protected_paths.push(path.into());
        self
    }

    /// Puts the harness together.
    ///
    /// # Errors
    /// If there are no resources, or a snapshot is mixed with loaded ones; if
    /// the configuration is invalid, names no model, an unknown tool, or a
    /// backend or provider that is not available; if a key is missing.
    pub async fn build(self) -> anyhow::Result<Halter> {
        let environment = self.environment.unwrap_or_else(Environment::capture);
        let mut config = self.config.unwrap_or_default();
        if self.providers.all.is_none() {
            config
                .apply_model_override(&environment)
                .map_err(config_failure)?;
        }
        if let Some(cassette) = &self.services.cassette {
            recording::use_recorded(&mut config, cassette)?;
        }
        let mut model_choice = ModelChoice::Named;
        if self.chooses_model && self.providers.all.is_none() {
            model_choice = config.choose_model(&environment);
        }
        config.validate().map_err(config_failure)?;
        if config.models.default.is_none() && self.providers.all.is_none() {
            return Err(invalid("[models.default] is required")
                .with_hint("name a provider and a model under [models.default], or set HALTER_MODEL=offline")
                .into());
        }
        let mut resources = compile(
            self.snapshot,
            self.compiled,
            self.loaded_skills,
            self.loaded_plugins,
        )
        .await?;
        let mut sdk_hooks = registered(self.hooks)?;
        let mut protected = own_files(&config, &environment);
        let hook_files = match self.hook_files {
            Some(files) => files,
            None => HookFiles::of_config(&config).await,
        };
        protected.extend(hook_files.read);
        resources.hook_warnings.extend(hook_files.warnings);
        for parsed in hook_files.parsed {
            let warnings = sdk_hooks.add_file(parsed);
            resources.hook_warnings.extend(warnings);
        }
        protected.extend(self.protected_paths);
        protected.extend(self.services.cassette.as_ref().and_then(recording::file));
        let config = Arc::new(config);
        let catalog = self.services.catalog.clone();
        let model_services = Arc::new(Services::new(
            config.clone(),
            environment.clone(),
            self.providers.named,
            self.services,
        )?);
        let models = registry(&config, self.providers.all, &model_services)?;
        let (store, store_owner) = match self.store {
            Some(store) => (store, StoreOwner::Program),
            None => (
                open_store(&config, &environment).await?,
                StoreOwner::Harness,
            ),
        };
        protected.extend(store.files());
        let scratch_root = self.scratch_root.unwrap_or_else(std::env::temp_dir);
        let mut services = RuntimeServices::new(models, store, scratch_root.clone());
        let permissions = permissions(&config, &environment)?;
        let mut web = web_settings(&config, &environment);
        if let Some(service) = self.web_search {
            web = web.with_search(service);
        }
        let shell_env = &config.policy.shell.env;
        services.base_environment = Arc::new(command_environment(
            environment.variables(),
            &shell_env.add,
            &shell_env.remove,
        ));
        let mut late_tools = self.late_tools;
        let visible = &services.base_environment;
        let servers = servers(&config, &environment, visible, &mut late_tools).await?;
        let (language_servers, lsp_problems) = language_servers(&resources.lsp_servers);
        let language_tools = language_tools(&language_servers);
        let mut tools = tools(&config, &web, language_tools, self.tools)?;
        if let Some(observer) = DiagnosticsAfterChanges::new(&language_servers) {
            tools.set_change_observer(Arc::new(observer));
        }
        // A tool that a rule denies as a whole is no use to a model.
        let mut tools = tools.only(|name| !permissions.denies_tool(name.as_str()));
        services.durability = durability(&config);
        services.policy = policy(&config, permissions);
        services.protected_paths = absolute(protected)?;
        services.prompts = prompts(&config, &resources.snapshot)?;
        let mut skills = resources.snapshot.skills.values();
        let has_skills = skills.any(|skill| !skill.user_only);
        services.instructions = instructions(&config, &environment);
        services.probe = EnvironmentProbe::new(local_time_zone(&environment));
        services.traces = match &config.runtime.traces_dir {
            Some(directory) => Some(TraceRecorder::start(directory)?),
            None => None,
        };
        let mut resources = resources.with_hooks(&sdk_hooks)?;
        resources.warnings.extend(lsp_problems);
        services.resources = ResourceCell::new(resources);
        services.approvals = self.approvals;
        let unavailable_tools = tools.take_unavailable(&HarnessFacts {
            policy: &services.policy,
            environment: &services.base_environment,
            attended: !matches!(services.approvals, Approvals::Unattended),
            skills: has_skills || config.resources.watch,
        });
        services.tools = tools;
        services.deferral = deferral(&config);
        services.late_tools = late_tools;
        services.subagent_event_forwarding = config.runtime.subagent_event_forwarding;
        services.subagent_event_forwarding_cap = config.runtime.subagent_event_forwarding_cap;
        services.rule_store = self.rule_store;
        let exec = match self.exec {
            Some(exec) => Some(exec),
            None => configured_exec(&config, &environment)?,
        };
        if let Some(exec) = exec {
            services.exec = exec;
        }
        if let Some(assembler) = self.prompt_assembler {
            services.prompt_assembler = assembler;
        }
        services.ledger = self
            .ledger
            .unwrap_or_else(|| SharedLedger::new(budget(&config)));
        let judges = Judges {
            models: services.models.clone(),
            ledger: services.ledger.clone(),
            policy: services.policy.clone(),
            protected_paths: services.protected_paths.clone(),
            tools: services.tools.clone(),
            scratch_root,
        };
        let base = services.base_environment.clone();
        let hosts = config.hooks.allowed_http_hosts.clone();
        let outside = HarnessOutside::new(environment, base, &web, hosts, judges);
        services.hook_outside = Arc::new(outside);
        let context = ContextSettings {
            threshold: config.context.compaction_threshold,
            target: config.context.pre_compaction_target,
        };
        services.context_manager = self
            .context_manager
            .unwrap_or_else(|| Arc::new(StandardContext::new(context)));
        Ok(Halter {
            runtime: SessionRuntime::new(Arc::new(services)),
            config,
            model_choice,
            model_services,
            catalog,
            unavailable_tools: unavailable_tools.into(),
            sdk_hooks: Arc::new(sdk_hooks),
            store_owner,
            servers: Arc::new(servers),
        })
    }
}

/// The servers of tools that a configuration names.
#[cfg(feature = "mcp")]
#[derive(Default)]
pub(crate) struct Servers(pub Option<crate::mcp::HarnessServers>);

#[cfg(feature = "mcp")]
async fn servers(
    config: &HarnessConfig,
    environment: &Environment,
    visible: &BTreeMap<OsString, OsString>,
    late: &mut Option<Arc<LateTools>>,
) -> anyhow::Result<Servers> {
    if !config.mcp.servers.values().any(|table| table.enabled) {
        return Ok(Servers(None));
    }
    let around = crate::mcp::ServerEnvironment {
        environment,
        visible,
        directory: crate::mcp::directory(config.runtime.working_dir.as_deref(), environment),
    };
    let late = late.get_or_insert_default();
    let started = crate::mcp::HarnessServers::start(&config.mcp.servers, &around, late).await?;
    Ok(Servers(started))
}

#[cfg(feature = "mcp")]
impl Servers {
    /// Ends them.
    pub(crate) async fn shutdown(&self) {
        if let Some(servers) = &self.0 {
            servers.servers.shutdown().await;
        }
    }
}

/// This build has no servers of tools.
#[cfg(not(feature = "mcp"))]
pub(crate) struct Servers;

#[cfg(not(feature = "mcp"))]
async fn servers(
    config: &HarnessConfig,
    _: &Environment,
    _: &BTreeMap<OsString, OsString>,
    _: &mut Option<Arc<LateTools>>,
) -> anyhow::Result<Servers> {
    match config.mcp.servers.values().any(|table| table.enabled) {
        false => Ok(Servers),
        true => Err(HalterError::new(
            "config_mcp_feature_disabled",
            "[mcp.servers]: servers of tools are not compiled in",
        )
        .with_hint("build with the cargo feature `mcp`, or take the tables out")
        .into()),
    }
}

#[cfg(not(feature = "mcp"))]
impl Servers {
    pub(crate) async fn shutdown(&self) {}
}

/// The harness's own files, which no tool may touch: configuration, which may
/// hold keys and says where they are sent, traces, and the user's state, where
/// trust is recorded.
fn own_files(config: &HarnessConfig, environment: &Environment) -> Vec<PathBuf> {
    let mut paths = config.sources.clone();
    paths.extend(config.runtime.traces_dir.clone());
    paths.extend(environment.user_config_path());
    paths.extend(environment.state_dir());
    paths.extend(environment.data_dir());
    paths
}

/// A relative path starts where the program is now, not where a session works.
fn absolute(paths: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    let absolute = paths.iter().map(std::path::absolute);
    Ok(absolute.collect::<Result<_, _>>()?)
}

async fn compile(
    snapshot: Option<ResourceSnapshot>,
    compiled: Option<CompiledResources>,
    skills: Vec<LoadedSkill>,
    plugins: Vec<LoadedPlugin>,
) -> anyhow::Result<CompiledResources> {
    let loaded = !skills.is_empty() || !plugins.is_empty();
    let given = compiled.or_else(|| snapshot.map(CompiledResources::from_snapshot));
    match given {
        Some(_) if loaded => Err(invalid(
            "cannot combine a prebuilt resource snapshot with loaded skills/plugins",
        )
        .with_hint("pass either a snapshot or loaded resources to the builder")
        .into()),
        Some(resources) => Ok(resources),
        None if loaded => {
            ResourceCompiler::default()
                .with_loaded_skills(skills)
                .with_loaded_plugins(plugins)
                .compile()
                .await
        }
        None => Err(invalid(
            "missing resource snapshot; use Halter::from_config_file or HalterBuilder::with_resource_snapshot",
        )
        .into()),
    }
}

fn registered(hooks: Vec<(PluginId, RegisteredHookPriority, Hook)>) -> anyhow::Result<Hooks> {
    let mut registry = Hooks::new();
    for (owner, priority, hook) in hooks {
        registry.register(owner, priority, hook)?;
    }
    Ok(registry)
}

/// Built-ins that are enabled, then the embedder's own, which are never
/// filtered and replace by name.
fn tools(
    config: &HarnessConfig,
    web: &WebSettings,
    of_plugins: Vec<Arc<dyn Tool>>,
    custom: Vec<Arc<dyn Tool>>,
) -> anyhow::Result<ToolRuntime> {
    let mut built_in = ToolRuntime::with_tools(builtin_tools_with(web));
    let of_harness = subagent_tools(&AgentTypes::built_in().lines());
    for tool in of_harness.into_iter().chain(of_plugins) {
        built_in.register(tool);
    }
    let custom_names: Vec<_> = custom.iter().map(|tool| tool.spec().name).collect();
    let available: Vec<&str> = built_in
        .names()
        .chain(&custom_names)
        .map(|name| name.as_str())
        .collect();
    let left_out: Vec<_> = left_out_tools()
        .into_iter()
        .map(|tool| (tool.name, tool.feature))
        .collect();
    let known = KnownTools {
        available: &available,
        left_out: &left_out,
        planned: planned_tools(),
    };
    check_tool_names(config, known).map_err(config_failure)?;
    let mut tools = built_in.clone_filtered(&config.tools.enabled);
    for tool in custom {
        tools.register(tool);
    }
    Ok(tools)
}

/// Which tools models are not sent until they ask.
fn deferral(config: &HarnessConfig) -> ToolDeferral {
    match &config.tools.deferred {
        DeferredTools::Word(DeferralWord::Auto) => ToolDeferral::Auto,
        DeferredTools::Word(DeferralWord::Off) => ToolDeferral::Off,
        DeferredTools::Names(names) => {
            ToolDeferral::Only(names.iter().map(|name| name.as_str().into()).collect())
        }
    }
}

/// The language servers that plugins describe, and what is wrong with the
/// others.
fn language_servers(loaded: &[LoadedLspServer]) -> (Arc<[ServerSettings]>, Vec<String>) {
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    for entry in loaded {
        let name = format!("{}:{}", entry.plugin_id, entry.name);
        match ServerSettings::parse(&name, &entry.config, &entry.plugin_root) {
            Ok(settings) => servers.push(settings),
            Err(error) => problems.push(error.to_string()),
        }
    }
    (servers.into(), problems)
}

async fn open_store(
    config: &HarnessConfig,
    environment: &Environment,
) -> anyhow::Result<Arc<dyn SessionStore>> {
    match config.sessions.backend {
        SessionBackend::Sqlite => open_sqlite(config, environment).await,
        _ => Ok(Arc::new(InMemorySessionStore::new())),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(
    config: &HarnessConfig,
    environment: &Environment,
) -> anyhow::Result<Arc<dyn SessionStore>> {
    let configured = config.sessions.sqlite_path.clone();
    let path = configured
        .or_else(|| environment.default_sqlite_path())
        .ok_or_else(|| {
            HalterError::new(
                "sqlite_path_missing",
                "there is no place for the session database",
            )
            .with_hint("set sessions.sqlite_path, or HOME")
        })?;
    let store = halter_session::SqliteSessionStore::open(path)
        .await
        .map_err(halter_runtime::store_failure)?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &HarnessConfig, _: &Environment) -> anyhow::Result<Arc<dyn SessionStore>> {
    Err(HalterError::new(
        "config_backend_feature_disabled",
        "sessions.backend: 'sqlite' is not compiled in",
    )
    .with_hint("build with the cargo feature `sqlite`, or use backend = \"memory\"")
    .into())
}

/// The user's time zone. Read from `/etc/localtime` where nothing names
/// another: asking the library for the system's zone would have it look through
/// the whole database of zones at every start.
fn local_time_zone(environment: &Environment) -> TimeZone {
    if environment.text("TZ").is_some_and(|name| !name.is_empty()) {
        return TimeZone::system();
    }
    std::fs::read("/etc/localtime")
        .ok()
        .and_then(|data| TimeZone::tzif("local", &data).ok())
        .unwrap_or(TimeZone::UTC)
}

fn durability(config: &HarnessConfig) -> DurabilityPolicy {
    match config.sessions.durability {
        SessionDurability::Power => DurabilityPolicy::Power,
        _ => DurabilityPolicy::Process,
    }
}

fn policy(config: &HarnessConfig, permissions: Permissions) -> PolicySettings {
    let policy = &config.policy;
    PolicySettings {
        allowed_write_roots: policy.allowed_write_roots.clone(),
        allowed_read_roots: policy.allowed_read_roots.clone(),
        soft_roots: SoftRoots {
            read: policy.read_roots_are_default(),
            write: policy.write_roots_are_default(),
        },
        sensitive_path_patterns: policy.sensitive_path_patterns.clone(),
        max_read_bytes: policy.max_read_bytes,
        shell_enabled: policy.shell.enabled,
        allowed_shell_commands: match policy.shell.allow_is_default() {
            true => ProgramList::Default,
            false => ProgramList::Set(policy.shell.allow.clone()),
        },
        shell_timeout_secs: policy.shell.timeout_secs,
        max_subagent_depth: policy.max_subagent_depth,
        max_concurrent_subagents: policy.max_concurrent_subagents,
        sandbox: match policy.sandbox {
            SandboxChoice::Prefer => SandboxMode::Prefer,
            SandboxChoice::Require => SandboxMode::Require,
            _ => SandboxMode::Off,
        },
        network: match policy.network.enabled {
            true => NetworkSwitch::On,
            false if policy.network.is_default() => NetworkSwitch::Unset,
            false => NetworkSwitch::Off,
        },
        allowed_hosts: policy.network.allowed_hosts.clone(),
        allowed_loopback: policy
            .network
            .allowed_loopback
            .iter()
            .map(|it| (it.host.clone(), it.port))
            .collect(),
        permissions,
    }
}

fn budget(config: &HarnessConfig) -> HarnessBudget {
    HarnessBudget {
        session: SessionBudget {
            session: config.budget.session().into(),
            turn: config.budget.turn.into(),
        },
        harness: config.budget.harness.into(),
    }
}

fn instructions(config: &HarnessConfig, environment: &Environment) -> Option<InstructionSettings> {
    let user_files = environment.user_instruction_files();
    let settings = InstructionSettings { user_files };
    config.resources.instructions.then_some(settings)
}

/// An output style takes the place of the built-in guidance, or follows it if
/// it says so. A prompt of one's own stays.
fn prompts(
    config: &HarnessConfig,
    resources: &ResourceSnapshot,
) -> Result<PromptSettings, HalterError> {
    let configured = &config.prompts;
    let mut settings = PromptSettings {
        system_prompt: configured.system_prompt.clone(),
        guidance: match configured.preset {
            SystemPromptPreset::Coding => CODING_GUIDANCE,
            _ => GENERAL_GUIDANCE,
        },
        append_system_prompt: configured.append_system_prompt.clone(),
    };
    let Some(name) = &configured.output_style else {
        return Ok(settings);
    };
    let style = resources.output_style(name).map_err(|error| {
        HalterError::new(error.code(), format!("prompts.output_style: {error}"))
            .with_hint("`halter resources` lists the output styles that are loaded")
    })?;
    match style.keeps_guidance || settings.system_prompt.is_some() {
        false => settings.system_prompt = Some(style.prompt.clone()),
        true => {
            let texts = [Some(style.prompt.clone()), settings.append_system_prompt];
            let texts: Vec<String> = texts.into_iter().flatten().collect();
            settings.append_system_prompt = Some(texts.join("\n\n"));
        }
    }
    Ok(settings)
}
