//! What of a session a model sees: how much fits, and what is done when more
//! was said.
//!
//! The log keeps everything. A session's transcript is what the next request
//! holds; a compaction replaces it by a smaller one, in an event that says so.
//! The standard form, [`StandardContext`], has three tiers: older tool outputs
//! become references that the model can read again; where that is not enough,
//! the model's service compacts older messages, if it does such a thing; and
//! where it does not, or that did not help, they become a summary.
//!
//! | module | holds |
//! |---|---|
//! | `size` | how many tokens a request has, and how many it may have |
//! | `standard` | the standard form |
//! | `native` | compaction by the model's own service |
//! | `cut` | which messages stay as they are |
//! | `reference` | long texts as references, and how they are found again |
//! | `rendering` | a conversation as text, within a bound |
//! | `summary` | what a model is asked for, and what stands for old messages |

mod cut;
mod native;
pub(crate) mod reference;
mod rendering;
mod size;
mod standard;
mod summary;

pub use native::{NativeCompactor, NativeContext};
pub use size::{ContextFill, ContextSize, size};
pub use standard::{ContextSettings, StandardContext};
pub use summary::DEFAULT_COMPACTION_PROMPT;
pub(crate) use summary::summary_in;

use async_trait::async_trait;
use halter_protocol::{
    AssembledPrompt, CompactionReason, CompactionTier, ContextCompaction, ContextMark, MessageId,
    ProviderCapabilities, ProviderError, ReplayMeta, ResolvedModel, SessionBlueprint, SessionState,
    Timestamp, ToolSpec, Transcript, Usage,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Decides what of a session's transcript models are asked with.
///
/// A session asks [`plan`](Self::plan) before each model call. If the context
/// is too large, or a user or the model service says so, it has
/// [`compact`](Self::compact) make a smaller transcript, at most once for a
/// model call. What is left out stays in the log. Calls and results must stay
/// paired: a transcript in which they do not is not used.
#[async_trait]
pub trait ContextManager: Send + Sync {
    /// How large the context is, and how large it may get.
    fn size(&self, request: ContextRequest<'_>) -> ContextSize {
        size(&request, &ContextSettings::default())
    }

    /// Whether the context is to be compacted before the model is asked. Called
    /// before each model call, so it should not look at the whole transcript.
    fn plan(&self, request: ContextRequest<'_>) -> ContextPlan;

    /// A smaller transcript; none if nothing can be gained. The future is
    /// dropped when the turn is cancelled.
    async fn compact(&self, request: CompactionRequest) -> Option<Compaction>;
}

/// A request to come.
#[derive(Debug, Clone, Copy)]
pub struct ContextRequest<'a> {
    /// The session.
    pub blueprint: &'a SessionBlueprint,
    /// The model that is asked.
    pub model: &'a ResolvedModel,
    /// What is known of it.
    pub capabilities: &'a ProviderCapabilities,
    /// What the session has come to; its messages are what would be sent.
    pub state: &'a SessionState,
    /// The system prompt.
    pub prompt: &'a AssembledPrompt,
    /// The tools on offer.
    pub tools: &'a [ToolSpec],
    /// What [`ContextManager::size`] said when there were fewer messages, so
    /// that only new ones need to be counted.
    pub counted: Option<ContextMark>,
}

/// What is to be done about a context before a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextPlan {
    /// Nothing: it fits.
    Send,
    /// It is too large.
    Compact,
}

/// How a session's context stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReport {
    /// The model that it is sent to.
    pub model: String,
    /// How large it is and may get.
    pub size: ContextSize,
    /// What fills it.
    pub fill: ContextFill,
    /// Messages in it.
    pub messages: usize,
}

impl ContextReport {
    pub(crate) fn new(manager: &dyn ContextManager, request: ContextRequest<'_>) -> Self {
        let size = manager.size(request);
        Self {
            model: request.model.model.clone(),
            size,
            fill: ContextFill::of(&request, size.tokens),
            messages: request.state.messages.len(),
        }
    }
}

/// A context that is to be made smaller.
pub struct CompactionRequest {
    /// The session.
    pub blueprint: Arc<SessionBlueprint>,
    /// The model that is asked with what is left.
    pub model: ResolvedModel,
    /// What is known of it.
    pub capabilities: ProviderCapabilities,
    /// What the session has come to.
    pub state: SessionState,
    /// The system prompt.
    pub prompt: AssembledPrompt,
    /// The tools on offer.
    pub tools: Arc<[ToolSpec]>,
    /// Why.
    pub reason: CompactionReason,
    /// What whoever asked for it wants kept.
    pub instructions: Option<String>,
    /// What the session's commands left running, a line each.
    pub processes: Vec<String>,
    /// Writes summaries.
    pub summarizer: Arc<dyn Summarizer>,
    /// Has the model's service compact, where that does.
    pub native: Option<Arc<dyn NativeCompactor>>,
    /// The id of a message that stands for others.
    pub message_id: MessageId,
    /// The time of it.
    pub at: Timestamp,
}

impl CompactionRequest {
    /// The request to come, without the compaction.
    pub fn context(&self) -> ContextRequest<'_> {
        ContextRequest {
            blueprint: &self.blueprint,
            model: &self.model,
            capabilities: &self.capabilities,
            state: &self.state,
            prompt: &self.prompt,
            tools: &self.tools,
            counted: None,
        }
    }
}

/// What a context manager made of a transcript.
#[derive(Debug, Clone)]
pub struct Compaction {
    /// How it was done.
    pub tier: CompactionTier,
    /// What the model sees from now on.
    pub messages: Transcript,
    /// Long texts that became references.
    pub outputs_cut: u64,
    /// Tokens of the next request without it.
    pub tokens_before: u64,
    /// Tokens of the next request with it, estimated.
    pub tokens_after: u64,
    /// What stands for the messages that were cut.
    pub summary: Option<Summary>,
    /// Why no model wrote the summary.
    pub summary_error: Option<String>,
}

/// A model that writes summaries: the one of the role `small`, or else that of
/// the session. It is offered no tools.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Tokens that fit into a request, the answer included.
    fn window(&self) -> u64;

    /// Asks the model. `prompt` says what it is to do, `text` is all it sees.
    ///
    /// # Errors
    /// If it does not answer.
    async fn summarize(&self, prompt: &str, text: String) -> Result<Summary, ProviderError>;
}

/// What a model wrote.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// What was used for it.
    pub usage: Usage,
    /// Who wrote it.
    pub answered_by: ReplayMeta,
}

/// Has the manager compact, and says what that changed.
pub(crate) async fn compacted(
    manager: &dyn ContextManager,
    request: CompactionRequest,
) -> Option<Arc<ContextCompaction>> {
    let before = request.state.messages.clone();
    let reason = request.reason.clone();
    let Compaction {
        tier,
        messages,
        outputs_cut,
        tokens_before,
        tokens_after,
        summary,
        summary_error,
    } = manager.compact(request).await?;
    let Summary {
        usage, answered_by, ..
    } = summary.unwrap_or_default();
    let window = ContextCompaction::window_between(&before, &messages);
    let is_left: HashSet<&str> = messages.iter().map(|it| it.id().as_str()).collect();
    let cut = before
        .iter()
        .filter(|it| !is_left.contains(it.id().as_str()));
    Some(Arc::new(ContextCompaction {
        tier,
        reason,
        messages_cut: cut.count() as u64,
        outputs_cut,
        tokens_before,
        tokens_after,
        window,
        usage,
        answered_by,
        summary_error,
    }))
}
