//! Compaction by the model's own service. It saves reading the conversation
//! afresh, and what it makes of it only the same model can read.
//!
//! It is never relied on: where the service fails, or the context does not get
//! smaller, the harness writes a summary. What stands for old messages has a
//! text of its own for other models.

use super::cut::Cut;
use super::standard::{RoomPlan, in_force};
use super::{Compaction, CompactionRequest, Summary, summary};
use crate::limits::LEAST_SUMMARISED_TOKENS;
use async_trait::async_trait;
use halter_protocol::{
    AssistantMessage, AssistantPart, CompactionReason, CompactionTier, Message, MessageId,
    OpaquePart, ProviderError, ReplayMeta, SystemMessage, Transcript, Usage,
};
use halter_providers::tokens::of_message;
use std::sync::Arc;

/// Has the service of the session's model compact messages.
#[async_trait]
pub trait NativeCompactor: Send + Sync {
    /// What stands for the messages from now on.
    ///
    /// # Errors
    /// If the service does not do it.
    async fn compact(&self, messages: Transcript) -> Result<NativeContext, ProviderError>;
}

/// Messages in the form of a model service.
#[derive(Debug, Clone)]
pub struct NativeContext {
    /// The form, piece by piece, to be sent back as it is.
    pub parts: Vec<OpaquePart>,
    /// What it says in words, if anything.
    pub text: String,
    /// What was used for it.
    pub usage: Usage,
    /// Who can read it.
    pub answered_by: ReplayMeta,
}

/// Has the service compact old messages. None if it cannot, if that is not
/// worth it, or if the last time did not help.
pub(super) async fn compact(request: &CompactionRequest, plan: &RoomPlan) -> Option<Compaction> {
    let native = request.native.as_ref()?;
    // A wish of the user reaches only a summary of our own.
    if request.instructions.is_some() || plan.native_is_too_large {
        return None;
    }
    let Cut { old, tail } = Cut::new(&request.state.messages, plan.keep);
    let spared: u64 = old.iter().map(|it| of_message(it)).sum();
    if spared < LEAST_SUMMARISED_TOKENS.max(plan.estimated / 20) {
        return None;
    }
    let compacted = match native.compact(old.iter().cloned().collect()).await {
        Ok(compacted) => compacted,
        Err(error) => {
            tracing::debug!(%error, "the service did not compact the conversation");
            return None;
        }
    };
    // The newest messages follow right behind, as services want it; what the
    // harness has to say comes last.
    let (stands_in, note) = stands_in(request, &old, &compacted);
    let staying = old
        .iter()
        .filter(|it| in_force(it, &request.state))
        .cloned();
    let messages: Transcript = std::iter::once(Arc::new(stands_in))
        .chain(tail)
        .chain(staying)
        .chain([Arc::new(note)])
        .collect();
    plan.gained(Compaction {
        tier: CompactionTier::Native,
        outputs_cut: 0,
        tokens_before: plan.tokens,
        tokens_after: plan.after(&messages),
        messages,
        summary: Some(Summary {
            text: compacted.text,
            usage: compacted.usage,
            answered_by: compacted.answered_by,
        }),
        summary_error: None,
    })
}

/// True if most of a context that is too large is what the service made of old
/// messages, whatever its text is estimated at: a summary has to replace it.
pub(super) fn is_too_large(request: &CompactionRequest, limit: u64) -> bool {
    let is_native = |message: &Arc<Message>| {
        matches!(message.as_ref(), Message::Assistant(_)) && summary::stands_for_others(message)
    };
    let messages = &request.state.messages;
    let place = messages.iter().position(is_native);
    let newer = |place: usize| {
        messages
            .iter()
            .skip(place + 1)
            .map(|it| of_message(it))
            .sum()
    };
    request.reason != CompactionReason::Requested
        && place
            .map(newer)
            .is_some_and(|tokens: u64| tokens < limit / 2)
}

/// What stands for old messages, with a text for models that cannot read it,
/// and what the session knows by itself.
fn stands_in(
    request: &CompactionRequest,
    old: &[Arc<Message>],
    compacted: &NativeContext,
) -> (Message, Message) {
    let said = match compacted.text.trim().is_empty() {
        true => summary::mechanical(old),
        false => compacted.text.clone(),
    };
    let mut text = Some(summary::text(request, old, &said));
    let parts = compacted.parts.iter().map(|part| AssistantPart::Text {
        text: text.take().unwrap_or_default(),
        opaque: Some(part.clone()),
    });
    let stands_in = AssistantMessage {
        id: request.message_id.clone(),
        created_at: request.at,
        parts: parts.collect(),
        stop_reason: None,
        usage: None,
        replay_meta: compacted.answered_by.clone(),
    };
    let note = SystemMessage {
        id: MessageId(format!("{}_note", request.message_id)),
        created_at: request.at,
        text: summary::note(request, old),
        environment: None,
        instructions: Vec::new(),
        tools: Vec::new(),
    };
    (Message::Assistant(stands_in), Message::System(note))
}
