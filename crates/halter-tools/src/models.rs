//! How a running call has a model answer something, beside the conversation of
//! the session.

use async_trait::async_trait;
use halter_protocol::{Message, ToolError};

/// A conversation of its own that a model is to continue, without tools.
#[derive(Debug, Clone)]
pub struct ModelQuestion {
    /// What the model is told first; may be empty.
    pub system: String,
    /// The conversation; the last message is the user's.
    pub messages: Vec<Message>,
    /// The most that the model may write, in tokens. The session may allow less.
    pub output_tokens: u32,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    /// Its words.
    pub text: String,
    /// The model, by the name its service gives it.
    pub model: String,
    /// True if it had more to say than it was allowed to.
    pub cut_off: bool,
}

/// Has a model of the session answer for one call. What it uses is charged to
/// the session.
#[async_trait]
pub trait ModelAsker: Send + Sync {
    /// Asks, and waits for the whole answer.
    ///
    /// # Errors
    /// If the service fails, or no budget is left.
    async fn ask(&self, question: ModelQuestion) -> Result<ModelReply, ToolError>;
}
