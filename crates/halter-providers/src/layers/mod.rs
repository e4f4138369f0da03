//! Layers around [`Provider`]: each is a provider that holds another and adds
//! one thing. They compose in any order; [`standard`] is the usual one.
//!
//! | layer | adds |
//! |---|---|
//! | [`Retry`] | further attempts while nothing of an answer was shown |
//! | [`RateLimited`] | waiting before a limit instead of running into it |
//! | [`Classified`] | kinds of errors as somebody else sees them |
//! | [`Traced`] | spans and events for `tracing`, without content |
//!
//! Deadlines and cassettes work on bytes, which these layers do not see: they
//! are layers around [`Transport`](crate::http::Transport).

mod classify;
mod rate_limit;
mod retry;
mod trace;

pub use classify::Classified;
pub use rate_limit::{DEFAULT_TOKENS_PER_MINUTE, RateLimited, RateLimiter, RateWait};
pub use retry::{Jitter, Retry, RetryPolicy, SystemJitter};
pub use trace::Traced;

use crate::provider::Provider;
use crate::resilience::ProviderErrorClassifier;
use std::sync::Arc;

/// A provider whose calls are traced as the caller sees them and retried, each
/// attempt counted against the rate, with errors of the kinds that a classifier
/// gives them.
pub fn standard(
    provider: Arc<dyn Provider>,
    classifier: Option<Arc<dyn ProviderErrorClassifier>>,
    retry: RetryPolicy,
    rates: RateLimiter,
) -> Arc<dyn Provider> {
    let provider = match classifier {
        Some(classifier) => Arc::new(Classified::new(provider, classifier)),
        None => provider,
    };
    let limited = Arc::new(RateLimited::new(provider, rates));
    let retried = Arc::new(Retry::new(limited, retry));
    Arc::new(Traced::new(retried))
}
