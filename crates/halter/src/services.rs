//! Configured model services as providers: a wire, an endpoint, deadlines,
//! retries and rate limits.

use crate::error::config_failure;
use halter_config::{
    ConfiguredProvider, Environment, HarnessConfig, OpenRouterRouting, ProviderRuntimeConfig,
    ResilienceConfig, resolve_provider_runtime_config,
};
use halter_providers::catalog::Catalog;
use halter_providers::http::{
    ClientSettings, Deadlines, Endpoint, HttpProvider, NetworkTransport, ProxySettings,
};
use halter_providers::layers::{RateLimiter, RetryPolicy, standard};
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::{OfflineProvider, Provider};
use std::sync::Arc;
use std::time::Duration;

/// What all services of a harness share.
pub(crate) struct Services<'a> {
    config: &'a HarnessConfig,
    environment: &'a Environment,
    catalog: Catalog,
    rates: RateLimiter,
}

impl<'a> Services<'a> {
    pub fn new(config: &'a HarnessConfig, environment: &'a Environment) -> Self {
        Self {
            config,
            environment,
            catalog: Catalog::new(),
            rates: RateLimiter::new(),
        }
    }

    /// The provider of a service.
    ///
    /// # Errors
    /// If its key is missing.
    pub fn provider(&self, provider: &ConfiguredProvider) -> anyhow::Result<Arc<dyn Provider>> {
        let lookup = |variable: &str| self.environment.text(variable).map(str::to_owned);
        let table = self.config.providers.get(provider);
        let reached = resolve_provider_runtime_config(provider, table, lookup);
        let Some(reached) = reached.map_err(config_failure)? else {
            return Ok(Arc::new(OfflineProvider::new()));
        };
        let own = table.and_then(|table| table.resilience.as_ref());
        let resilience = own.map_or_else(
            || self.config.resilience.clone(),
            |own| self.config.resilience.overridden_by(own),
        );
        let routing = table.and_then(|table| table.routing.as_ref());
        let transport = self.transport(&resilience);
        let http = HttpProvider::new(wire(provider), endpoint(&reached, routing)?, transport)
            .with_catalog(self.catalog.clone())
            .with_rate_reports(self.rates.clone());
        let retry = retry_policy(&resilience);
        Ok(standard(Arc::new(http), retry, self.rates.clone()))
    }

    fn transport(&self, resilience: &ResilienceConfig) -> Arc<Deadlines<NetworkTransport>> {
        let timeouts = &resilience.timeouts;
        let client = ClientSettings {
            connect: Duration::from_secs(timeouts.connect_secs),
            proxies: proxies(self.environment),
            ..ClientSettings::default()
        };
        Arc::new(Deadlines::new(
            NetworkTransport::new(client),
            Duration::from_secs(timeouts.request_secs),
            Duration::from_secs(timeouts.stream_idle_secs),
        ))
    }
}

fn wire(provider: &ConfiguredProvider) -> Arc<dyn Wire> {
    match provider {
        ConfiguredProvider::Anthropic => Arc::new(Anthropic::new()),
        ConfiguredProvider::OpenRouter => Arc::new(Chat::new(Dialect::OPENROUTER)),
        _ => Arc::new(ResponsesWire),
    }
}

fn endpoint(
    reached: &ProviderRuntimeConfig,
    routing: Option<&OpenRouterRouting>,
) -> anyhow::Result<Endpoint> {
    let mut endpoint = Endpoint::new(reached.base_url.as_str())
        .with_api_key(reached.api_key.expose_secret().to_owned());
    endpoint.headers = reached
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.expose_secret().to_owned().into()))
        .collect();
    endpoint.temperature = reached.temperature.map(|value| value as f32);
    if let Some(routing) = routing {
        let routing = serde_json::to_string(routing)?;
        endpoint.extra_members = Some(format!("\"provider\":{routing}"));
    }
    Ok(endpoint)
}

fn retry_policy(resilience: &ResilienceConfig) -> RetryPolicy {
    let retry = &resilience.request_retry;
    RetryPolicy {
        max_attempts: retry.max_attempts,
        deadline: Duration::from_secs(retry.deadline_secs),
        base_backoff: Duration::from_millis(retry.base_backoff_ms),
        max_backoff: Duration::from_secs(retry.max_backoff_secs),
        jitter_percent: retry.jitter_pct,
    }
}

/// The proxies that the usual variables name, in either spelling.
fn proxies(environment: &Environment) -> ProxySettings {
    let named = |upper: &str, lower: &str| {
        let value = environment.text(lower).or_else(|| environment.text(upper));
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    };
    ProxySettings {
        // Upper-case `HTTP_PROXY` can come from a request header of a program
        // that serves the web, so only the lower-case one counts.
        http: named("http_proxy", "http_proxy"),
        https: named("HTTPS_PROXY", "https_proxy"),
        all: named("ALL_PROXY", "all_proxy"),
        none_for: named("NO_PROXY", "no_proxy"),
    }
}
