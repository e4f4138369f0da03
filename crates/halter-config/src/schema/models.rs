//! `[models.*]`: which model plays which role.

use std::borrow::Cow;
use std::fmt;

use halter_protocol::{ModelRole, ReasoningEffort};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::HarnessConfig;
use super::providers::PROVIDER_NAME_PATTERN;
use crate::error::ConfigError;
use crate::services::known_names;

/// Tokens per minute a model named in a file may use unless the file says otherwise.
pub const DEFAULT_TOKENS_PER_MINUTE: u32 = 500_000;

/// The name of the model that the offline provider serves.
pub const OFFLINE_MODEL: &str = "offline";

/// A model service that a role can select.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum ConfiguredProvider {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// OpenRouter.
    OpenRouter,
    /// Gemini.
    Gemini,
    /// The deterministic model built into Halter: no key, no network.
    Offline,
    /// A service with a table of its own, or a server on this computer such as `ollama`.
    Named(String),
}

impl ConfiguredProvider {
    /// Every provider that is not merely a name, in the order they are documented.
    pub const ALL: [Self; 5] = [
        Self::OpenAi,
        Self::Anthropic,
        Self::OpenRouter,
        Self::Gemini,
        Self::Offline,
    ];

    /// The name as it is spelled in `halter.toml`, which is also the name of its table.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::OpenRouter => "openrouter",
            Self::Gemini => "gemini",
            Self::Offline => "offline",
            Self::Named(name) => name,
        }
    }

    /// The provider of that name.
    pub fn from_name(name: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|provider| provider.as_str() == name)
            .unwrap_or_else(|| Self::Named(name.to_owned()))
    }
}

impl From<String> for ConfiguredProvider {
    fn from(name: String) -> Self {
        Self::from_name(&name)
    }
}

impl From<ConfiguredProvider> for String {
    fn from(provider: ConfiguredProvider) -> Self {
        provider.as_str().to_owned()
    }
}

impl fmt::Display for ConfiguredProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl JsonSchema for ConfiguredProvider {
    fn schema_name() -> Cow<'static, str> {
        "ConfiguredProvider".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A model service: a known one, or the name of a table below `providers`.",
            "anyOf": [
                { "enum": known_names() },
                { "type": "string", "pattern": PROVIDER_NAME_PATTERN }
            ]
        })
    }
}

/// One model and its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The service that serves the model.
    pub provider: ConfiguredProvider,
    /// The model's name as the service spells it.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Size of the context window, in tokens; absent: what is known of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_input_tokens: Option<u32>,
    /// Longest answer, in tokens; absent: what is known of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u32>,
    /// How hard the model should think; absent: the model's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningEffort>,
    /// Requests are held back to stay under this many tokens per minute. While nobody sets it,
    /// the limit that the service itself names counts instead.
    #[serde(default = "default_tokens_per_minute")]
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u32>,
}

fn default_tokens_per_minute() -> Option<u32> {
    Some(DEFAULT_TOKENS_PER_MINUTE)
}

impl ModelConfig {
    /// A model without limits of its own.
    pub fn new(provider: ConfiguredProvider, model: impl Into<String>) -> Self {
        Self {
            provider,
            model: model.into(),
            max_input_tokens: None,
            max_output_tokens: None,
            reasoning: None,
            tokens_per_minute: None,
        }
    }

    /// The offline model.
    pub fn offline() -> Self {
        Self::new(ConfiguredProvider::Offline, OFFLINE_MODEL)
    }
}

impl Default for ModelConfig {
    /// The offline model: the only one that works without a key.
    fn default() -> Self {
        Self::offline()
    }
}

/// The model of each role. `default` is required in a file; the others fall back to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsConfig {
    /// The model of ordinary turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<ModelConfig>,
    /// A cheaper model for small jobs; absent: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small: Option<ModelConfig>,
    /// The model of child sessions; absent: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<ModelConfig>,
    /// The models whose `tokens_per_minute` no layer set. See
    /// [`rate_ceiling`](Self::rate_ceiling).
    #[serde(skip)]
    pub default_rates: Vec<(ConfiguredProvider, String)>,
}

impl ModelsConfig {
    /// The tokens per minute that somebody set for a model, or none if its rate is the default of
    /// a file. Only a rate that is set is a ceiling: the model's service may allow more than the
    /// default.
    pub fn rate_ceiling(&self, model: &ModelConfig) -> Option<u32> {
        let mut defaults = self.default_rates.iter();
        let is_default =
            defaults.any(|(provider, name)| *provider == model.provider && *name == model.model);
        model.tokens_per_minute.filter(|_| !is_default)
    }
}

impl HarnessConfig {
    /// The model that plays a role: its own table, or `[models.default]`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::MissingDefaultModel`] when neither is there.
    ///
    /// ```
    /// use halter_config::{HarnessConfig, ModelConfig, ModelsConfig};
    /// use halter_protocol::ModelRole;
    ///
    /// let config = HarnessConfig {
    ///     models: ModelsConfig { default: Some(ModelConfig::offline()), ..ModelsConfig::default() },
    ///     ..HarnessConfig::default()
    /// };
    /// assert_eq!(config.model_for(ModelRole::Small)?.model, "offline");
    /// # Ok::<(), halter_config::ConfigError>(())
    /// ```
    pub fn model_for(&self, role: ModelRole) -> Result<&ModelConfig, ConfigError> {
        let own = match role {
            ModelRole::Small => self.models.small.as_ref(),
            ModelRole::Subagent => self.models.subagent.as_ref(),
            _ => None,
        };
        own.or(self.models.default.as_ref())
            .ok_or(ConfigError::MissingDefaultModel)
    }

    /// The model registered under an id: `default`, `small` or `subagent`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownModel`] for any other id, an upstream model name among them; the
    /// error lists the known ids.
    pub fn model_named(&self, id: &str) -> Result<&ModelConfig, ConfigError> {
        match ModelRole::ALL.into_iter().find(|role| role.as_str() == id) {
            Some(role) => self.model_for(role),
            None => Err(ConfigError::UnknownModel { id: id.to_owned() }),
        }
    }

    /// The providers that the roles select, each once, in the order of the roles.
    pub fn selected_providers(&self) -> Vec<ConfiguredProvider> {
        let mut selected = Vec::new();
        for role in ModelRole::ALL {
            if let Ok(model) = self.model_for(role)
                && !selected.contains(&model.provider)
            {
                selected.push(model.provider.clone());
            }
        }
        selected
    }
}
