//! Work that goes on for a host, also while the host answers a question.

use super::agent::{HostLink, HostQuestion};
use super::question;
use crate::limits::{
    PARKED_WAIT, PROGRESS_BEAT, PROGRESS_CHARS, PROGRESS_MESSAGES, QUESTION_WAIT, WORK_END_WAIT,
};
use halter_protocol::{ApprovalAnswer, ApprovalRequest};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, ElicitRequest, ElicitRequestParams, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// The name of the one question that is open at a time.
const APPROVAL: &str = "approval";

/// Work that was started. Dropping it cancels it.
pub(super) struct Work {
    result: JoinHandle<CallToolResult>,
    progress: mpsc::Receiver<String>,
    questions: mpsc::Receiver<HostQuestion>,
    cancel: CancellationToken,
    said: u32,
    _cancel_on_drop: DropGuard,
}

impl Work {
    /// Starts work. `permit` is held as long as it runs.
    pub fn start<F>(
        tracker: &TaskTracker,
        gone: &CancellationToken,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce(HostLink) -> F,
    ) -> Self
    where
        F: Future<Output = CallToolResult> + Send + 'static,
    {
        let (progress_sender, progress) = mpsc::channel(PROGRESS_MESSAGES);
        let (question_sender, questions) = mpsc::channel(1);
        let cancel = gone.child_token();
        let working = work(HostLink {
            progress: progress_sender,
            questions: question_sender,
            cancel: cancel.clone(),
        });
        let result = tracker.spawn(async move {
            let result = working.await;
            drop(permit);
            result
        });
        Self {
            result,
            progress,
            questions,
            said: 0,
            _cancel_on_drop: cancel.clone().drop_guard(),
            cancel,
        }
    }

    /// Stays with the work until it is done, the host cancels it, or a host
    /// of a revision without requests of servers has to answer a question.
    pub async fn attend(
        mut self,
        context: &RequestContext<RoleServer>,
        parked: &Arc<Parked>,
    ) -> Result<CallToolResponse, ErrorData> {
        let token = context.meta.get_progress_token();
        let mut beat = tokio::time::interval(PROGRESS_BEAT);
        beat.reset();
        loop {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => return Ok(self.cancelled().await.into()),
                () = self.cancel.cancelled() => return Ok(self.cancelled().await.into()),
                Some(question) = self.questions.recv() => {
                    match Self::way_to_ask(context) {
                        Ask::Nobody => reply(question.reply, question::nobody(&question.request)),
                        Ask::Now => ask_now(question, context).await,
                        Ask::Later => match question::form(&question.request) {
                            Ok(form) => return Ok(parked.park(self, question, form).into()),
                            Err(refusal) => reply(question.reply, refusal),
                        },
                    }
                }
                Some(message) = self.progress.recv() => {
                    self.tell(context, token.as_ref(), message).await;
                    beat.reset();
                }
                // After what it said before.
                result = &mut self.result => {
                    return match result {
                        Ok(result) => Ok(result.into()),
                        Err(error) => {
                            tracing::error!(%error, "work for a host panicked");
                            Err(ErrorData::internal_error("the agent failed while it worked", None))
                        }
                    };
                }
                _ = beat.tick(), if token.is_some() => {
                    self.tell(context, token.as_ref(), "still working".to_owned()).await;
                }
            }
        }
    }

    /// Ends it. What it had to say is for nobody any more.
    async fn cancelled(mut self) -> CallToolResult {
        self.cancel.cancel();
        self.questions.close();
        let ended = tokio::time::timeout(WORK_END_WAIT, &mut self.result).await;
        match ended {
            Ok(Ok(result)) => result,
            _ => super::tools::failure(&super::agent::ServeError::new(
                "cancelled",
                "the task was cancelled and did not end in time",
            )),
        }
    }

    async fn tell(
        &mut self,
        context: &RequestContext<RoleServer>,
        token: Option<&ProgressToken>,
        message: String,
    ) {
        let Some(token) = token else { return };
        self.said = self.said.saturating_add(1);
        let mut progress = ProgressNotificationParam::new(token.clone(), f64::from(self.said));
        progress.message = Some(shortened(message));
        // A host that reads nothing must not hold the work, nor its cancel.
        let sent = context.peer.notify_progress(progress);
        tokio::select! {
            sent = sent => {
                if let Err(error) = sent {
                    tracing::debug!(%error, "progress did not reach the host");
                }
            }
            () = context.ct.cancelled() => {}
            () = self.cancel.cancelled() => {}
        }
    }

    fn way_to_ask(context: &RequestContext<RoleServer>) -> Ask {
        if !question::can_ask(context.client_capabilities().as_ref()) {
            return Ask::Nobody;
        }
        match context.protocol_version() {
            Some(version) if version >= ProtocolVersion::V_2026_07_28 => Ask::Later,
            _ => Ask::Now,
        }
    }
}

/// How a host is asked.
enum Ask {
    /// It shows no forms.
    Nobody,
    /// By a request to it.
    Now,
    /// By a result that says what is missing; the host calls again with it.
    Later,
}

fn shortened(message: String) -> String {
    match message.char_indices().nth(PROGRESS_CHARS) {
        Some((end, _)) => {
            let mut message = message;
            message.truncate(end);
            message
        }
        None => message,
    }
}

/// Whoever asked may have gone.
fn reply(sender: oneshot::Sender<ApprovalAnswer>, answer: ApprovalAnswer) {
    let _ = sender.send(answer);
}

async fn ask_now(mut question: HostQuestion, context: &RequestContext<RoleServer>) {
    let form = match question::form(&question.request) {
        Ok(form) => form,
        Err(refusal) => return reply(question.reply, refusal),
    };
    let asked = context
        .peer
        .create_elicitation_with_timeout(form, Some(QUESTION_WAIT));
    let answer = tokio::select! {
        asked = asked => match asked {
            Ok(result) => question::answer(&question.request, &result),
            Err(error) => ApprovalAnswer::deny(format!("the host could not ask: {error}")),
        },
        () = context.ct.cancelled() => return,
        () = question.reply.closed() => return,
    };
    reply(question.reply, answer);
}

/// Work that waits for a host to call again with an answer.
#[derive(Default)]
pub(super) struct Parked {
    waiting: Mutex<HashMap<String, Waiting>>,
}

struct Waiting {
    work: Work,
    request: Arc<ApprovalRequest>,
    reply: oneshot::Sender<ApprovalAnswer>,
}

impl Parked {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts work aside until its question is answered. After [`PARKED_WAIT`] it
    /// is cancelled.
    fn park(
        self: &Arc<Self>,
        work: Work,
        question: HostQuestion,
        form: ElicitRequestParams,
    ) -> InputRequiredResult {
        let asked = InputRequest::Elicitation(ElicitRequest::new(form));
        let state = uuid::Uuid::now_v7().to_string();
        let cancel = work.cancel.clone();
        let waiting = Waiting {
            work,
            request: question.request,
            reply: question.reply,
        };
        self.waiting().insert(state.clone(), waiting);
        let (parked, id) = (self.clone(), state.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(PARKED_WAIT) => {}
                // The host has gone, or the work went on and has ended.
                () = cancel.cancelled() => {}
            }
            parked.waiting().remove(&id);
        });
        let requests = InputRequests::from([(APPROVAL.to_owned(), asked)]);
        InputRequiredResult::new(Some(requests), Some(state))
    }

    /// Takes work up again with the answers that a host brings.
    pub fn take_up(&self, state: &str, answers: Option<InputResponses>) -> Result<Work, ErrorData> {
        let Some(waiting) = self.waiting().remove(state) else {
            return Err(ErrorData::invalid_params(
                "no task waits for this requestState: it was answered, took too long, or is not ours",
                None,
            ));
        };
        let answer = match answers.and_then(|mut answers| answers.remove(APPROVAL)) {
            Some(answer) => question::answer_of(&waiting.request, answer),
            None => ApprovalAnswer::deny("the host brought no answer"),
        };
        reply(waiting.reply, answer);
        Ok(waiting.work)
    }
}
