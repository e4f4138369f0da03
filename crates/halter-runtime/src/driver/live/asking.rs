//! Putting requests to a person, and handing answers to running tools.

use super::{Owner, Running};
use crate::approvals::Approvals;
use crate::engine::{EffectId, Input, PersonAnswer, PersonRequest};
use async_trait::async_trait;
use futures::FutureExt;
use halter_protocol::{
    ApprovalAnswer, ApprovalChoice, IdSource, Question, QuestionId, QuestionRequest,
    QuestionResponse, ResolvedBy, Timestamp, ToolCall,
};
use halter_tools::{Answers, QuestionAsker};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The running tools that wait for answers, by their questions.
#[derive(Clone, Default)]
pub(crate) struct WaitingTools(Arc<Mutex<HashMap<QuestionId, oneshot::Sender<Answers>>>>);

impl WaitingTools {
    fn insert(&self, id: QuestionId, sender: oneshot::Sender<Answers>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(id, sender);
    }

    fn take(&self, id: &QuestionId) -> Option<oneshot::Sender<Answers>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(id)
    }

    /// Hands a tool the answers to its questions, if it still waits.
    pub fn reply(&self, id: &QuestionId, responses: Vec<QuestionResponse>, by: ResolvedBy) {
        if let Some(waiting) = self.take(id) {
            let _ = waiting.send(Answers { responses, by });
        }
    }
}

/// Puts the questions of one running call to a person.
pub(super) struct SessionAsker {
    pub id: EffectId,
    pub call: ToolCall,
    pub waiting: WaitingTools,
    pub sender: mpsc::UnboundedSender<Input>,
    pub ids: Arc<dyn IdSource>,
    pub at: Timestamp,
}

#[async_trait]
impl QuestionAsker for SessionAsker {
    async fn ask(&self, questions: Vec<Question>) -> Answers {
        let question_id = QuestionId::mint(self.ids.as_ref(), self.at);
        let request = Arc::new(QuestionRequest {
            question_id: question_id.clone(),
            call_id: self.call.id.clone(),
            tool_name: self.call.name.clone(),
            questions,
        });
        let (sender, answers) = oneshot::channel();
        self.waiting.insert(question_id.clone(), sender);
        let _forgotten = Forget(&self.waiting, &question_id);
        let asks = Input::ToolAsks {
            id: self.id,
            request: request.clone(),
        };
        let nobody = || Answers {
            responses: request.all_skipped(),
            by: ResolvedBy::Withdrawn,
        };
        match self.sender.send(asks) {
            Ok(()) => answers.await.unwrap_or_else(|_| nobody()),
            Err(_) => nobody(),
        }
    }
}

/// Forgets questions once nobody waits for their answers.
struct Forget<'a>(&'a WaitingTools, &'a QuestionId);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.take(self.1);
    }
}

impl Owner {
    pub(super) fn ask(
        &mut self,
        id: EffectId,
        request: PersonRequest,
        running: &mut Running,
    ) -> Option<Input> {
        if let Some(answer) = self.unasked(&request) {
            return Some(answer);
        }
        let handler = match &self.services.approvals {
            Approvals::Handler(handler) => handler.clone(),
            Approvals::Attended => {
                if let PersonRequest::Approval(request) = &request {
                    self.ask_above(id, request, running);
                }
                return None;
            }
            Approvals::Unattended => {
                return Some(Input::Answered {
                    answer: refusal(&request, ApprovalChoice::Deny.into()),
                    by: ResolvedBy::Unattended,
                });
            }
        };
        let cancel = CancellationToken::new();
        running.cancels.insert(id, cancel.clone());
        let session_id = self.blueprint.session_id.clone();
        let sender = running.outcome_sender.clone();
        running.tasks.spawn(async move {
            let asked = AssertUnwindSafe(async {
                match &request {
                    PersonRequest::Approval(request) => PersonAnswer::Approval {
                        approval_id: request.approval_id.clone(),
                        answer: handler.decide(&session_id, request).await,
                    },
                    PersonRequest::Questions(request) => PersonAnswer::Questions {
                        question_id: request.question_id.clone(),
                        responses: handler.answer(&session_id, request).await,
                    },
                }
            });
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                answer = asked.catch_unwind() => answer,
            };
            let broken = |_| {
                refusal(
                    &request,
                    ApprovalAnswer::deny("the approval handler panicked"),
                )
            };
            let answer = answer.unwrap_or_else(broken);
            let by = ResolvedBy::Handler;
            let _ = sender.send(Input::Answered { answer, by });
        });
        None
    }
}

/// No, and no answer to any question.
pub(super) fn refusal(request: &PersonRequest, answer: ApprovalAnswer) -> PersonAnswer {
    match request {
        PersonRequest::Approval(request) => PersonAnswer::Approval {
            approval_id: request.approval_id.clone(),
            answer,
        },
        PersonRequest::Questions(request) => PersonAnswer::Questions {
            question_id: request.question_id.clone(),
            responses: request.all_skipped(),
        },
    }
}
