//! `[providers.*]`: how to reach each model service.

use std::fmt;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::models::ConfiguredProvider;
use super::resilience::ResilienceOverride;
use crate::credentials::REDACTED;

/// One table per model service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProvidersConfig {
    /// OpenAI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openai: Option<ProviderConfig>,
    /// Anthropic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anthropic: Option<ProviderConfig>,
    /// OpenRouter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openrouter: Option<ProviderConfig>,
}

impl ProvidersConfig {
    /// The table of a provider, if it has one and it was written.
    pub fn get(&self, provider: &ConfiguredProvider) -> Option<&ProviderConfig> {
        match provider {
            ConfiguredProvider::OpenAi => self.openai.as_ref(),
            ConfiguredProvider::Anthropic => self.anthropic.as_ref(),
            ConfiguredProvider::OpenRouter => self.openrouter.as_ref(),
            ConfiguredProvider::Offline => None,
        }
    }

    /// The table of a provider, created when absent; `None` for a provider that has no table.
    pub(crate) fn entry(&mut self, provider: &ConfiguredProvider) -> Option<&mut ProviderConfig> {
        let slot = match provider {
            ConfiguredProvider::OpenAi => &mut self.openai,
            ConfiguredProvider::Anthropic => &mut self.anthropic,
            ConfiguredProvider::OpenRouter => &mut self.openrouter,
            ConfiguredProvider::Offline => return None,
        };
        Some(slot.get_or_insert_with(ProviderConfig::default))
    }
}

/// How to reach one model service. The key and the header values are never shown by `Debug` and
/// never written by `Serialize`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// Address of the service; absent: the provider's public one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The key; absent or blank: the provider's environment variable.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "redact_key")]
    pub api_key: Option<String>,
    /// Headers added to each request.
    #[serde(serialize_with = "redact_headers")]
    pub headers: IndexMap<String, String>,
    /// Sampling temperature, 0 to 2; absent: the model's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Upstream selection; OpenRouter only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<OpenRouterRouting>,
    /// Timeouts and retries that differ from `[resilience]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resilience: Option<ResilienceOverride>,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProviderConfig")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| REDACTED))
            .field("headers", &redacted_headers(&self.headers))
            .field("temperature", &self.temperature)
            .field("routing", &self.routing)
            .field("resilience", &self.resilience)
            .finish()
    }
}

/// Which upstream services OpenRouter may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenRouterRouting {
    /// Upstream services in the order of preference.
    pub order: Vec<String>,
    /// Whether other services may be used when those fail; absent: OpenRouter's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_fallbacks: Option<bool>,
}

fn redacted_headers(headers: &IndexMap<String, String>) -> IndexMap<&str, &'static str> {
    headers
        .keys()
        .map(|name| (name.as_str(), REDACTED))
        .collect()
}

fn redact_key<S: Serializer>(key: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    key.as_ref().map(|_| REDACTED).serialize(serializer)
}

fn redact_headers<S: Serializer>(
    headers: &IndexMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    redacted_headers(headers).serialize(serializer)
}
