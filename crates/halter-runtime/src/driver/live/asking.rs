//! Putting requests to a person, and handing answers to running tools.

use super::{Owner, Running};
use crate::approvals::Approvals;
use crate::engine::{EffectId, Input, PersonAnswer, PersonRequest};
use async_trait::async_trait;
use futures::FutureExt;
use halter_protocol::{
    Action, ApprovalAnswer, ApprovalChoice, ApprovalId, ApprovalRequest, AskedBy, IdSource,
    Objection, Question, QuestionId, QuestionRequest, ResolvedBy, Timestamp, ToolCall,
};
use halter_tools::{Answers, QuestionAsker};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The running tools that wait for answers, by what they asked.
#[derive(Clone, Default)]
pub(crate) struct WaitingTools(Arc<Mutex<HashMap<String, oneshot::Sender<ToolAnswer>>>>);

/// What a running tool is told.
type ToolAnswer = (PersonAnswer, ResolvedBy);

impl WaitingTools {
    fn insert(&self, id: &str, sender: oneshot::Sender<ToolAnswer>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(id.to_owned(), sender);
    }

    fn take(&self, id: &str) -> Option<oneshot::Sender<ToolAnswer>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(id)
    }

    /// Hands a tool the answer to what it asked, if it still waits.
    pub fn reply(&self, answer: PersonAnswer, by: ResolvedBy) {
        let id = match &answer {
            PersonAnswer::Approval { approval_id, .. } => approval_id.as_str(),
            PersonAnswer::Questions { question_id, .. } => question_id.as_str(),
        };
        if let Some(waiting) = self.take(id) {
            let _ = waiting.send((answer, by));
        }
    }
}

/// Puts what one running call asks to a person.
pub(super) struct SessionAsker {
    pub id: EffectId,
    pub call: ToolCall,
    pub waiting: WaitingTools,
    pub sender: mpsc::UnboundedSender<Input>,
    pub ids: Arc<dyn IdSource>,
    pub at: Timestamp,
}

impl SessionAsker {
    /// The answer; none if nobody is there to ask.
    async fn put(&self, id: &str, request: PersonRequest) -> Option<ToolAnswer> {
        let (sender, answer) = oneshot::channel();
        self.waiting.insert(id, sender);
        let _forgotten = Forget(&self.waiting, id);
        let asks = Input::ToolAsks {
            id: self.id,
            request,
        };
        self.sender.send(asks).ok()?;
        answer.await.ok()
    }
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
        let asked = PersonRequest::Questions(request.clone());
        match self.put(question_id.as_str(), asked).await {
            Some((PersonAnswer::Questions { responses, .. }, by)) => Answers { responses, by },
            _ => Answers {
                responses: request.all_skipped(),
                by: ResolvedBy::Withdrawn,
            },
        }
    }

    async fn approve(&self, actions: Vec<Action>, objection: Objection) -> ApprovalChoice {
        let approval_id = ApprovalId::mint(self.ids.as_ref(), self.at);
        let request = PersonRequest::Approval(Arc::new(ApprovalRequest {
            approval_id: approval_id.clone(),
            call: self.call.clone(),
            actions,
            diff: None,
            asked_by: AskedBy::RunningCall,
            objection,
            choices: Vec::new(),
            origin: None,
        }));
        match self.put(approval_id.as_str(), request).await {
            Some((PersonAnswer::Approval { answer, .. }, _)) => answer.choice,
            _ => ApprovalChoice::Deny,
        }
    }
}

/// Forgets a request once nobody waits for its answer.
struct Forget<'a>(&'a WaitingTools, &'a str);

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
                    answer: request.answered_with(ApprovalChoice::Deny.into()),
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
            let broken =
                |_| request.answered_with(ApprovalAnswer::deny("the approval handler panicked"));
            let answer = answer.unwrap_or_else(broken);
            let by = ResolvedBy::Handler;
            let _ = sender.send(Input::Answered { answer, by });
        });
        None
    }
}
