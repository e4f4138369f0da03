//! Drives an engine for real, on tokio.
//!
//! One task, the [`Owner`], owns a session while anything happens in it:
//! commands, outcomes of effects and timers reach it through queues, appends
//! run beside it in order. When nothing is left to do it puts itself away, so
//! an idle session has no task.

mod appends;
mod asking;
mod budget;
mod commands;
mod compaction;
mod effects;
mod final_tools;
mod hooks;
mod instructions;
mod judging;
mod marked_text;
mod native_compaction;
mod resources;
mod side_model;
mod subagents;
mod toolbox;
mod transcript_file;
mod uses;

pub(crate) use budget::has_price;
pub(crate) use commands::{CompactionReply, SessionCommand, command_queue, session_closed};
pub(crate) use effects::assemble;
pub(crate) use toolbox::Toolbox;

use crate::budget::{LedgerSeat, ReservationId};
use crate::engine::{Effect, EffectId, Engine, Input, SessionFacts};
use crate::hub::SessionEvents;
use crate::init::OwnTools;
use crate::instructions::SessionInstructions;
use crate::limits::{MODEL_QUEUE_EVENTS, WAITING_APPENDS};
use crate::scoped_hooks::{HookScope, SessionScopes};
use crate::services::{Resources, RuntimeServices};
use crate::session::SessionCore;
use crate::subagents::AskedAtRoot;
use crate::toolset::Toolset;
use appends::{Append, Appended, Appends};
use budget::PaidAttempts;
use final_tools::FinalTools;
use futures::StreamExt;
use futures::future::BoxFuture;
use halter_hooks::SessionHooks;
use halter_protocol::{
    AssembledPrompt, ContextMark, ServedDefinition, SessionBlueprint, SessionState, ToolCallId,
};
use halter_session::{LogWriter, SessionLog, StoreError};
use halter_tools::LateToolSet;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;

/// The one who may change a session.
pub(crate) struct Owner {
    engine: Engine,
    blueprint: Arc<SessionBlueprint>,
    appends: Appends,
    services: Arc<RuntimeServices>,
    hub: Arc<SessionEvents>,
    resources: Arc<Resources>,
    prompt: AssembledPrompt,
    tools: Arc<Toolset>,
    /// Running tools that wait for answers.
    waiting_tools: asking::WaitingTools,
    /// The change of late tools that was taken up last.
    late_revision: u64,
    /// The revision up to which problems of late tools were told.
    late_problems_told: u64,
    /// Tools of its own that the session gets with its next turn.
    own_tools: Option<OwnTools>,
    final_tools: FinalTools,
    hooks: Arc<SessionHooks>,
    /// The hooks of frontmatters, and which of them hold.
    scopes: SessionScopes,
    /// What hooks of files read of the conversation.
    transcript: transcript_file::TranscriptFile,
    toolbox: Toolbox,
    instructions: Option<Arc<SessionInstructions>>,
    shutdown_waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
    compaction_waiters: Vec<CompactionReply>,
    /// What subagents below ask here.
    asked_at_root: AskedAtRoot,
    /// Its account in the ledger.
    seat: LedgerSeat,
    /// What is reserved for calls under way.
    reservations: HashMap<EffectId, ReservationId>,
    /// Who pays for attempts at the next model call.
    paid_attempts: Option<PaidAttempts>,
    /// How large the context was when that was last asked.
    counted: Option<ContextMark>,
    /// The prompt is not the one the last process used, and nobody has said so
    /// yet.
    cut: bool,
    /// The tools are not those the last turn had, and nobody has said so yet.
    other_tools: bool,
    /// Texts that wait to join the transcript in this turn, by their hashes.
    told_in_turn: HashMap<String, String>,
    /// What servers said of the tools of this turn's calls when these were
    /// judged.
    judged_definitions: HashMap<ToolCallId, ServedDefinition>,
    /// What the turn's skills and commands allow and withhold.
    grants: uses::TurnGrants,
}

/// What only exists while the owner runs.
struct Running {
    core: Arc<SessionCore>,
    append: Option<BoxFuture<'static, Appended>>,
    /// Who waits for an append.
    append_waiters: Vec<(EffectId, oneshot::Sender<Result<(), StoreError>>)>,
    commands: mpsc::Receiver<SessionCommand>,
    /// Outcomes of effects; each effect has few, so they need no bound.
    outcomes: mpsc::UnboundedReceiver<Input>,
    outcome_sender: mpsc::UnboundedSender<Input>,
    /// Words of the model, which wait for us if we are slow.
    model_events: mpsc::Receiver<Input>,
    model_sender: mpsc::Sender<Input>,
    timers: DelayQueue<EffectId>,
    tasks: JoinSet<()>,
    cancels: HashMap<EffectId, CancellationToken>,
    aborts: HashMap<EffectId, tokio::task::AbortHandle>,
    /// Hooks that have not decided yet, wanted or not.
    hooks: HashSet<EffectId>,
    /// Tasks of hooks, with what cancels them. Some run on beside the turn when
    /// they have decided.
    hook_tasks: HashMap<tokio::task::Id, CancellationToken>,
    late_changes: Option<watch::Receiver<LateToolSet>>,
}

impl Running {
    fn new(core: Arc<SessionCore>, commands: mpsc::Receiver<SessionCommand>) -> Self {
        let (outcome_sender, outcomes) = mpsc::unbounded_channel();
        let (model_sender, model_events) = mpsc::channel(MODEL_QUEUE_EVENTS);
        Self {
            core,
            append: None,
            append_waiters: Vec::new(),
            commands,
            outcomes,
            outcome_sender,
            model_events,
            model_sender,
            timers: DelayQueue::new(),
            tasks: JoinSet::new(),
            cancels: HashMap::new(),
            aborts: HashMap::new(),
            hooks: HashSet::new(),
            hook_tasks: HashMap::new(),
            late_changes: None,
        }
    }

    /// Waits until other tools join late. Cancel safe.
    async fn late_changed(changes: &mut Option<watch::Receiver<LateToolSet>>) {
        if let Some(receiver) = changes
            && receiver.changed().await.is_ok()
        {
            return;
        }
        // Nobody is left to say anything.
        std::future::pending().await
    }

    /// Lets go of what only an effect under way needs, once it has ended.
    fn forget(&mut self, input: &Input) {
        let (Input::ModelEnded { id, .. }
        | Input::ToolFinished { id, .. }
        | Input::Compacted { id, .. }
        | Input::Prepared { id, .. }
        | Input::HooksFinished { id, .. }) = input
        else {
            return;
        };
        self.cancels.remove(id);
        self.aborts.remove(id);
        self.hooks.remove(id);
    }

    /// True if nothing that was started has more to say. Hooks that were
    /// cancelled still report their end.
    fn is_quiet(&self) -> bool {
        self.outcomes.is_empty() && self.hooks.is_empty() && self.hook_tasks.is_empty()
    }

    fn cancel_hooks(&self) {
        self.hook_tasks.values().for_each(CancellationToken::cancel);
    }

    /// A task has ended.
    fn joined(&mut self, joined: Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let id = match joined {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        self.hook_tasks.remove(&id);
    }

    /// The append under way, when it is over. Cancel safe.
    async fn appended(append: &mut Option<BoxFuture<'static, Appended>>) -> Appended {
        match append {
            Some(running) => {
                let appended = running.await;
                *append = None;
                appended
            }
            None => std::future::pending().await,
        }
    }
}

impl Owner {
    /// The owner of a new session.
    pub fn new(
        log: SessionLog,
        services: Arc<RuntimeServices>,
        hub: Arc<SessionEvents>,
        resources: Arc<Resources>,
        tools: Arc<Toolset>,
    ) -> Self {
        let (writer, state) = log.into_parts();
        Self::with_state(writer, state, services, hub, resources, tools)
    }

    fn with_state(
        writer: LogWriter,
        state: SessionState,
        services: Arc<RuntimeServices>,
        hub: Arc<SessionEvents>,
        resources: Arc<Resources>,
        tools: Arc<Toolset>,
    ) -> Self {
        let blueprint = writer.blueprint().clone();
        let scopes = SessionScopes::new(&resources.snapshot, &blueprint);
        let facts = SessionFacts {
            blueprint: blueprint.clone(),
            tools: tools.callable.clone(),
            late_tools: Arc::default(),
            hooked: scopes.events(&resources.hooks),
            saves_rules: services.rule_store.is_some(),
            budget: *services.ledger.budget(),
            id_seed: id_seed(&services),
        };
        let seat = services.ledger.seat(
            &blueprint.session_id,
            blueprint.parent_session_id.as_ref(),
            state.budget.unwrap_or(blueprint.budget),
            state.spent,
        );
        let prompt = effects::assemble(&services, &blueprint, &resources, &tools);
        let instructions = SessionInstructions::of(&services, &blueprint);
        Self {
            engine: Engine::with_state(facts, state),
            blueprint,
            appends: Appends::new(writer),
            tools,
            waiting_tools: asking::WaitingTools::default(),
            late_revision: 0,
            late_problems_told: 0,
            own_tools: None,
            final_tools: FinalTools::default(),
            toolbox: Toolbox::new(&services),
            transcript: transcript_file::TranscriptFile::new(services.scratch_root.clone()),
            instructions: instructions.map(Arc::new),
            services,
            hub,
            resources,
            prompt,
            hooks: Arc::new(SessionHooks::new()),
            scopes,
            shutdown_waiters: Vec::new(),
            compaction_waiters: Vec::new(),
            asked_at_root: AskedAtRoot::default(),
            seat,
            reservations: HashMap::new(),
            paid_attempts: None,
            counted: None,
            cut: false,
            other_tools: false,
            told_in_turn: HashMap::new(),
            judged_definitions: HashMap::new(),
            grants: uses::TurnGrants::default(),
        }
    }

    /// The owner of a session that another process started, maybe with other
    /// resources or tools: then the first turn announces the cut.
    pub fn resumed(
        log: SessionLog,
        services: Arc<RuntimeServices>,
        hub: Arc<SessionEvents>,
        resources: Arc<Resources>,
        tools: Arc<Toolset>,
    ) -> Self {
        let (writer, state) = log.into_parts();
        let blueprint = writer.blueprint();
        let noted = state.resources.as_ref().map(|it| &it.revision);
        let replaced = noted.or(state.snapshot_revision.as_ref());
        let known = replaced.unwrap_or(&blueprint.snapshot_revision);
        let cut = *known != resources.snapshot.revision;
        let replaced = state.tools_revision.as_ref();
        let known = replaced.or(blueprint.tools_revision.as_ref());
        let other_tools = known.is_some_and(|known| *known != tools.revision);
        Self {
            cut,
            other_tools,
            ..Self::with_state(writer, state, services, hub, resources, tools)
        }
    }

    /// Has hooks of what is in use above hold for calls of this session.
    pub fn inherit(&mut self, scopes: &[HookScope]) {
        self.scopes = std::mem::take(&mut self.scopes).below(scopes.to_vec());
    }

    pub fn blueprint(&self) -> &Arc<SessionBlueprint> {
        &self.blueprint
    }

    /// The fold of everything committed.
    pub fn state(&self) -> &SessionState {
        self.engine.state()
    }

    /// Feeds an input outside of a running owner and commits what follows.
    /// Only for inputs that start nothing else.
    pub async fn settle(&mut self, input: Input) -> Result<(), StoreError> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let at = self.services.clock.now();
            for effect in self.engine.handle(at, input) {
                if let Effect::Append {
                    id,
                    events,
                    durability,
                } = effect
                {
                    self.appends.add(Append {
                        id,
                        events,
                        durability,
                    });
                }
            }
            if let Some(append) = self.appends.start(self.engine.state(), &self.hub) {
                let appended = append.await;
                inputs.extend(self.appends.finish(appended));
                self.last_append()?;
            }
        }
        Ok(())
    }

    /// Runs until nothing is left to do, then puts itself away.
    pub async fn run(
        mut self: Box<Self>,
        core: Arc<SessionCore>,
        commands: mpsc::Receiver<SessionCommand>,
    ) {
        let mut running = Running::new(core, commands);
        running.late_changes = self.services.late_tools.as_ref().map(|it| it.subscribe());
        loop {
            if self.engine.is_idle() && running.is_quiet() {
                match self.rest(&mut running).await {
                    Rest::Woken(owner, command) => {
                        self = owner;
                        self.obey(command, &mut running).await;
                        continue;
                    }
                    Rest::Asleep => return,
                }
            }
            tokio::select! {
                biased;
                Some(input) = running.outcomes.recv() => {
                    self.feed(input, &mut running).await;
                }
                appended = Running::appended(&mut running.append) => {
                    self.appended(appended, &mut running).await;
                }
                Some(command) = running.commands.recv() => self.obey(command, &mut running).await,
                // A model that says more than the store takes waits.
                Some(input) = running.model_events.recv(),
                    if self.appends.waiting() < WAITING_APPENDS =>
                {
                    self.feed(input, &mut running).await;
                }
                Some(timer) = running.timers.next() => {
                    let id = timer.into_inner();
                    self.feed(Input::Timer { id }, &mut running).await;
                }
                () = Running::late_changed(&mut running.late_changes) => {
                    if let Some(input) = self.take_up_late_tools(&running.outcome_sender) {
                        self.feed(input, &mut running).await;
                    }
                }
                Some(joined) = running.tasks.join_next_with_id() => running.joined(joined),
            }
        }
    }

    /// Puts the owner away unless a command came in the last moment.
    async fn rest(mut self: Box<Self>, running: &mut Running) -> Rest {
        if self.engine.is_closed() {
            // Those that have reported and wait for more end with it.
            let below = running.core.children().sessions(false);
            let ends = below
                .iter()
                .map(|(_, it)| it.shutdown("the session above it ended"));
            futures::future::join_all(ends).await;
            self.toolbox.close().await;
            self.hub.close(self.appends.error.clone());
            if let Some(traces) = &self.services.traces {
                traces.flush().await;
            }
            running.core.close_slot();
            running.tasks.shutdown().await;
            let ended = self.last_append();
            for waiter in self.shutdown_waiters.drain(..) {
                let _ = waiter.send(ended.clone());
            }
            return Rest::Asleep;
        }
        match running.core.put_away(self, &mut running.commands) {
            Some((owner, command)) => Rest::Woken(owner, command),
            None => Rest::Asleep,
        }
    }

    /// How the last append went.
    fn last_append(&self) -> Result<(), StoreError> {
        self.appends.error.clone().map_or(Ok(()), Err)
    }

    /// Tells the engine something and does what it wants. Returns the last
    /// append that follows directly from it.
    async fn feed(&mut self, input: Input, running: &mut Running) -> Option<EffectId> {
        running.forget(&input);
        let mut last_append = None;
        let at = self.services.clock.now();
        let mut queue: VecDeque<Effect> = self.engine.handle(at, input).into();
        self.count_opened(&queue);
        while let Some(effect) = queue.pop_front() {
            if let Effect::Append { id, .. } = &effect {
                last_append = Some(*id);
            }
            if let Some(input) = self.perform(effect, running).await {
                let at = self.services.clock.now();
                let effects = self.engine.handle(at, input);
                self.count_opened(&effects);
                queue.extend(effects);
            }
        }
        if running.append.is_none() {
            running.append = self.appends.start(self.engine.state(), &self.hub);
        }
        last_append
    }

    /// Counts turns that nobody submitted, before those that end with them: in
    /// between, the session would look as if nothing were left to do.
    fn count_opened<'a>(&self, effects: impl IntoIterator<Item = &'a Effect>) {
        for effect in effects {
            if matches!(effect, Effect::TurnOpened { .. }) {
                self.hub.turn_accepted();
            }
        }
    }

    /// An append is over.
    async fn appended(&mut self, appended: Appended, running: &mut Running) {
        let inputs = self.appends.finish(appended);
        let outcome = self.last_append();
        if let Err(error) = &outcome {
            tracing::error!(session_id = %self.blueprint.session_id, %error, "append failed");
            if error.is_conflict() || matches!(error, StoreError::NotFound { .. }) {
                running.core.overtaken();
            }
            // Whatever waited is not appended either.
            for (_, waiter) in running.append_waiters.drain(..) {
                let _ = waiter.send(outcome.clone());
            }
        }
        for input in inputs {
            if let Input::Committed { id } = input {
                let waiters = running.append_waiters.extract_if(.., |(it, _)| *it == id);
                waiters.for_each(|(_, waiter)| drop(waiter.send(Ok(()))));
            }
            self.feed(input, running).await;
        }
    }
}

/// What the ids of a session's messages follow from in this process.
fn id_seed(services: &RuntimeServices) -> u64 {
    let drawn = services.ids.uuid(services.clock.now()).as_u128();
    // The upper half is the time.
    (drawn & u128::from(u64::MAX)) as u64
}

enum Rest {
    Woken(Box<Owner>, SessionCommand),
    Asleep,
}
