//! Who decides about calls that need a person's approval.

use async_trait::async_trait;
use halter_protocol::{
    ApprovalAnswer, ApprovalRequest, QuestionRequest, QuestionResponse, SessionId,
};
use std::sync::Arc;

/// Decides about the approvals that sessions request. Sessions go on
/// meanwhile, and no deadline runs for the call that waits.
#[async_trait]
pub trait ApprovalHandler: Send + Sync {
    /// Decides. The future is dropped when the request is resolved otherwise or
    /// withdrawn, say because the turn was cancelled; one that panics denies.
    async fn decide(&self, session_id: &SessionId, request: &ApprovalRequest) -> ApprovalAnswer;

    /// Answers questions of a running call, one answer to each. Skips them all
    /// unless overridden; answers that do not fit count as skipped.
    async fn answer(
        &self,
        _session_id: &SessionId,
        request: &QuestionRequest,
    ) -> Vec<QuestionResponse> {
        request.all_skipped()
    }
}

/// Who is asked.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Approvals {
    /// Nobody: what has to be approved is denied, and the model is told what
    /// would have been needed.
    #[default]
    Unattended,
    /// Whoever reads the events of the session and calls
    /// [`resolve_approval`](crate::SessionHandle::resolve_approval).
    Attended,
    /// A handler. `resolve_approval` may be faster.
    Handler(Arc<dyn ApprovalHandler>),
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unattended => "Unattended",
            Self::Attended => "Attended",
            Self::Handler(_) => "Handler",
        })
    }
}
