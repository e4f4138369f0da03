//! Services put together: [`Service`] is the one way from a wire to a provider
//! with all layers around it, and those that people use are ready made, for
//! programs that need no configuration.
//!
//! ```
//! use halter_providers::services::AnthropicProvider;
//!
//! let provider = AnthropicProvider::new("key", "https://api.anthropic.com")?;
//! # Ok::<(), halter_protocol::ProviderError>(())
//! ```

use crate::cassette::Deck;
use crate::catalog::Catalog;
use crate::http::{ClientSettings, Deadlines, Endpoint, HttpProvider, NetworkTransport, Transport};
use crate::layers::{RateLimiter, standard};
use crate::provider::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use crate::resilience::{
    DefaultProviderErrorClassifier, ProviderErrorClassifier, ResiliencePolicy,
};
use crate::wire::Wire;
use crate::wire::anthropic::Anthropic;
use crate::wire::chat::{Chat, Dialect};
use crate::wire::gemini::GeminiWire;
use crate::wire::responses::ResponsesWire;
use async_trait::async_trait;
use halter_protocol::{ProviderError, ProviderErrorKind, ResolvedModel};
use secrecy::SecretString;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Which upstream services OpenRouter may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OpenRouterRouting {
    /// Upstream services in the order of preference.
    pub order: Vec<String>,
    /// Whether other services may be used when those fail; absent:
    /// OpenRouter's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_fallbacks: Option<bool>,
}

impl OpenRouterRouting {
    /// The member of a request's body that says it.
    pub fn member(&self) -> Result<String, ProviderError> {
        let routing = serde_json::to_string(self).map_err(|error| {
            ProviderError::new(
                format!("the routing cannot be written: {error}"),
                ProviderErrorKind::Fatal,
            )
        })?;
        Ok(format!("\"provider\":{routing}"))
    }
}

/// A service before it is put together: a wire over the network, with
/// deadlines, inside all layers.
pub struct Service<'a> {
    /// How it is spoken to.
    pub wire: Arc<dyn Wire>,
    /// Where it is and what it is sent besides conversations.
    pub endpoint: Endpoint,
    /// How its connections are made; the deadline is that of `resilience`.
    pub client: ClientSettings,
    /// Deadlines and further attempts.
    pub resilience: ResiliencePolicy,
    /// Who says what its errors mean, if not the wire.
    pub classifier: Option<Arc<dyn ProviderErrorClassifier>>,
    /// The rates it shares with others.
    pub rates: RateLimiter,
    /// What is known of models.
    pub catalog: Catalog,
    /// Where its traffic is recorded, or played from.
    pub deck: Option<&'a Deck>,
}

impl<'a> Service<'a> {
    /// A service with the defaults of everything else.
    pub fn new(wire: Arc<dyn Wire>, endpoint: Endpoint) -> Self {
        Self {
            wire,
            endpoint,
            client: ClientSettings::default(),
            resilience: ResiliencePolicy::default(),
            classifier: None,
            rates: RateLimiter::new(),
            catalog: Catalog::new(),
            deck: None,
        }
    }

    /// The provider that answers, and the one inside it that lists models.
    pub fn build(self) -> (Arc<dyn Provider>, Arc<HttpProvider>) {
        let timeouts = &self.resilience.timeouts;
        let network = NetworkTransport::new(ClientSettings {
            connect: timeouts.connect,
            ..self.client
        });
        let deadlines = Deadlines::new(network, timeouts.request, timeouts.stream_idle);
        let transport: Arc<dyn Transport> = match self.deck {
            Some(deck) => deck.around(Arc::new(deadlines)),
            None => Arc::new(deadlines),
        };
        let http = HttpProvider::new(self.wire, self.endpoint, transport)
            .with_catalog(self.catalog)
            .with_rate_reports(self.rates.clone());
        let http = Arc::new(http);
        let retry = self.resilience.request_retry;
        let served = standard(http.clone(), self.classifier, retry, self.rates);
        (served, http)
    }
}

/// An address that a program wrote, and what it wants sent there.
fn endpoint(
    key: SecretString,
    base_url: String,
    headers: &[(String, String)],
    temperature: Option<f32>,
    extra_members: Option<String>,
) -> Result<Endpoint, ProviderError> {
    let schemes = ["http://", "https://"];
    if !schemes.iter().any(|scheme| base_url.starts_with(scheme)) {
        return Err(ProviderError::new(
            format!("the address '{base_url}' cannot be used"),
            ProviderErrorKind::Fatal,
        )
        .with_hint("write one that begins with http:// or https://"));
    }
    let headers = headers.iter();
    Ok(Endpoint {
        headers: headers
            .map(|(name, value)| (name.clone(), value.clone().into()))
            .collect(),
        temperature,
        extra_members,
        ..Endpoint::new(base_url).with_api_key(key)
    })
}

/// A service as one provider. `OpenRouterProvider` takes its routing besides.
macro_rules! service {
    ($(#[$doc:meta])* $name:ident, $wire:expr $(, $routing:ident: $kind:ty)?) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(Arc<dyn Provider>);

        impl $name {
            /// The service at an address, with its key.
            ///
            /// # Errors
            /// If the address is not one of HTTP.
            pub fn new(
                key: impl Into<SecretString>,
                base_url: impl Into<String>,
            ) -> Result<Self, ProviderError> {
                $(let $routing: $kind = None;)?
                Self::new_with_headers(key, base_url, &[], None $(, $routing)?)
            }

            /// The same with further headers and a temperature.
            ///
            /// # Errors
            /// If the address is not one of HTTP.
            pub fn new_with_headers(
                key: impl Into<SecretString>,
                base_url: impl Into<String>,
                headers: &[(String, String)],
                temperature: Option<f32>,
                $($routing: $kind,)?
            ) -> Result<Self, ProviderError> {
                Self::new_with_headers_and_resilience(
                    key,
                    base_url,
                    headers,
                    temperature,
                    $($routing,)?
                    ResiliencePolicy::default(),
                    Arc::new(DefaultProviderErrorClassifier),
                )
            }

            /// The same with deadlines, attempts and a classifier of errors.
            ///
            /// # Errors
            /// If the address is not one of HTTP.
            #[allow(clippy::too_many_arguments)]
            pub fn new_with_headers_and_resilience(
                key: impl Into<SecretString>,
                base_url: impl Into<String>,
                headers: &[(String, String)],
                temperature: Option<f32>,
                $($routing: $kind,)?
                resilience: ResiliencePolicy,
                classifier: Arc<dyn ProviderErrorClassifier>,
            ) -> Result<Self, ProviderError> {
                #[allow(unused_mut, unused_assignments)]
                let mut extra_members = None;
                $(extra_members = $routing.as_ref().map(OpenRouterRouting::member).transpose()?;)?
                let base_url = base_url.into();
                let endpoint =
                    endpoint(key.into(), base_url, headers, temperature, extra_members)?;
                let service = Service {
                    resilience,
                    classifier: Some(classifier),
                    ..Service::new(Arc::new($wire), endpoint)
                };
                Ok(Self(service.build().0))
            }
        }

        #[async_trait]
        impl Provider for $name {
            fn capabilities(&self) -> ProviderCapabilities {
                self.0.capabilities()
            }

            fn model_capabilities(&self, model: &ResolvedModel) -> ProviderCapabilities {
                self.0.model_capabilities(model)
            }

            async fn stream(
                &self,
                request: ProviderRequest,
                cancel: CancellationToken,
            ) -> anyhow::Result<EventStream> {
                self.0.stream(request, cancel).await
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

service!(
    /// Anthropic, over its Messages wire.
    AnthropicProvider,
    Anthropic::new()
);
service!(
    /// OpenAI, over its Responses wire.
    OpenAiProvider,
    ResponsesWire
);
service!(
    /// OpenRouter, over the Chat wire.
    OpenRouterProvider,
    Chat::new(Dialect::OPENROUTER),
    routing: Option<OpenRouterRouting>
);
service!(
    /// Gemini.
    GeminiProvider,
    GeminiWire
);
