//! What a running call has to ask a person: questions, and approvals of what it
//! is about to do.

use super::super::recording::Then;
use super::super::turn::hook_stopped;
use super::super::{Effect, EffectId, Engine, PersonAnswer, PersonRequest, SystemNote};
use super::approval::choices;
use super::{AskProgress, Stage, ToolQuestions};
use crate::limits::TOOL_DEADLINE;
use halter_hooks::{HookEventName, HookPoint, HookVerdict};
use halter_protocol::{
    ApprovalAnswer, ApprovalChoice, ApprovalId, QuestionId, QuestionRequest, QuestionResponse,
    ResolvedBy, SessionEventPayload,
};
use std::sync::Arc;

impl Engine {
    /// A running call asks.
    pub(in crate::engine) fn tool_asks(&mut self, id: EffectId, mut request: PersonRequest) {
        let runs = |slot: &super::CallSlot| matches!(slot.stage, Stage::Running { id: it, .. } if it == id);
        let may_ask = self.position(runs).is_some();
        if !may_ask || self.step().is_none_or(|step| step.is_failing()) {
            return self.reply_unasked(&request);
        }
        let mut progress = AskProgress::Waiting;
        if let PersonRequest::Approval(request) = &mut request {
            let rule = request.rule();
            if rule.is_some_and(|rule| self.approved_rules.iter().any(|known| known == rule)) {
                let answer = PersonRequest::Approval(request.clone())
                    .answered_with(ApprovalChoice::Session.into());
                let by = ResolvedBy::User;
                return self.after_commit(Then::Reply { answer, by });
            }
            let asked = Arc::make_mut(request);
            asked.choices = choices(&asked.objection, self.facts.saves_rules);
            if self.has_hooks(HookEventName::PermissionRequest) {
                let (call, objection) = (request.call.clone(), request.objection.clone());
                let id = self.run_hooks(HookPoint::PermissionRequest { call, objection });
                progress = AskProgress::Hooks(id);
            }
        }
        if let Some(step) = self.step() {
            step.questions.push(ToolQuestions {
                tool: id,
                request,
                progress,
            });
        }
        self.open_request();
    }

    /// Whether hooks with this effect were told of what a running call asks.
    pub(super) fn hears_of_running(&mut self, id: EffectId) -> bool {
        let hears = |asked: &ToolQuestions| asked.progress == AskProgress::Hooks(id);
        self.step()
            .is_some_and(|step| step.questions.iter().any(hears))
    }

    /// Hooks may refuse what a running call asks, and cannot grant it.
    pub(super) fn running_hooks_finished(&mut self, id: EffectId, verdict: HookVerdict) {
        self.words.extend(verdict.words().map(SystemNote::from));
        let hears = |asked: &ToolQuestions| asked.progress == AskProgress::Hooks(id);
        let blocked = verdict.objection().or_else(|| verdict.stop.clone());
        match blocked {
            Some(reason) => {
                if let Some(asked) = self.take_questions(hears) {
                    let denied = ApprovalAnswer::deny(format!("a hook denied it: {reason}"));
                    let answer = asked.request.answered_with(denied);
                    let by = ResolvedBy::Withdrawn;
                    self.after_commit(Then::Reply { answer, by });
                }
                if let Some(reason) = verdict.stop {
                    self.abort_step(hook_stopped(&reason));
                }
            }
            None => {
                let asked = self
                    .step()
                    .and_then(|step| step.questions.iter_mut().find(|asked| hears(asked)));
                if let Some(asked) = asked {
                    asked.progress = AskProgress::Waiting;
                }
                self.open_request();
            }
        }
    }

    /// Puts the first request of a running call that waits; nothing else is
    /// open.
    pub(super) fn open_questions(&mut self) {
        let Some(step) = self.step() else { return };
        let is_waiting = |asked: &&mut ToolQuestions| asked.progress == AskProgress::Waiting;
        let Some(asked) = step.questions.iter_mut().find(is_waiting) else {
            return;
        };
        asked.progress = AskProgress::Recorded;
        match asked.request.clone() {
            PersonRequest::Questions(request) => {
                self.after_commit(Then::AskQuestions(request.question_id.clone()));
                self.record(SessionEventPayload::QuestionsAsked(request));
            }
            PersonRequest::Approval(request) => {
                self.after_commit(Then::Ask(request.approval_id.clone()));
                self.record(SessionEventPayload::ApprovalRequested(request));
            }
        }
    }

    /// Questions are committed: ask.
    pub(in crate::engine) fn ask_questions(&mut self, question_id: &QuestionId) {
        let id = self.next_effect();
        self.ask_running(id, |request| request.questions(question_id).is_some());
    }

    /// A request of a running call is committed: ask, unless it was withdrawn
    /// meanwhile. No deadline runs for the call that waits.
    pub(super) fn ask_running(&mut self, id: EffectId, is_it: impl Fn(&PersonRequest) -> bool) {
        let Some(step) = self.step() else { return };
        let Some(asked) = step
            .questions
            .iter_mut()
            .find(|asked| is_it(&asked.request))
        else {
            return;
        };
        asked.progress = AskProgress::Open(id);
        let (tool, request) = (asked.tool, asked.request.clone());
        for slot in &mut step.calls {
            if let Stage::Running { id, deadline, .. } = &mut slot.stage
                && *id == tool
            {
                *deadline = None;
            }
        }
        self.effects.push(Effect::Ask { id, request });
        let at = self.at;
        if let Some(turn) = &mut self.turn {
            turn.account.waits(at);
        }
    }

    /// The questions of that id, while they can be answered.
    pub fn open_question(&self, question_id: &QuestionId) -> Option<&QuestionRequest> {
        let step = self.turn.as_ref()?.step()?;
        let open = |asked: &&ToolQuestions| matches!(asked.progress, AskProgress::Open(_));
        let mut open = step.questions.iter().filter(open);
        open.find_map(|asked| asked.request.questions(question_id))
    }

    /// Somebody answered. Only the first answer counts.
    pub(in crate::engine) fn questions_answered(
        &mut self,
        question_id: &QuestionId,
        responses: Vec<QuestionResponse>,
        by: ResolvedBy,
    ) {
        let Some(request) = self.open_question(question_id) else {
            return;
        };
        // Who answers outside of the session may be wrong about the questions.
        let responses = match request.problem(&responses) {
            None => responses,
            Some(_) => request.all_skipped(),
        };
        let is_it = |asked: &ToolQuestions| asked.request.questions(question_id).is_some();
        let Some(asked) = self.take_questions(is_it) else {
            return;
        };
        let answer = PersonAnswer::Questions {
            question_id: question_id.clone(),
            responses,
        };
        self.close_questions(&asked, answer, by);
        self.goes_on(asked.tool);
        self.open_request();
    }

    /// Somebody decided about what a running call would do. Only the first
    /// answer counts.
    pub(super) fn running_answered(
        &mut self,
        approval_id: &ApprovalId,
        answer: ApprovalAnswer,
        by: ResolvedBy,
    ) {
        if self.open_approval(approval_id).is_none() {
            return;
        }
        let is_it = |asked: &ToolQuestions| asked.request.approval(approval_id).is_some();
        let Some(asked) = self.take_questions(is_it) else {
            return;
        };
        let answer = asked.request.answered_with(answer);
        self.close_questions(&asked, answer, by);
        self.goes_on(asked.tool);
        self.open_request();
    }

    /// The deadline of a call that has its answer begins anew.
    fn goes_on(&mut self, tool: EffectId) {
        let timed = self.step().and_then(|step| {
            let mut slots = step.calls.iter();
            slots.find(|slot| {
                let runs = matches!(slot.stage, Stage::Running { id, .. } if id == tool);
                runs && !slot.traits.capabilities.long_running
            })
        });
        if timed.is_some() {
            let timer = self.arm_timer(TOOL_DEADLINE);
            let slots = self.step().map(|step| step.calls.iter_mut());
            for slot in slots.into_iter().flatten() {
                if let Stage::Running { id, deadline, .. } = &mut slot.stage
                    && *id == tool
                {
                    *deadline = Some(timer);
                }
            }
        }
    }

    /// A rule holds for the session: a running call that waits to ask about
    /// what it covers need not.
    pub(super) fn running_rule_approved(&mut self, rule: &str) {
        let covered = |asked: &ToolQuestions| {
            let waits = asked.progress == AskProgress::Waiting;
            waits
                && matches!(&asked.request,
                    PersonRequest::Approval(request) if request.rule() == Some(rule))
        };
        while let Some(asked) = self.take_questions(covered) {
            let answer = asked.request.answered_with(ApprovalChoice::Session.into());
            let by = ResolvedBy::User;
            self.after_commit(Then::Reply { answer, by });
        }
    }

    /// Nobody wants to know any more: of one call, or of all.
    pub(super) fn withdraw_questions(&mut self, tool: Option<EffectId>) {
        let wanted = |asked: &ToolQuestions| tool.is_none_or(|tool| asked.tool == tool);
        while let Some(asked) = self.take_questions(wanted) {
            match asked.progress {
                AskProgress::Waiting => self.reply_unasked(&asked.request),
                AskProgress::Hooks(id) => {
                    self.effects.push(Effect::CancelHooks { id });
                    self.reply_unasked(&asked.request);
                }
                AskProgress::Recorded | AskProgress::Open(_) => {
                    let denied = ApprovalAnswer::deny("the call ended before it was answered");
                    let answer = asked.request.answered_with(denied);
                    self.close_questions(&asked, answer, ResolvedBy::Withdrawn);
                }
            }
        }
    }

    fn take_questions(&mut self, wanted: impl Fn(&ToolQuestions) -> bool) -> Option<ToolQuestions> {
        let step = self.step()?;
        let index = step.questions.iter().position(wanted)?;
        Some(step.questions.remove(index))
    }

    /// Records what became of a request that was put, and tells the call.
    fn close_questions(&mut self, asked: &ToolQuestions, answer: PersonAnswer, by: ResolvedBy) {
        if let AskProgress::Open(id) = asked.progress {
            self.effects.push(Effect::Withdraw { id });
            let at = self.at;
            if let Some(turn) = &mut self.turn {
                turn.account.goes_on(at);
            }
        }
        let answer = match (&asked.request, answer) {
            (PersonRequest::Approval(request), PersonAnswer::Approval { answer, .. }) => {
                let (choice, rule) = self.record_answer_to(request, &answer, &by);
                self.hold_rule(&choice, rule);
                asked
                    .request
                    .answered_with(ApprovalAnswer { choice, ..answer })
            }
            (_, answer) => {
                if let PersonAnswer::Questions {
                    question_id,
                    responses,
                } = &answer
                {
                    self.record(SessionEventPayload::QuestionsAnswered {
                        question_id: question_id.clone(),
                        responses: responses.clone(),
                        by: by.clone(),
                    });
                }
                answer
            }
        };
        self.after_commit(Then::Reply { answer, by });
    }

    /// Tells a call that what it asks is not put to anybody.
    fn reply_unasked(&mut self, request: &PersonRequest) {
        let answer = request.answered_with(ApprovalChoice::Deny.into());
        let by = ResolvedBy::Withdrawn;
        self.after_commit(Then::Reply { answer, by });
    }
}
