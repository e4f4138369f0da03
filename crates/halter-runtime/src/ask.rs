//! Who answers the questions of sessions.

use async_trait::async_trait;
use halter_protocol::{Answer, Question, SessionId};

/// Answers what sessions ask. Sessions go on meanwhile, and no deadline runs
/// for the call that waits.
#[async_trait]
pub trait Answerer: Send + Sync {
    /// Decides. The future is dropped when the question is withdrawn, say
    /// because the turn was cancelled; one that panics denies.
    async fn answer(&self, session_id: &SessionId, question: &Question) -> Answer;
}

/// Denies everything: there is nobody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl Answerer for NobodyToAsk {
    async fn answer(&self, _session_id: &SessionId, _question: &Question) -> Answer {
        Answer::Deny {
            reason: "approvals are not available yet".to_owned(),
        }
    }
}
