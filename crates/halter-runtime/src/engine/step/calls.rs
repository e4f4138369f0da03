//! The calls of an answer, from the model's wish to the result it sees.

use super::super::guard::Repetition;
use super::super::recording::Then;
use super::super::traits::malformed_arguments;
use super::super::turn::{Ending, hook_stopped};
use super::super::{CallFacts, Effect, EffectId, Engine, SystemNote};
use super::{CallSlot, Stage};
use crate::budget::{Shortage, exceeded};
use crate::limits::{TOOL_CALLS_PER_ANSWER, TOOL_DEADLINE};
use halter_hooks::payload::tool_result;
use halter_hooks::{HookEventName, HookPoint, HookVerdict, PermissionDecision};
use halter_protocol::{
    Action, HookOpinion, MemoryChange, Message, MessageId, SessionEventPayload, Timestamp,
    ToolCall, ToolCallId, ToolError, ToolErrorCode, ToolExecutionOutcome, ToolMessage, ToolResult,
    TurnError,
};
use std::sync::Arc;

impl Engine {
    pub(super) fn start_calls(&mut self) {
        while let Some(index) = self.step().and_then(|step| step.next_startable()) {
            self.begin_call(index);
        }
    }

    fn begin_call(&mut self, index: usize) {
        let Some(slot) = self.slot(index) else { return };
        let call = slot.call.clone();
        let malformed = slot.malformed.take();
        if self.is_final_call(&call) {
            let heard = self.final_call(&call, malformed.as_deref());
            return self.settle_call(index, heard.map(Arc::new));
        }
        if index >= TOOL_CALLS_PER_ANSWER {
            let message = format!("not run: one answer may hold {TOOL_CALLS_PER_ANSWER} calls");
            let error = ToolError::new(ToolErrorCode::InvalidArguments, message);
            return self.settle_call(index, Err(error));
        }
        match malformed {
            Some(written) => self.settle_call(index, Err(malformed_arguments(&call, &written))),
            None => self.check_call(index, call, false),
        }
    }

    fn check_call(&mut self, index: usize, call: ToolCall, rewritten: bool) {
        let id = self.next_effect();
        self.set_stage(index, Stage::Checking { id, rewritten });
        self.effects.push(Effect::CheckCall { id, call });
    }

    pub(in crate::engine) fn call_checked(
        &mut self,
        id: EffectId,
        check: Result<CallFacts, ToolError>,
        remembered: Vec<MemoryChange>,
    ) {
        let found = self.step().and_then(|step| {
            let mut slots = step.calls.iter().enumerate();
            slots.find_map(|(index, slot)| match slot.stage {
                Stage::Checking {
                    id: awaited,
                    rewritten,
                } if awaited == id => Some((index, slot.call.clone(), rewritten)),
                _ => None,
            })
        });
        let Some((index, call, rewritten)) = found else {
            return;
        };
        if let Some(slot) = self.slot(index) {
            slot.remembered = remembered;
        }
        match check {
            Err(error) if rewritten => {
                let message = format!("a hook rewrote the input and it no longer fits: {error}");
                self.settle_call(index, Err(ToolError::new(error.code, message)));
            }
            Err(error) => self.settle_call(index, Err(error)),
            Ok(facts) => {
                if let Some(slot) = self.slot(index) {
                    slot.actions = facts.actions;
                    slot.polling = facts.polling;
                }
                if !rewritten && self.has_hooks(HookEventName::PreToolUse) {
                    let id = self.run_hooks(HookPoint::PreToolUse { call });
                    return self.set_stage(index, Stage::PreHooks(id));
                }
                self.judge_call(index);
            }
        }
        self.finish_step_if_settled();
    }

    /// Lets an allowed call run, if the budgets have room for it.
    pub(super) fn admit_start(&mut self, index: usize) {
        if !self.budgets().limit_tools() {
            return self.commit_start(index);
        }
        if let Some(id) = self.reserve_tool_call() {
            self.set_stage(index, Stage::Reserving(id));
        }
    }

    pub(in crate::engine) fn tool_call_reserved(
        &mut self,
        id: EffectId,
        granted: Result<(), Shortage>,
    ) {
        let reserving = |slot: &CallSlot| matches!(slot.stage, Stage::Reserving(it) if it == id);
        let found = self.position(reserving);
        match (found, granted) {
            (None, Ok(())) => self.release(id),
            (None, Err(_)) => {}
            (Some(index), Ok(())) => {
                self.charge_tool_call(id);
                self.commit_start(index);
            }
            (Some(index), Err(shortage)) => {
                let error = exceeded(&shortage);
                let message = format!("not run: {}", error.message);
                self.settle_call(
                    index,
                    Err(ToolError::new(ToolErrorCode::BudgetExceeded, message)),
                );
                self.record(SessionEventPayload::BudgetExceeded(shortage.limit));
                self.start_no_more(Ending::failed(error));
            }
        }
        self.finish_step_if_settled();
    }

    fn commit_start(&mut self, index: usize) {
        let Some(slot) = self.slot(index) else { return };
        slot.stage = Stage::Starting;
        let runs = |action: &Action| matches!(action, Action::Run { .. });
        let mutating = slot.traits.capabilities.mutating || slot.actions.iter().any(runs);
        let call = slot.call.clone();
        self.after_commit(Then::RunTool(call.id.clone()));
        let started = SessionEventPayload::ToolExecutionStarted { call };
        // What only reads may share the next commit.
        match mutating {
            true => self.record(started),
            false => self.record_buffered(started),
        }
    }

    /// A call's start is committed: run it, unless it was cancelled meanwhile.
    pub(in crate::engine) fn run_tool(&mut self, call_id: &ToolCallId) {
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
                started_at: self.at,
            },
        );
    }

    pub(in crate::engine) fn tool_finished(
        &mut self,
        id: EffectId,
        result: Result<Arc<ToolResult>, ToolError>,
        remembered: Vec<MemoryChange>,
        note: Option<SystemNote>,
    ) {
        let found = self.step().and_then(|step| {
            let failing = step.is_failing();
            step.calls
                .iter()
                .enumerate()
                .find_map(|(index, slot)| match &slot.stage {
                    Stage::Running {
                        id: running,
                        overdue,
                        started_at,
                        ..
                    } if *running == id => {
                        let call = slot.call.clone();
                        Some((index, call, *overdue, *started_at, failing))
                    }
                    _ => None,
                })
        });
        let Some((index, call, overdue, started_at, failing)) = found else {
            return;
        };
        self.words.extend(note);
        self.withdraw_questions(Some(id));
        self.open_request();
        if let Some(slot) = self.slot(index) {
            slot.remembered = remembered;
        }
        let result = match result {
            Err(_) if overdue => Err(overdue_error(&call)),
            other => other,
        };
        let event = match &result {
            Ok(_) => HookEventName::PostToolUse,
            Err(_) => HookEventName::PostToolUseFailure,
        };
        if failing || !self.has_hooks(event) {
            self.settle_call(index, result);
            return self.finish_step_if_settled();
        }
        let took = self.at.duration_since(started_at).as_millis();
        let duration_ms = u64::try_from(took).unwrap_or(0);
        let id = self.run_hooks(match result.clone() {
            Ok(result) => HookPoint::PostToolUse {
                call,
                result,
                duration_ms,
            },
            Err(error) => HookPoint::PostToolUseFailure {
                call,
                error,
                duration_ms,
            },
        });
        self.set_stage(index, Stage::PostHooks { id, result });
    }

    /// Hooks around a call have run.
    pub(in crate::engine) fn call_hooks_finished(&mut self, id: EffectId, verdict: HookVerdict) {
        if self.hears_of_running(id) {
            return self.running_hooks_finished(id, verdict);
        }
        let found = self.step().and_then(|step| {
            step.calls.iter().position(|slot| {
                matches!(&slot.stage,
                    Stage::PreHooks(awaited)
                    | Stage::RequestHooks { id: awaited, .. }
                    | Stage::PostHooks { id: awaited, .. } if *awaited == id)
            })
        });
        let Some(index) = found else { return };
        self.words.extend(verdict.words().map(SystemNote::from));
        let Some(slot) = self.slot(index) else { return };
        match std::mem::replace(&mut slot.stage, Stage::Waiting) {
            Stage::PreHooks(_) => self.pre_hooks_finished(index, verdict),
            Stage::RequestHooks { request, .. } => {
                self.request_hooks_finished(index, request, verdict);
            }
            Stage::PostHooks { result, .. } => self.post_hooks_finished(index, result, verdict),
            other => slot.stage = other,
        }
        self.finish_step_if_settled();
    }

    fn pre_hooks_finished(&mut self, index: usize, verdict: HookVerdict) {
        let blocked = verdict.objection().or_else(|| verdict.stop.clone());
        if let Some(reason) = blocked {
            let message = format!("a hook blocked this call: {reason}");
            self.settle_call(
                index,
                Err(ToolError::new(ToolErrorCode::HookBlocked, message)),
            );
            if let Some(reason) = verdict.stop {
                self.abort_step(hook_stopped(&reason));
            }
            return;
        }
        let Some(slot) = self.slot(index) else { return };
        slot.hook = match verdict.permission {
            PermissionDecision::Ask => {
                HookOpinion::Ask(verdict.permission_reason.unwrap_or_default())
            }
            PermissionDecision::Allow => HookOpinion::Allow,
            _ => HookOpinion::Nothing,
        };
        match verdict.updated_input {
            Some(input) => {
                slot.call.arguments = input;
                let call = slot.call.clone();
                self.check_call(index, call, true);
            }
            None => self.judge_call(index),
        }
    }

    fn post_hooks_finished(
        &mut self,
        index: usize,
        result: Result<Arc<ToolResult>, ToolError>,
        verdict: HookVerdict,
    ) {
        let conflict = verdict.conflict.as_ref().map(ToString::to_string);
        let blocked = verdict.objection().or(conflict);
        let given = result.as_deref().unwrap_or(&ToolResult::Empty);
        let rewritten = verdict.updated_output.map(|it| tool_result(it, given));
        let result = match (blocked, rewritten) {
            (Some(reason), _) => Err(withheld(&reason)),
            (None, Some(Err(unusable))) => Err(withheld(&unusable.to_string())),
            (None, Some(Ok(rewritten))) => Ok(rewritten.into()),
            (None, None) => result,
        };
        self.settle_call(index, result);
        if let Some(reason) = verdict.stop {
            self.abort_step(hook_stopped(&reason));
        }
    }

    /// Records how a call ended and starts what waited for it.
    pub(super) fn settle_call(&mut self, index: usize, result: Result<Arc<ToolResult>, ToolError>) {
        let result = result.map(|result| self.admit_result(result));
        let Some(slot) = self.slot(index) else { return };
        slot.stage = Stage::Done(result.clone());
        let exhausted = result.as_ref().err().and_then(exhausted);
        let outcome = ToolExecutionOutcome {
            call: slot.call.clone(),
            result,
            remembered: std::mem::take(&mut slot.remembered),
        };
        slot.loaded = outcome.loaded_tools();
        self.record(SessionEventPayload::ToolExecutionCompleted { outcome });
        match exhausted {
            Some(ending) if self.step().is_some_and(|step| !step.is_failing()) => {
                self.abort_step(ending);
            }
            _ => self.start_calls(),
        }
    }

    /// The result with only what the session has room for, beside the results
    /// that join it at the same time.
    fn admit_result(&mut self, result: Arc<ToolResult>) -> Arc<ToolResult> {
        let mut ledger = self.media;
        let limits = self.turn.as_ref().map(|turn| turn.media.clone());
        let calls = self.step().map(|step| step.calls.iter());
        for slot in calls.into_iter().flatten() {
            if let Stage::Done(Ok(beside)) = &slot.stage {
                ledger.count_result(beside);
            }
        }
        ledger.admit_result(result, &limits.unwrap_or_default())
    }

    pub(super) fn finish_step_if_settled(&mut self) {
        let Some(step) = self.step() else { return };
        if !step.settled() {
            return;
        }
        let ending = step.ending.take();
        let calls = std::mem::take(&mut step.calls);
        let repetition = self.record_results(calls);
        match ending {
            Some(ending) => self.finish_turn(ending),
            None if self.settle_structured() => {}
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
            if !self.is_final_call(&slot.call)
                && !slot.polling
                && let Some(turn) = &mut self.turn
            {
                match turn.guard.observe(&slot.call, &result) {
                    Repetition::Fine => {}
                    Repetition::Warn if worst == Repetition::Stop => {}
                    seen => worst = seen,
                }
            }
            let message = ToolMessage {
                loaded: slot.loaded,
                ..tool_message(self.mint_message(), self.at, slot.call, result)
            };
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
}

/// A call's result as the message a model reads.
pub(in crate::engine) fn tool_message(
    id: MessageId,
    at: Timestamp,
    call: ToolCall,
    result: Result<Arc<ToolResult>, ToolError>,
) -> ToolMessage {
    let (content, error) = match result {
        Ok(result) => (result, None),
        Err(error) => (ToolResult::Empty.into(), Some(error)),
    };
    ToolMessage {
        id,
        call_id: call.id,
        tool_name: call.name,
        content,
        error,
        created_at: at,
        loaded: Vec::new(),
    }
}

/// How a turn ends whose call failed because no call can work.
fn exhausted(error: &ToolError) -> Option<Ending> {
    (error.code == ToolErrorCode::OutOfDescriptors).then(|| {
        let error = TurnError::new("out_of_descriptors", error.message.clone())
            .with_hint("raise the limit of open files (ulimit -n), or run fewer sessions at once");
        Ending::failed(error)
    })
}

fn withheld(reason: &str) -> ToolError {
    let message = format!("the call ran, but a hook withheld its result: {reason}");
    ToolError::new(ToolErrorCode::HookBlocked, message)
}

fn overdue_error(call: &ToolCall) -> ToolError {
    let seconds = TOOL_DEADLINE.as_secs();
    ToolError::new(
        ToolErrorCode::TimedOut,
        format!("'{}' did not finish within {seconds} s", call.name),
    )
}
