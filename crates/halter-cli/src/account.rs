//! What a session used and what its prompt cache saved, from its log.

use crate::failure::Failure;
use crate::terminal::safe_line;
use crate::view::used;
use halter_protocol::{
    BudgetLeft, BudgetScope, ModelId, ProviderKind, ReplayMeta, ResolvedModel, SessionEventPayload,
    SessionId, Usage,
};
use halter_providers::catalog::Catalog;
use halter_session::limits::MAX_READ_EVENTS;
use halter_session::{SessionStore, read_events};
use indexmap::IndexMap;

/// What each model of a session used.
#[derive(Default)]
pub struct Account {
    by_model: IndexMap<String, (ReplayMeta, Usage)>,
    /// How the limits of the session stood last.
    limits: Vec<BudgetLeft>,
}

impl Account {
    /// The account of a stored session.
    pub async fn read(store: &dyn SessionStore, id: &SessionId) -> Result<Self, Failure> {
        let mut account = Self::default();
        let mut after = 0;
        loop {
            let events = read_events(store, id, after, MAX_READ_EVENTS).await?;
            let Some(last) = events.last() else {
                return Ok(account);
            };
            after = last.sequence();
            for event in &events {
                account.count(&event.payload);
            }
        }
    }

    /// Adds what a turn or a summary used to what its model used.
    pub fn count(&mut self, payload: &SessionEventPayload) {
        let (usage, answered_by) = match payload {
            SessionEventPayload::TurnCompleted {
                usage, answered_by, ..
            }
            | SessionEventPayload::TurnFailed {
                usage, answered_by, ..
            } => (usage, answered_by),
            SessionEventPayload::ContextCompacted(compaction) => {
                (&compaction.usage, &compaction.answered_by)
            }
            SessionEventPayload::BudgetCharged { limits, .. } => {
                let limits = limits.iter().filter(|it| it.scope == BudgetScope::Session);
                self.limits = limits.cloned().collect();
                return;
            }
            SessionEventPayload::BudgetChanged { budget } => {
                for known in &mut self.limits {
                    let limit = budget.session.limit(&known.resource);
                    known.limit = limit.unwrap_or(known.limit);
                }
                return;
            }
            _ => return,
        };
        if !usage.is_zero() {
            let model = self.by_model.entry(answered_by.label());
            let (_, sum) = model.or_insert_with(|| (answered_by.clone(), Usage::default()));
            sum.saturating_accumulate(usage);
        }
    }

    /// What was used, which model how much if there are several, and what came
    /// from the prompt cache; nothing if nothing was used.
    pub fn lines(&self, catalog: &Catalog) -> Vec<String> {
        let mut whole = Usage::default();
        for (_, usage) in self.by_model.values() {
            whole.saturating_accumulate(usage);
        }
        let mut lines = Vec::new();
        if !self.by_model.is_empty() {
            lines.push(format!("used       {}", used(&whole)));
        }
        if self.by_model.len() > 1 {
            let models = self.by_model.iter();
            lines.extend(
                models
                    .map(|(model, (_, usage))| format!("  {}: {}", safe_line(model), used(usage))),
            );
        }
        lines.extend(self.cached(&whole, catalog));
        for limit in &self.limits {
            let amount = |amount| limit.resource.amount(amount);
            let (spent, most, left) = (
                amount(limit.spent),
                amount(limit.limit),
                amount(limit.left()),
            );
            lines.push(format!("budget     {spent} of {most} spent, {left} left"));
        }
        lines
    }

    /// The part of the input that came from the prompt cache, and what that
    /// saved against the price of input read afresh.
    fn cached(&self, whole: &Usage, catalog: &Catalog) -> Option<String> {
        let percent = whole.buckets.cache_read.saturating_mul(100);
        let percent = percent.checked_div(whole.input_tokens)?;
        let (mut saved, mut unpriced) = (0_u64, false);
        for (model, usage) in self.by_model.values() {
            let reads = usage.buckets.cache_read;
            match catalog.facts(&named(model)).prices {
                Some(prices) => {
                    let less = prices.value.input.saturating_sub(prices.value.cache_read);
                    saved = saved.saturating_add(reads.saturating_mul(less));
                }
                None => unpriced |= reads > 0,
            }
        }
        let more = if unpriced { "more than " } else { "" };
        Some(match saved {
            0 => format!("cached     {percent} % of the input"),
            saved => {
                let dollars = saved as f64 / 1e9;
                format!("cached     {percent} % of the input, {more}${dollars:.4} saved")
            }
        })
    }
}

/// A model as a catalog looks it up.
fn named(model: &ReplayMeta) -> ResolvedModel {
    let label = model.label();
    ResolvedModel {
        id: ModelId::from(label.as_str()),
        provider: model
            .provider_name
            .clone()
            .unwrap_or_else(|| "unknown".into()),
        provider_kind: ProviderKind::Custom,
        model: model.model.clone().unwrap_or_default(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    }
}
