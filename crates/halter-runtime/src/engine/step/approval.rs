//! Whether a call may run: the policy's verdict, and a person's if need be.

use super::super::recording::Then;
use super::super::{Effect, EffectId, Engine};
use super::{AskProgress, CallSlot, Stage};
use halter_protocol::{
    Answer, AskedBy, Objection, PolicyVerdict, Question, QuestionId, QuestionSubject,
    SessionEventPayload, ToolError, ToolErrorCode,
};

impl Engine {
    pub(super) fn judge_call(&mut self, index: usize) {
        let id = self.next_effect();
        let Some(slot) = self.slot(index) else { return };
        slot.stage = Stage::Judging(id);
        let (call, actions) = (slot.call.clone(), slot.actions.clone());
        self.effects.push(Effect::Judge { id, call, actions });
    }

    pub(in crate::engine) fn judged(
        &mut self,
        id: EffectId,
        verdict: Result<PolicyVerdict, ToolError>,
    ) {
        let judging = |slot: &CallSlot| matches!(slot.stage, Stage::Judging(it) if it == id);
        let Some(index) = self.position(judging) else {
            return;
        };
        let hook_asks = self.slot(index).and_then(|slot| slot.hook_asks.take());
        match (verdict, hook_asks) {
            (Err(error), _) => self.settle_call(index, Err(error)),
            (Ok(PolicyVerdict::Deny(objection)), _) => {
                let denied = ToolError::new(ToolErrorCode::PolicyDenied, objection.message);
                self.settle_call(index, Err(denied));
            }
            (Ok(PolicyVerdict::Ask(objection)), _) => {
                self.ask_about(index, AskedBy::Policy, objection);
            }
            (Ok(PolicyVerdict::Allow), Some(objection)) => {
                self.ask_about(index, AskedBy::Hook, objection);
            }
            (Ok(PolicyVerdict::Allow), None) => self.commit_start(index),
        }
        self.finish_step_if_settled();
    }

    fn ask_about(&mut self, index: usize, asked_by: AskedBy, objection: Objection) {
        let id = QuestionId::mint(&self.ids, self.at);
        let Some(slot) = self.slot(index) else { return };
        let question = Question {
            id,
            subject: QuestionSubject::Approval {
                call: slot.call.clone(),
                actions: slot.actions.clone(),
                asked_by,
                objection,
            },
        };
        slot.stage = Stage::Asking {
            question: Box::new(question),
            progress: AskProgress::Waiting,
        };
        self.open_question();
    }

    /// Puts the first question that waits, unless another is open or the model
    /// still speaks.
    pub(super) fn open_question(&mut self) {
        let Some(step) = self.step() else { return };
        if step.stream.is_some() || step.is_failing() {
            return;
        }
        let asking = step
            .calls
            .iter_mut()
            .filter_map(|slot| match &mut slot.stage {
                Stage::Asking { question, progress } => Some((question, progress)),
                _ => None,
            });
        let mut first = None;
        for (question, progress) in asking {
            match progress {
                AskProgress::Waiting => first = first.or(Some((question, progress))),
                AskProgress::Recorded | AskProgress::Open(_) => return,
            }
        }
        let Some((question, progress)) = first else {
            return;
        };
        *progress = AskProgress::Recorded;
        let question = Question::clone(question);
        self.after_commit(Then::Ask(question.id.clone()));
        self.record(SessionEventPayload::QuestionAsked { question });
    }

    /// A question is committed: ask it, unless it was withdrawn meanwhile.
    pub(in crate::engine) fn ask(&mut self, question_id: &QuestionId) {
        let id = self.next_effect();
        let slots = self.step().map(|step| step.calls.iter_mut());
        let asked = slots.into_iter().flatten().find_map(|slot| {
            let Stage::Asking { question, progress } = &mut slot.stage else {
                return None;
            };
            (question.id == *question_id).then_some((question, progress))
        });
        if let Some((question, progress)) = asked {
            *progress = AskProgress::Open(id);
            let question = Question::clone(question);
            self.effects.push(Effect::Ask { id, question });
        }
    }

    pub(in crate::engine) fn answered(&mut self, id: EffectId, answer: Answer) {
        let open = |slot: &CallSlot| {
            let Stage::Asking { progress, .. } = &slot.stage else {
                return false;
            };
            *progress == AskProgress::Open(id)
        };
        let Some(index) = self.position(open) else {
            return;
        };
        let Some(slot) = self.slot(index) else { return };
        let Stage::Asking { question, .. } = std::mem::replace(&mut slot.stage, Stage::Starting)
        else {
            return;
        };
        self.record(SessionEventPayload::QuestionAnswered {
            question_id: question.id.clone(),
            answer: answer.clone(),
        });
        match answer {
            Answer::Allow => self.commit_start(index),
            Answer::Deny { reason } => {
                self.settle_call(index, Err(not_approved(&question, &reason)));
            }
            _ => self.settle_call(index, Err(not_approved(&question, "it was not allowed"))),
        }
        self.open_question();
        self.finish_step_if_settled();
    }

    /// Nobody wants to know the answer any more.
    pub(super) fn withdraw(&mut self, question_id: QuestionId, progress: AskProgress) {
        if let AskProgress::Open(id) = progress {
            self.effects.push(Effect::Withdraw { id });
        }
        if progress != AskProgress::Waiting {
            let answer = Answer::Deny {
                reason: "the turn ended before it was answered".to_owned(),
            };
            self.record(SessionEventPayload::QuestionAnswered {
                question_id,
                answer,
            });
        }
    }

    fn position(&mut self, wanted: impl Fn(&CallSlot) -> bool) -> Option<usize> {
        self.step()
            .and_then(|step| step.calls.iter().position(wanted))
    }
}

fn not_approved(question: &Question, reason: &str) -> ToolError {
    let QuestionSubject::Approval {
        asked_by,
        objection,
        ..
    } = &question.subject
    else {
        return ToolError::new(ToolErrorCode::PolicyDenied, reason);
    };
    let why = match objection.message.as_str() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    if *asked_by == AskedBy::Hook {
        let message = format!(
            "a hook blocked this call: a hook wants a person to approve this, and {reason}{why}"
        );
        return ToolError::new(ToolErrorCode::HookBlocked, message);
    }
    let message = format!("a person has to approve this, and {reason}{why}");
    ToolError::new(ToolErrorCode::PolicyDenied, message)
}
