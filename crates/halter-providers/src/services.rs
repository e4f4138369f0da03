//! The services people use, each as one provider with all layers around it:
//! for programs that need no configuration.
//!
//! ```
//! use halter_providers::services::AnthropicProvider;
//!
//! let provider = AnthropicProvider::new("key", "https://api.anthropic.com")?;
//! # Ok::<(), halter_protocol::ProviderError>(())
//! ```

use crate::http::{ClientSettings, Deadlines, Endpoint, HttpProvider, NetworkTransport};
use crate::layers::{Classified, RateLimiter, standard};
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

/// What the constructors have in common.
struct Parts<'a> {
    wire: Arc<dyn Wire>,
    key: SecretString,
    base_url: String,
    headers: &'a [(String, String)],
    temperature: Option<f32>,
    extra_members: Option<String>,
    resilience: ResiliencePolicy,
    classifier: Arc<dyn ProviderErrorClassifier>,
}

impl Parts<'_> {
    fn build(self) -> Result<Arc<dyn Provider>, ProviderError> {
        let scheme = ["http://", "https://"];
        if !scheme
            .iter()
            .any(|scheme| self.base_url.starts_with(scheme))
        {
            return Err(ProviderError::new(
                format!("the address '{}' cannot be used", self.base_url),
                ProviderErrorKind::Fatal,
            )
            .with_hint("write one that begins with http:// or https://"));
        }
        let mut endpoint = Endpoint::new(self.base_url).with_api_key(self.key);
        let headers = self.headers.iter();
        endpoint.headers = headers
            .map(|(name, value)| (name.clone(), value.clone().into()))
            .collect();
        endpoint.temperature = self.temperature;
        endpoint.extra_members = self.extra_members;
        let timeouts = &self.resilience.timeouts;
        let network = NetworkTransport::new(ClientSettings {
            connect: timeouts.connect,
            ..ClientSettings::default()
        });
        let transport = Deadlines::new(network, timeouts.request, timeouts.stream_idle);
        let rates = RateLimiter::new();
        let http = HttpProvider::new(self.wire, endpoint, Arc::new(transport))
            .with_rate_reports(rates.clone());
        let judged = Arc::new(Classified::new(Arc::new(http), self.classifier));
        Ok(standard(judged, self.resilience.request_retry, rates))
    }
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
            /// If the address is none.
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
            /// If the address is none.
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
            /// If the address is none.
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
                Parts {
                    wire: Arc::new($wire),
                    key: key.into(),
                    base_url: base_url.into(),
                    headers,
                    temperature,
                    extra_members,
                    resilience,
                    classifier,
                }
                .build()
                .map(Self)
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
