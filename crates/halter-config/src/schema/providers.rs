//! `[providers.*]`: how to reach each model service.

use std::fmt;
use std::path::PathBuf;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::models::ConfiguredProvider;
use super::path_text;
use super::resilience::ResilienceOverride;
use crate::credentials::REDACTED;
use crate::limits::MAX_PRICE_DOLLARS;

/// How the table of a service of one's own may be named, as a pattern.
pub(super) const PROVIDER_NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$";

/// One table per model service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
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
    /// Gemini.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gemini: Option<ProviderConfig>,
    /// Servers on this computer, and services of one's own, by name. The latter need `wire` and
    /// `base_url`.
    #[serde(flatten)]
    pub named: IndexMap<String, ProviderConfig>,
}

impl ProvidersConfig {
    /// The table of a provider, if it has one and it was written.
    pub fn get(&self, provider: &ConfiguredProvider) -> Option<&ProviderConfig> {
        match provider {
            ConfiguredProvider::OpenAi => self.openai.as_ref(),
            ConfiguredProvider::Anthropic => self.anthropic.as_ref(),
            ConfiguredProvider::OpenRouter => self.openrouter.as_ref(),
            ConfiguredProvider::Gemini => self.gemini.as_ref(),
            ConfiguredProvider::Offline => None,
            ConfiguredProvider::Named(name) => self.named.get(name),
        }
    }

    /// Every table that was written, with its provider.
    pub fn tables(&self) -> impl Iterator<Item = (ConfiguredProvider, &ProviderConfig)> {
        let named = self
            .named
            .keys()
            .map(|name| ConfiguredProvider::Named(name.clone()));
        ConfiguredProvider::ALL
            .into_iter()
            .chain(named)
            .filter_map(|provider| Some((provider.clone(), self.get(&provider)?)))
    }

    /// Every table that was written, to change.
    pub(crate) fn tables_mut(&mut self) -> impl Iterator<Item = (String, &mut ProviderConfig)> {
        let own = [
            ("openai", &mut self.openai),
            ("anthropic", &mut self.anthropic),
            ("openrouter", &mut self.openrouter),
            ("gemini", &mut self.gemini),
        ];
        own.into_iter()
            .filter_map(|(name, table)| Some((name.to_owned(), table.as_mut()?)))
            .chain(
                self.named
                    .iter_mut()
                    .map(|(name, table)| (name.clone(), table)),
            )
    }

    /// The table of a provider, created when absent; `None` for a provider that has no table.
    pub fn entry(&mut self, provider: &ConfiguredProvider) -> Option<&mut ProviderConfig> {
        let slot = match provider {
            ConfiguredProvider::OpenAi => &mut self.openai,
            ConfiguredProvider::Anthropic => &mut self.anthropic,
            ConfiguredProvider::OpenRouter => &mut self.openrouter,
            ConfiguredProvider::Gemini => &mut self.gemini,
            ConfiguredProvider::Offline => return None,
            ConfiguredProvider::Named(name) => {
                return Some(self.named.entry(name.clone()).or_default());
            }
        };
        Some(slot.get_or_insert_with(ProviderConfig::default))
    }
}

/// How a service is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProviderWire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// Chat Completions, as most servers speak it.
    Chat,
    /// Gemini `streamGenerateContent`.
    Gemini,
}

/// A server's manner of the Chat wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ChatDialect {
    /// A server nothing is known of.
    Generic,
    /// OpenAI's own service.
    OpenAi,
    /// OpenRouter.
    OpenRouter,
    /// Ollama.
    Ollama,
    /// vLLM.
    Vllm,
    /// The server of llama.cpp.
    LlamaCpp,
    /// LM Studio.
    LmStudio,
}

impl ChatDialect {
    /// The name as it is spelled in `halter.toml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::OpenAi => "openai",
            Self::OpenRouter => "openrouter",
            Self::Ollama => "ollama",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llamacpp",
            Self::LmStudio => "lmstudio",
        }
    }
}

/// How to reach one model service. The key and the header values are never shown by `Debug` and
/// never written by `Serialize`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// How it is spoken to; absent: as the known service of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<ProviderWire>,
    /// Its manner of the Chat wire; absent: that of the known service of that name, else
    /// `generic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<ChatDialect>,
    /// Address of the service; absent: the provider's public one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub base_url: Option<String>,
    /// The key; absent or blank: the provider's environment variable.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "redact_key")]
    #[schemars(extend("format" = "password"))]
    pub api_key: Option<String>,
    /// Headers added to each request.
    #[serde(serialize_with = "redact_headers")]
    pub headers: IndexMap<String, String>,
    /// Sampling temperature, 0 to 2; absent: the model's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Whether the service compacts long conversations itself; absent: only at the vendor's own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_compaction: Option<bool>,
    /// Whether the service takes tools in the midst of a conversation; absent: only at the vendor's own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_tool_loading: Option<bool>,
    /// A PEM file with authorities to trust besides the system's; absent: `SSL_CERT_FILE`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "path_text::one"
    )]
    #[schemars(extend("format" = "path"))]
    pub ca_file: Option<PathBuf>,
    /// Upstream selection; OpenRouter only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<OpenRouterRouting>,
    /// Timeouts and retries that differ from `[resilience]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resilience: Option<ResilienceOverride>,
    /// What is known of its models, by the service's own names of them.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub models: IndexMap<String, ModelOverride>,
}

/// What is known of a model better than by the service's list and the built-in table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOverride {
    /// Size of the context window, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_input_tokens: Option<u32>,
    /// Longest answer, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u32>,
    /// What its tokens cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<ModelPrices>,
}

/// What the tokens of a model cost, in US dollars per million.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelPrices {
    /// Input that is read afresh.
    #[schemars(range(min = 0.0, max = MAX_PRICE_DOLLARS))]
    pub input: f64,
    /// Output, reasoning included.
    #[schemars(range(min = 0.0, max = MAX_PRICE_DOLLARS))]
    pub output: f64,
    /// Input answered from the prompt cache; absent: the price of input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = MAX_PRICE_DOLLARS))]
    pub cache_read: Option<f64>,
    /// Input written to the prompt cache; absent: the price of input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = MAX_PRICE_DOLLARS))]
    pub cache_write: Option<f64>,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProviderConfig")
            .field("wire", &self.wire)
            .field("dialect", &self.dialect)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| REDACTED))
            .field("headers", &redacted_headers(&self.headers))
            .field("temperature", &self.temperature)
            .field("native_compaction", &self.native_compaction)
            .field("native_tool_loading", &self.native_tool_loading)
            .field("ca_file", &self.ca_file)
            .field("routing", &self.routing)
            .field("resilience", &self.resilience)
            .field("models", &self.models)
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
