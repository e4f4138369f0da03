//! A runtime of scripted answers and tools in three lines.

use crate::clock::TestClock;
use crate::events::collect;
use crate::workspace::TempWorkspace;
use halter_hooks::{Hook, Hooks, RegisteredHookPriority};
use halter_protocol::{ProviderKind, ResolvedModel, SessionEvent, Turn};
use halter_providers::{FakeProvider, ModelRegistry, Provider, ProviderRequest, Reply};
use halter_runtime::{
    AgentTypes, ResourceCell, Resources, RuntimeServices, SessionHandle, SessionInit,
    SessionRuntime,
};
use halter_session::{InMemorySessionStore, SessionStore};
use halter_tools::{Tool, subagent_tools};
use std::sync::Arc;

/// A runtime with everything a test looks at.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use halter_testkit::{EventsExt, Harness, Reply, ScriptedTool};
/// use serde_json::json;
///
/// let look = ScriptedTool::new("look").returns("a cat").build();
/// let replies = [Reply::new().tool_call("look", json!({})), "I see a cat.".into()];
/// let harness = Harness::scripted(replies).tool(look).start();
///
/// let session = harness.session().await;
/// let events = harness.run(&session, "What is there?").await;
/// assert_eq!(events.streamed_text(), "I see a cat.");
/// assert_eq!(harness.requests().len(), 2);
/// # });
/// ```
pub struct Harness {
    runtime: SessionRuntime,
    provider: Arc<FakeProvider>,
    clock: TestClock,
    workspace: Arc<TempWorkspace>,
}

impl Harness {
    /// The model answers the first request with the first reply, and so on.
    pub fn scripted<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> HarnessBuilder {
        HarnessBuilder::new(FakeProvider::scripted(replies))
    }

    /// The model's answer follows from the request.
    pub fn answering<R: Into<Reply>>(
        answer: impl Fn(&ProviderRequest) -> R + Send + Sync + 'static,
    ) -> HarnessBuilder {
        HarnessBuilder::new(FakeProvider::from_fn(answer))
    }

    /// The model repeats what the user said.
    pub fn echoing() -> HarnessBuilder {
        HarnessBuilder::new(FakeProvider::default())
    }

    /// The same harness as another process would start it: same store,
    /// workspace, tools, hooks and clock, a new runtime and a new script.
    pub fn another_process<R: Into<Reply>>(
        &self,
        replies: impl IntoIterator<Item = R>,
    ) -> HarnessBuilder {
        let old = self.runtime.services();
        let mut builder = HarnessBuilder::new(FakeProvider::scripted(replies));
        let resources = old.resources.get();
        let services = &mut builder.services;
        services.store = old.store.clone();
        services.tools = old.tools.clone();
        services.deferral = old.deferral.clone();
        services.late_tools = old.late_tools.clone();
        services.policy = old.policy.clone();
        services.prompts = old.prompts.clone();
        services.instructions = old.instructions.clone();
        services.exec = old.exec.clone();
        services.base_environment = old.base_environment.clone();
        services.resources = ResourceCell::new(Resources {
            snapshot: resources.snapshot.clone(),
            hooks: resources.hooks.clone(),
            warnings: resources.warnings.clone(),
            style: None,
            protected: resources.protected.clone(),
        });
        builder.hooks = Hooks::clone(&resources.hooks);
        builder.workspace(self.workspace.clone()).clock(&self.clock)
    }

    /// The runtime.
    pub fn runtime(&self) -> &SessionRuntime {
        &self.runtime
    }

    /// Where sessions are kept.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.runtime.services().store
    }

    /// The clock of events.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// Where sessions work.
    pub fn workspace(&self) -> &TempWorkspace {
        &self.workspace
    }

    /// The scripted model.
    pub fn provider(&self) -> &FakeProvider {
        &self.provider
    }

    /// What the model was asked so far.
    pub fn requests(&self) -> Vec<ProviderRequest> {
        self.provider.requests()
    }

    /// A new session in the workspace.
    pub async fn session(&self) -> SessionHandle {
        self.session_with(SessionInit::default()).await
    }

    /// A new session; in the workspace unless it says otherwise.
    ///
    /// # Panics
    /// If it cannot start.
    pub async fn session_with(&self, mut init: SessionInit) -> SessionHandle {
        if init.working_dir.as_os_str().is_empty() {
            init.working_dir = self.workspace.path().to_owned();
        }
        let session = self.runtime.new_session(init).await;
        session.expect("the session starts")
    }

    /// Takes a stored session up.
    ///
    /// # Panics
    /// If there is none, or it cannot be taken up.
    pub async fn resume(&self, session: &SessionHandle) -> SessionHandle {
        let resumed = self.runtime.resume(session.session_id()).await;
        resumed
            .expect("the session can be taken up")
            .expect("the session is stored")
    }

    /// Submits a turn and reads its events to the end.
    ///
    /// # Panics
    /// If the turn is refused or its stream fails.
    pub async fn run(&self, session: &SessionHandle, text: &str) -> Vec<SessionEvent> {
        let turn = session.submit_turn(Turn::user(text)).await;
        collect(turn.expect("the turn is taken")).await
    }

    /// Runs one turn in a session of its own.
    pub async fn ask(&self, text: &str) -> Vec<SessionEvent> {
        let session = self.session().await;
        self.run(&session, text).await
    }
}

/// A [`Harness`] being put together.
pub struct HarnessBuilder {
    services: RuntimeServices,
    provider: Arc<FakeProvider>,
    models: Vec<ResolvedModel>,
    replacement: Option<Arc<dyn Provider>>,
    hooks: Hooks,
    clock: TestClock,
    workspace: Option<Arc<TempWorkspace>>,
}

impl HarnessBuilder {
    fn new(provider: FakeProvider) -> Self {
        let store = Arc::new(InMemorySessionStore::new());
        Self {
            services: RuntimeServices::new(ModelRegistry::new(), store, ""),
            provider: Arc::new(provider),
            models: vec![model("default")],
            replacement: None,
            hooks: Hooks::new(),
            clock: TestClock::default(),
            workspace: None,
        }
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.services.tools.register(tool);
        self
    }

    /// Adds tools.
    pub fn tools(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        tools.into_iter().fold(self, Self::tool)
    }

    /// Adds the tools that start and follow subagents.
    pub fn subagents(self) -> Self {
        self.tools(subagent_tools(&AgentTypes::built_in().lines()))
    }

    /// Adds a hook of the plugin `test`, after those of plugins.
    pub fn hook(self, hook: Hook) -> Self {
        self.hook_with("test", RegisteredHookPriority::default(), hook)
    }

    /// Adds a hook.
    ///
    /// # Panics
    /// If the hook is refused.
    pub fn hook_with(mut self, plugin: &str, priority: RegisteredHookPriority, hook: Hook) -> Self {
        self.hooks
            .register(plugin.into(), priority, hook)
            .expect("the hook can be registered");
        self
    }

    /// Registers one more model id, served by the same script.
    pub fn model(mut self, id: &str) -> Self {
        self.models.push(model(id));
        self
    }

    /// Lets another provider answer in place of the scripted one.
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.replacement = Some(provider);
        self
    }

    /// Keeps sessions elsewhere than in memory.
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.services.store = store;
        self
    }

    /// Uses this clock.
    pub fn clock(mut self, clock: &TestClock) -> Self {
        self.clock = clock.clone();
        self
    }

    /// Works in this workspace.
    pub fn workspace(mut self, workspace: Arc<TempWorkspace>) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Adds hooks in the format of public hook files, as the user's own.
    pub fn hook_file(mut self, file: &serde_json::Value) -> Self {
        let origin = halter_hooks::file::HookOrigin::user("hooks.json");
        let parsed = halter_hooks::file::parse_value(file, &origin);
        assert_eq!(self.hooks.add_file(parsed), [], "{file}");
        self
    }

    /// Changes anything else.
    pub fn services(mut self, change: impl FnOnce(&mut RuntimeServices)) -> Self {
        change(&mut self.services);
        self
    }

    /// Gives the models so far a context window of so many tokens.
    pub fn window(mut self, tokens: u32) -> Self {
        for model in &mut self.models {
            model.max_input_tokens = Some(tokens);
        }
        self
    }

    /// The harness, ready to run.
    pub fn start(self) -> Harness {
        let workspace = self.workspace.unwrap_or_default();
        let mut services = self.services;
        let provider: Arc<dyn Provider> = match self.replacement {
            Some(provider) => provider,
            None => self.provider.clone(),
        };
        services.models.register_provider("fake", provider);
        for model in self.models {
            services.models.register_model(model);
        }
        if services.scratch_root.as_os_str().is_empty() {
            services.scratch_root = workspace.beside("scratch");
        }
        services.clock = Arc::new(self.clock.clone());
        let resources = services.resources.get();
        services.resources.replace(Resources {
            snapshot: resources.snapshot.clone(),
            hooks: Arc::new(self.hooks),
            warnings: resources.warnings.clone(),
            style: None,
            protected: resources.protected.clone(),
        });
        Harness {
            runtime: SessionRuntime::new(Arc::new(services)),
            provider: self.provider,
            clock: self.clock,
            workspace,
        }
    }
}

fn model(id: &str) -> ResolvedModel {
    ResolvedModel {
        id: id.into(),
        provider: "fake".into(),
        provider_kind: ProviderKind::Custom,
        model: format!("fake-{id}"),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    }
}
