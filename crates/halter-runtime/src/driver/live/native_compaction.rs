//! Has the service of the session's own model compact messages.

use super::budget::{SideAccount, worst_case};
use crate::context::{NativeCompactor, NativeContext};
use crate::engine::answer::Answer;
use crate::limits::SUMMARY_DEADLINE;
use async_trait::async_trait;
use futures::StreamExt;
use halter_protocol::{
    AssistantPart, OpaquePart, ProviderError, ProviderErrorKind, ReplayMeta, Transcript,
};
use halter_providers::tokens::{of_loaded, of_message, of_prompt, of_tools};
use halter_providers::{Provider, ProviderRequest};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Asks with the session's own prompt and tools: what the service has cached of
/// the conversation need not be read again.
pub(super) struct ServiceCompactor {
    pub provider: Arc<dyn Provider>,
    /// The request, but for its messages.
    pub request: ProviderRequest,
    pub cancel: CancellationToken,
    /// Who pays, if anything has a limit.
    pub account: Option<SideAccount>,
}

#[async_trait]
impl NativeCompactor for ServiceCompactor {
    async fn compact(&self, messages: Transcript) -> Result<NativeContext, ProviderError> {
        let mut request = ProviderRequest {
            messages,
            ..self.request.clone()
        };
        let served = (request.model.clone(), self.provider.clone());
        let messages: u64 = request.messages.iter().map(|it| of_message(it)).sum();
        let input = messages
            + of_prompt(&request.prompt)
            + of_tools(&request.tools)
            + of_loaded(&request.loaded_tools);
        let worst = worst_case(&served, input);
        let account = self.account.as_ref();
        let mut paid = account.map(|it| it.reserve(worst)).transpose()?;
        if let Some(limit) = paid.as_ref().and_then(|paid| paid.output_limit()) {
            request.model.max_output_tokens = Some(limit);
        }
        request.attempts = paid.as_ref().map(|paid| paid.attempts());
        let asked = tokio::time::timeout(SUMMARY_DEADLINE, self.ask(request));
        let answer = asked.await.unwrap_or_else(|_| {
            let seconds = SUMMARY_DEADLINE.as_secs();
            Err(failed(&format!("nothing came within {seconds} s")))
        })?;
        let usage = answer.usage().unwrap_or_default();
        if let Some(paid) = &mut paid {
            paid.used(usage);
        }
        if answer.stop_reason().is_none() {
            return Err(failed("its answer was cut off"));
        }
        let mut text = String::new();
        let mut parts: Vec<OpaquePart> = Vec::new();
        for part in answer.into_parts() {
            let opaque = part.opaque().cloned();
            parts.push(opaque.ok_or_else(|| failed("it answered the conversation instead"))?);
            if let AssistantPart::Text { text: words, .. } = part {
                text.push_str(&words);
            }
        }
        if parts.is_empty() {
            return Err(failed("its answer is empty"));
        }
        Ok(NativeContext {
            parts,
            text,
            usage,
            answered_by: ReplayMeta {
                provider_name: Some(self.request.model.provider.clone()),
                model: Some(self.request.model.model.clone()),
            },
        })
    }
}

impl ServiceCompactor {
    async fn ask(&self, request: ProviderRequest) -> Result<Answer, ProviderError> {
        let stream = self.provider.stream(request, self.cancel.clone()).await;
        let mut stream = stream.map_err(super::effects::provider_error)?;
        let mut answer = Answer::default();
        while let Some(event) = stream.next().await {
            answer.take(event?);
        }
        Ok(answer)
    }
}

fn failed(why: &str) -> ProviderError {
    let message = format!("the service did not compact the conversation: {why}");
    ProviderError::new(message, ProviderErrorKind::Transient)
}
