//! Questions that a running call has for a person.

use super::super::recording::Then;
use super::super::{Effect, EffectId, Engine, PersonRequest};
use super::{AskProgress, Stage, ToolQuestions};
use crate::limits::TOOL_DEADLINE;
use halter_protocol::{
    QuestionId, QuestionRequest, QuestionResponse, ResolvedBy, SessionEventPayload,
};
use std::sync::Arc;

impl Engine {
    /// A running call wants to know something.
    pub(in crate::engine) fn tool_asks(&mut self, id: EffectId, request: Arc<QuestionRequest>) {
        let runs = |slot: &super::CallSlot| matches!(slot.stage, Stage::Running { id: it, .. } if it == id);
        let may_ask = self.position(runs).is_some();
        match self.step().filter(|step| may_ask && !step.is_failing()) {
            Some(step) => step.questions.push(ToolQuestions {
                tool: id,
                request,
                progress: AskProgress::Waiting,
            }),
            None => return self.reply(&request, request.all_skipped(), ResolvedBy::Withdrawn),
        }
        self.open_request();
    }

    /// Puts the first questions that wait; nothing else is open.
    pub(super) fn open_questions(&mut self) {
        let Some(step) = self.step() else { return };
        let is_waiting = |asked: &&mut ToolQuestions| asked.progress == AskProgress::Waiting;
        let Some(asked) = step.questions.iter_mut().find(is_waiting) else {
            return;
        };
        asked.progress = AskProgress::Recorded;
        let request = asked.request.clone();
        self.after_commit(Then::AskQuestions(request.question_id.clone()));
        self.record(SessionEventPayload::QuestionsAsked(request));
    }

    /// Questions are committed: ask, unless they were withdrawn meanwhile. No
    /// deadline runs for the call that waits.
    pub(in crate::engine) fn ask_questions(&mut self, question_id: &QuestionId) {
        let id = self.next_effect();
        let Some(step) = self.step() else { return };
        let is_it = |asked: &&mut ToolQuestions| asked.request.question_id == *question_id;
        let Some(asked) = step.questions.iter_mut().find(is_it) else {
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
        let request = PersonRequest::Questions(request);
        self.effects.push(Effect::Ask { id, request });
        let at = self.at;
        if let Some(turn) = &mut self.turn {
            turn.account.waits(at);
        }
    }

    /// The questions of that id, while they can be answered.
    pub fn open_question(&self, question_id: &QuestionId) -> Option<&QuestionRequest> {
        let step = self.turn.as_ref()?.step()?;
        let open = step.questions.iter().find(|asked| {
            asked.request.question_id == *question_id
                && matches!(asked.progress, AskProgress::Open(_))
        });
        open.map(|asked| asked.request.as_ref())
    }

    /// Somebody answered. Only the first answer counts.
    pub(in crate::engine) fn questions_answered(
        &mut self,
        question_id: &QuestionId,
        responses: Vec<QuestionResponse>,
        by: ResolvedBy,
    ) {
        if self.open_question(question_id).is_none() {
            return;
        }
        let Some(asked) = self.take_questions(|asked| asked.request.question_id == *question_id)
        else {
            return;
        };
        // Who answers outside of the session may be wrong about the questions.
        let responses = match asked.request.problem(&responses) {
            None => responses,
            Some(_) => asked.request.all_skipped(),
        };
        self.close_questions(&asked, responses, by);
        let timed = self.step().and_then(|step| {
            let mut slots = step.calls.iter();
            slots.find(|slot| {
                let runs = matches!(slot.stage, Stage::Running { id, .. } if id == asked.tool);
                runs && !slot.traits.capabilities.long_running
            })
        });
        if timed.is_some() {
            let timer = self.arm_timer(TOOL_DEADLINE);
            let slots = self.step().map(|step| step.calls.iter_mut());
            for slot in slots.into_iter().flatten() {
                if let Stage::Running { id, deadline, .. } = &mut slot.stage
                    && *id == asked.tool
                {
                    *deadline = Some(timer);
                }
            }
        }
        self.open_request();
    }

    /// Nobody wants to know any more: of one call, or of all.
    pub(super) fn withdraw_questions(&mut self, tool: Option<EffectId>) {
        let wanted = |asked: &ToolQuestions| tool.is_none_or(|tool| asked.tool == tool);
        while let Some(asked) = self.take_questions(wanted) {
            let skipped = asked.request.all_skipped();
            match asked.progress {
                AskProgress::Waiting => self.reply(&asked.request, skipped, ResolvedBy::Withdrawn),
                _ => self.close_questions(&asked, skipped, ResolvedBy::Withdrawn),
            }
        }
    }

    fn take_questions(&mut self, wanted: impl Fn(&ToolQuestions) -> bool) -> Option<ToolQuestions> {
        let step = self.step()?;
        let index = step.questions.iter().position(wanted)?;
        Some(step.questions.remove(index))
    }

    /// Records what became of questions that were put, and tells the call.
    fn close_questions(
        &mut self,
        asked: &ToolQuestions,
        responses: Vec<QuestionResponse>,
        by: ResolvedBy,
    ) {
        if let AskProgress::Open(id) = asked.progress {
            self.effects.push(Effect::Withdraw { id });
            let at = self.at;
            if let Some(turn) = &mut self.turn {
                turn.account.goes_on(at);
            }
        }
        self.record(SessionEventPayload::QuestionsAnswered {
            question_id: asked.request.question_id.clone(),
            responses: responses.clone(),
            by: by.clone(),
        });
        self.reply(&asked.request, responses, by);
    }

    /// Tells the call once the answers are in the log.
    fn reply(
        &mut self,
        request: &QuestionRequest,
        responses: Vec<QuestionResponse>,
        by: ResolvedBy,
    ) {
        self.after_commit(Then::Reply {
            question_id: request.question_id.clone(),
            responses,
            by,
        });
    }
}
