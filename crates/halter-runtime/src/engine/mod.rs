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
//! | `compaction` | when and how a context is made smaller |
//! | `budget` | what calls are charged, and when a limit ends a turn |
//! | `cache` | whether the prompt cache held what it promised |
//! | `late` | what is said of tools that join late |
//! | `media` | which images and documents may join a session |
//! | [`traits`] | how calls of a tool are scheduled |
//! | `opening` | how a turn opens |
//! | [`turn`] | how a turn goes on and ends |
//! | [`step`] | how one answer and its tool calls are worked off |
//! | [`structured`] | whether an answer fits the schema a turn asked for |
//! | `recording` | how events get into the log, and what waits for that |
//! | `lifecycle` | what happens outside of turns |
//! | `subagents` | what subagents report and ask |
//! | [`repair`] | how a session interrupted by a crash becomes usable |

pub mod answer;
mod budget;
mod cache;
mod compaction;
pub mod guard;
mod input;
mod late;
mod lifecycle;
pub(crate) mod media;
mod opening;
mod recording;
pub mod repair;
pub mod step;
pub mod structured;
mod subagents;
pub mod traits;
pub mod turn;

pub use input::{
    CallFacts, Effect, EffectId, Input, PersonAnswer, PersonRequest, Preparation, SessionFacts,
    SystemNote,
};
pub use late::LateTool;
pub(crate) use opening::hook_name;
pub use traits::ToolTraits;

use crate::limits::QUEUED_TURNS;
use compaction::{Compacting, CompactionWish};
use halter_hooks::{HookEventName, HookPoint, SessionStartSource};
use halter_protocol::{
    BudgetResource, MessageId, ModelId, ResponseSchema, Revision, SeededIds, SessionEventPayload,
    SessionState, Spending, Timestamp, ToolName, Turn, TurnId,
};
use indexmap::IndexMap;
use lifecycle::Shutdown;
use media::MediaLedger;
use recording::{Batch, InFlight};
use repair::Interruption;
use std::collections::{HashSet, VecDeque};
use subagents::Subagents;
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
    /// Words of hooks and of the harness that wait for the next point where
    /// messages may join.
    words: Vec<SystemNote>,
    notification_hooks: HashSet<EffectId>,
    /// What makes the context smaller, in a turn or outside of one.
    compaction: Option<Compacting>,
    /// Somebody wants that at the next point where it can be done.
    compaction_wish: Option<CompactionWish>,
    /// It was said that the next request does not extend the last one.
    cut_announced: bool,
    /// What the session has spent, what is under way to the log included.
    spent: Spending,
    /// The limits of the harness that the model was told to be near.
    told_of_harness: Vec<BudgetResource>,
    /// Permission rules that hold for the session, those under way to the log
    /// included.
    approved_rules: Vec<String>,
    /// The definitions of late tools that the model knows, those under way to
    /// the log included.
    told_tools: IndexMap<ToolName, Revision>,
    subagents: Subagents,
    /// Hooks have not heard yet that this subagent starts.
    subagent_start_due: bool,
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
            approved_rules: state.approved_rules.clone(),
            cut_announced: false,
            spent: state.spent,
            told_of_harness: Vec::new(),
            told_tools: told_tools(&state),
            state,
            words: Vec::new(),
            notification_hooks: HashSet::new(),
            compaction: None,
            compaction_wish: None,
            subagents: Subagents::default(),
            subagent_start_due: true,
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
            && self.compaction.is_none()
            && self.compaction_wish.is_none()
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

    /// The model of subagents that the turn starts that runs.
    pub fn subagent_model(&self) -> Option<&ModelId> {
        self.turn.as_ref()?.subagent_model.as_ref()
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
            Input::Compact { instructions } => self.wish_compaction(instructions),
            Input::SetBudget(budget) => self.set_budget(budget),
            Input::Spent { charge } => self.spent_elsewhere(charge),
            Input::Shutdown { reason } => self.begin_shutdown(reason),
            Input::Start { warnings, forked } => self.start(warnings, forked),
            Input::SubagentStarts(subagent) => self.subagent_starts(subagent),
            Input::SubagentReports(report) => self.subagent_reports(*report),
            Input::SubagentAsks(request) => self.subagent_asks(request),
            Input::SubagentAnswered {
                approval_id,
                answer,
                by,
            } => self.subagent_answered(approval_id, answer, by),
            Input::Resume => self.resume(),
            Input::Warn { message } => self.record(SessionEventPayload::Warning { message }),
            Input::NetworkRefused {
                call_id,
                host,
                rule,
                message,
            } => self.record(SessionEventPayload::NetworkRefused {
                call_id,
                host,
                rule,
                message,
            }),
            Input::LateTools { tools } => self.late_tools_changed(tools),
            Input::Prepared { id, preparation } => self.prepared(id, preparation),
            Input::ContextPlanned { id, too_large } => self.context_planned(id, too_large),
            Input::Compacted { id, compaction } => self.compacted(id, compaction),
            Input::ModelCallReserved { id, granted } => self.model_call_reserved(id, granted),
            Input::ToolCallReserved { id, granted } => self.tool_call_reserved(id, granted),
            Input::Model { id, event } => self.model_said(id, event),
            Input::ModelEnded { id, error } => self.model_ended(id, error),
            Input::CallChecked {
                id,
                check,
                remembered,
            } => self.call_checked(id, check, remembered),
            Input::Judged { id, verdict, diff } => self.judged(id, verdict, diff),
            Input::ToolAsks { id, request } => self.tool_asks(id, request),
            Input::Answered { answer, by } => match answer {
                PersonAnswer::Approval {
                    approval_id,
                    answer,
                } => self.answered(&approval_id, answer, by),
                PersonAnswer::Questions {
                    question_id,
                    responses,
                } => self.questions_answered(&question_id, responses, by),
            },
            Input::ToolFinished {
                id,
                result,
                remembered,
                note,
            } => self.tool_finished(id, result, remembered, note),
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
        if self.turn.is_some() || self.compaction.is_some() {
            return;
        }
        if self.compaction_wish.is_some() {
            return self.compact_if_wished();
        }
        while self.turn.is_none()
            && let Some(Queued { turn, cancelled }) = self.queue.pop_front()
        {
            match cancelled {
                Some(reason) => self.end_unstarted_turn(turn, &reason),
                None => self.open_turn(turn),
            }
        }
        self.open_turn_if_woken();
        if self.turn.is_none() && self.shutdown.is_some() {
            self.advance_shutdown();
        }
    }

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

/// The definitions of late tools that the model was told of.
fn told_tools(state: &SessionState) -> IndexMap<ToolName, Revision> {
    let told = state.told_tools.iter();
    told.map(|(name, tool)| (name.clone(), tool.revision.clone()))
        .collect()
}
