//! What the tools for the web share: how they are set up, and requests that go
//! through the network policy.
//!
//! Every connection is made by [`ToolContext::connect`](crate::ToolContext::connect),
//! one for each redirect as well, so each is checked by itself. Nothing is read
//! from the environment: whoever builds the tools says how TLS is set up.

#[cfg(feature = "browser-tools")]
mod browser;
mod deadline;
pub(crate) mod html;
mod post;
mod request;
mod search;
mod tls;

#[cfg(feature = "browser-tools")]
pub use browser::Browserbase;
pub use post::HttpPost;
pub use search::{SearchHit, SearchQuery, WebSearch};
pub use tls::TlsLoader;

#[cfg(feature = "browser-tools")]
pub(crate) use browser::RemoteBrowser;
pub(crate) use deadline::ReadingDeadline;

pub(crate) use request::{Answer, WebRequest, destination, parse, send};
pub(crate) use search::SearchChoice;
pub(crate) use tls::Tls;

use crate::availability::HarnessFacts;
use anyhow::anyhow;
use halter_policy::{NetworkPolicy, NetworkSwitch};
use hyper::header::HeaderValue;
use std::sync::Arc;

/// Why tools for the web are of no use: no host can be reached, and nobody can
/// be asked about one.
pub(crate) fn unreachable(harness: &HarnessFacts<'_>) -> Option<String> {
    let policy = harness.policy;
    // Settings that cannot be read are refused elsewhere.
    let network = NetworkPolicy::bind(policy).ok()?;
    let asks = harness.attended && policy.permissions.mode.asks();
    match network.is_closed() && !(policy.network == NetworkSwitch::Unset && asks) {
        true => Some(
            "the network is off; set policy.network.enabled and list hosts in \
             policy.network.allowed_hosts"
                .to_owned(),
        ),
        false => None,
    }
}

/// How the built-in tools for the web are set up. Without anything set they
/// reach `http` addresses only.
#[derive(Clone, Default)]
#[must_use = "it is given to `builtin_tools_with`"]
pub struct WebSettings {
    pub(crate) tls: Tls,
    pub(crate) search: Option<SearchChoice>,
    /// The browser that runs elsewhere, or why there is none.
    #[cfg(feature = "browser-tools")]
    pub(crate) browser: Option<Result<RemoteBrowser, String>>,
}

impl WebSettings {
    /// Nothing is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how TLS is set up, for `https` addresses. It is done once, when it
    /// is first needed.
    pub fn with_tls(mut self, load: TlsLoader) -> Self {
        self.tls = Tls::new(load);
        self
    }

    /// Posts as the tools fetch.
    pub fn post(&self) -> HttpPost {
        HttpPost::secured_by(self.tls.clone())
    }

    /// Has the tool `browser` use the one at this address of the Chrome DevTools
    /// Protocol, not a Chromium of its own: that of a WebSocket (`ws`, `wss`),
    /// or an HTTP one that tells of it.
    ///
    /// # Errors
    /// If this is no such address.
    #[cfg(feature = "browser-tools")]
    pub fn with_browser_at(mut self, address: &str) -> anyhow::Result<Self> {
        let address = crate::builtin::browser_endpoint(address)?;
        self.browser = Some(Ok(RemoteBrowser::Endpoint(address)));
        Ok(self)
    }

    /// Has the tool `browser` use one that this service starts.
    #[cfg(feature = "browser-tools")]
    pub fn with_browserbase(mut self, service: Browserbase) -> Self {
        self.browser = Some(Ok(RemoteBrowser::Browserbase(service)));
        self
    }

    /// Says why there is no browser, though one elsewhere was asked for.
    #[cfg(feature = "browser-tools")]
    pub fn without_browser(mut self, reason: impl Into<String>) -> Self {
        self.browser = Some(Err(reason.into()));
        self
    }

    /// Searches by a service of one's own.
    pub fn with_search(mut self, service: Arc<dyn WebSearch>) -> Self {
        self.search = Some(SearchChoice::Own(service));
        self
    }

    /// Says why nothing can be searched, though it should.
    pub fn without_search(mut self, reason: impl Into<String>) -> Self {
        self.search = Some(SearchChoice::Missing(reason.into()));
        self
    }

    /// Searches by a SearXNG server at this address, which must answer in
    /// JSON.
    ///
    /// # Errors
    /// If this is not an `http` or `https` address.
    pub fn with_searxng(mut self, address: &str) -> anyhow::Result<Self> {
        self.search = Some(SearchChoice::Searxng(parse(address)?));
        Ok(self)
    }

    /// Searches by Brave, with this key; `address`: elsewhere than at its
    /// public address.
    ///
    /// # Errors
    /// If the key cannot be sent, or this is not an address.
    pub fn with_brave(mut self, key: &str, address: Option<&str>) -> anyhow::Result<Self> {
        // What is wrong with a key is not said in its words.
        let key = HeaderValue::from_str(key);
        let mut key = key.map_err(|_| anyhow!("the key holds characters that no key has"))?;
        key.set_sensitive(true);
        let url = address.map(parse).transpose()?;
        self.search = Some(SearchChoice::Brave { key, url });
        Ok(self)
    }
}

impl std::fmt::Debug for WebSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebSettings").finish_non_exhaustive()
    }
}
