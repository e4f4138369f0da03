//! The turn as a pure machine: inputs in, effects out.
//!
//! The engine holds no socket, clock, file or task. A driver runs its effects
//! and feeds their outcomes back; every input carries its time. Events are
//! recorded in batches, one [`Effect::Append`] for each handled input at most,
//! and whatever depends on their being committed waits for
//! [`Input::Committed`]: a tool runs only once its start is in the log, the
//! model is asked only about a transcript that is.
//!
//! | module | decides |
//! |---|---|
//! | [`answer`] | how streamed blocks become the parts of a message |
//! | [`guard`] | when a model repeats itself |
//! | `media` | which images and documents may join a session |
//! | [`traits`] | how calls of a tool are scheduled |
//! | [`turn`] | how a turn opens, goes on and ends |
//! | [`step`] | how one answer and its tool calls are worked off |
//! | [`structured`] | whether an answer fits the schema a turn asked for |
//! | [`repair`] | how a session interrupted by a crash becomes usable |

pub mod answer;
pub mod guard;
mod input;
pub(crate) mod media;
pub mod repair;
pub mod step;
pub mod structured;
pub mod traits;
pub mod turn;

pub use input::{CallFacts, Effect, EffectId, Input, Preparation, SessionFacts};
pub use traits::ToolTraits;

use crate::limits::QUEUED_TURNS;
use halter_hooks::{HookEventName, HookPoint, HookVerdict, SessionStartSource};
use halter_protocol::{
    Message, MessageId, ModelId, NotificationItem, PendingEvent, QuestionId, ReplayMeta,
    ResponseSchema, SeededIds, SessionEventPayload, SessionState, SystemMessage, Timestamp,
    ToolCallId, Turn, TurnError, TurnId, fold,
};
use halter_session::Durability;
use media::MediaLedger;
use repair::Interruption;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use turn::LiveTurn;

/// One session's turn machine.
pub struct Engine {
    facts: SessionFacts,
    ids: SeededIds,
    state: SessionState,
    /// What the images and documents of the committed messages come to.
    media: MediaLedger,
    queue: VecDeque<Queued>,
    turn: Option<LiveTurn>,
    /// Why SessionStart hooks are due, until they have run.
    start_source: Option<SessionStartSource>,
    last_model: Option<ModelId>,
    /// The schema of the last turn's answer, part of what services cache.
    last_schema: Option<ResponseSchema>,
    /// Words of hooks that wait for the next point where messages may join.
    words: Vec<String>,
    notification_hooks: HashSet<EffectId>,
    shutdown: Option<Shutdown>,
    closed: bool,
    /// Why the log lacks the end of a turn, until it is repaired.
    interrupted_by: Option<Interruption>,
    in_flight: VecDeque<InFlight>,
    batch: Batch,
    effects: Vec<Effect>,
    next_id: u64,
    at: Timestamp,
}

/// A turn that waits. One cancelled meanwhile keeps its place, so that its
/// terminal event does not fall into another turn.
#[derive(Debug)]
struct Queued {
    turn: Turn,
    cancelled: Option<String>,
}

#[derive(Debug)]
struct Shutdown {
    reason: String,
    hooks: Option<EffectId>,
    finishing: bool,
}

#[derive(Debug)]
struct InFlight {
    id: EffectId,
    payloads: Vec<SessionEventPayload>,
    then: Vec<Then>,
}

#[derive(Debug, Default)]
struct Batch {
    payloads: Vec<SessionEventPayload>,
    then: Vec<Then>,
    durable: bool,
}

/// What waits for a commit.
#[derive(Debug)]
enum Then {
    RunTool(ToolCallId),
    Ask(QuestionId),
    CallModel,
    TurnOver(TurnId),
    Closed,
}

impl Engine {
    /// The engine of a new session.
    pub fn new(facts: SessionFacts) -> Self {
        Self::with_state(facts, SessionState::default())
    }

    /// The engine of a session whose log folds to `state`. The first input
    /// must be [`Input::Resume`] if another process wrote that log.
    pub fn with_state(facts: SessionFacts, state: SessionState) -> Self {
        Self {
            ids: SeededIds::new(facts.id_seed),
            facts,
            queue: VecDeque::new(),
            turn: None,
            start_source: Some(SessionStartSource::Startup),
            last_model: None,
            last_schema: state.response_schema.clone(),
            media: MediaLedger::of(&state),
            state,
            words: Vec::new(),
            notification_hooks: HashSet::new(),
            shutdown: None,
            closed: false,
            interrupted_by: None,
            in_flight: VecDeque::new(),
            batch: Batch::default(),
            effects: Vec::new(),
            next_id: 0,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Takes in what happened at `at` and says what to do about it.
    pub fn handle(&mut self, at: Timestamp, input: Input) -> Vec<Effect> {
        self.at = at;
        if !self.closed {
            self.dispatch(input);
            self.settle();
            self.flush();
        }
        std::mem::take(&mut self.effects)
    }

    /// The fold of everything committed.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// True if nothing runs, waits or is being committed.
    pub fn is_idle(&self) -> bool {
        self.turn.is_none()
            && self.queue.is_empty()
            && self.in_flight.is_empty()
            && self.notification_hooks.is_empty()
            && (self.shutdown.is_none() || self.closed)
    }

    /// True once the session has shut down.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if a steer would join the live turn.
    pub fn accepts_steer(&self) -> bool {
        self.shutdown.is_none() && self.turn.as_ref().is_some_and(LiveTurn::accepts_steer)
    }

    /// True if another turn may be submitted.
    pub fn accepts_turn(&self) -> bool {
        self.shutdown.is_none() && !self.closed && self.queue.len() < QUEUED_TURNS
    }

    /// True if the live turn would take a steer but for those that wait.
    pub fn steers_are_full(&self) -> bool {
        self.turn.as_ref().is_some_and(LiveTurn::steers_are_full)
    }

    /// True once the session shall end.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    /// True if the turn named runs or waits; without a name, if any runs.
    pub fn has_turn(&self, turn_id: Option<&TurnId>) -> bool {
        match turn_id {
            None => self.turn.is_some(),
            Some(wanted) => {
                let waits = |queued: &Queued| queued.turn.id == *wanted;
                self.live_turn() == Some(wanted) || self.queue.iter().any(waits)
            }
        }
    }

    /// The turn that runs.
    pub fn live_turn(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(|turn| &turn.id)
    }

    fn dispatch(&mut self, input: Input) {
        match input {
            Input::Submit(turn) => {
                self.repair_if_needed();
                self.queue.push_back(Queued {
                    turn,
                    cancelled: None,
                });
            }
            Input::Steer(message) => self.steer(message),
            Input::Cancel { turn_id, reason } => self.cancel(turn_id.as_ref(), &reason),
            Input::Notify(notification) => self.notify(notification),
            Input::Shutdown { reason } => self.begin_shutdown(reason),
            Input::Start { warnings } => self.start(warnings),
            Input::Resume => self.resume(),
            Input::Warn { message } => self.record(SessionEventPayload::Warning { message }),
            Input::Prepared { id, preparation } => self.prepared(id, preparation),
            Input::Model { id, event } => self.model_said(id, event),
            Input::ModelEnded { id, error } => self.model_ended(id, error),
            Input::CallChecked { id, check } => self.call_checked(id, check),
            Input::Judged { id, verdict } => self.judged(id, verdict),
            Input::Answered { id, answer } => self.answered(id, answer),
            Input::ToolFinished {
                id,
                result,
                remembered,
            } => self.tool_finished(id, result, remembered),
            Input::HookProgress { run, ended } => self.record(if ended {
                SessionEventPayload::HookCompleted { run }
            } else {
                SessionEventPayload::HookStarted { run }
            }),
            Input::HooksFinished { id, verdict } => self.hooks_finished(id, verdict),
            Input::Committed { id } => self.committed(id),
            Input::StoreFailed { id, error } => self.store_failed(id, &error),
            Input::Timer { id } => self.timer(id),
        }
    }

    /// Starts whatever can start now that an input has been handled.
    fn settle(&mut self) {
        if self.turn.is_some() {
            return;
        }
        while self.turn.is_none()
            && let Some(Queued { turn, cancelled }) = self.queue.pop_front()
        {
            match cancelled {
                Some(reason) => self.end_unstarted_turn(turn, &reason),
                None => self.open_turn(turn),
            }
        }
        if self.turn.is_none() && self.shutdown.is_some() {
            self.advance_shutdown();
        }
    }

    // --- recording -------------------------------------------------------

    /// Adds an event to the batch of this input.
    fn record(&mut self, payload: SessionEventPayload) {
        self.batch.durable |= needs_durability(&payload);
        self.record_buffered(payload);
    }

    /// Adds an event from which nothing follows that must survive a crash.
    fn record_buffered(&mut self, payload: SessionEventPayload) {
        self.batch.payloads.push(payload);
    }

    fn record_message(&mut self, message: Message) {
        self.record(SessionEventPayload::MessageItem {
            message: Arc::new(message),
        });
    }

    fn record_system(&mut self, text: String) {
        let message = SystemMessage {
            id: self.mint_message(),
            created_at: self.at,
            text,
            environment: None,
        };
        self.record_message(Message::System(message));
    }

    /// Does something once everything recorded so far is committed.
    fn after_commit(&mut self, then: Then) {
        self.batch.then.push(then);
    }

    fn flush(&mut self) {
        if self.batch.payloads.is_empty() && self.batch.then.is_empty() {
            return;
        }
        let id = self.next_effect();
        let Batch {
            payloads,
            then,
            durable,
        } = std::mem::take(&mut self.batch);
        let session_id = &self.facts.blueprint.session_id;
        let events = payloads
            .iter()
            .map(|payload| PendingEvent::new(session_id.clone(), self.at, payload.clone()))
            .collect();
        self.in_flight.push_back(InFlight { id, payloads, then });
        self.effects.push(Effect::Append {
            id,
            events,
            durability: if durable {
                Durability::Durable
            } else {
                Durability::Buffered
            },
        });
    }

    fn committed(&mut self, id: EffectId) {
        if self.in_flight.front().is_none_or(|append| append.id != id) {
            return;
        }
        let Some(append) = self.in_flight.pop_front() else {
            return;
        };
        for payload in &append.payloads {
            if let SessionEventPayload::MessageItem { message } = payload {
                self.media.count_message(message);
            }
            fold::apply_event(&mut self.state, payload);
        }
        for then in append.then {
            match then {
                Then::RunTool(call_id) => self.run_tool(&call_id),
                Then::Ask(question_id) => self.ask(&question_id),
                Then::CallModel => self.call_model_if_due(),
                Then::TurnOver(turn_id) => self.turn_over(turn_id, None),
                Then::Closed => {
                    self.closed = true;
                    self.effects.push(Effect::Closed);
                }
            }
        }
    }

    /// The log cannot grow: everything under way ends without a record, and
    /// what the log lacks is repaired before the next turn.
    fn store_failed(&mut self, id: EffectId, error: &TurnError) {
        if !self.in_flight.iter().any(|append| append.id == id) {
            return;
        }
        self.in_flight.clear();
        self.batch = Batch::default();
        self.interrupted_by = Some(Interruption::StoreFailed);
        self.words.clear();
        for id in std::mem::take(&mut self.notification_hooks) {
            self.effects.push(Effect::CancelHooks { id });
        }
        if let Some(turn) = self.turn.take() {
            let abandoned = turn.abandon();
            self.effects.extend(abandoned);
            self.turn_over(turn.id, Some(error.clone()));
        }
        while let Some(queued) = self.queue.pop_front() {
            self.turn_over(queued.turn.id, Some(error.clone()));
        }
        if self.shutdown.is_some() {
            self.closed = true;
            self.effects.push(Effect::Closed);
        }
    }

    fn turn_over(&mut self, turn_id: TurnId, store_error: Option<TurnError>) {
        if self.turn.as_ref().is_some_and(|turn| turn.id == turn_id) {
            self.turn = None;
        }
        self.effects.push(Effect::TurnOver {
            turn_id,
            store_error,
        });
    }

    // --- outside of turns ------------------------------------------------

    fn start(&mut self, warnings: Vec<String>) {
        let blueprint = &self.facts.blueprint;
        self.record(SessionEventPayload::SessionStarted {
            parent_session_id: blueprint.parent_session_id.clone(),
            working_dir: blueprint.working_dir.clone(),
            model: blueprint.default_model.clone(),
        });
        for message in warnings {
            self.record(SessionEventPayload::Warning { message });
        }
    }

    fn notify(&mut self, notification: NotificationItem) {
        self.record(SessionEventPayload::Notification {
            notification: notification.clone(),
        });
        if self.shutdown.is_none() && self.has_hooks(HookEventName::Notification) {
            let id = self.run_hooks(HookPoint::Notification(notification));
            self.notification_hooks.insert(id);
        }
    }

    fn begin_shutdown(&mut self, reason: String) {
        if self.shutdown.is_some() {
            return;
        }
        self.repair_if_needed();
        for queued in &mut self.queue {
            queued.cancelled.get_or_insert_with(|| {
                "the session was shut down before the turn started".to_owned()
            });
        }
        self.cancel(None, &format!("the session is shutting down: {reason}"));
        for id in &self.notification_hooks {
            self.effects.push(Effect::CancelHooks { id: *id });
        }
        self.shutdown = Some(Shutdown {
            reason,
            hooks: None,
            finishing: false,
        });
    }

    fn end_unstarted_turn(&mut self, turn: Turn, message: &str) {
        let turn_id = turn.id;
        self.record(SessionEventPayload::TurnStarted {
            turn_id: turn_id.clone(),
            response_schema: turn.response_schema,
        });
        self.record(SessionEventPayload::TurnFailed {
            turn_id: turn_id.clone(),
            error: TurnError::new("cancelled", message),
            cancelled: true,
            retryable: true,
            usage: Default::default(),
            answered_by: ReplayMeta::default(),
        });
        self.after_commit(Then::TurnOver(turn_id));
    }

    fn advance_shutdown(&mut self) {
        let Some(shutdown) = &mut self.shutdown else {
            return;
        };
        if shutdown.finishing || shutdown.hooks.is_some() || !self.notification_hooks.is_empty() {
            return;
        }
        let reason = shutdown.reason.clone();
        if self.has_hooks(HookEventName::SessionEnd) {
            let id = self.run_hooks(HookPoint::SessionEnd { reason });
            if let Some(shutdown) = &mut self.shutdown {
                shutdown.hooks = Some(id);
            }
        } else {
            self.finish_shutdown();
        }
    }

    fn finish_shutdown(&mut self) {
        let Some(shutdown) = &mut self.shutdown else {
            return;
        };
        shutdown.finishing = true;
        let reason = shutdown.reason.clone();
        self.record(SessionEventPayload::SessionShutdownComplete { reason });
        self.after_commit(Then::Closed);
    }

    fn hooks_finished(&mut self, id: EffectId, verdict: HookVerdict) {
        if self.notification_hooks.remove(&id) {
            self.words.extend(verdict.words());
        } else if self.shutdown.as_ref().and_then(|s| s.hooks) == Some(id) {
            self.finish_shutdown();
        } else {
            self.turn_hooks_finished(id, verdict);
        }
    }

    // --- helpers ---------------------------------------------------------

    fn run_hooks(&mut self, point: HookPoint) -> EffectId {
        let id = self.next_effect();
        let turn = self.turn.as_ref();
        let model = turn.map_or(&self.facts.blueprint.default_model, |turn| &turn.model);
        self.effects.push(Effect::RunHooks {
            id,
            point,
            turn_id: turn.map(|turn| turn.id.clone()),
            model: model.clone(),
        });
        id
    }

    fn has_hooks(&self, event: HookEventName) -> bool {
        self.facts.hooked.contains(&event)
    }

    fn next_effect(&mut self) -> EffectId {
        self.next_id += 1;
        EffectId(self.next_id)
    }

    fn mint_message(&self) -> MessageId {
        MessageId::mint(&self.ids, self.at)
    }
}

/// Whether an event must survive a crash before anything follows from it. The
/// runs of hooks and warnings may share the next commit.
fn needs_durability(payload: &SessionEventPayload) -> bool {
    !matches!(
        payload,
        SessionEventPayload::HookStarted { .. }
            | SessionEventPayload::HookCompleted { .. }
            | SessionEventPayload::Warning { .. }
    )
}
