//! Deadlines and retries for a failing service, and who says what an error
//! means.

use crate::layers::RetryPolicy;
use halter_protocol::{ProviderError, ProviderErrorKind};
use std::time::Duration;

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderTimeouts {
    /// Until a connection stands.
    pub connect: Duration,
    /// From sending a request to the head of its answer.
    pub request: Duration,
    /// Between two pieces of a streamed answer. A stream that goes on has no
    /// limit as a whole.
    pub stream_idle: Duration,
}

impl Default for ProviderTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Duration::from_secs(60),
            stream_idle: Duration::from_secs(60),
        }
    }
}

/// Deadlines and further attempts of the requests to a service.
///
/// ```
/// use halter_providers::layers::RetryPolicy;
/// use halter_providers::resilience::ResiliencePolicy;
///
/// let once = ResiliencePolicy {
///     request_retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
///     ..ResiliencePolicy::default()
/// };
/// # let _ = once;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResiliencePolicy {
    /// How long to wait for what.
    pub timeouts: ProviderTimeouts,
    /// When a failed request is sent again.
    pub request_retry: RetryPolicy,
}

/// Says what an error of a service means, which decides whether a request is
/// sent again and what the user is told.
pub trait ProviderErrorClassifier: Send + Sync {
    /// The kind of an error.
    fn classify(&self, error: &ProviderError) -> ProviderErrorKind;
}

/// Leaves every error the kind that its wire gave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DefaultProviderErrorClassifier;

impl ProviderErrorClassifier for DefaultProviderErrorClassifier {
    fn classify(&self, error: &ProviderError) -> ProviderErrorKind {
        error.kind.clone()
    }
}
