//! Contexts made smaller in the simulated world: the standard manager, with a
//! model that writes summaries well, badly or not at all.

use super::Simulation;
use super::agenda::What;
use super::dice::Dice;
use super::world;
use crate::context::{
    CompactionRequest, ContextSettings, StandardContext, Summarizer, Summary, compacted,
};
use crate::engine::{EffectId, Input};
use async_trait::async_trait;
use futures::FutureExt;
use halter_protocol::{
    CompactionReason, ContextCompaction, MessageId, ModelId, ProviderCapabilities, ProviderError,
    ProviderErrorKind, ReplayMeta, Usage, UsageBuckets, WindowPart,
};
use std::sync::Arc;

/// What a model makes of a request for a summary.
enum Writing {
    Text,
    Nothing,
    Failure,
}

#[async_trait]
impl Summarizer for Writing {
    fn window(&self) -> u64 {
        2_000
    }

    async fn summarize(&self, _: &str, text: String) -> Result<Summary, ProviderError> {
        let text = match self {
            Self::Text => format!("{} bytes were said", text.len()),
            Self::Nothing => String::new(),
            Self::Failure => {
                return Err(ProviderError::new("no", ProviderErrorKind::Transient));
            }
        };
        Ok(Summary {
            text,
            usage: Usage::from(UsageBuckets {
                output: 7,
                ..UsageBuckets::default()
            }),
            answered_by: ReplayMeta {
                provider_name: Some("sim".into()),
                model: Some("writer".to_owned()),
            },
        })
    }
}

impl Simulation {
    /// Has a context compacted, after a while.
    pub(super) fn start_compaction(
        &mut self,
        id: EffectId,
        model: &ModelId,
        reason: CompactionReason,
        message_id: MessageId,
    ) {
        self.compacting.insert(id);
        let compaction = match self.dice.below(20) {
            0 => None,
            1 => Some(Arc::new(careless(&mut self.dice, reason))),
            _ => self.compaction(model, reason, message_id),
        };
        let delay = self.dice.below(120);
        if let Some(usage) = compaction.as_ref().map(|it| it.usage) {
            self.pay_summary(&usage, delay);
        }
        self.schedule_in(
            delay,
            What::Outcome(id, Input::Compacted { id, compaction }),
        );
    }

    fn compaction(
        &mut self,
        model: &ModelId,
        reason: CompactionReason,
        message_id: MessageId,
    ) -> Option<Arc<ContextCompaction>> {
        let window = match self.dice.below(3) {
            0 => 200,
            1 => 1_000,
            _ => 4_000,
        };
        let writing = match self.dice.below(5) {
            0 => Writing::Nothing,
            1 => Writing::Failure,
            _ => Writing::Text,
        };
        let request = CompactionRequest {
            blueprint: world::blueprint(&mut self.dice).into(),
            model: world::model(model.clone()),
            capabilities: ProviderCapabilities::new().with_context_window(window),
            state: self.engine.state().clone(),
            prompt: Default::default(),
            tools: Arc::new([]),
            reason,
            instructions: None,
            processes: Vec::new(),
            summarizer: Arc::new(writing),
            native: None,
            message_id,
            at: self.timestamp(),
        };
        let manager = StandardContext::new(ContextSettings::default());
        compacted(&manager, request).now_or_never().flatten()
    }
}

/// What a manager might return that nobody checked.
fn careless(dice: &mut Dice, reason: CompactionReason) -> ContextCompaction {
    let from = dice.below(6) as usize;
    let count = dice.below(6) as usize;
    ContextCompaction {
        tier: halter_protocol::CompactionTier::Custom,
        reason,
        messages_cut: 0,
        outputs_cut: 0,
        tokens_before: 0,
        tokens_after: 0,
        window: vec![WindowPart::Kept { first: from, count }],
        usage: Usage::default(),
        answered_by: ReplayMeta::default(),
        summary_error: None,
    }
}
