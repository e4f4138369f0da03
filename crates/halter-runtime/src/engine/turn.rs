//! How a turn goes on and ends.

use super::budget::{CallGrant, TurnAccount};
use super::guard::RepeatGuard;
use super::opening::hook_name;
use super::recording::Then;
use super::step::Step;
use super::structured::ResponseContract;
use super::{Effect, EffectId, Engine, SystemNote};
use crate::limits::{PAUSED_ANSWER_RESUMES, QUEUED_STEERS, STOP_HOOK_CONTINUATIONS};
use halter_hooks::{HookEventName, HookPoint, HookVerdict};
use halter_protocol::{
    MediaLimits, Message, ModelId, ReplayMeta, ResponseSchema, SessionEventPayload, TurnError,
    TurnId, Usage, UserMessage, UserPart,
};
use std::sync::Arc;

/// A turn from the queue to its terminal event.
#[derive(Debug)]
pub(super) struct LiveTurn {
    pub id: TurnId,
    pub model: ModelId,
    pub answered_by: ReplayMeta,
    pub prompt: Option<UserMessage>,
    /// The model of subagents that the turn starts.
    pub subagent_model: Option<ModelId>,
    /// What the model takes.
    pub media: Arc<MediaLimits>,
    pub phase: Phase,
    pub usage: Usage,
    pub model_calls: u32,
    pub empty_answers: u32,
    /// How often the model paused.
    pub pauses: u32,
    /// The last answer is a pause: nothing may join before the next.
    pub paused: bool,
    pub guard: RepeatGuard,
    /// What the last answer must look like.
    pub contract: Option<ResponseContract>,
    pub response_schema: Option<ResponseSchema>,
    pub steers: Vec<UserMessage>,
    pub stop_continuations: u32,
    /// The context was compacted for the next model call: not again.
    pub compacted: bool,
    /// What the service said to the last call, if it refused that as too long.
    pub overflow: Option<TurnError>,
    /// The user knows that nothing can be cut from the context.
    pub told_of_full_context: bool,
    /// The user knows that the prompt cache missed.
    pub told_of_cache: bool,
    pub account: TurnAccount,
}

/// Where a turn stands.
#[derive(Debug)]
pub(super) enum Phase {
    /// The driver looks at the environment.
    Preparing(EffectId),
    /// SessionStart hooks run.
    SessionStart(EffectId),
    /// SubagentStart hooks run.
    SubagentStart(EffectId),
    /// UserPromptSubmit hooks run.
    Prompt(EffectId),
    /// Messages are being committed; the model is asked next.
    SafePoint,
    /// It is found out whether the context fits.
    Planning(EffectId),
    /// The context is being made smaller.
    Compacting,
    /// Room in the budgets is reserved.
    Reserving(EffectId),
    /// The model answers and its tools run.
    Step(Box<Step>),
    /// Stop hooks run.
    Stop(EffectId),
    /// The terminal event is being committed.
    Closing,
}

/// How a turn ends.
#[derive(Debug, Clone)]
pub(super) enum Ending {
    Completed,
    Failed {
        error: TurnError,
        cancelled: bool,
        retryable: bool,
    },
}

impl Ending {
    pub fn failed(error: TurnError) -> Self {
        Self::Failed {
            error,
            cancelled: false,
            retryable: false,
        }
    }

    pub fn cancelled(reason: &str) -> Self {
        Self::Failed {
            error: TurnError::new("cancelled", format!("the turn was cancelled: {reason}")),
            cancelled: true,
            retryable: true,
        }
    }
}

impl LiveTurn {
    pub fn accepts_steer(&self) -> bool {
        !self.is_ending() && self.steers.len() < QUEUED_STEERS
    }

    pub fn steers_are_full(&self) -> bool {
        !self.is_ending() && self.steers.len() >= QUEUED_STEERS
    }

    /// True if the turn ends, whatever else is said to it.
    fn is_ending(&self) -> bool {
        match &self.phase {
            Phase::Closing => true,
            Phase::Step(step) => step.is_failing(),
            _ => false,
        }
    }

    pub fn step(&self) -> Option<&Step> {
        match &self.phase {
            Phase::Step(step) => Some(step),
            _ => None,
        }
    }

    pub fn step_mut(&mut self) -> Option<&mut Step> {
        match &mut self.phase {
            Phase::Step(step) => Some(step),
            _ => None,
        }
    }

    /// Whatever runs for the turn and must be given up at once.
    pub fn abandon(&self) -> Vec<Effect> {
        match &self.phase {
            Phase::SessionStart(id)
            | Phase::SubagentStart(id)
            | Phase::Prompt(id)
            | Phase::Stop(id) => {
                vec![Effect::CancelHooks { id: *id }]
            }
            Phase::Step(step) => step.abandon(),
            Phase::Preparing(id) => vec![Effect::CancelPreparation { id: *id }],
            Phase::SafePoint
            | Phase::Planning(_)
            | Phase::Compacting
            | Phase::Reserving(_)
            | Phase::Closing => Vec::new(),
        }
    }
}

impl Engine {
    pub(super) fn turn_hooks_finished(&mut self, id: EffectId, verdict: HookVerdict) {
        enum At {
            SessionStart,
            SubagentStart,
            Prompt,
            Stop,
        }
        let Some(turn) = &self.turn else { return };
        let at = match &turn.phase {
            Phase::SessionStart(awaited) if *awaited == id => At::SessionStart,
            Phase::SubagentStart(awaited) if *awaited == id => At::SubagentStart,
            Phase::Prompt(awaited) if *awaited == id => At::Prompt,
            Phase::Stop(awaited) if *awaited == id => At::Stop,
            Phase::Step(_) => return self.call_hooks_finished(id, verdict),
            _ => return,
        };
        self.words.extend(verdict.words().map(SystemNote::from));
        match at {
            At::SessionStart => match verdict.stop {
                Some(reason) => self.finish_turn(hook_stopped(&reason)),
                None => self.subagent_hooks_or_prompt(),
            },
            At::SubagentStart => match verdict.stop {
                Some(reason) => self.finish_turn(hook_stopped(&reason)),
                None => self.prompt_hooks_or_messages(),
            },
            At::Prompt => match (prompt_objection(&verdict), verdict.stop) {
                (Some(reason), _) => {
                    let message = format!("a hook blocked the prompt: {reason}");
                    self.finish_turn(Ending::failed(TurnError::new("hook_blocked", message)));
                }
                (None, Some(reason)) => self.finish_turn(hook_stopped(&reason)),
                (None, None) => self.open_with_prompt(),
            },
            At::Stop => self.stop_hooks_finished(verdict),
        }
    }

    /// Lets the words that wait join the transcript, then asks the model.
    pub(super) fn go_on(&mut self) {
        self.set_phase(Phase::SafePoint);
        self.calm_down();
        self.record_waiting_messages();
        self.tell_of_late_tools();
        self.after_commit(Then::CallModel);
    }

    /// Asks the model again with its own answer as the last word: words that
    /// wait go on waiting.
    pub(super) fn go_on_after_pause(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        turn.pauses += 1;
        turn.paused = true;
        if turn.pauses > PAUSED_ANSWER_RESUMES {
            let message = format!("the model paused more than {PAUSED_ANSWER_RESUMES} times");
            let error =
                TurnError::new("paused_too_often", message).with_hint("ask for a smaller task");
            return self.finish_turn(Ending::failed(error));
        }
        self.set_phase(Phase::SafePoint);
        self.after_commit(Then::CallModel);
    }

    /// Records what hooks and users want to add. Returns whether there was any.
    fn record_waiting_messages(&mut self) -> bool {
        let words = std::mem::take(&mut self.words);
        let steers = self
            .turn
            .as_mut()
            .map(|turn| std::mem::take(&mut turn.steers))
            .unwrap_or_default();
        let any = !words.is_empty() || !steers.is_empty();
        for note in words {
            self.record_system(note);
        }
        for message in steers {
            self.record_message(Message::User(message));
        }
        any
    }

    /// The transcript is committed: ask the model, unless something else
    /// happened or more was said meanwhile.
    pub(super) fn call_model_if_due(&mut self) {
        let Some(turn) = &self.turn else { return };
        let (model_calls, turn_compacted) = (turn.model_calls, turn.compacted);
        if !matches!(turn.phase, Phase::SafePoint) {
            return;
        }
        let paused = turn.paused;
        if !paused && (self.record_waiting_messages() | self.tell_of_late_tools()) {
            self.calm_down();
            return self.after_commit(Then::CallModel);
        }
        if let Some(limit) = self.facts.blueprint.max_turns
            && model_calls >= limit
        {
            let error = TurnError::new(
                "max_turns_reached",
                format!("the turn made {limit} model calls, its limit, without finishing"),
            )
            .with_hint("raise max_turns or ask for a smaller task");
            return self.finish_turn(Ending::failed(error));
        }
        match paused || turn_compacted {
            true => self.call_model(),
            false => self.plan_context(),
        }
    }

    /// Asks the model, if the budgets have room for it.
    pub(super) fn call_model(&mut self) {
        match self.budgets().any() {
            true => self.reserve_model_call(),
            false => self.send_request(None),
        }
    }

    /// Asks the model.
    pub(super) fn send_request(&mut self, grant: Option<CallGrant>) {
        let id = self.next_effect();
        let output_limit = grant.as_ref().and_then(|it| it.granted.output_limit);
        let messages = self.state.messages.clone();
        if let Some(turn) = &mut self.turn {
            turn.model_calls += 1;
            turn.paused = false;
            if let Some(contract) = &mut turn.contract {
                contract.ask_again();
            }
            let response_schema = turn
                .contract
                .as_ref()
                .map(|contract| contract.schema().clone());
            turn.phase = Phase::Step(Box::new(Step::new(id, grant)));
            self.effects.push(Effect::CallModel {
                id,
                turn_id: turn.id.clone(),
                model: turn.model.clone(),
                messages,
                response_schema,
                output_limit,
            });
        }
    }

    /// The model is done unless a user or a hook wants more.
    pub(super) fn stop_or_go_on(&mut self, last_assistant_message: String) {
        let steered = self
            .turn
            .as_ref()
            .is_some_and(|turn| !turn.steers.is_empty());
        if steered || self.is_woken() {
            return self.go_on();
        }
        let blueprint = self.facts.blueprint.clone();
        let place = blueprint.subagent.as_ref();
        let event = match place {
            Some(_) => HookEventName::SubagentStop,
            None => HookEventName::Stop,
        };
        if !self.has_hooks(event) {
            return self.finish_turn(Ending::Completed);
        }
        let active = self
            .turn
            .as_ref()
            .is_some_and(|turn| turn.stop_continuations > 0);
        let point = match place {
            Some(place) => HookPoint::SubagentStop {
                agent_id: blueprint.session_id.clone(),
                agent_type: hook_name(place),
                active,
                last_assistant_message,
            },
            None => HookPoint::Stop {
                active,
                last_assistant_message,
            },
        };
        let id = self.run_hooks(point);
        self.set_phase(Phase::Stop(id));
    }

    fn stop_hooks_finished(&mut self, verdict: HookVerdict) {
        let Some(turn) = &mut self.turn else { return };
        let steered = !turn.steers.is_empty();
        let Some(reason) = verdict.block.filter(|_| verdict.stop.is_none()) else {
            if steered {
                return self.go_on();
            }
            return self.finish_turn(Ending::Completed);
        };
        if turn.stop_continuations >= STOP_HOOK_CONTINUATIONS {
            let message = format!(
                "Stop hooks asked to go on more than {STOP_HOOK_CONTINUATIONS} times; the turn ends anyway"
            );
            self.record(SessionEventPayload::Warning { message });
            return self.finish_turn(Ending::Completed);
        }
        turn.stop_continuations += 1;
        let text = if reason.trim().is_empty() {
            "Continue.".to_owned()
        } else {
            reason
        };
        let message = UserMessage {
            id: self.mint_message(),
            created_at: self.at,
            parts: vec![UserPart::Text { text }],
        };
        self.record_message(Message::User(message));
        self.go_on();
    }

    pub(super) fn steer(&mut self, message: UserMessage) {
        if self.accepts_steer()
            && let Some(turn) = &mut self.turn
        {
            turn.steers.push(message);
        }
    }

    /// Cancels the live turn, or the turn named, which may still wait.
    pub(super) fn cancel(&mut self, turn_id: Option<&TurnId>, reason: &str) {
        if let Some(wanted) = turn_id
            && self.live_turn() != Some(wanted)
        {
            let mut waiting = self.queue.iter_mut();
            if let Some(queued) = waiting.find(|queued| queued.turn.id == *wanted) {
                queued.cancelled = Some(format!("cancelled before it started: {reason}"));
            }
            return;
        }
        self.calm_down();
        let Some(turn) = &self.turn else {
            return self.abandon_compaction(&compaction_cancelled(reason));
        };
        if turn.is_ending() {
            return;
        }
        let turn_id = turn.id.clone();
        if matches!(turn.phase, Phase::Preparing(_)) {
            self.record_turn_started();
        }
        self.record(SessionEventPayload::TurnInterrupted {
            turn_id,
            reason: reason.to_owned(),
        });
        let ending = Ending::cancelled(reason);
        match self.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Step(_)) => self.abort_step(ending),
            Some(
                Phase::SessionStart(id)
                | Phase::SubagentStart(id)
                | Phase::Prompt(id)
                | Phase::Stop(id),
            ) => {
                let id = *id;
                self.effects.push(Effect::CancelHooks { id });
                self.finish_turn(ending);
            }
            Some(Phase::Preparing(id)) => {
                let id = *id;
                self.effects.push(Effect::CancelPreparation { id });
                self.finish_turn(ending);
            }
            Some(Phase::Compacting) => {
                self.abandon_compaction(&compaction_cancelled(reason));
                self.finish_turn(ending);
            }
            _ => self.finish_turn(ending),
        }
    }

    /// Records the terminal event. Messages that still wait join the transcript
    /// first, so that the next turn's model sees them.
    pub(super) fn finish_turn(&mut self, ending: Ending) {
        self.charge_time();
        self.record_waiting_messages();
        let Some(turn) = &mut self.turn else { return };
        turn.phase = Phase::Closing;
        let (turn_id, usage) = (turn.id.clone(), turn.usage);
        let structured_output = turn.contract.as_mut().and_then(ResponseContract::output);
        let answered_by = turn.answered_by.clone();
        self.record(match ending {
            Ending::Completed => SessionEventPayload::TurnCompleted {
                turn_id: turn_id.clone(),
                usage,
                structured_output,
                answered_by,
            },
            Ending::Failed {
                error,
                cancelled,
                retryable,
            } => SessionEventPayload::TurnFailed {
                turn_id: turn_id.clone(),
                error,
                cancelled,
                retryable,
                usage,
                answered_by,
            },
        });
        self.after_commit(Then::TurnOver(turn_id));
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        if let Some(turn) = &mut self.turn {
            turn.phase = phase;
        }
    }
}

fn compaction_cancelled(reason: &str) -> TurnError {
    TurnError::new(
        "cancelled",
        format!("the compaction was cancelled: {reason}"),
    )
}

/// What hooks object to about a prompt. Whoever submitted it is not asked about
/// it: a wish to ask denies.
fn prompt_objection(verdict: &HookVerdict) -> Option<String> {
    match verdict.stop {
        Some(_) => verdict.block.clone(),
        None => verdict.denial(),
    }
}

pub(super) fn hook_stopped(reason: &str) -> Ending {
    Ending::failed(TurnError::new(
        "hook_stopped",
        format!("a hook stopped the turn: {reason}"),
    ))
}
