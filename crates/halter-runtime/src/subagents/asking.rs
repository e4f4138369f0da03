//! Questions of subagents, put where somebody answers: at the root.

use crate::engine::{Input, PersonAnswer};
use crate::session::SessionCore;
use halter_protocol::{
    ApprovalAnswer, ApprovalId, ApprovalRequest, RequestOrigin, ResolvedBy, SessionBlueprint,
};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A request of a subagent, and where its answer goes.
pub(crate) struct RoutedRequest {
    pub request: Arc<ApprovalRequest>,
    pub reply: oneshot::Sender<(ApprovalAnswer, ResolvedBy)>,
}

/// The requests of subagents that are open at a root.
#[derive(Default)]
pub(crate) struct AskedAtRoot(HashMap<ApprovalId, oneshot::Sender<(ApprovalAnswer, ResolvedBy)>>);

impl AskedAtRoot {
    pub fn add(&mut self, asked: RoutedRequest) -> Arc<ApprovalRequest> {
        let id = asked.request.approval_id.clone();
        self.0.insert(id, asked.reply);
        asked.request
    }

    /// Hands an answer to the one who asked. False if nobody did.
    pub fn answer(&mut self, id: &ApprovalId, answer: &ApprovalAnswer, by: &ResolvedBy) -> bool {
        match self.0.remove(id) {
            Some(reply) => reply.send((answer.clone(), by.clone())).is_ok(),
            None => false,
        }
    }
}

/// A question at the root that is withdrawn when nobody waits for it any more,
/// however that came.
struct OpenAtRoot {
    root: Arc<SessionCore>,
    approval_id: Option<ApprovalId>,
}

impl Drop for OpenAtRoot {
    fn drop(&mut self) {
        if let Some(approval_id) = self.approval_id.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            self.root.subagent_withdraws(approval_id);
        }
    }
}

/// Puts the request of a subagent at the root, and brings the answer back.
pub(crate) async fn ask_at_root(
    root: Arc<SessionCore>,
    blueprint: Arc<SessionBlueprint>,
    request: Arc<ApprovalRequest>,
    cancel: CancellationToken,
    sender: UnboundedSender<Input>,
) {
    let approval_id = request.approval_id.clone();
    let place = blueprint.subagent.as_ref();
    let origin = place.map(|place| RequestOrigin {
        session_id: blueprint.session_id.clone(),
        agent_id: place.agent_id.clone(),
        agent_type: place.agent_type.clone(),
    });
    let request = Arc::new(ApprovalRequest {
        origin,
        ..ApprovalRequest::clone(&request)
    });
    let (reply, answer) = oneshot::channel();
    let mut open = OpenAtRoot {
        root: root.clone(),
        approval_id: Some(approval_id.clone()),
    };
    let gone = || {
        (
            ApprovalAnswer::deny("nobody is there to ask"),
            ResolvedBy::Unattended,
        )
    };
    let answered = match root.subagent_asks(RoutedRequest { request, reply }) {
        Err(_) => gone(),
        Ok(()) => tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            answered = answer => answered.unwrap_or_else(|_| gone()),
        },
    };
    open.approval_id = None;
    let (answer, by) = answered;
    let answer = PersonAnswer::Approval {
        approval_id,
        answer,
    };
    let _ = sender.send(Input::Answered { answer, by });
}
