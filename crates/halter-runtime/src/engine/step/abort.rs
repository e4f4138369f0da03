//! Breaking a step off: a cancel, a broken stream, a tool that hangs.

use super::super::turn::Ending;
use super::super::{Effect, EffectId, Engine};
use super::{CallSlot, Stage};
use crate::limits::CANCEL_GRACE;
use halter_protocol::{StopReason, ToolError, ToolErrorCode};

impl Engine {
    /// Breaks the step off: keeps what the model completed, settles what has
    /// not started, and gives what runs a grace to stop.
    pub(in crate::engine) fn abort_step(&mut self, ending: Ending) {
        let Some(step) = self.step() else { return };
        step.ending = Some(ending);
        let stream = step.stream.take();
        if let Some(id) = stream {
            self.effects.push(Effect::CancelModel { id });
            self.record_answer(Some(StopReason::Interrupted));
        }
        self.withdraw_questions(None);
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

    /// Starts no further call of the step; those that run may finish.
    pub(super) fn start_no_more(&mut self, ending: Ending) {
        let Some(step) = self.step() else { return };
        step.ending.get_or_insert(ending);
        let stream = step.stream.take();
        if let Some(id) = stream {
            self.effects.push(Effect::CancelModel { id });
            self.record_answer(Some(StopReason::Interrupted));
        }
        self.withdraw_questions(None);
        let count = self.step().map_or(0, |step| step.calls.len());
        for index in 0..count {
            let runs = |slot: &CallSlot| {
                matches!(slot.stage, Stage::Running { .. } | Stage::PostHooks { .. })
            };
            if self.slot(index).is_some_and(|slot| !runs(slot)) {
                self.abort_call(index);
            }
        }
    }

    /// Breaks a call off; true if it still runs.
    fn abort_call(&mut self, index: usize) -> bool {
        let Some(slot) = self.slot(index) else {
            return false;
        };
        match &slot.stage {
            Stage::Done(_) => false,
            Stage::Running { id, .. } => {
                let (id, cancellable) = (*id, slot.traits.capabilities.cancellable);
                if cancellable {
                    self.effects.push(Effect::CancelTool { id });
                }
                true
            }
            Stage::Asking { request, progress } => {
                let (approval_id, progress) = (request.approval_id.clone(), *progress);
                self.withdraw(approval_id, progress);
                self.settle_call(index, Err(not_run()));
                false
            }
            Stage::Waiting
            | Stage::Checking { .. }
            | Stage::Judging { .. }
            | Stage::Reserving(_)
            | Stage::Starting => {
                self.settle_call(index, Err(not_run()));
                false
            }
            Stage::PreHooks(id) | Stage::RequestHooks { id, .. } => {
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

    pub(in crate::engine) fn timer(&mut self, id: EffectId) {
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
                    ..
                } if *deadline == Some(id) => {
                    let cancellable = slot.traits.capabilities.cancellable;
                    Some((*running, deadline, overdue, cancellable))
                }
                _ => None,
            });
        let Some((running, deadline, was_overdue, cancellable)) = overdue else {
            return;
        };
        if *was_overdue {
            *deadline = None;
            return self.give_up_call(running);
        }
        *was_overdue = true;
        let timer = self.arm_timer(CANCEL_GRACE);
        if cancellable {
            self.effects.push(Effect::CancelTool { id: running });
        }
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
        self.withdraw_questions(Some(id));
        let error = ToolError::new(
            ToolErrorCode::OutcomeUnknown,
            "the call was told to stop and did not end in time: it may or may not have taken effect",
        );
        self.settle_call(index, Err(error));
        self.finish_step_if_settled();
    }
}

fn not_run() -> ToolError {
    ToolError::new(
        ToolErrorCode::Cancelled,
        "not run: the turn ended before the call could start",
    )
}
