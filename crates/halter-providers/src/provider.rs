//! The trait a model service implements, and what it is asked.

use async_trait::async_trait;
use futures::stream::BoxStream;
use halter_protocol::{
    AssembledPrompt, ProviderError, ProviderErrorKind, ResolvedModel, ResponseSchema, SessionId,
    StreamEvent, ToolSpec, Transcript, TurnId, Usage,
};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub use halter_protocol::ProviderCapabilities;

/// An answer as it arrives. See [`StreamEvent`] for its grammar.
pub type EventStream = BoxStream<'static, Result<StreamEvent, ProviderError>>;

/// A service that answers requests with a model.
///
/// An implementation streams: an event is yielded when it is known, not when
/// the answer is complete. It stops soon after `cancel` fires, with
/// [`ProviderError::cancelled`] as its last item. After an error nothing
/// follows. A stream that ends without `MessageEnd` was cut off.
///
/// A failure before the first event is either the `Err` of
/// [`stream`](Provider::stream), with a [`ProviderError`] to downcast to where
/// its kind is known, or the first item of the stream; callers treat them
/// alike.
#[async_trait]
pub trait Provider: Send + Sync {
    /// What the harness must know about the service beyond the protocol.
    fn capabilities(&self) -> ProviderCapabilities;

    /// The same for one of its models, where models differ. A provider that
    /// wraps another passes the question on.
    fn model_capabilities(&self, model: &ResolvedModel) -> ProviderCapabilities {
        let _ = model;
        self.capabilities()
    }

    /// Asks for one answer.
    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream>;
}

/// One request to a model. Cheap to clone: everything long is shared.
#[derive(Debug, Clone)]
pub struct ProviderRequest {
    /// The session that asks.
    pub session_id: SessionId,
    /// The turn it asks for.
    pub turn_id: TurnId,
    /// The model to use.
    pub model: ResolvedModel,
    /// The system prompt.
    pub prompt: AssembledPrompt,
    /// The conversation so far.
    pub messages: Transcript,
    /// The tools the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// Deferred tools that were loaded in the course of the conversation, oldest
    /// first; the model may call them, too. Where the wire has a way, they stand
    /// with the message that [loaded](halter_protocol::ToolMessage::loaded) them,
    /// else that message tells of them in words and `call_tool` carries their calls.
    pub loaded_tools: Arc<[Arc<ToolSpec>]>,
    /// What the answer must look like once the model needs no more tools: JSON
    /// text, or a call of [`FINAL_TOOL`](halter_protocol::FINAL_TOOL).
    pub response_schema: Option<ResponseSchema>,
    /// What is asked for.
    pub purpose: RequestPurpose,
    /// Who pays for attempts that fail; nobody where nothing has a limit.
    pub attempts: Option<Arc<dyn AttemptBudget>>,
}

/// Pays for the attempts at one request.
pub trait AttemptBudget: fmt::Debug + Send + Sync {
    /// Whether the request may be sent once more, after failed attempts that
    /// used so much together.
    fn allows_another(&self, lost: &Usage) -> bool;
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestPurpose {
    /// What the model says next.
    #[default]
    Answer,
    /// The conversation in a smaller form, which only the same model reads. Its
    /// parts go back in place of the messages, as they came. Of providers with
    /// [`native_compaction`](ProviderCapabilities::native_compaction) only.
    Compaction,
}

/// The error of a provider as it came, or one of another kind in its words.
pub(crate) fn provider_error(error: anyhow::Error) -> ProviderError {
    error
        .downcast()
        .unwrap_or_else(|error| ProviderError::new(format!("{error:#}"), ProviderErrorKind::Fatal))
}
