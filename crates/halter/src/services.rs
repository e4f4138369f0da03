//! Configured model services as providers: a wire, an endpoint, deadlines,
//! retries and rate limits.

use crate::models::{provider_name, resolved};
use halter_config::{
    ChatDialect, ConfigError, ConfiguredProvider, Environment, HarnessConfig, ModelOverride,
    ModelPrices, OpenRouterRouting, ProviderConfig, ProviderRuntimeConfig, ProviderWire,
    ResilienceConfig, resolve_provider_runtime_config,
};
use halter_protocol::{ModelId, ProviderName};
use halter_providers::catalog::{Catalog, Claims, Prices};
use halter_providers::http::{
    ClientSettings, Deadlines, Endpoint, HttpProvider, NetworkTransport, ProxySettings, Transport,
};
use halter_providers::layers::{RateLimiter, RetryPolicy, standard};
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::{ModelResolver, OfflineProvider, Provider, RegistryError, ServedModel};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The services of a harness, each put together when it is first asked for.
pub(crate) struct Services {
    config: Arc<HarnessConfig>,
    environment: Environment,
    catalog: Catalog,
    rates: RateLimiter,
    made: Mutex<BTreeMap<ProviderName, Arc<dyn Provider>>>,
}

impl Services {
    /// The services that a configuration describes. Those in `injected` take
    /// the place of configured ones.
    pub fn new(
        config: Arc<HarnessConfig>,
        environment: Environment,
        injected: BTreeMap<ProviderName, Arc<dyn Provider>>,
    ) -> Self {
        let catalog = Catalog::new();
        for (provider, table) in config.providers.tables() {
            for (model, facts) in &table.models {
                catalog.configure(&provider_name(&provider), model, claims(facts));
            }
        }
        Self {
            config,
            environment,
            catalog,
            rates: RateLimiter::new(),
            made: Mutex::new(injected),
        }
    }

    /// The provider of a service.
    ///
    /// # Errors
    /// If the service is not described or its key is missing.
    pub fn provider(
        &self,
        provider: &ConfiguredProvider,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let name = provider_name(provider);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&name) {
            return Ok(known.clone());
        }
        let new = self.make(provider)?;
        made.insert(name, new.clone());
        Ok(new)
    }

    fn make(&self, provider: &ConfiguredProvider) -> Result<Arc<dyn Provider>, ConfigError> {
        let lookup = |variable: &str| self.environment.text(variable).map(str::to_owned);
        let table = self.config.providers.get(provider);
        let Some(reached) = resolve_provider_runtime_config(provider, table, lookup)? else {
            return Ok(Arc::new(OfflineProvider::new()));
        };
        let own = table.and_then(|table| table.resilience.as_ref());
        let resilience = own.map_or_else(
            || self.config.resilience.clone(),
            |own| self.config.resilience.overridden_by(own),
        );
        let routing = table.and_then(|table| table.routing.as_ref());
        let transport = self.transport(&resilience, table);
        let http = HttpProvider::new(wire(&reached), endpoint(&reached, routing), transport)
            .with_catalog(self.catalog.clone())
            .with_rate_reports(self.rates.clone());
        let retry = retry_policy(&resilience);
        Ok(standard(Arc::new(http), retry, self.rates.clone()))
    }

    fn transport(
        &self,
        resilience: &ResilienceConfig,
        table: Option<&ProviderConfig>,
    ) -> Arc<dyn Transport> {
        let timeouts = &resilience.timeouts;
        let ca_file = table.and_then(|table| table.ca_file.clone());
        let client = ClientSettings {
            connect: Duration::from_secs(timeouts.connect_secs),
            proxies: proxies(&self.environment),
            ca_file: ca_file.or_else(|| certificates(&self.environment)),
            ..ClientSettings::default()
        };
        Arc::new(Deadlines::new(
            NetworkTransport::new(client),
            Duration::from_secs(timeouts.request_secs),
            Duration::from_secs(timeouts.stream_idle_secs),
        ))
    }
}

/// Models by ids such as `ollama/qwen3`, which no role needs to name.
impl ModelResolver for Services {
    fn resolve(&self, id: &ModelId) -> Option<Result<ServedModel, RegistryError>> {
        let model = match self.config.model_with_id(id.as_str()) {
            Err(ConfigError::UnknownModel { .. }) => return None,
            found => found,
        };
        let served = model.and_then(|model| {
            let provider = self.provider(&model.provider)?;
            Ok((resolved(id.clone(), &model), provider))
        });
        Some(served.map_err(|error| RegistryError::Unusable {
            id: id.clone(),
            code: error.code(),
            message: error.to_string(),
        }))
    }
}

fn wire(reached: &ProviderRuntimeConfig) -> Arc<dyn Wire> {
    match reached.wire {
        ProviderWire::Anthropic => Arc::new(Anthropic::new()),
        ProviderWire::Responses => Arc::new(ResponsesWire),
        ProviderWire::Gemini => Arc::new(GeminiWire),
        _ => Arc::new(Chat::new(dialect(reached.dialect))),
    }
}

fn dialect(dialect: ChatDialect) -> Dialect {
    Dialect::named(dialect.as_str()).unwrap_or(Dialect::GENERIC)
}

fn endpoint(reached: &ProviderRuntimeConfig, routing: Option<&OpenRouterRouting>) -> Endpoint {
    let mut endpoint = Endpoint::new(reached.base_url.as_str());
    if let Some(key) = &reached.api_key {
        endpoint = endpoint.with_api_key(key.expose_secret().to_owned());
    }
    endpoint.headers = reached
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.expose_secret().to_owned().into()))
        .collect();
    endpoint.temperature = reached.temperature.map(|value| value as f32);
    endpoint.extra_members = routing
        .and_then(|routing| serde_json::to_string(routing).ok())
        .map(|routing| format!("\"provider\":{routing}"));
    endpoint
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

/// What a configuration says of a model.
fn claims(facts: &ModelOverride) -> Claims {
    Claims {
        context_window: facts.max_input_tokens,
        output_limit: facts.max_output_tokens,
        prices: facts.prices.as_ref().map(prices),
        ..Claims::default()
    }
}

/// Dollars per million tokens as billionths of a dollar per token.
fn prices(prices: &ModelPrices) -> Prices {
    let billionths = |dollars: f64| (dollars * 1e3).round() as u64;
    Prices {
        input: billionths(prices.input),
        cache_read: billionths(prices.cache_read.unwrap_or(prices.input)),
        cache_write: billionths(prices.cache_write.unwrap_or(prices.input)),
        output: billionths(prices.output),
    }
}

/// The authorities that the usual variable names, besides the system's.
fn certificates(environment: &Environment) -> Option<PathBuf> {
    let file = environment.get("SSL_CERT_FILE")?;
    (!file.is_empty()).then(|| file.into())
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
