//! What of a transcript a model is asked with.

use halter_protocol::{ResolvedModel, SessionBlueprint, Transcript};

/// Decides what of a session's transcript a request holds. What it leaves out
/// stays in the log. Calls and results must stay paired.
pub trait ContextManager: Send + Sync {
    /// The messages to ask with.
    fn plan(&self, request: ContextRequest<'_>) -> Transcript;
}

/// A request to come.
#[derive(Debug, Clone, Copy)]
pub struct ContextRequest<'a> {
    /// The session.
    pub blueprint: &'a SessionBlueprint,
    /// The model that is asked.
    pub model: &'a ResolvedModel,
    /// Everything said so far.
    pub messages: &'a Transcript,
}

/// Sends everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendEverything;

impl ContextManager for SendEverything {
    fn plan(&self, request: ContextRequest<'_>) -> Transcript {
        request.messages.clone()
    }
}
