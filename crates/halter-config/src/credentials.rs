//! Keys of the model services: where they are looked up, and a type that never shows them.

use std::fmt;

use indexmap::IndexMap;
use secrecy::ExposeSecret;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::check::check;
use crate::environment::Environment;
use crate::error::{ConfigError, nearest};
use crate::keys::Kind;
use crate::schema::{ChatDialect, ConfiguredProvider, HarnessConfig, ProviderConfig, ProviderWire};
use crate::services::{KnownService, api_key_variables, known_names, known_service};

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
    /// How it is spoken to.
    pub wire: ProviderWire,
    /// Its manner of the Chat wire.
    pub dialect: ChatDialect,
    /// Address of the service.
    pub base_url: String,
    /// The key; absent where the service needs none.
    pub api_key: Option<SecretString>,
    /// Headers added to each request.
    pub headers: IndexMap<String, SecretString>,
    /// Sampling temperature, if configured.
    pub temperature: Option<f64>,
    /// Whether the service compacts conversations itself, if configured.
    pub native_compaction: Option<bool>,
    /// Whether the service takes tools in the midst of a conversation, if configured.
    pub native_tool_loading: Option<bool>,
}

/// Headers that stand in for a key.
const KEY_HEADERS: [&str; 3] = ["authorization", "x-api-key", "x-goog-api-key"];

/// How to reach a provider: its table where it says so, else the variables that `lookup` finds,
/// else what is known of the service. `None` for a provider that is not a service.
///
/// What is configured wins over a variable; a blank value counts as missing. A known service that
/// wants a key must have one, or a header of its own that carries it; servers on this computer
/// and services with a table of their own may do without.
///
/// # Errors
///
/// [`ConfigError::MissingApiKey`] names the table and the variable to set;
/// [`ConfigError::Refused`] and [`ConfigError::Refused`] the table to write.
pub fn resolve_provider_runtime_config(
    provider: &ConfiguredProvider,
    table: Option<&ProviderConfig>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Option<ProviderRuntimeConfig>, ConfigError> {
    if *provider == ConfiguredProvider::Offline {
        return Ok(None);
    }
    let none = ProviderConfig::default();
    let (table, known) = (table.unwrap_or(&none), known_service(provider.as_str()));
    let (wire, dialect) = spoken(provider, table)?;
    Ok(Some(ProviderRuntimeConfig {
        wire,
        dialect,
        base_url: match (&table.base_url, known) {
            (Some(address), _) => address.clone(),
            (None, Some(known)) => address_of(known, &lookup)?
                .map_or_else(|| known.base_url.to_owned(), |(address, _)| address),
            (None, None) => return Err(incomplete(provider, "base_url")),
        },
        api_key: key_of(provider, table, &lookup)?,
        headers: table
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), SecretString::from(value.clone())))
            .collect(),
        temperature: table.temperature,
        native_compaction: table.native_compaction,
        native_tool_loading: table.native_tool_loading,
    }))
}

/// The wire and the dialect of a service.
pub(crate) fn spoken(
    provider: &ConfiguredProvider,
    table: &ProviderConfig,
) -> Result<(ProviderWire, ChatDialect), ConfigError> {
    let known = known_service(provider.as_str());
    let wire = match table.wire.or(known.map(|known| known.wire)) {
        Some(wire) => wire,
        None if *table == ProviderConfig::default() => return Err(unknown(provider)),
        None => return Err(incomplete(provider, "wire")),
    };
    let dialect = table
        .dialect
        .or(known.and_then(|known| known.dialect))
        .unwrap_or(ChatDialect::Generic);
    Ok((wire, dialect))
}

fn key_of(
    provider: &ConfiguredProvider,
    table: &ProviderConfig,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Option<SecretString>, ConfigError> {
    let variables = api_key_variables(provider);
    let found = table.api_key.clone().and_then(not_blank).or_else(|| {
        variables
            .iter()
            .find_map(|variable| lookup(variable).and_then(not_blank))
    });
    let needed = known_service(provider.as_str())
        .is_some_and(|known| !known.key_variables.is_empty())
        && !table
            .headers
            .keys()
            .any(|name| KEY_HEADERS.contains(&name.to_ascii_lowercase().as_str()));
    match (found, variables.into_iter().next()) {
        (None, Some(variable)) if needed => Err(ConfigError::MissingApiKey {
            provider: provider.as_str().to_owned(),
            variable,
        }),
        (found, _) => Ok(found.map(SecretString::from)),
    }
}

/// The address that a variable gives a known service, and the variable.
pub(crate) fn address_of(
    known: &KnownService,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Option<(String, &'static str)>, ConfigError> {
    let found = known
        .base_url_variable
        .and_then(|variable| Some((lookup(variable).and_then(not_blank)?, variable)));
    let Some((text, variable)) = found else {
        return Ok(None);
    };
    let address = known.address(&text);
    match check(&Kind::Url, &Value::from(address.as_str())) {
        Ok(()) => Ok(Some((address, variable))),
        // The address may hold a password, so it is not shown.
        Err(_) => Err(ConfigError::refused(
            "config_variable",
            format!("{} {}", variable, "is not a web address that can be used"),
            "set one that starts with https:// or http:// and holds no password",
        )),
    }
}

/// Nobody described a service of this name.
pub(crate) fn unknown(provider: &ConfiguredProvider) -> ConfigError {
    let name = provider.as_str();
    let meant = nearest(name, known_names())
        .map(|known| format!("did you mean `{known}`? If not, "))
        .unwrap_or_default();
    ConfigError::refused(
        "config_unknown_provider",
        format!("unknown provider '{name}'"),
        format!("{meant}{}", table_to_write(name)),
    )
}

/// A service of one's own lacks something that only its table can say.
pub(crate) fn incomplete(provider: &ConfiguredProvider, key: &str) -> ConfigError {
    let name = provider.as_str();
    let meant = nearest(name, known_names())
        .map(|known| format!("did you mean [providers.{known}]? If not, "))
        .unwrap_or_default();
    ConfigError::value(
        format!("providers.{name}.{key}"),
        "is missing",
        format!("{meant}{}", table_to_write(name)),
    )
}

fn table_to_write(name: &str) -> String {
    format!(
        "describe the service: [providers.{name}] with base_url = \"https://...\" and \
         wire = \"chat\", or \"anthropic\", \"responses\", \"gemini\""
    )
}

/// How to reach every provider that a role selects, in the order of the roles. Providers that
/// are not services, such as the offline one, are not in the result.
///
/// # Errors
///
/// As [`resolve_provider_runtime_config`], for the first provider that cannot be reached.
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

pub(crate) fn not_blank(key: String) -> Option<String> {
    let trimmed = key.trim();
    if trimmed.is_empty() {
        None
    } else if trimmed.len() == key.len() {
        Some(key)
    } else {
        Some(trimmed.to_owned())
    }
}
