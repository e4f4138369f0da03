//! Drives an engine for real, on tokio.
//!
//! One task, the [`Owner`], owns a session while anything happens in it:
//! commands, outcomes of effects and timers reach it through queues, appends
//! happen in place. When nothing is left to do it puts itself away, so an idle
//! session has no task.

mod catalog;
mod effects;
mod final_tools;
mod toolbox;

pub(crate) use catalog::LiveCatalog;
pub(crate) use toolbox::Toolbox;

use crate::engine::{Effect, EffectId, Engine, Input};
use crate::error::HalterError;
use crate::hub::Hub;
use crate::limits::{MODEL_QUEUE_EVENTS, QUEUED_STEERS, QUEUED_TURNS, SESSION_INBOX};
use crate::services::{Resources, RuntimeServices};
use crate::session::SessionCore;
use final_tools::FinalTools;
use futures::StreamExt;
use halter_hooks::SessionHooks;
use halter_protocol::{
    AssembledPrompt, NotificationItem, Revision, SessionBlueprint, ToolSpec, Turn, TurnId,
    UserMessage,
};
use halter_session::{SessionLog, StoreError};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;

/// What a handle asks of a session.
pub(crate) enum Command {
    Submit {
        turn: Box<Turn>,
        reply: oneshot::Sender<Result<(), HalterError>>,
    },
    Steer {
        message: UserMessage,
        reply: oneshot::Sender<Result<(), HalterError>>,
    },
    Cancel {
        turn_id: Option<TurnId>,
        reason: String,
        reply: oneshot::Sender<bool>,
    },
    Notify {
        notification: NotificationItem,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
    Shutdown {
        reason: String,
        reply: oneshot::Sender<Result<(), StoreError>>,
    },
}

/// The one who may change a session.
pub(crate) struct Owner {
    engine: Engine,
    log: SessionLog,
    services: Arc<RuntimeServices>,
    hub: Arc<Hub>,
    resources: Arc<Resources>,
    catalog: Arc<LiveCatalog>,
    prompt: AssembledPrompt,
    tools: Arc<[ToolSpec]>,
    final_tools: FinalTools,
    hooks: Arc<SessionHooks>,
    toolbox: Toolbox,
    shutdown_waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
    /// The prompt is not the one the last process used, and nobody has said so
    /// yet.
    cut: bool,
    /// The tools, if they are not those the last process had, and nobody has
    /// said so yet.
    other_tools: Option<Revision>,
    /// Why the last append failed, if it did.
    store_error: Option<StoreError>,
}

/// What only exists while the owner runs.
struct Running {
    core: Arc<SessionCore>,
    commands: mpsc::Receiver<Command>,
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
    /// Hooks that have not ended yet, wanted or not.
    hooks: HashSet<EffectId>,
}

impl Running {
    fn new(core: Arc<SessionCore>, commands: mpsc::Receiver<Command>) -> Self {
        let (outcome_sender, outcomes) = mpsc::unbounded_channel();
        let (model_sender, model_events) = mpsc::channel(MODEL_QUEUE_EVENTS);
        Self {
            core,
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
        }
    }

    /// Lets go of what only an effect under way needs, once it has ended.
    fn forget(&mut self, input: &Input) {
        let (Input::ModelEnded { id, .. }
        | Input::ToolFinished { id, .. }
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
        self.outcomes.is_empty() && self.hooks.is_empty()
    }
}

impl Owner {
    pub fn new(
        log: SessionLog,
        services: Arc<RuntimeServices>,
        hub: Arc<Hub>,
        resources: Arc<Resources>,
    ) -> Self {
        let blueprint = log.blueprint().clone();
        let catalog = Arc::new(LiveCatalog::new(services.clone(), resources.clone()));
        let facts = crate::engine::SessionFacts {
            session_id: blueprint.session_id.clone(),
            default_model: blueprint.default_model.clone(),
            max_turns: blueprint.max_turns,
        };
        let engine = Engine::with_state(
            facts,
            catalog.clone(),
            services.ids.clone(),
            log.state().clone(),
        );
        let prompt = effects::assemble(&services, &blueprint, &resources);
        Self {
            engine,
            log,
            tools: services.tool_specs(),
            final_tools: FinalTools::default(),
            toolbox: Toolbox::new(&services),
            services,
            hub,
            resources,
            catalog,
            prompt,
            hooks: Arc::new(SessionHooks::new()),
            shutdown_waiters: Vec::new(),
            cut: false,
            other_tools: None,
            store_error: None,
        }
    }

    /// The owner of a session that another process started, maybe with other
    /// resources or tools: then the first turn announces the cut.
    pub fn resumed(
        log: SessionLog,
        services: Arc<RuntimeServices>,
        hub: Arc<Hub>,
        resources: Arc<Resources>,
    ) -> Self {
        let blueprint = log.blueprint();
        let replaced = log.state().snapshot_revision.as_ref();
        let known = replaced.unwrap_or(&blueprint.snapshot_revision);
        let cut = *known != resources.snapshot.revision;
        let replaced = log.state().tools_revision.as_ref();
        let known = replaced.or(blueprint.tools_revision.as_ref());
        let tools = services.tools_revision();
        let other_tools = known.is_some_and(|known| *known != tools).then_some(tools);
        Self {
            cut,
            other_tools,
            ..Self::new(log, services, hub, resources)
        }
    }

    pub fn blueprint(&self) -> &Arc<SessionBlueprint> {
        self.log.blueprint()
    }

    /// Feeds an input outside of a running owner and commits what follows.
    /// Only for inputs that start nothing.
    pub async fn settle(&mut self, input: Input) -> Result<(), HalterError> {
        let at = self.services.clock.now();
        let mut queue: VecDeque<Effect> = self.engine.handle(at, input).into();
        while let Some(effect) = queue.pop_front() {
            if let Effect::Append {
                id,
                events,
                durability,
            } = effect
            {
                let committed = self
                    .log
                    .append(events, durability)
                    .await
                    .map_err(|error| HalterError::from(&error))?;
                self.publish(committed);
                queue.extend(self.engine.handle(at, Input::Committed { id }));
            }
        }
        Ok(())
    }

    /// Runs until nothing is left to do, then puts itself away.
    pub async fn run(
        mut self: Box<Self>,
        core: Arc<SessionCore>,
        commands: mpsc::Receiver<Command>,
    ) {
        let mut running = Running::new(core, commands);
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
                Some(input) = running.outcomes.recv() => self.feed(input, &mut running).await,
                Some(command) = running.commands.recv() => self.obey(command, &mut running).await,
                Some(input) = running.model_events.recv() => self.feed(input, &mut running).await,
                Some(timer) = running.timers.next() => {
                    let id = timer.into_inner();
                    self.feed(Input::Timer { id }, &mut running).await;
                }
                Some(_) = running.tasks.join_next() => {}
            }
        }
    }

    /// Puts the owner away unless a command came in the last moment.
    async fn rest(mut self: Box<Self>, running: &mut Running) -> Rest {
        if self.engine.is_closed() {
            self.toolbox.close().await;
            self.hub.close(self.store_error.clone());
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

    async fn obey(&mut self, command: Command, running: &mut Running) {
        match command {
            Command::Submit { turn, reply } => {
                if self.engine.accepts_turn() {
                    let _ = reply.send(Ok(()));
                    self.hub.turn_accepted();
                    self.feed(Input::Submit(*turn), running).await;
                } else {
                    let _ = reply.send(Err(refused_turn(&self.engine)));
                }
            }
            Command::Steer { message, reply } => {
                if self.engine.accepts_steer() {
                    let _ = reply.send(Ok(()));
                    self.feed(Input::Steer(message), running).await;
                } else {
                    let _ = reply.send(Err(refused_steer(&self.engine)));
                }
            }
            Command::Cancel {
                turn_id,
                reason,
                reply,
            } => {
                let found = self.engine.has_turn(turn_id.as_ref());
                self.feed(Input::Cancel { turn_id, reason }, running).await;
                let _ = reply.send(found);
            }
            Command::Notify {
                notification,
                reply,
            } => {
                self.feed(Input::Notify(notification), running).await;
                let _ = reply.send(self.last_append());
            }
            Command::Shutdown { reason, reply } => {
                self.shutdown_waiters.push(reply);
                if !self.engine.is_shutting_down() {
                    self.tell_of_trace().await;
                }
                self.feed(Input::Shutdown { reason }, running).await;
            }
        }
    }

    /// How the last append went.
    fn last_append(&self) -> Result<(), StoreError> {
        self.store_error.clone().map_or(Ok(()), Err)
    }

    async fn feed(&mut self, input: Input, running: &mut Running) {
        running.forget(&input);
        let at = self.services.clock.now();
        let mut queue: VecDeque<Effect> = self.engine.handle(at, input).into();
        while let Some(effect) = queue.pop_front() {
            if let Some(input) = self.perform(effect, running).await {
                let at = self.services.clock.now();
                queue.extend(self.engine.handle(at, input));
            }
        }
    }
}

enum Rest {
    Woken(Box<Owner>, Command),
    Asleep,
}

fn refused_turn(engine: &Engine) -> HalterError {
    if engine.is_closed() {
        session_closed()
    } else if engine.is_shutting_down() {
        session_closing()
    } else {
        HalterError::new(
            "too_many_turns",
            format!("{QUEUED_TURNS} turns already wait in this session"),
        )
        .with_hint("wait for a turn to end, or use another session")
    }
}

fn refused_steer(engine: &Engine) -> HalterError {
    if engine.is_shutting_down() {
        session_closing()
    } else if engine.steers_are_full() {
        HalterError::new(
            "too_many_steers",
            format!("{QUEUED_STEERS} messages already wait to join the turn"),
        )
        .with_hint("wait until the model has seen them")
    } else {
        HalterError::new(
            "no_live_turn",
            "no turn is running that the message could join",
        )
        .with_hint("submit it as a turn of its own")
    }
}

fn session_closing() -> HalterError {
    HalterError::new("session_closing", "the session is being shut down")
        .with_hint("resume it when it has ended, or start a new one")
}

pub(crate) fn session_closed() -> HalterError {
    HalterError::new("session_closed", "the session has been shut down")
        .with_hint("resume it, or start a new one")
}

/// How many commands a session takes before it says that it is busy.
pub(crate) fn command_queue() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(SESSION_INBOX)
}
