//! Configured model services as providers: a wire, an endpoint, deadlines,
//! retries and rate limits.

use crate::error::config_failure;
use crate::models::{provider_name, resolved};
use crate::recording;
use halter_config::{
    ChatDialect, ConfigError, ConfiguredProvider, Environment, HarnessConfig, KNOWN_SERVICES,
    ModelConfig, ModelOverride, ModelPrices, OpenRouterRouting, ProviderConfig,
    ProviderRuntimeConfig, ProviderWire, ResilienceConfig, api_key_variables,
    resolve_provider_runtime_config,
};
use halter_protocol::{ModelId, ProviderName};
use halter_providers::cassette::{Cassette, Deck, Scrubber};
use halter_providers::catalog::{Catalog, Claims, ListedModel, Prices};
use halter_providers::http::{ClientSettings, Endpoint, HttpProvider, ProxySettings};
use halter_providers::layers::{RateLimiter, RetryPolicy};
use halter_providers::resilience::{ProviderErrorClassifier, ProviderTimeouts, ResiliencePolicy};
use halter_providers::secrets::Secrets;
use halter_providers::services::Service;
use halter_providers::wire::Wire;
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::{ModelResolver, OfflineProvider, Provider, RegistryError, ServedModel};
use halter_runtime::HalterError;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How services are reached otherwise than the configuration says.
#[derive(Default)]
pub(crate) struct ServiceSettings {
    /// Set by the embedding program; wins over the configuration.
    pub resilience: Option<ResiliencePolicy>,
    /// Who says what errors mean.
    pub classifier: Option<Arc<dyn ProviderErrorClassifier>>,
    /// Rates that are shared with other harnesses.
    pub rates: RateLimiter,
    /// Traffic is recorded, or played back.
    pub cassette: Option<Cassette>,
    /// What is known of models.
    pub catalog: Catalog,
}

/// The services of a harness, each put together when it is first asked for.
pub(crate) struct Services {
    config: Arc<HarnessConfig>,
    environment: Environment,
    settings: ServiceSettings,
    deck: Option<Deck>,
    made: Mutex<BTreeMap<ProviderName, Made>>,
}

/// A service that was put together.
#[derive(Clone)]
struct Made {
    served_by: Arc<dyn Provider>,
    /// Where its models are listed; an injected provider has no list.
    listed_by: Option<Arc<HttpProvider>>,
}

impl Services {
    /// The services that a configuration describes. Those in `injected` take
    /// the place of configured ones.
    ///
    /// # Errors
    /// If the cassette cannot be opened.
    pub fn new(
        config: Arc<HarnessConfig>,
        environment: Environment,
        injected: BTreeMap<ProviderName, Arc<dyn Provider>>,
        settings: ServiceSettings,
    ) -> anyhow::Result<Self> {
        let deck = match &settings.cassette {
            Some(cassette) => Some(open(cassette, &config, &environment)?),
            None => None,
        };
        for (provider, table) in config.providers.tables() {
            for (model, facts) in &table.models {
                let name = provider_name(&provider);
                settings.catalog.configure(&name, model, claims(facts));
            }
        }
        Ok(Self {
            config,
            environment,
            settings,
            deck,
            made: Mutex::new(injected.into_iter().map(made).collect()),
        })
    }

    /// The provider of a service.
    ///
    /// # Errors
    /// If the service is not described, its key is missing, or a cassette is
    /// in and it uses no network.
    pub fn provider(&self, provider: &ConfiguredProvider) -> Result<Arc<dyn Provider>, Unusable> {
        self.made(provider).map(|made| made.served_by)
    }

    /// The models that a service lists, which are known to the catalog from
    /// then on.
    ///
    /// # Errors
    /// If the service cannot be used, or does not answer.
    pub async fn list(
        &self,
        provider: &ConfiguredProvider,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Vec<ListedModel>> {
        let made = self.made(provider).map_err(Unusable::into_failure)?;
        let Some(service) = made.listed_by else {
            return Ok(Vec::new());
        };
        let answers = service.models(cancel).await?;
        let name = provider_name(provider);
        self.settings.catalog.take_list(&name, answers.clone());
        Ok(answers)
    }

    /// Refuses to go on with a cassette that nothing would pass through.
    pub fn need_no_cassette(&self) -> Result<(), Unusable> {
        match self.deck {
            Some(_) => Err(Unusable::NoTraffic),
            None => Ok(()),
        }
    }

    /// The rates of its models.
    pub fn rates(&self) -> &RateLimiter {
        &self.settings.rates
    }

    /// The recording that is made or played, if any.
    pub fn deck(&self) -> Option<&Deck> {
        self.deck.as_ref()
    }

    fn injected_model(&self, id: &ModelId) -> Option<ModelConfig> {
        let (name, model) = id.as_str().split_once('/')?;
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let known = made.contains_key(&ProviderName::from(name));
        known.then(|| ModelConfig::new(ConfiguredProvider::from_name(name), model))
    }

    fn made(&self, provider: &ConfiguredProvider) -> Result<Made, Unusable> {
        let name = provider_name(provider);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&name) {
            return Ok(known.clone());
        }
        let new = self.make(provider)?;
        made.insert(name, new.clone());
        Ok(new)
    }

    fn make(&self, provider: &ConfiguredProvider) -> Result<Made, Unusable> {
        let table = self.config.providers.get(provider);
        let reached = self.reach(provider, table)?;
        let Some(reached) = reached else {
            self.need_no_cassette()?;
            return Ok(Made {
                served_by: Arc::new(OfflineProvider::new()),
                listed_by: None,
            });
        };
        let routing = table.and_then(|table| table.routing.as_ref());
        let service = Service {
            client: self.client(table),
            resilience: self.resilience(table),
            classifier: self.settings.classifier.clone(),
            rates: self.settings.rates.clone(),
            catalog: self.settings.catalog.clone(),
            deck: self.deck.as_ref(),
            ..Service::new(wire(&reached), endpoint(&reached, routing))
        };
        let (served_by, listed_by) = service.build();
        Ok(Made {
            served_by,
            listed_by: Some(listed_by),
        })
    }

    /// What is played back needs no key.
    fn reach(
        &self,
        provider: &ConfiguredProvider,
        table: Option<&ProviderConfig>,
    ) -> Result<Option<ProviderRuntimeConfig>, ConfigError> {
        let lookup = |variable: &str| self.environment.text(variable).map(str::to_owned);
        let reached = resolve_provider_runtime_config(provider, table, lookup);
        match reached {
            Err(ConfigError::MissingApiKey { .. })
                if self.deck.as_ref().is_some_and(Deck::replays) =>
            {
                let mut keyed = table.cloned().unwrap_or_default();
                keyed.api_key = Some(NO_KEY.to_owned());
                resolve_provider_runtime_config(provider, Some(&keyed), lookup)
            }
            reached => reached,
        }
    }

    fn resilience(&self, table: Option<&ProviderConfig>) -> ResiliencePolicy {
        if let Some(own) = &self.settings.resilience {
            return own.clone();
        }
        let common = &self.config.resilience;
        match table.and_then(|table| table.resilience.as_ref()) {
            Some(own) => resilience_policy(&common.overridden_by(own)),
            None => resilience_policy(common),
        }
    }

    fn client(&self, table: Option<&ProviderConfig>) -> ClientSettings {
        let mut settings = client_settings(&self.environment);
        if let Some(file) = table.and_then(|table| table.ca_file.clone()) {
            settings.ca_file = Some(file);
        }
        settings
    }
}

/// How the network is reached, by the user's variables.
pub(crate) fn client_settings(environment: &Environment) -> ClientSettings {
    ClientSettings {
        proxies: proxies(environment),
        ca_file: certificates(environment),
        ..ClientSettings::default()
    }
}

fn made((name, served_by): (ProviderName, Arc<dyn Provider>)) -> (ProviderName, Made) {
    let listed_by = None;
    (
        name,
        Made {
            served_by,
            listed_by,
        },
    )
}

/// Stands in for a key that nobody is sent.
const NO_KEY: &str = "none";

/// Why a service cannot be used.
pub(crate) enum Unusable {
    /// The configuration does not say enough.
    Config(ConfigError),
    /// A cassette is in, and the model uses no network.
    NoTraffic,
}

impl From<ConfigError> for Unusable {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl Unusable {
    fn code(&self) -> &'static str {
        match self {
            Self::Config(error) => error.code(),
            Self::NoTraffic => "cassette_without_service",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Config(error) => error.to_string(),
            Self::NoTraffic => format!("{NO_TRAFFIC}: {NO_TRAFFIC_HINT}"),
        }
    }

    /// The same as the builder tells it.
    pub fn into_failure(self) -> anyhow::Error {
        let code = self.code();
        match self {
            Self::Config(error) => config_failure(error),
            Self::NoTraffic => HalterError::new(code, NO_TRAFFIC)
                .with_hint(NO_TRAFFIC_HINT)
                .into(),
        }
    }
}

const NO_TRAFFIC: &str = "the model that answers, such as the offline one, is no configured \
    service, so there is nothing to record or to play back";
const NO_TRAFFIC_HINT: &str =
    "name the model of the recording, such as anthropic/claude-sonnet-5-5";

/// Opens a cassette that holds none of the keys that are known here.
fn open(
    cassette: &Cassette,
    config: &HarnessConfig,
    environment: &Environment,
) -> anyhow::Result<Deck> {
    let mut secrets = Vec::new();
    for (provider, table) in config.providers.tables() {
        secrets.extend(table.api_key.clone());
        secrets.extend(table.headers.values().cloned());
        secrets.extend(keys_in(environment, &provider));
    }
    for service in &KNOWN_SERVICES {
        let provider = ConfiguredProvider::from_name(service.name);
        secrets.extend(keys_in(environment, &provider));
    }
    let secrets = secrets.into_iter().map(|secret| secret.trim().to_owned());
    let scrubber = Scrubber::new(Secrets::new(secrets));
    let made_with = recording::made_with(config);
    Deck::open(cassette, scrubber, made_with).map_err(recording::failure)
}

fn keys_in(environment: &Environment, provider: &ConfiguredProvider) -> Vec<String> {
    let variables = api_key_variables(provider);
    let keys = variables.iter().filter_map(|name| environment.text(name));
    keys.map(str::to_owned).collect()
}

/// Models by ids such as `ollama/qwen3`, which no role needs to name.
impl ModelResolver for Services {
    fn resolve(&self, id: &ModelId) -> Option<Result<ServedModel, RegistryError>> {
        let model = match self.config.model_with_id(id.as_str()) {
            Err(ConfigError::UnknownModel { .. }) => return None,
            // An injected provider needs no table.
            Err(error) => self.injected_model(id).ok_or(error),
            found => found,
        };
        let served = model.map_err(Unusable::from).and_then(|model| {
            let provider = self.provider(&model.provider)?;
            let models = &self.config.models;
            Ok((resolved(id.clone(), &model, models), provider))
        });
        Some(served.map_err(|error| RegistryError::Unusable {
            id: id.clone(),
            code: error.code(),
            message: error.message(),
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
    endpoint.native_compaction = reached.native_compaction;
    endpoint.native_tool_loading = reached.native_tool_loading;
    endpoint.extra_members = routing
        .and_then(|routing| serde_json::to_string(routing).ok())
        .map(|routing| format!("\"provider\":{routing}"));
    endpoint
}

fn resilience_policy(resilience: &ResilienceConfig) -> ResiliencePolicy {
    let (timeouts, retry) = (&resilience.timeouts, &resilience.request_retry);
    ResiliencePolicy {
        timeouts: ProviderTimeouts {
            connect: Duration::from_secs(timeouts.connect_secs),
            request: Duration::from_secs(timeouts.request_secs),
            stream_idle: Duration::from_secs(timeouts.stream_idle_secs),
        },
        request_retry: RetryPolicy {
            max_attempts: retry.max_attempts,
            deadline: Duration::from_secs(retry.deadline_secs),
            base_backoff: Duration::from_millis(retry.base_backoff_ms),
            max_backoff: Duration::from_secs(retry.max_backoff_secs),
            jitter_percent: retry.jitter_pct,
        },
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
pub(crate) fn certificates(environment: &Environment) -> Option<PathBuf> {
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
