//! Providers to inject with
//! [`HalterBuilder::with_provider`](crate::HalterBuilder::with_provider), the
//! trait to write one, and the deadlines and retries of configured services.

pub use halter_config::ModelChoice;
pub use halter_protocol::{ProviderError, ProviderErrorKind, StreamEvent};
pub use halter_providers::cassette::CassetteError;
pub use halter_providers::layers::{RateLimiter, RateWait, RetryPolicy};
pub use halter_providers::resilience::{
    DefaultProviderErrorClassifier, ProviderErrorClassifier, ProviderTimeouts, ResiliencePolicy,
};
pub use halter_providers::services::{
    AnthropicProvider, GeminiProvider, OpenAiProvider, OpenRouterProvider, OpenRouterRouting,
};
pub use halter_providers::{
    FakeProvider, Gate, ModelRegistry, OfflineProvider, Provider, ProviderCapabilities,
    ProviderRequest, Reply,
};
