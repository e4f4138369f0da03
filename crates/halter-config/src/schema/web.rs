//! `[tools.web_search]`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::credentials::REDACTED;

/// The service that the tool `web_search` asks. The key is never shown by `Debug` and never
/// written by `Serialize`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebSearchConfig {
    /// Which service; absent: there is no `web_search`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SearchProvider>,
    /// Its address. SearXNG needs one and must answer in JSON; absent: Brave's public one. The
    /// network policy must let tools reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "uri"))]
    pub url: Option<String>,
    /// The key of Brave; absent or blank: `BRAVE_API_KEY`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "redacted")]
    #[schemars(extend("format" = "password"))]
    pub api_key: Option<String>,
}

/// A service that searches the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SearchProvider {
    /// A SearXNG server.
    Searxng,
    /// The Brave Search API.
    Brave,
}

impl fmt::Debug for WebSearchConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WebSearchConfig")
            .field("provider", &self.provider)
            .field("url", &self.url)
            .field("api_key", &self.api_key.as_ref().map(|_| REDACTED))
            .finish()
    }
}

fn redacted<S: Serializer>(key: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    key.as_ref().map(|_| REDACTED).serialize(serializer)
}
