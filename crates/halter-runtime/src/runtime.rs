//! All sessions of a process.

use crate::budget::price_missing;
use crate::context::{ContextReport, ContextRequest};
use crate::driver::live::{Owner, assemble, has_price};
use crate::engine::Input;
use crate::error::{HalterError, store_failure};
use crate::hub::{Forwarding, HubSession, SessionEvents};
use crate::init::{OwnTools, SessionInit};
use crate::instructions::{InstructionScope, SessionInstructions};
use crate::limits::END_DEADLINE;
use crate::prompt::{git_snapshot, git_snapshot_elsewhere, instructions_segment, look_around};
use crate::reader::SessionReader;
use crate::services::{Resources, RuntimeServices};
use crate::session::{SessionCore, SessionHandle, shutting_down};
use crate::subagents::{AgentTypes, Lineage};
use crate::toolset::Toolset;
use halter_protocol::{
    ModelId, ModelRole, SessionBlueprint, SessionBounds, SessionBudget, SessionId, Timestamp,
    ToolName,
};
use halter_resources::instructions::FoundInstructions;
use halter_session::{PageRequest, SessionLog, SessionPage, StoreError, StoredState, TraceStart};
use halter_tools::policy::SessionFiles;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Starts, finds and ends sessions. Clones share everything.
#[derive(Clone)]
pub struct SessionRuntime {
    services: Arc<RuntimeServices>,
    registry: Arc<Registry>,
}

/// The sessions that live in this process.
#[derive(Default)]
pub(crate) struct Registry {
    sessions: Mutex<HashMap<SessionId, Weak<SessionCore>>>,
    /// Held while a stored session is opened: two callers that take up the same
    /// one must not push each other out.
    opening: tokio::sync::Mutex<()>,
    shutting_down: AtomicBool,
}

impl Registry {
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }

    /// Forgets a session, unless another has taken its place meanwhile.
    pub fn forget(&self, core: &SessionCore) {
        let mut sessions = self.lock();
        let known = sessions.get(core.session_id());
        if known.is_some_and(|known| std::ptr::eq(known.as_ptr(), core)) {
            sessions.remove(core.session_id());
        }
    }

    fn find(&self, session_id: &SessionId) -> Option<SessionHandle> {
        let core = self.lock().get(session_id).and_then(Weak::upgrade)?;
        Some(SessionHandle::new(core))
    }

    /// Adds a session, sweeping out those that are gone whenever the table has
    /// doubled, so that it never holds many of them.
    fn add(&self, core: &Arc<SessionCore>) {
        let mut sessions = self.lock();
        if sessions.len() == sessions.capacity() {
            sessions.retain(|_, session| session.strong_count() > 0);
        }
        sessions.insert(core.session_id().clone(), Arc::downgrade(core));
    }

    fn live(&self) -> Vec<SessionHandle> {
        let sessions = self.lock();
        let live = sessions.values().filter_map(Weak::upgrade);
        live.map(SessionHandle::new).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Weak<SessionCore>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a runtime's shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShutdownReport {
    /// Turns that ended by themselves within the time given.
    pub turns_drained: usize,
    /// Turns that were cancelled because they did not.
    pub turns_aborted: usize,
    /// True if the time ran out.
    pub timed_out: bool,
}

impl SessionRuntime {
    /// A runtime of these services.
    pub fn new(services: Arc<RuntimeServices>) -> Self {
        Self {
            services,
            registry: Arc::default(),
        }
    }

    /// The services sessions share.
    pub fn services(&self) -> &Arc<RuntimeServices> {
        &self.services
    }

    /// Starts a session.
    pub async fn new_session(&self, init: SessionInit) -> anyhow::Result<SessionHandle> {
        self.refuse_when_unable()?;
        let resources = self.services.resources.get();
        let bounds = self.bounds(&init)?;
        let tools = Toolset::of_session(&self.services.toolset(), &bounds, &init.own_tools.0);
        let types = AgentTypes::of(&resources.snapshot).lines();
        let tools = tools.with_agent_types(&types);
        let blueprint = self.blueprint(init, bounds, &tools, &resources).await?;
        let store = self.services.store.clone();
        let log = SessionLog::create(store, blueprint, self.services.durability)
            .await
            .map_err(store_failure)?;
        let hub = self.hub(&log, TraceStart::New, None);
        let warnings = resources.warnings.clone();
        let mut owner = Owner::new(log, self.services.clone(), hub.clone(), resources, tools);
        let forked = None;
        let started = owner.settle(Input::Start { warnings, forked }).await;
        started.map_err(store_failure)?;
        Ok(self.register(owner, hub, None))
    }

    /// Takes up a stored session, or returns the live one. None if there is no
    /// such session.
    pub async fn resume(&self, session_id: &SessionId) -> anyhow::Result<Option<SessionHandle>> {
        self.resume_with(session_id, OwnTools::default()).await
    }

    /// Takes up a stored session and gives it tools of its own. A session that
    /// lives already keeps those it has.
    pub async fn resume_with(
        &self,
        session_id: &SessionId,
        own_tools: OwnTools,
    ) -> anyhow::Result<Option<SessionHandle>> {
        self.refuse_when_unable()?;
        if let Some(session) = self.registry.find(session_id) {
            return Ok(Some(session));
        }
        let _opening = self.registry.opening.lock().await;
        if let Some(session) = self.registry.find(session_id) {
            return Ok(Some(session));
        }
        let store = self.services.store.clone();
        let log = match SessionLog::open(store, session_id, self.services.durability).await {
            Ok(log) => log,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(store_failure(error)),
        };
        let directory = log.blueprint().working_dir.clone();
        self.session_files(&directory).await?;
        let resources = self.services.resources.get();
        let head_sequence = log.head();
        let hub = self.hub(&log, TraceStart::Resumed { head_sequence }, None);
        let bounds = &log.blueprint().bounds;
        let tools = Toolset::of_session(&self.services.toolset(), bounds, &own_tools.0);
        let types = AgentTypes::of(&resources.snapshot).lines();
        let tools = tools.with_agent_types(&types);
        let mut owner = Owner::resumed(log, self.services.clone(), hub.clone(), resources, tools);
        owner.settle(Input::Resume).await.map_err(store_failure)?;
        Ok(Some(self.register(owner, hub, None)))
    }

    /// Opens a stored session to look at it: nothing is written, and it is
    /// taken from nobody. None if there is no such session.
    pub async fn read_session(
        &self,
        session_id: &SessionId,
    ) -> anyhow::Result<Option<SessionReader>> {
        let store = self.services.store.clone();
        match StoredState::read(store.as_ref(), session_id).await {
            Ok(stored) => {
                let clock = self.services.clock.clone();
                Ok(Some(SessionReader::new(store, clock, stored)))
            }
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_failure(error)),
        }
    }

    /// What fills the context of a stored session, and how much more fits;
    /// none if there is no such session. A session whose model is not
    /// registered is measured by that of the role `default`.
    pub async fn context_of(
        &self,
        session_id: &SessionId,
    ) -> anyhow::Result<Option<ContextReport>> {
        let Some(session) = self.read_session(session_id).await? else {
            return Ok(None);
        };
        let services = &self.services;
        let blueprint = session.blueprint();
        let own = services.models.resolve(&blueprint.default_model);
        let (model, provider) =
            own.or_else(|_| services.models.resolve(&ModelRole::Default.as_str().into()))?;
        let tools = Toolset::of_session(&services.toolset(), &blueprint.bounds, &[]);
        let request = ContextRequest {
            blueprint,
            model: &model,
            capabilities: &provider.model_capabilities(&model),
            state: session.state(),
            prompt: &assemble(services, blueprint, &services.resources.get(), &tools),
            tools: &tools.specs,
            counted: None,
        };
        let manager = services.context_manager.as_ref();
        Ok(Some(ContextReport::new(manager, request)))
    }

    /// Stored sessions, newest first, a page at a time.
    pub async fn list_sessions(&self, page: PageRequest) -> anyhow::Result<SessionPage> {
        let page = self.services.store.list(page).await;
        page.map_err(store_failure)
    }

    /// Deletes a stored session; a live one is shut down first. Returns whether
    /// there was one.
    pub async fn delete_session(&self, session_id: &SessionId) -> anyhow::Result<bool> {
        if let Some(session) = self.registry.find(session_id) {
            session.shutdown("deleted").await?;
        }
        let deleted = self.services.store.delete(session_id).await;
        deleted.map_err(store_failure)
    }

    /// Puts other skills and hooks in force. Sessions take them up at their
    /// next turn; where the prompt changes, an event says so.
    pub fn replace_resources(&self, resources: Resources) {
        self.services.resources.replace(resources);
    }

    /// Ends all sessions: takes no new turns, lets running ones finish for at
    /// most `drain`, cancels the rest. A session that has still not ended
    /// [`END_DEADLINE`] later, say because its store hangs, is given up.
    pub async fn shutdown(&self, drain: Duration) -> ShutdownReport {
        self.registry.shutting_down.store(true, Ordering::Release);
        let sessions = self.registry.live();
        let unfinished = || -> usize {
            let turns = sessions.iter().map(|it| it.core().unfinished_turns());
            turns.sum()
        };
        let turns = unfinished();
        let waits = sessions.iter().map(|session| session.core().idle());
        let drained = tokio::time::timeout(drain, futures::future::join_all(waits)).await;
        let left = unfinished();
        let ends = sessions
            .iter()
            .map(|session| session.shutdown("the runtime is shutting down"));
        let ended = tokio::time::timeout(END_DEADLINE, futures::future::join_all(ends)).await;
        if ended.is_err() {
            sessions.iter().for_each(|it| it.core().give_up());
        }
        ShutdownReport {
            turns_drained: turns.saturating_sub(left),
            turns_aborted: left,
            timed_out: drained.is_err() || ended.is_err(),
        }
    }

    /// The runtime that a session lives in.
    pub(crate) fn of(core: &SessionCore) -> Self {
        Self {
            services: core.services().clone(),
            registry: core.registry().clone(),
        }
    }

    /// The session of an id, if it lives here.
    pub(crate) fn live_session(&self, session_id: &SessionId) -> Option<SessionHandle> {
        self.registry.find(session_id)
    }

    pub(crate) fn register(
        &self,
        owner: Owner,
        hub: Arc<SessionEvents>,
        lineage: Option<Lineage>,
    ) -> SessionHandle {
        let core = Arc::new(SessionCore::new(
            owner,
            self.services.clone(),
            self.registry.clone(),
            hub,
            lineage,
        ));
        self.registry.add(&core);
        SessionHandle::new(core)
    }

    pub(crate) fn hub(
        &self,
        log: &SessionLog,
        start: TraceStart,
        parent: Option<&Arc<SessionCore>>,
    ) -> Arc<SessionEvents> {
        let above = parent.map(|parent| {
            let forwards = !parent.blueprint().subagent_event_forwarding.is_off();
            parent.hub().forwarding_below(forwards)
        });
        let cap = self.services.subagent_event_forwarding_cap;
        let at = self.services.clock.now();
        let hub = self.services.hubs.open(HubSession {
            session_id: log.session_id().clone(),
            store: self.services.store.clone(),
            clock: self.services.clock.clone(),
            head: log.head(),
        });
        let traces = self.services.traces.as_ref();
        Arc::new(SessionEvents::new(
            log.session_id().clone(),
            self.services.clock.clone(),
            hub,
            traces.map(|traces| traces.writer(log.blueprint(), start, at)),
            Forwarding::new(above.unwrap_or_default(), cap),
            log.blueprint().subagent.is_some(),
        ))
    }

    /// The bounds of a new session, as far as they do not depend on its
    /// directory.
    fn bounds(&self, init: &SessionInit) -> Result<SessionBounds, HalterError> {
        let harness = self.services.toolset();
        let mut bounds = init.bounds.clone();
        harness.check(&bounds)?;
        if !init.removed_tools.is_empty() {
            let all = || harness.tools.names().cloned().collect();
            let mut tools: Vec<ToolName> = bounds.tools.take().unwrap_or_else(all);
            tools.retain(|name| !init.removed_tools.contains(name));
            bounds.tools = Some(tools);
        }
        for model in bounds.models.iter().flatten() {
            self.check_model(model)?;
        }
        Ok(bounds)
    }

    pub(crate) fn check_model(&self, model: &ModelId) -> Result<(), HalterError> {
        let resolved = self.services.models.resolve(model);
        resolved
            .map(drop)
            .map_err(|error| HalterError::new(error.code(), error.to_string()))
    }

    /// Under a limit of money, the price of the session's model must be known,
    /// and that of the model that writes its summaries.
    fn check_prices(
        &self,
        own: &SessionBudget,
        default: &ModelId,
        bounds: &SessionBounds,
    ) -> Result<(), HalterError> {
        if !self.services.ledger.budget().of_session(*own).limit_money() {
            return Ok(());
        }
        let small = ModelId::from(ModelRole::Small.as_str());
        let may_use = |model: &ModelId| match &bounds.models {
            Some(models) => models.contains(model),
            None => true,
        };
        let small = self
            .services
            .models
            .registered(&small)
            .filter(|_| may_use(&small));
        let default = self.services.models.resolve(default).ok();
        match default.into_iter().chain(small).find(|it| !has_price(it)) {
            Some((model, _)) => Err(price_missing(&model)),
            None => Ok(()),
        }
    }

    async fn blueprint(
        &self,
        init: SessionInit,
        bounds: SessionBounds,
        tools: &Toolset,
        resources: &Resources,
    ) -> anyhow::Result<SessionBlueprint> {
        let at = self.services.clock.now();
        let working_dir = absolute(&init.working_dir)?;
        let files = self.session_files(&working_dir).await?;
        if !bounds.is_unbounded() {
            let (services, bounds) = (self.services.clone(), bounds.clone());
            let directory = working_dir.clone();
            let check = move || crate::bounds::check(&bounds, &services.policy, &directory);
            tokio::task::spawn_blocking(check).await??;
        }
        let default_model = init
            .default_model
            .clone()
            .unwrap_or_else(|| ModelId::from(ModelRole::Default.as_str()));
        self.check_model(&default_model)?;
        if let Some(models) = &bounds.models
            && !models.contains(&default_model)
        {
            return Err(model_outside(&default_model).into());
        }
        if let Some(model) = &init.subagent_model {
            self.check_model(model)?;
        }
        self.check_prices(&init.budget, &default_model, &bounds)?;
        let system_prompt = self.services.guidance(&init);
        let environment = self.look_around(&working_dir, files, at).await?;
        let mut blueprint = SessionBlueprint {
            session_id: init
                .session_id
                .unwrap_or_else(|| SessionId::mint(self.services.ids.as_ref(), at)),
            parent_session_id: init.parent_session_id,
            created_at: at,
            working_dir,
            default_model,
            system_prompt,
            environment,
            instructions: Vec::new(),
            snapshot_revision: resources.snapshot.revision.clone(),
            tools_revision: Some(tools.revision.clone()),
            max_turns: init.max_turns,
            bounds,
            budget: init.budget,
            subagent_model: init.subagent_model,
            subagent_event_forwarding: init
                .subagent_event_forwarding
                .unwrap_or(self.services.subagent_event_forwarding),
            subagent: None,
        };
        if let Some(instructions) = SessionInstructions::of(&self.services, &blueprint) {
            // The first turn says what is amiss with them.
            let found = tokio::task::spawn_blocking(move || instructions.initial()).await?;
            let segment = instructions_segment(&found.files);
            blueprint.system_prompt.extend(segment);
            blueprint.instructions = found.files.iter().map(|it| it.as_told()).collect();
        }
        Ok(blueprint)
    }

    /// The instruction files that a session in a directory would start with,
    /// and what is amiss with them.
    pub async fn instructions(&self, directory: &Path) -> anyhow::Result<FoundInstructions> {
        let working_dir = absolute(directory)?;
        let files = self.session_files(&working_dir).await?;
        let services = self.services.clone();
        let find = move || {
            let git = match &files {
                Some(files) => git_snapshot_elsewhere(files, &working_dir),
                None => git_snapshot(&working_dir),
            };
            let scope = InstructionScope {
                project: git.map_or_else(|| working_dir.clone(), |git| git.root),
                working_dir,
                bounds: SessionBounds::default(),
            };
            let instructions = SessionInstructions::new(&services, scope);
            instructions.map(|it| it.initial()).unwrap_or_default()
        };
        Ok(tokio::task::spawn_blocking(find).await?)
    }

    async fn look_around(
        &self,
        directory: &Path,
        files: Option<SessionFiles>,
        at: Timestamp,
    ) -> anyhow::Result<halter_protocol::EnvironmentSnapshot> {
        let (services, directory) = (self.services.clone(), directory.to_owned());
        let look = move || look_around(&services, &directory, files.as_ref(), at);
        Ok(tokio::task::spawn_blocking(look).await?)
    }

    /// Where the files of a session in this directory are, if not here; here the
    /// directory has to be there.
    async fn session_files(&self, directory: &Path) -> anyhow::Result<Option<SessionFiles>> {
        let files = self.services.exec.files(directory).await.map_err(|error| {
            HalterError::new("files_unreachable", format!("{error:#}"))
                .with_hint("`halter doctor` says where commands run and what is wrong there")
        })?;
        if files.is_none() {
            check_directory(directory).await?;
        }
        Ok(files)
    }

    /// Sessions need the tasks and timers of tokio.
    fn refuse_when_unable(&self) -> Result<(), HalterError> {
        if tokio::runtime::Handle::try_current().is_err() {
            let message = "sessions need a tokio runtime, and there is none here";
            return Err(HalterError::new("no_tokio_runtime", message)
                .with_hint("call this inside of #[tokio::main], or of Runtime::block_on"));
        }
        if self.registry.is_shutting_down() {
            return Err(shutting_down());
        }
        Ok(())
    }
}

/// The error of a turn or session whose model is not among the session's.
pub(crate) fn model_outside(model: &ModelId) -> HalterError {
    let message = format!("the model '{model}' is not among those of this session");
    HalterError::new("model_not_allowed", message)
        .with_hint("name a model of the session, or start one that has it")
}

fn absolute(directory: &Path) -> anyhow::Result<PathBuf> {
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    Ok(std::fs::canonicalize(directory).or_else(|_| std::path::absolute(directory))?)
}

async fn check_directory(directory: &Path) -> Result<(), HalterError> {
    let found = tokio::fs::metadata(directory).await;
    if found.is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(());
    }
    let message = format!(
        "the working directory '{}' is not there or not a directory",
        directory.display()
    );
    Err(HalterError::new("working_dir_missing", message)
        .with_hint("create it, or start a session in another directory"))
}
