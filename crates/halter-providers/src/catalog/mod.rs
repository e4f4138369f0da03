//! What is known of models: how much they take and give, what they cost, and
//! which settings they accept, each with where it is known from.
//!
//! A later source fills in what the earlier ones leave open: configuration,
//! the provider's own list of models, the built-in table, a default. A limit
//! that a server named when it refused a conversation holds wherever it is
//! smaller: a larger one, whoever claims it, would be refused again.

mod model_list;
pub mod overflow;
mod table;

pub use halter_protocol::{Cost, Prices};
pub use model_list::{ListedModel, read_models};
pub use table::TABLE_DATE;

use crate::limits::CATALOG_MODELS;
use crate::wire::{OutputWay, RefusedSetting};
use halter_protocol::{ProviderName, ReasoningEffort, ResolvedModel, Usage};
use indexmap::IndexMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The context window of a model that nothing is known of, in tokens.
pub const DEFAULT_CONTEXT_WINDOW: u32 = 128_000;

/// Where something is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The user's configuration.
    Config,
    /// An error of the server that named it.
    Learned,
    /// The provider's list of models.
    Provider,
    /// The table in this program, as of [`TABLE_DATE`].
    BuiltIn,
    /// Nobody knows; this is assumed.
    Default,
}

impl Source {
    /// The source as it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Learned => "learned",
            Self::Provider => "provider",
            Self::BuiltIn => "built-in",
            Self::Default => "a guess",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A fact and where it is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known<T> {
    /// The fact.
    pub value: T,
    /// Its source.
    pub source: Source,
}

/// What one source says of a model; it may leave anything open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// Tokens that fit into a conversation, the answer included.
    pub context_window: Option<u32>,
    /// Tokens of one answer.
    pub output_limit: Option<u32>,
    /// What tokens cost.
    pub prices: Option<Prices>,
    /// Whether a temperature is accepted.
    pub temperature: Option<bool>,
    /// The levels of reasoning that are accepted.
    pub reasoning: Option<Vec<ReasoningEffort>>,
    /// Whether images are accepted.
    pub images: Option<bool>,
}

/// Everything known of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// Tokens that fit into a conversation, the answer included.
    pub context_window: Known<u32>,
    /// Tokens of one answer.
    pub output_limit: Option<Known<u32>>,
    /// What tokens cost.
    pub prices: Option<Known<Prices>>,
    /// Whether a temperature is accepted.
    pub temperature: Option<Known<bool>>,
    /// The levels of reasoning that are accepted.
    pub reasoning: Option<Known<Vec<ReasoningEffort>>>,
    /// Whether images are accepted.
    pub images: Option<Known<bool>>,
}

/// What is known of models, shared by all that ask or learn. Cheap to clone.
///
/// ```
/// use halter_protocol::{ProviderKind, ResolvedModel};
/// use halter_providers::catalog::{Catalog, Source};
///
/// let catalog = Catalog::new();
/// let model = ResolvedModel {
///     id: "default".into(),
///     provider: "local".into(),
///     provider_kind: ProviderKind::Custom,
///     model: "some-model".to_owned(),
///     max_input_tokens: None,
///     max_output_tokens: None,
///     reasoning: None,
///     tokens_per_minute: None,
/// };
/// assert_eq!(catalog.facts(&model).context_window.source, Source::Default);
///
/// catalog.learn_from_overflow(&model, "maximum context length is 8192 tokens");
/// assert_eq!(catalog.facts(&model).context_window.value, 8_192);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    models: Arc<Mutex<IndexMap<ModelKey, Entry>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelKey {
    provider: ProviderName,
    model: String,
}

/// What was said of a model while the program runs.
#[derive(Debug, Default)]
struct Entry {
    config: Claims,
    provider: Claims,
    learned_window: Option<u32>,
    refuses_temperature: bool,
    refused_levels: Vec<ReasoningEffort>,
    refuses_output: bool,
    /// The ways of asking for a structured answer that led to none.
    ignored_ways: Vec<OutputWay>,
    /// The last answer had no content.
    answered_empty: bool,
    window_asked_for: bool,
    refuses_images: bool,
    refuses_late_tools: bool,
}

impl Catalog {
    /// A catalog that knows the built-in table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what the configuration says of a model.
    pub fn configure(&self, provider: &ProviderName, model: &str, claims: Claims) {
        self.change(provider, model, |entry| entry.config = claims);
    }

    /// Takes what a provider's list of models says.
    pub fn take_list(&self, provider: &ProviderName, answers: Vec<ListedModel>) {
        for answer in answers.into_iter().take(CATALOG_MODELS) {
            self.change(provider, &answer.model, |entry| {
                entry.provider = answer.claims;
            });
        }
    }

    /// Learns the context window from a server's refusal of a conversation
    /// that was too long. Returns what was learned.
    pub fn learn_from_overflow(&self, model: &ResolvedModel, message: &str) -> Option<u32> {
        let limit = overflow::limit_in(message)?;
        self.change(&model.provider, &model.model, |entry| {
            entry.learned_window = Some(limit);
        });
        Some(limit)
    }

    /// Learns that a model refuses a setting it was sent.
    pub fn learn_refusal(&self, model: &ResolvedModel, setting: RefusedSetting) {
        self.change(&model.provider, &model.model, |entry| match setting {
            RefusedSetting::Temperature => entry.refuses_temperature = true,
            RefusedSetting::Output => entry.refuses_output = true,
            RefusedSetting::Images => entry.refuses_images = true,
            RefusedSetting::LateTools => entry.refuses_late_tools = true,
            RefusedSetting::Reasoning => {
                let known = &mut entry.refused_levels;
                known.extend(model.reasoning.filter(|level| !known.contains(level)));
            }
        });
    }

    /// What is known of a model. Its own fields are configuration.
    pub fn facts(&self, model: &ResolvedModel) -> ModelFacts {
        let models = self.lock();
        let none = Entry::default();
        let key = ModelKey::of(model);
        let entry = models.get(&key).unwrap_or(&none);
        let built_in = table::claims(&model.model).unwrap_or_default();
        let sources = [
            (Source::Config, &entry.config),
            (Source::Provider, &entry.provider),
            (Source::BuiltIn, &built_in),
        ];
        let configured = |value: Option<u32>| value.map(|value| Known::new(value, Source::Config));
        ModelFacts {
            context_window: entry.capped(
                configured(model.max_input_tokens)
                    .or_else(|| first(&sources, |claims| claims.context_window))
                    .unwrap_or(Known::new(DEFAULT_CONTEXT_WINDOW, Source::Default)),
            ),
            output_limit: configured(model.max_output_tokens)
                .or_else(|| first(&sources, |claims| claims.output_limit)),
            prices: first(&sources, |claims| claims.prices),
            temperature: match entry.refuses_temperature {
                true => Some(Known::new(false, Source::Learned)),
                false => first(&sources, |claims| claims.temperature),
            },
            reasoning: first(&sources, |claims| claims.reasoning.clone()),
            images: match entry.refuses_images {
                true => Some(Known::new(false, Source::Learned)),
                false => first(&sources, |claims| claims.images),
            },
        }
    }

    /// Whether a model takes a temperature, as far as is known.
    pub fn takes_temperature(&self, model: &ResolvedModel) -> bool {
        self.facts(model)
            .temperature
            .is_none_or(|known| known.value)
    }

    /// Whether a model takes the level of reasoning it is configured with, as
    /// far as is known.
    pub fn takes_reasoning(&self, model: &ResolvedModel) -> bool {
        let Some(level) = model.reasoning else {
            return true;
        };
        let refused = self
            .lock()
            .get(&ModelKey::of(model))
            .is_some_and(|entry| entry.refused_levels.contains(&level));
        !refused
            && self
                .facts(model)
                .reasoning
                .is_none_or(|known| known.value.contains(&level))
    }

    /// Whether a model takes images, as far as is known.
    pub fn takes_images(&self, model: &ResolvedModel) -> bool {
        self.facts(model).images.is_none_or(|known| known.value)
    }

    /// Whether tools are sent to a model in the midst of a conversation: unless
    /// it refused that.
    pub fn takes_late_tools(&self, model: &ResolvedModel) -> bool {
        let models = self.lock();
        let entry = models.get(&ModelKey::of(model));
        !entry.is_some_and(|entry| entry.refuses_late_tools)
    }

    /// Learns that a structured answer that was asked for in this way did not
    /// come as one.
    pub fn learn_ignored(&self, model: &ResolvedModel, way: OutputWay) {
        self.change(&model.provider, &model.model, |entry| {
            if !entry.ignored_ways.contains(&way) {
                entry.ignored_ways.push(way);
            }
        });
    }

    /// How to ask a model for a structured answer: the first way that is not
    /// known to be refused or ignored, else with a tool.
    pub fn output_way(&self, model: &ResolvedModel) -> OutputWay {
        let models = self.lock();
        let none = Entry::default();
        let entry = models.get(&ModelKey::of(model)).unwrap_or(&none);
        let native = [OutputWay::Native, OutputWay::Both].into_iter();
        native
            .filter(|_| !entry.refuses_output)
            .find(|way| !entry.ignored_ways.contains(way))
            .unwrap_or(OutputWay::Tool)
    }

    /// True, once, for a model whose window nobody knows.
    pub(crate) fn is_window_to_be_asked_for(&self, model: &ResolvedModel) -> bool {
        if self.facts(model).context_window.source != Source::Default {
            return false;
        }
        let mut asked = false;
        self.change(&model.provider, &model.model, |entry| {
            asked = std::mem::replace(&mut entry.window_asked_for, true);
        });
        !asked
    }

    /// Notes whether an answer was empty, without any content.
    /// Returns true if the one before it was empty as well.
    pub fn note_answer(&self, model: &ResolvedModel, empty: bool) -> bool {
        let mut models = self.lock();
        match models.get_mut(&ModelKey::of(model)) {
            Some(entry) => std::mem::replace(&mut entry.answered_empty, empty),
            None if !empty => false,
            None => {
                drop(models);
                let note = |entry: &mut Entry| entry.answered_empty = true;
                self.change(&model.provider, &model.model, note);
                false
            }
        }
    }

    /// What a call cost, if the model's prices are known.
    pub fn cost(&self, usage: &Usage, model: &ResolvedModel) -> Option<Known<Cost>> {
        let prices = self.facts(model).prices?;
        let mut cost = prices.value.cost(usage);
        match prices.source {
            Source::Config => cost.price_from_config = true,
            Source::Provider | Source::Learned => cost.price_from_provider = true,
            Source::BuiltIn | Source::Default => cost.price_built_in = true,
        }
        Some(Known::new(cost, prices.source))
    }

    /// The usage with its cost: by configured prices, else what the service
    /// said it charged, else by what prices are known. None stays none.
    pub fn priced(&self, mut usage: Usage, model: &ResolvedModel) -> Usage {
        let computed = self.cost(&usage, model);
        let configured = computed.filter(|cost| cost.source == Source::Config);
        let said = configured.map(|cost| cost.value).or(usage.cost);
        usage.cost = said.or(computed.map(|cost| cost.value));
        usage
    }

    fn change(&self, provider: &ProviderName, model: &str, change: impl FnOnce(&mut Entry)) {
        let mut models = self.lock();
        let key = ModelKey {
            provider: provider.clone(),
            model: model.to_owned(),
        };
        change(models.entry(key).or_default());
        while models.len() > CATALOG_MODELS {
            models.shift_remove_index(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, IndexMap<ModelKey, Entry>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelKey {
    fn of(model: &ResolvedModel) -> Self {
        Self {
            provider: model.provider.clone(),
            model: model.model.clone(),
        }
    }
}

impl Entry {
    fn capped(&self, window: Known<u32>) -> Known<u32> {
        match self.learned_window {
            Some(learned) if learned < window.value || window.source == Source::Default => {
                Known::new(learned, Source::Learned)
            }
            _ => window,
        }
    }
}

impl<T> Known<T> {
    /// A fact from a source.
    pub const fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }
}

fn first<T>(
    sources: &[(Source, &Claims)],
    claim: impl Fn(&Claims) -> Option<T>,
) -> Option<Known<T>> {
    sources
        .iter()
        .find_map(|(source, claims)| Some(Known::new(claim(claims)?, *source)))
}

#[cfg(test)]
mod tests;
