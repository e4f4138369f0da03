//! A harness: one configuration, any number of sessions.

use crate::builder::{HalterBuilder, Servers, configured_style};
use crate::error::config_failure;
use crate::hook_files::HookFiles;
use crate::models::resolved;
use crate::recording;
use crate::resources::{CompiledResources, ResourceCompiler, unknown_tools};
use crate::services::Services;
use halter_config::{
    ConfiguredProvider, ExecBackendChoice, HarnessConfig, ModelChoice, ModelConfig, load_path,
};
use halter_hooks::Hooks;
use halter_protocol::{ModelId, ResolvedModel, ResourceSnapshot, ToolSpec};
use halter_providers::catalog::Catalog;
use halter_providers::layers::RateLimiter;
use halter_resources::instructions::FoundInstructions;
use halter_runtime::limits::END_DEADLINE;
use halter_runtime::{HalterError, HalterSession, SessionInit, SessionRuntime, ShutdownReport};
use halter_session::SessionStore;
use halter_tools::exec::NOT_FROM_ELSEWHERE;
use halter_tools::policy::{
    NetworkSwitch, SandboxBounds, SessionFiles, SessionScope, StandardPolicy, ToolPolicy,
};
use halter_tools::{DeferredTool, LateTools, UnavailableTool};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A configured harness. Clones share everything.
#[derive(Clone)]
pub struct Halter {
    pub(crate) runtime: SessionRuntime,
    pub(crate) config: Arc<HarnessConfig>,
    pub(crate) model_choice: ModelChoice,
    pub(crate) model_services: Arc<Services>,
    pub(crate) catalog: Catalog,
    pub(crate) unavailable_tools: Arc<[UnavailableTool]>,
    /// The names of all tools that it could have, but for those of servers.
    pub(crate) known_tools: Arc<BTreeSet<String>>,
    /// Hooks of the embedding program, which outlive replaced resources.
    pub(crate) sdk_hooks: Arc<Hooks>,
    /// Those of hook files, which outlive them unless they change as well.
    pub(crate) file_hooks: Arc<Mutex<FileHooks>>,
    pub(crate) store_owner: StoreOwner,
    pub(crate) servers: Arc<Servers>,
}

/// The hooks of hook files that are in force.
#[derive(Debug, Clone)]
pub(crate) struct FileHooks {
    pub hooks: Arc<Hooks>,
    /// See [`HookFiles::revision`](crate::HookFiles).
    pub revision: String,
    /// Files that came after the harness was built and that tools are kept away
    /// from since.
    pub protected: Vec<PathBuf>,
}

/// Who closes the session store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreOwner {
    /// The harness, which opened it.
    Harness,
    /// The embedding program, which may share it between harnesses.
    Program,
}

impl Halter {
    /// Starts building a harness with parts of one's own.
    pub fn builder() -> HalterBuilder {
        HalterBuilder::new()
    }

    /// A harness from a configuration file, its resource roots compiled. No
    /// tool can read or change the file, the session store or traces.
    pub async fn from_config_file(path: impl AsRef<Path>) -> anyhow::Result<Self> {
        let config = load_path(path.as_ref()).await.map_err(config_failure)?;
        let resources = ResourceCompiler::from_config(&config).compile().await?;
        Self::from_compiled_resources(config, resources).await
    }

    /// A harness from a configuration and a snapshot of resources.
    pub async fn from_config(
        config: HarnessConfig,
        resources: ResourceSnapshot,
    ) -> anyhow::Result<Self> {
        Self::builder()
            .with_config(config)
            .with_resource_snapshot(resources)
            .build()
            .await
    }

    /// A harness from a configuration and compiled resources.
    pub async fn from_compiled_resources(
        config: HarnessConfig,
        resources: CompiledResources,
    ) -> anyhow::Result<Self> {
        Self::builder()
            .with_config(config)
            .with_compiled_resources(resources)
            .build()
            .await
    }

    /// Starts a session. One that names no directory works in
    /// `runtime.working_dir`, or in the process's own.
    pub async fn new_session(&self, mut init: SessionInit) -> anyhow::Result<HalterSession> {
        init.working_dir = self.working_dir(&init.working_dir).to_owned();
        self.runtime.new_session(init).await
    }

    /// The instruction files that a session in a directory would start with. An
    /// empty path stands for the directory of sessions that name none.
    ///
    /// # Errors
    /// If there is no such directory.
    pub async fn instructions(
        &self,
        directory: impl AsRef<Path>,
    ) -> anyhow::Result<FoundInstructions> {
        let directory = self.working_dir(directory.as_ref());
        self.runtime.instructions(directory).await
    }

    fn working_dir<'a>(&'a self, asked: &'a Path) -> &'a Path {
        match &self.config.runtime.working_dir {
            Some(configured) if asked.as_os_str().is_empty() => configured,
            _ => asked,
        }
    }

    /// Whether commands can run where the configuration says, and what that
    /// place does not do that this program would: for people, before a session
    /// starts.
    ///
    /// # Errors
    /// Why no command can run there.
    pub async fn check_exec(&self) -> anyhow::Result<Vec<String>> {
        let services = self.runtime.services();
        let directory = match self.working_dir(Path::new("")) {
            unset if unset.as_os_str().is_empty() => Path::new("."),
            configured => configured,
        };
        let directory = std::path::absolute(directory)?;
        let directory = directory.canonicalize().unwrap_or(directory);
        let files = services.exec.files(&directory).await?;
        let is_elsewhere = files.is_some();
        let bounds = match self.config.exec.backend {
            // It is this program, or one that the embedder made.
            ExecBackendChoice::Local => SandboxBounds {
                mode: services.policy.sandbox,
                network: services.policy.network == NetworkSwitch::On,
                ..SandboxBounds::default()
            },
            _ => self.session_bounds(directory.clone(), files).await?,
        };
        let mut lacks = services.exec.check(&directory, &bounds).await?;
        if is_elsewhere {
            lacks.extend(NOT_FROM_ELSEWHERE.map(str::to_owned));
        }
        Ok(lacks)
    }

    /// What the sandbox of a session in a directory would be asked to hold.
    async fn session_bounds(
        &self,
        working_dir: PathBuf,
        files: Option<SessionFiles>,
    ) -> anyhow::Result<SandboxBounds> {
        let services = self.runtime.services();
        let settings = services.policy.clone();
        let scope = SessionScope {
            working_dir,
            files,
            protected: services.protected(),
            ..SessionScope::default()
        };
        let home = services.base_environment.get(OsStr::new("HOME"));
        let home = home.map(PathBuf::from);
        // Directories are searched, or a runtime is asked.
        let bound = tokio::task::spawn_blocking(move || {
            StandardPolicy::bind(settings, scope).map(|policy| policy.sandbox(home.as_deref()))
        });
        Ok(bound.await??)
    }

    /// Puts other resources in force: future turns see their skills, their hooks
    /// and the configured output style as it is in them.
    /// Hooks registered with the builder and those of hook files stay. Servers
    /// that plugins bring are started with a harness: those of other resources
    /// come with the next one.
    pub fn replace_resources(&self, resources: CompiledResources) -> anyhow::Result<()> {
        let files = self.file_hooks();
        let further = self.sdk_hooks.merged(&files.hooks)?;
        let style = configured_style(&self.config, &resources.snapshot);
        let mut resources = resources.with_hooks(&further)?;
        // Without it the guidance stands: a file that is gone may come back.
        resources.style = style.unwrap_or_else(|error| {
            resources.warnings.push(error.to_string());
            None
        });
        resources.protected = files.protected;
        self.runtime.replace_resources(resources);
        Ok(())
    }

    /// The same, and other hook files in place of those there are.
    ///
    /// Tools are kept away from files of a project that the user has trusted
    /// since. A file that counts as the user's by its place alone, and that
    /// tools were not kept away from, may be the work of a session: it is left
    /// out with a warning until the next start.
    ///
    /// # Errors
    /// If there are too many hooks.
    pub fn replace_hook_files(
        &self,
        mut files: HookFiles,
        mut resources: CompiledResources,
    ) -> anyhow::Result<()> {
        let kept_away = &self.runtime.services().protected_paths;
        let is_new = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            !kept_away.iter().any(|kept| path.starts_with(kept))
        };
        files.leave_out(is_new);
        let new = files.read.iter().filter(|path| is_new(path));
        let new = new.map(std::path::absolute);
        let protected = new.collect::<Result<_, _>>()?;
        let revision = files.revision.clone();
        let (hooks, warnings) = files.hooks();
        resources.hook_warnings.extend(warnings);
        let before = self.set_file_hooks(FileHooks {
            hooks: Arc::new(hooks),
            revision,
            protected,
        });
        let replaced = self.replace_resources(resources);
        if replaced.is_err() {
            self.set_file_hooks(before);
        }
        replaced
    }

    fn set_file_hooks(&self, hooks: FileHooks) -> FileHooks {
        let current = self.file_hooks.lock();
        let mut current = current.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, hooks)
    }

    pub(crate) fn file_hooks(&self) -> FileHooks {
        let files = self.file_hooks.lock();
        files.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store of sessions, to read them without taking them from their
    /// writer.
    ///
    /// ```
    /// # async fn example(harness: halter::Halter) -> anyhow::Result<()> {
    /// use halter::session::read_events;
    ///
    /// let id = "ses_1".into();
    /// let store = harness.store();
    /// println!("{:?}", store.open(&id).await?.record.blueprint.working_dir);
    /// for event in read_events(store.as_ref(), &id, 0, 100).await? {
    ///     println!("{}", serde_json::to_string(&event)?);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.runtime.services().store
    }

    /// The tools that models are told of, deferred ones included.
    pub fn tools(&self) -> Arc<[ToolSpec]> {
        self.runtime.services().toolset().callable.clone()
    }

    /// Tools that join while sessions run: those of servers.
    pub fn late_tools(&self) -> Option<&Arc<LateTools>> {
        self.runtime.services().late_tools.as_ref()
    }

    /// Those of them that models are sent only when they ask.
    pub fn deferred_tools(&self) -> Arc<[DeferredTool]> {
        self.runtime.services().toolset().deferred.clone()
    }

    /// The tools that are compiled and enabled and of no use here, and why:
    /// models are not told of them.
    pub fn unavailable_tools(&self) -> &[UnavailableTool] {
        &self.unavailable_tools
    }

    /// Tools that agents, skills and commands name and that are none here, in
    /// words. What a server or a late source brings is not judged.
    pub fn unknown_tools(&self) -> Vec<String> {
        let resources = self.runtime.services().resources.get();
        unknown_tools(&resources.snapshot, &self.known_tools)
    }

    /// How each server of the Model Context Protocol is.
    #[cfg(feature = "mcp")]
    pub fn mcp_servers(&self) -> Vec<halter_mcp::ServerStatus> {
        let servers = self.servers.0.as_ref();
        servers.map_or_else(Vec::new, |servers| servers.servers.status())
    }

    /// Returns when the first start of each server of the Model Context Protocol
    /// has succeeded or failed, or after `limit`.
    #[cfg(feature = "mcp")]
    pub async fn mcp_started(&self, limit: Duration) {
        if let Some(servers) = &self.servers.0 {
            let _ = tokio::time::timeout(limit, servers.servers.started()).await;
        }
    }

    /// The servers of the Model Context Protocol whose tables cannot be used,
    /// and why.
    #[cfg(feature = "mcp")]
    pub fn mcp_problems(&self) -> Vec<HalterError> {
        let servers = self.servers.0.as_ref();
        servers.map_or_else(Vec::new, |servers| servers.problems.clone())
    }

    /// The model of an id: a role such as `default`, or `provider/model`.
    ///
    /// # Errors
    /// If there is no such model, or its service cannot be used.
    pub fn model(&self, id: &ModelId) -> anyhow::Result<ResolvedModel> {
        match self.runtime.services().models.resolve(id) {
            Ok((model, _)) => Ok(model),
            Err(error) => Err(HalterError::new(error.code(), error.to_string()).into()),
        }
    }

    /// The runtime, to resume, list and delete sessions.
    pub fn runtime(&self) -> &SessionRuntime {
        &self.runtime
    }

    /// The configuration it was built from.
    pub fn config(&self) -> &HarnessConfig {
        &self.config
    }

    /// Why the default model is the one it is.
    pub fn model_choice(&self) -> &ModelChoice {
        &self.model_choice
    }

    /// What is known of models, and from where: the configuration, services
    /// that were asked, refusals of conversations that were too long, the
    /// built-in table.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The rates of its models: to share them with another harness, and to show
    /// that a session waits for one.
    pub fn rate_limiter(&self) -> &RateLimiter {
        self.model_services.rates()
    }

    /// Asks a configured or known service for its models. What it says of
    /// them is in the [`catalog`](Self::catalog) from then on.
    ///
    /// # Errors
    /// If the service is not described, its key is missing, or it does not
    /// answer.
    pub async fn list_models(&self, provider: &str) -> anyhow::Result<Vec<ResolvedModel>> {
        let provider = ConfiguredProvider::from_name(provider);
        let listed = self
            .model_services
            .list(&provider, &CancellationToken::new())
            .await?;
        let models = listed.into_iter().map(|answer| {
            let id = ModelId::from(format!("{provider}/{}", answer.model));
            let model = ModelConfig::new(provider.clone(), answer.model);
            resolved(id, &model, &self.config.models)
        });
        Ok(models.collect())
    }

    /// Puts a recording of model traffic in its place, as a shutdown does, and
    /// says if that fails. What comes later is not recorded.
    ///
    /// # Errors
    /// If the recording could not be written.
    pub fn finish_recording(&self) -> anyhow::Result<()> {
        match self.model_services.deck() {
            Some(deck) => deck.finish().map_err(recording::failure),
            None => Ok(()),
        }
    }

    /// Gives a recording of model traffic up if it would replace an earlier
    /// one, say because the work failed.
    pub fn spare_earlier_recording(&self) {
        if let Some(deck) = self.model_services.deck() {
            deck.spare_earlier();
        }
    }

    /// Ends all sessions: takes no new turns, lets running ones finish for at
    /// most `drain`, cancels the rest. Then closes the store, unless the
    /// program brought its own. A store that is not closed here is closed when
    /// the last session and clone of the harness are dropped.
    pub async fn shutdown(&self, drain: Duration) -> ShutdownReport {
        let mut report = self.runtime.shutdown(drain).await;
        self.servers.shutdown().await;
        if self.store_owner == StoreOwner::Harness {
            let closed = tokio::time::timeout(END_DEADLINE, self.store().close()).await;
            report.timed_out |= closed.is_err();
        }
        // Whoever wants to know has asked before.
        let _ = self.finish_recording();
        report
    }
}

impl std::fmt::Debug for Halter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Halter")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
