//! What a harness is made of. [`HalterBuilder::build`] is in `assemble`.

mod assemble;
mod servers;
mod settings;
mod store;
mod tools;

#[cfg(feature = "mcp")]
pub(crate) use assemble::own_files;
pub(crate) use servers::Servers;
pub(crate) use settings::configured_style;
#[cfg(feature = "mcp")]
pub(crate) use settings::policy;

use crate::hook_files::HookFiles;
use crate::models::InjectedProviders;
use crate::resources::CompiledResources;
use crate::services::ServiceSettings;
use halter_config::{Environment, HarnessConfig};
use halter_hooks::{Hook, RegisteredHookPriority};
use halter_protocol::{PluginId, ProviderName, ResourceSnapshot};
use halter_providers::Provider;
use halter_providers::cassette::Cassette;
use halter_providers::layers::RateLimiter;
use halter_providers::resilience::{ProviderErrorClassifier, ResiliencePolicy};
use halter_resources::{LoadedPlugin, LoadedSkill};
use halter_runtime::{ApprovalHandler, Approvals, ContextManager, PromptAssembler, SharedLedger};
use halter_session::SessionStore;
use halter_tools::policy::RuleStore;
use halter_tools::web::WebSearch;
use halter_tools::{ExecBackend, LateTools, Tool};
use std::path::PathBuf;
use std::sync::Arc;

/// Builds a [`Halter`](crate::Halter) with parts of one's own.
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
    #[cfg(feature = "mcp")]
    project_servers: crate::mcp::ProjectServers,
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

    /// Starts the servers that a project's `.mcp.json` describes, as far as the
    /// user trusts it, besides those of the configuration and of plugins.
    #[cfg(feature = "mcp")]
    pub fn with_project_servers(mut self, servers: crate::mcp::ProjectServers) -> Self {
        self.project_servers = servers;
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
    /// [`Halter::model_choice`](crate::Halter::model_choice).
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
    /// down or is dropped; see
    /// [`Halter::finish_recording`](crate::Halter::finish_recording).
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
}
