//! Keys of the model services: where they are looked up, and a type that never shows them.

use std::fmt;

use indexmap::IndexMap;
use secrecy::ExposeSecret;
use serde::{Serialize, Serializer};

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::schema::{ConfiguredProvider, HarnessConfig, ProviderConfig};

/// What is shown in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// A secret that `Debug`, `Display` and `Serialize` do not show and that is wiped when dropped.
///
/// ```
/// let key = halter_config::SecretString::from("sk-123".to_owned());
/// assert_eq!(format!("{key} {key:?}"), "[redacted] [redacted]");
/// assert_eq!(key.expose_secret(), "sk-123");
/// ```
#[derive(Clone)]
pub struct SecretString(secrecy::SecretString);

impl SecretString {
    /// The secret itself, for the one place that sends it.
    pub fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for SecretString {
    fn from(secret: String) -> Self {
        Self(secret.into())
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl fmt::Display for SecretString {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl Serialize for SecretString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

/// All that is needed to talk to one model service.
#[derive(Debug, Clone, Serialize)]
pub struct ProviderRuntimeConfig {
    /// Address of the service.
    pub base_url: String,
    /// The key.
    pub api_key: SecretString,
    /// Headers added to each request.
    pub headers: IndexMap<String, SecretString>,
    /// Sampling temperature, if configured.
    pub temperature: Option<f64>,
}

/// The public address of a provider's service; `None` for a provider that is not a service.
pub fn default_base_url(provider: &ConfiguredProvider) -> Option<&'static str> {
    match provider {
        ConfiguredProvider::OpenAi => Some("https://api.openai.com"),
        ConfiguredProvider::Anthropic => Some("https://api.anthropic.com"),
        ConfiguredProvider::OpenRouter => Some("https://openrouter.ai/api"),
        ConfiguredProvider::Offline => None,
    }
}

/// The environment variable that can hold a provider's key; `None` for one that needs no key.
pub fn api_key_variable(provider: &ConfiguredProvider) -> Option<&'static str> {
    match provider {
        ConfiguredProvider::OpenAi => Some("OPENAI_API_KEY"),
        ConfiguredProvider::Anthropic => Some("ANTHROPIC_API_KEY"),
        ConfiguredProvider::OpenRouter => Some("OPENROUTER_API_KEY"),
        ConfiguredProvider::Offline => None,
    }
}

/// How to reach a provider: its table where it says so, else the defaults and the variable that
/// `lookup` finds. `None` for a provider that is not a service.
///
/// A configured key wins over the variable; a blank one counts as missing.
///
/// # Errors
///
/// [`ConfigError::MissingApiKey`] names the table and the variable to set.
pub fn resolve_provider_runtime_config(
    provider: &ConfiguredProvider,
    table: Option<&ProviderConfig>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Option<ProviderRuntimeConfig>, ConfigError> {
    let (Some(base_url), Some(variable)) = (default_base_url(provider), api_key_variable(provider))
    else {
        return Ok(None);
    };
    let api_key = table
        .and_then(|table| table.api_key.clone())
        .and_then(not_blank)
        .or_else(|| lookup(variable).and_then(not_blank))
        .ok_or_else(|| ConfigError::MissingApiKey {
            provider: provider.as_str().to_owned(),
            variable: variable.to_owned(),
        })?;
    let headers = table
        .map(|table| &table.headers)
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), SecretString::from(value.clone())))
        .collect();
    Ok(Some(ProviderRuntimeConfig {
        base_url: table
            .and_then(|table| table.base_url.clone())
            .unwrap_or_else(|| base_url.to_owned()),
        api_key: SecretString::from(api_key),
        headers,
        temperature: table.and_then(|table| table.temperature),
    }))
}

/// How to reach every provider that a role selects, in the order of the roles. Providers that
/// are not services, such as the offline one, are not in the result.
///
/// # Errors
///
/// [`ConfigError::MissingApiKey`] for the first provider without a key.
pub fn resolve_credentials(
    config: &HarnessConfig,
    environment: &Environment,
) -> Result<Vec<(ConfiguredProvider, ProviderRuntimeConfig)>, ConfigError> {
    let mut resolved = Vec::new();
    for provider in config.selected_providers() {
        let lookup = |variable: &str| environment.text(variable).map(str::to_owned);
        let table = config.providers.get(&provider);
        if let Some(runtime) = resolve_provider_runtime_config(&provider, table, lookup)? {
            resolved.push((provider, runtime));
        }
    }
    Ok(resolved)
}

fn not_blank(key: String) -> Option<String> {
    let trimmed = key.trim();
    if trimmed.is_empty() {
        None
    } else if trimmed.len() == key.len() {
        Some(key)
    } else {
        Some(trimmed.to_owned())
    }
}
