//! Providers to inject with
//! [`HalterBuilder::with_provider`](crate::HalterBuilder::with_provider), and
//! the trait to write one.

pub use halter_protocol::{ProviderError, ProviderErrorKind, StreamEvent};
pub use halter_providers::{
    FakeProvider, Gate, ModelRegistry, OfflineProvider, Provider, ProviderCapabilities,
    ProviderRequest, Reply,
};
