//! `[browser]`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::credentials::REDACTED;

/// The browser that the tool `browser` uses. The address is never shown by `Debug` and never
/// written by `Serialize`: it may hold a key.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BrowserConfig {
    /// A browser elsewhere, by its address of the Chrome DevTools Protocol (`ws`, `wss`, or
    /// `http` and `https` that tell of it); absent: one of Browserbase if `BROWSERBASE_API_KEY`
    /// is set, or a Chromium of the session's own. The network policy must let tools reach it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "redacted")]
    #[schemars(extend("format" = "password"))]
    pub cdp_url: Option<String>,
}

impl fmt::Debug for BrowserConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BrowserConfig")
            .field("cdp_url", &self.cdp_url.as_ref().map(|_| REDACTED))
            .finish()
    }
}

fn redacted<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_ref().map(|_| REDACTED).serialize(serializer)
}
