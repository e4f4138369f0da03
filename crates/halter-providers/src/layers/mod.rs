//! Layers around [`Provider`]: each is a provider that holds another and adds
//! one thing. They compose in any order; [`standard`] is the usual one.
//!
//! | layer | adds |
//! |---|---|
//! | [`Retry`] | further attempts while nothing of an answer was shown |
//! | [`RateLimited`] | waiting before a limit instead of running into it |
//! | [`Classified`] | kinds of errors as somebody else sees them |
//! | [`Redacted`] | secrets taken out of errors and warnings |
//! | [`Traced`] | spans and events for `tracing`, without content |
//!
//! Deadlines and cassettes work on bytes, which these layers do not see: they
//! are layers around [`Transport`](crate::http::Transport).

mod classify;
mod rate_limit;
mod redact;
mod retry;
mod trace;

pub use classify::Classified;
pub use rate_limit::{DEFAULT_TOKENS_PER_MINUTE, RateLimited, RateLimiter};
pub use redact::Redacted;
pub use retry::{Jitter, Retry, RetryPolicy, SystemJitter};
pub use trace::Traced;

use crate::provider::Provider;
use std::sync::Arc;

/// A provider whose calls are traced as the caller sees them, retried, and
/// each attempt counted against the rate.
pub fn standard(
    provider: Arc<dyn Provider>,
    retry: RetryPolicy,
    rates: RateLimiter,
) -> Arc<dyn Provider> {
    let limited = Arc::new(RateLimited::new(provider, rates));
    let retried = Arc::new(Retry::new(limited, retry));
    Arc::new(Traced::new(retried))
}
