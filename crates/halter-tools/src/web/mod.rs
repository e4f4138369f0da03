//! What the tools for the web share: how they are set up, and requests that go
//! through the network policy.
//!
//! Every connection is made by [`ToolContext::connect`](crate::ToolContext::connect),
//! one for each redirect as well, so each is checked by itself. Nothing is read
//! from the environment: whoever builds the tools says how TLS is set up.

mod request;
mod tls;

pub use tls::TlsLoader;

pub(crate) use request::{Answer, WebRequest, destination, parse, send};
pub(crate) use tls::Tls;

use crate::availability::HarnessFacts;
use halter_policy::{NetworkPolicy, NetworkSwitch};

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
}

impl std::fmt::Debug for WebSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebSettings").finish_non_exhaustive()
    }
}
