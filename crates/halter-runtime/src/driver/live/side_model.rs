//! Models that are asked beside the conversation of a session: for summaries,
//! and for running calls.

use super::budget::{SideAccount, worst_case};
use super::{Owner, Running};
use crate::engine::answer::Answer;
use crate::limits::{CALL_MODEL_DEADLINE, CALL_MODEL_OUTPUT_TOKENS};
use async_trait::async_trait;
use futures::StreamExt;
use halter_protocol::{
    AssembledPrompt, AssistantPart, ModelId, ModelRole, PromptSegment, PromptSegmentKind,
    ProviderError, ProviderErrorKind, ResolvedModel, SessionId, StopReason, ToolError,
    ToolErrorCode, Transcript, TurnId,
};
use halter_providers::tokens::{of_message, of_prompt};
use halter_providers::{Provider, ProviderRequest, RequestPurpose, ServedModel};
use halter_tools::{ModelAsker, ModelQuestion, ModelReply};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A model, and what its answers are charged to.
pub(super) struct SideModel {
    pub model: ResolvedModel,
    pub provider: Arc<dyn Provider>,
    /// One of its own: the session's conversation goes on being cached.
    pub session_id: SessionId,
    pub turn_id: TurnId,
    pub cancel: CancellationToken,
    pub account: Option<SideAccount>,
}

/// What such a model is asked.
pub(super) struct SideQuestion<'a> {
    pub prompt: &'a str,
    pub messages: Transcript,
    pub output_tokens: u32,
    pub deadline: Duration,
}

impl SideModel {
    pub async fn answer(&self, question: SideQuestion<'_>) -> Result<Answer, ProviderError> {
        let segment = PromptSegment::new(PromptSegmentKind::System, question.prompt);
        let segment = (!question.prompt.is_empty()).then_some(segment);
        let prompt = AssembledPrompt::new(segment);
        let messages = question.messages;
        let mut model = self.model.clone();
        let most = question.output_tokens;
        let limit = model.max_output_tokens.map_or(most, |it| it.min(most));
        model.max_output_tokens = Some(limit);
        let spoken: u64 = messages.iter().map(|it| of_message(it)).sum();
        let served = (model.clone(), self.provider.clone());
        let worst = worst_case(&served, of_prompt(&prompt) + spoken);
        let account = self.account.as_ref();
        let mut paid = account.map(|account| account.reserve(worst)).transpose()?;
        if let Some(limit) = paid.as_ref().and_then(|paid| paid.output_limit()) {
            model.max_output_tokens = Some(limit);
        }
        let request = ProviderRequest {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id.clone(),
            model,
            prompt,
            messages,
            tools: Arc::new([]),
            response_schema: None,
            purpose: RequestPurpose::Answer,
            attempts: paid.as_ref().map(|paid| paid.attempts()),
            loaded_tools: Arc::default(),
        };
        let asked = tokio::time::timeout(question.deadline, self.send(request));
        let answer = asked.await.unwrap_or_else(|_| {
            let seconds = question.deadline.as_secs();
            let message = format!("the model did not answer within {seconds} s");
            Err(ProviderError::new(message, ProviderErrorKind::Transient))
        })?;
        if let Some(paid) = &mut paid {
            paid.used(answer.usage().unwrap_or_default());
        }
        Ok(answer)
    }

    async fn send(&self, request: ProviderRequest) -> Result<Answer, ProviderError> {
        let stream = self.provider.stream(request, self.cancel.clone()).await;
        let mut stream = stream.map_err(super::effects::provider_error)?;
        let mut answer = Answer::default();
        while let Some(event) = stream.next().await {
            answer.take(event?);
        }
        Ok(answer)
    }
}

/// The words of an answer.
pub(super) fn words(answer: Answer) -> String {
    let parts = answer.into_parts().into_iter();
    let text = parts.filter_map(|part| match part {
        AssistantPart::Text { text, .. } => Some(text),
        _ => None,
    });
    text.collect()
}

#[async_trait]
impl ModelAsker for SideModel {
    async fn ask(&self, question: ModelQuestion) -> Result<ModelReply, ToolError> {
        let asked = self.answer(SideQuestion {
            prompt: &question.system,
            messages: Transcript::from_iter(question.messages),
            output_tokens: question.output_tokens.min(CALL_MODEL_OUTPUT_TOKENS),
            deadline: CALL_MODEL_DEADLINE,
        });
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => {
                let message = "the call was cancelled before the model had answered";
                return Err(ToolError::new(ToolErrorCode::Cancelled, message));
            }
            answer = asked => answer,
        };
        let answer =
            answer.map_err(|error| ToolError::new(ToolErrorCode::Failed, error.to_string()))?;
        Ok(ModelReply {
            cut_off: answer.stop_reason() == Some(&StopReason::MaxTokens),
            text: words(answer),
            model: self.model.model.clone(),
        })
    }
}

impl Owner {
    /// The model of the role `small`, unless the session may not use it.
    pub(super) fn small_model(&self, own: &ServedModel) -> ServedModel {
        let small = ModelId::from(ModelRole::Small.as_str());
        let models = self.blueprint.bounds.models.as_ref();
        if models.is_some_and(|models| !models.contains(&small)) {
            return own.clone();
        }
        let registered = self.services.models.registered(&small);
        registered.unwrap_or_else(|| own.clone())
    }

    /// Has a model answer for a running call. None if the session's own model
    /// cannot be resolved, which the next request says.
    pub(super) fn model_of_call(
        &mut self,
        cancel: &CancellationToken,
        running: &Running,
    ) -> Option<Arc<dyn ModelAsker>> {
        let own = self.services.models.resolve(&self.blueprint.default_model);
        let (model, provider) = self.small_model(&own.ok()?);
        let turn_id = self.engine.live_turn().cloned()?;
        let account = self.side_account(Some(&turn_id), running);
        Some(Arc::new(SideModel {
            model,
            provider,
            session_id: SessionId(format!("{}-call", self.blueprint.session_id)),
            turn_id,
            cancel: cancel.clone(),
            account,
        }))
    }
}
