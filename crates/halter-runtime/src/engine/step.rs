//! One answer of the model and the tool calls in it.
//!
//! A call may start when every exclusive call before it is done, and an
//! exclusive one when every call before it is. While the model still speaks,
//! only calls that read and run side by side may start. Results join the
//! transcript together, in call order, when all calls are done.

use super::answer::{Answer, Progress};
use super::catalog::{ToolTraits, malformed_arguments};
use super::guard::Repetition;
use super::turn::{Ending, hook_stopped};
use super::{Effect, EffectId, Engine, HookOutcome, HookPoint, HookPointKind, Then};
use crate::limits::{
    CANCEL_GRACE, EMPTY_ANSWER_RETRIES, PARALLEL_TOOL_CALLS, TOOL_CALLS_PER_ANSWER, TOOL_DEADLINE,
};
use halter_protocol::{
    AssistantMessage, AssistantPart, DeltaItem, Message, ProviderError, ProviderErrorKind,
    SessionEventPayload, StopReason, StreamEvent, ToolCall, ToolCallId, ToolConcurrency, ToolError,
    ToolErrorCode, ToolExecutionOutcome, ToolMessage, ToolResult, TurnError,
};

/// An answer being streamed and worked off.
#[derive(Debug)]
pub(super) struct Step {
    /// The model call, while it streams.
    stream: Option<EffectId>,
    answer: Answer,
    calls: Vec<CallSlot>,
    /// How the turn ends once the calls are settled; none if it goes on.
    ending: Option<Ending>,
    grace: Option<EffectId>,
}

/// A call between the model's wish and its result.
#[derive(Debug)]
struct CallSlot {
    call: ToolCall,
    malformed: Option<String>,
    traits: ToolTraits,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Waiting,
    PreHooks(EffectId),
    /// Its start is being committed.
    Starting,
    Running {
        id: EffectId,
        deadline: Option<EffectId>,
        overdue: bool,
    },
    PostHooks {
        id: EffectId,
        result: Result<ToolResult, ToolError>,
    },
    Done(Result<ToolResult, ToolError>),
}

impl Step {
    pub fn new(stream: EffectId) -> Self {
        Self {
            stream: Some(stream),
            answer: Answer::default(),
            calls: Vec::new(),
            ending: None,
            grace: None,
        }
    }

    /// True if the turn ends with this step, whatever its calls return.
    pub fn is_failing(&self) -> bool {
        self.ending.is_some()
    }

    /// Everything that runs, to be given up without waiting.
    pub fn abandon(&self) -> Vec<Effect> {
        let stream = self.stream.map(|id| Effect::CancelModel { id });
        let calls = self.calls.iter().filter_map(|slot| match &slot.stage {
            Stage::PreHooks(id) | Stage::PostHooks { id, .. } => {
                Some(Effect::CancelHooks { id: *id })
            }
            Stage::Running { id, .. } => Some(Effect::AbandonTool { id: *id }),
            _ => None,
        });
        stream.into_iter().chain(calls).collect()
    }

    fn settled(&self) -> bool {
        self.stream.is_none() && self.calls.iter().all(|slot| slot.is_done())
    }

    fn running(&self) -> usize {
        let busy = |slot: &&CallSlot| !matches!(slot.stage, Stage::Waiting | Stage::Done(_));
        self.calls.iter().filter(busy).count()
    }

    /// The first call that waits and need not.
    fn next_startable(&self) -> Option<usize> {
        if self.is_failing() || self.running() >= PARALLEL_TOOL_CALLS {
            return None;
        }
        let (mut all_done, mut exclusive_done) = (true, true);
        for (index, slot) in self.calls.iter().enumerate() {
            let clear = if slot.is_exclusive() {
                all_done
            } else {
                exclusive_done
            };
            let early = self.stream.is_some();
            if matches!(slot.stage, Stage::Waiting)
                && clear
                && (!early || slot.traits.may_start_early())
            {
                return Some(index);
            }
            all_done &= slot.is_done();
            exclusive_done &= !slot.is_exclusive() || slot.is_done();
        }
        None
    }
}

impl CallSlot {
    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    fn is_exclusive(&self) -> bool {
        self.traits.concurrency == ToolConcurrency::Exclusive
    }
}

impl Engine {
    fn step(&mut self) -> Option<&mut Step> {
        self.turn.as_mut().and_then(|turn| turn.step_mut())
    }

    fn slot(&mut self, index: usize) -> Option<&mut CallSlot> {
        self.step().and_then(|step| step.calls.get_mut(index))
    }

    // --- the answer ------------------------------------------------------

    pub(super) fn model_said(&mut self, id: EffectId, event: StreamEvent) {
        let Some(step) = self.step() else { return };
        if step.stream != Some(id) {
            return;
        }
        match step.answer.take(event) {
            Progress::Quiet => {}
            Progress::Text(text) => {
                let delta = DeltaItem { text };
                self.effects
                    .push(Effect::Publish(SessionEventPayload::DeltaItem { delta }));
            }
            Progress::Thinking(text) => {
                let delta = DeltaItem { text };
                self.effects
                    .push(Effect::Publish(SessionEventPayload::ThinkingDelta {
                        delta,
                    }));
            }
            Progress::Warning(message) => self.record(SessionEventPayload::Warning { message }),
            Progress::Call(part) => {
                self.admit_call(part);
                self.start_calls();
            }
            Progress::Ended => self.answer_complete(),
        }
    }

    fn admit_call(&mut self, part: AssistantPart) {
        let AssistantPart::ToolCall {
            id,
            name,
            arguments,
            malformed_arguments,
            ..
        } = part
        else {
            return;
        };
        let traits = self
            .catalog
            .traits_of(name.as_str())
            .unwrap_or(ToolTraits::UNKNOWN);
        if let Some(step) = self.step() {
            step.calls.push(CallSlot {
                call: ToolCall {
                    id,
                    name,
                    arguments,
                },
                malformed: malformed_arguments,
                traits,
                stage: Stage::Waiting,
            });
        }
    }

    pub(super) fn model_ended(&mut self, id: EffectId, error: Option<ProviderError>) {
        if self.step().is_none_or(|step| step.stream != Some(id)) {
            return;
        }
        let error = error.unwrap_or_else(|| {
            ProviderError::new(
                "the model's answer was cut off before it was complete",
                ProviderErrorKind::Transient,
            )
        });
        let retryable = error.retryable();
        self.abort_step(Ending::Failed {
            error: provider_failure(&error),
            cancelled: error.is_cancelled(),
            retryable,
        });
    }

    fn answer_complete(&mut self) {
        let Some(step) = self.step() else { return };
        step.stream = None;
        let reason = step.answer.stop_reason().cloned();
        let has_calls = !step.calls.is_empty();
        let parts = self.record_answer(reason.clone());
        if has_calls {
            self.start_calls();
            return self.finish_step_if_settled();
        }
        let text: String = parts.iter().filter_map(shown_text).collect();
        match reason {
            Some(StopReason::MaxTokens) => {
                let error = TurnError::new(
                    "output_limit_reached",
                    "the model reached its output limit before its answer was complete",
                )
                .with_hint("raise max_output_tokens of the model, or ask it to go on");
                self.finish_turn(Ending::failed(error));
            }
            _ if text.trim().is_empty() => self.empty_answer(),
            _ => self.stop_or_go_on(text),
        }
    }

    /// Records what the model said and returns its parts. An answer without
    /// parts leaves no message: no provider would take it back.
    fn record_answer(&mut self, stop_reason: Option<StopReason>) -> Vec<AssistantPart> {
        let Some(turn) = &mut self.turn else {
            return Vec::new();
        };
        let replay_meta = turn.answered_by.clone();
        let Some(step) = turn.step_mut() else {
            return Vec::new();
        };
        let answer = std::mem::take(&mut step.answer);
        let usage = answer.usage();
        if let Some(usage) = &usage {
            turn.usage.saturating_accumulate(usage);
        }
        let parts = answer.into_parts();
        if !parts.is_empty() {
            let message = AssistantMessage {
                id: self.mint_message(),
                created_at: self.at,
                parts: parts.clone(),
                stop_reason,
                usage,
                replay_meta,
            };
            self.record_message(Message::Assistant(message));
        }
        parts
    }

    fn empty_answer(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if turn.empty_answers >= EMPTY_ANSWER_RETRIES {
            let error = TurnError::new("empty_answer", "the model answered with nothing, twice")
                .with_hint("submit the turn again, or use another model");
            return self.finish_turn(Ending::Failed {
                error,
                cancelled: false,
                retryable: true,
            });
        }
        turn.empty_answers += 1;
        self.record_system(
            "Your last answer was empty. Answer the user, or call a tool.".to_owned(),
        );
        self.go_on();
    }

    // --- the calls -------------------------------------------------------

    fn start_calls(&mut self) {
        while let Some(index) = self.step().and_then(|step| step.next_startable()) {
            self.begin_call(index);
        }
    }

    fn begin_call(&mut self, index: usize) {
        let Some(slot) = self.slot(index) else { return };
        let call = slot.call.clone();
        let malformed = slot.malformed.take();
        let checked = match malformed {
            _ if index >= TOOL_CALLS_PER_ANSWER => Err(ToolError::new(
                ToolErrorCode::InvalidArguments,
                format!("not run: one answer may hold {TOOL_CALLS_PER_ANSWER} calls"),
            )),
            Some(written) => Err(malformed_arguments(&call, &written)),
            None => self.catalog.validate(&call),
        };
        match checked {
            Err(error) => self.settle_call(index, Err(error)),
            Ok(()) if self.catalog.has_hooks(HookPointKind::PreToolUse) => {
                let id = self.run_hooks(HookPoint::PreToolUse { call });
                self.set_stage(index, Stage::PreHooks(id));
            }
            Ok(()) => self.commit_start(index, call),
        }
    }

    fn commit_start(&mut self, index: usize, call: ToolCall) {
        self.set_stage(index, Stage::Starting);
        self.after_commit(Then::RunTool(call.id.clone()));
        self.record(SessionEventPayload::ToolExecutionStarted { call });
    }

    /// A call's start is committed: run it, unless it was cancelled meanwhile.
    pub(super) fn run_tool(&mut self, call_id: &ToolCallId) {
        let found = self.step().and_then(|step| {
            let starting =
                |slot: &CallSlot| slot.call.id == *call_id && matches!(slot.stage, Stage::Starting);
            let index = step.calls.iter().position(starting)?;
            let slot = step.calls.get(index)?;
            Some((index, slot.call.clone(), slot.traits.capabilities))
        });
        let Some((index, call, capabilities)) = found else {
            return;
        };
        let id = self.next_effect();
        let deadline = (!capabilities.long_running).then(|| self.arm_timer(TOOL_DEADLINE));
        self.effects.push(Effect::RunTool { id, call });
        self.set_stage(
            index,
            Stage::Running {
                id,
                deadline,
                overdue: false,
            },
        );
    }

    pub(super) fn tool_finished(&mut self, id: EffectId, result: Result<ToolResult, ToolError>) {
        let found = self.step().and_then(|step| {
            let failing = step.is_failing();
            step.calls
                .iter()
                .enumerate()
                .find_map(|(index, slot)| match &slot.stage {
                    Stage::Running {
                        id: running,
                        overdue,
                        ..
                    } if *running == id => Some((index, slot.call.clone(), *overdue, failing)),
                    _ => None,
                })
        });
        let Some((index, call, overdue, failing)) = found else {
            return;
        };
        let result = match result {
            Err(_) if overdue => Err(overdue_error(&call)),
            other => other,
        };
        let (kind, point) = match &result {
            Ok(result) => (
                HookPointKind::PostToolUse,
                HookPoint::PostToolUse {
                    call,
                    result: result.clone(),
                },
            ),
            Err(error) => (
                HookPointKind::PostToolUseFailure,
                HookPoint::PostToolUseFailure {
                    call,
                    error: error.clone(),
                },
            ),
        };
        if !failing && self.catalog.has_hooks(kind) {
            let id = self.run_hooks(point);
            self.set_stage(index, Stage::PostHooks { id, result });
        } else {
            self.settle_call(index, result);
            self.finish_step_if_settled();
        }
    }

    /// Hooks around a call have run.
    pub(super) fn call_hooks_finished(&mut self, id: EffectId, outcome: HookOutcome) {
        let found = self.step().and_then(|step| {
            step.calls.iter().position(|slot| {
                matches!(&slot.stage,
                    Stage::PreHooks(awaited) | Stage::PostHooks { id: awaited, .. } if *awaited == id)
            })
        });
        let Some(index) = found else { return };
        self.words.extend(outcome.messages.iter().cloned());
        let Some(slot) = self.slot(index) else { return };
        match std::mem::replace(&mut slot.stage, Stage::Waiting) {
            Stage::PreHooks(_) => self.pre_hooks_finished(index, outcome),
            Stage::PostHooks { result, .. } => self.post_hooks_finished(index, result, outcome),
            other => slot.stage = other,
        }
        self.finish_step_if_settled();
    }

    fn pre_hooks_finished(&mut self, index: usize, outcome: HookOutcome) {
        let blocked = outcome.block.clone().or_else(|| outcome.stop.clone());
        if let Some(reason) = blocked {
            let message = format!("a hook blocked this call: {reason}");
            self.settle_call(
                index,
                Err(ToolError::new(ToolErrorCode::HookBlocked, message)),
            );
            if let Some(reason) = outcome.stop {
                self.abort_step(hook_stopped(&reason));
            }
            return;
        }
        let Some(slot) = self.slot(index) else { return };
        let rewritten = outcome.updated_input.is_some();
        if let Some(input) = outcome.updated_input {
            slot.call.arguments = input;
        }
        let call = slot.call.clone();
        match rewritten.then(|| self.catalog.validate(&call)) {
            Some(Err(error)) => {
                let message = format!("a hook rewrote the input and it no longer fits: {error}");
                self.settle_call(index, Err(ToolError::new(error.code, message)));
            }
            _ => self.commit_start(index, call),
        }
    }

    fn post_hooks_finished(
        &mut self,
        index: usize,
        result: Result<ToolResult, ToolError>,
        outcome: HookOutcome,
    ) {
        let result = match (outcome.block, outcome.updated_output) {
            (Some(reason), _) => {
                let message = format!("the call ran, but a hook withheld its result: {reason}");
                Err(ToolError::new(ToolErrorCode::HookBlocked, message))
            }
            (None, Some(rewritten)) => Ok(rewritten),
            (None, None) => result,
        };
        self.settle_call(index, result);
        if let Some(reason) = outcome.stop {
            self.abort_step(hook_stopped(&reason));
        }
    }

    /// Records how a call ended and starts what waited for it.
    fn settle_call(&mut self, index: usize, result: Result<ToolResult, ToolError>) {
        let Some(slot) = self.slot(index) else { return };
        slot.stage = Stage::Done(result.clone());
        let outcome = ToolExecutionOutcome {
            call: slot.call.clone(),
            result,
        };
        self.record(SessionEventPayload::ToolExecutionCompleted { outcome });
        self.start_calls();
    }

    fn finish_step_if_settled(&mut self) {
        let Some(step) = self.step() else { return };
        if !step.settled() {
            return;
        }
        let ending = step.ending.take();
        let calls = std::mem::take(&mut step.calls);
        let repetition = self.record_results(calls);
        match ending {
            Some(ending) => self.finish_turn(ending),
            None => self.go_on_unless_repeating(repetition),
        }
    }

    /// Records the results in call order and says whether the model repeats
    /// itself.
    fn record_results(&mut self, calls: Vec<CallSlot>) -> Repetition {
        let mut worst = Repetition::Fine;
        for slot in calls {
            let Stage::Done(result) = slot.stage else {
                continue;
            };
            if !self.catalog.is_polling(&slot.call)
                && let Some(turn) = &mut self.turn
            {
                match turn.guard.observe(&slot.call, &result) {
                    Repetition::Fine => {}
                    Repetition::Warn if worst == Repetition::Stop => {}
                    seen => worst = seen,
                }
            }
            let message = tool_message(self.mint_message(), self.at, slot.call, result);
            self.record_message(Message::Tool(message));
        }
        worst
    }

    fn go_on_unless_repeating(&mut self, repetition: Repetition) {
        match repetition {
            Repetition::Fine => {}
            Repetition::Warn => self.record_system(
                "You have made the same tool call with the same result three times. Do something else, or answer with what you know."
                    .to_owned(),
            ),
            Repetition::Stop => {
                let error = TurnError::new(
                    "repeated_call",
                    "the model kept making the same tool call with the same result",
                )
                .with_hint("rephrase the task, or use another model");
                return self.finish_turn(Ending::failed(error));
            }
        }
        self.go_on();
    }

    // --- breaking off ----------------------------------------------------

    /// Breaks the step off: keeps what the model completed, settles what has
    /// not started, and gives what runs a grace to stop.
    pub(super) fn abort_step(&mut self, ending: Ending) {
        let Some(step) = self.step() else { return };
        step.ending = Some(ending);
        let stream = step.stream.take();
        if let Some(id) = stream {
            self.effects.push(Effect::CancelModel { id });
            self.record_answer(Some(StopReason::Interrupted));
        }
        let count = self.step().map_or(0, |step| step.calls.len());
        let mut running = false;
        for index in 0..count {
            running |= self.abort_call(index);
        }
        if running {
            let timer = self.arm_timer(CANCEL_GRACE);
            if let Some(step) = self.step() {
                step.grace = Some(timer);
            }
        }
        self.finish_step_if_settled();
    }

    /// Breaks a call off; true if it still runs.
    fn abort_call(&mut self, index: usize) -> bool {
        let Some(slot) = self.slot(index) else {
            return false;
        };
        match &slot.stage {
            Stage::Done(_) => false,
            Stage::Running { id, .. } => {
                let id = *id;
                self.effects.push(Effect::CancelTool { id });
                true
            }
            Stage::Waiting | Stage::Starting => {
                self.settle_call(index, Err(not_run()));
                false
            }
            Stage::PreHooks(id) => {
                let id = *id;
                self.effects.push(Effect::CancelHooks { id });
                self.settle_call(index, Err(not_run()));
                false
            }
            Stage::PostHooks { id, result } => {
                let (id, result) = (*id, result.clone());
                self.effects.push(Effect::CancelHooks { id });
                self.settle_call(index, result);
                false
            }
        }
    }

    pub(super) fn timer(&mut self, id: EffectId) {
        let Some(step) = self.step() else { return };
        if step.grace == Some(id) {
            step.grace = None;
            return self.give_up_running_calls();
        }
        let overdue = step
            .calls
            .iter_mut()
            .find_map(|slot| match &mut slot.stage {
                Stage::Running {
                    id: running,
                    deadline,
                    overdue,
                } if *deadline == Some(id) => Some((*running, deadline, overdue)),
                _ => None,
            });
        let Some((running, deadline, was_overdue)) = overdue else {
            return;
        };
        if *was_overdue {
            *deadline = None;
            return self.give_up_call(running);
        }
        *was_overdue = true;
        let timer = self.arm_timer(CANCEL_GRACE);
        self.effects.push(Effect::CancelTool { id: running });
        if let Some(step) = self.step() {
            for slot in &mut step.calls {
                if let Stage::Running { id, deadline, .. } = &mut slot.stage
                    && *id == running
                {
                    *deadline = Some(timer);
                }
            }
        }
    }

    fn give_up_running_calls(&mut self) {
        let running: Vec<EffectId> = self
            .step()
            .map(|step| {
                let id = |slot: &CallSlot| match &slot.stage {
                    Stage::Running { id, .. } => Some(*id),
                    _ => None,
                };
                step.calls.iter().filter_map(id).collect()
            })
            .unwrap_or_default();
        for id in running {
            self.give_up_call(id);
        }
    }

    /// A call did not stop in time: nobody knows what it did.
    fn give_up_call(&mut self, id: EffectId) {
        let found = self.step().and_then(|step| {
            step.calls.iter().position(
                |slot| matches!(&slot.stage, Stage::Running { id: running, .. } if *running == id),
            )
        });
        let Some(index) = found else { return };
        self.effects.push(Effect::AbandonTool { id });
        let error = ToolError::new(
            ToolErrorCode::OutcomeUnknown,
            "the call was told to stop and did not end in time: it may or may not have taken effect",
        );
        self.settle_call(index, Err(error));
        self.finish_step_if_settled();
    }

    fn set_stage(&mut self, index: usize, stage: Stage) {
        if let Some(slot) = self.slot(index) {
            slot.stage = stage;
        }
    }

    fn arm_timer(&mut self, after: std::time::Duration) -> EffectId {
        let id = self.next_effect();
        self.effects.push(Effect::ArmTimer { id, after });
        id
    }
}

/// A call's result as the message a model reads.
pub(super) fn tool_message(
    id: halter_protocol::MessageId,
    at: halter_protocol::Timestamp,
    call: ToolCall,
    result: Result<ToolResult, ToolError>,
) -> ToolMessage {
    let (content, error) = match result {
        Ok(result) => (result, None),
        Err(error) => (ToolResult::Empty, Some(error)),
    };
    ToolMessage {
        id,
        call_id: call.id,
        tool_name: call.name,
        content,
        error,
        created_at: at,
    }
}

fn shown_text(part: &AssistantPart) -> Option<&str> {
    match part {
        AssistantPart::Text { text, .. } => Some(text),
        _ => None,
    }
}

fn not_run() -> ToolError {
    ToolError::new(
        ToolErrorCode::Cancelled,
        "not run: the turn ended before the call could start",
    )
}

fn overdue_error(call: &ToolCall) -> ToolError {
    let seconds = TOOL_DEADLINE.as_secs();
    ToolError::new(
        ToolErrorCode::TimedOut,
        format!("'{}' did not finish within {seconds} s", call.name),
    )
}

fn provider_failure(error: &ProviderError) -> TurnError {
    let code = match &error.kind {
        ProviderErrorKind::RateLimited => "provider_rate_limited",
        ProviderErrorKind::Authentication => "provider_authentication",
        ProviderErrorKind::Transient => "provider_unavailable",
        ProviderErrorKind::Cancelled => "cancelled",
        _ => "provider_failed",
    };
    TurnError::new(code, error.message.clone())
}
