//! Stays under a service's limits instead of running into them.
//!
//! Each model of a provider has a bucket that holds one minute's tokens and
//! fills up evenly. A request takes out what it is likely to cost and gives
//! back, or pays, the difference when its usage is known. Tokens read from a
//! prompt cache cost nothing here. The limit that a server's headers name takes
//! the place of the default, be it larger or smaller; a rate that the user set
//! is never exceeded. What the headers say is left holds as well.

mod bucket;
mod waits;

pub use waits::RateWait;

use crate::limits::{RATE_ANNOUNCED_WAIT_MILLIS, RATE_LIMITED_MODELS};
use crate::provider::{
    EventStream, Provider, ProviderCapabilities, ProviderRequest, provider_error,
};
use crate::tokens;
use crate::wire::RateLimitHints;
use async_trait::async_trait;
use bucket::{Bucket, Reservation};
use futures::{FutureExt as _, StreamExt as _};
use halter_protocol::{ProviderError, ResolvedModel, SessionId, StreamEvent};
use indexmap::IndexMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use waits::Waits;

/// Tokens per minute of a model whose rate is not configured, until its server
/// names another.
pub const DEFAULT_TOKENS_PER_MINUTE: u32 = 500_000;

/// The rates of all models, shared by everything that asks them: clone it.
#[derive(Clone, Default)]
pub struct RateLimiter {
    buckets: Arc<Mutex<IndexMap<String, Arc<Bucket>>>>,
    waits: Waits,
}

impl RateLimiter {
    /// A limiter with full buckets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what a response's headers say.
    pub fn observe(&self, model: &ResolvedModel, hints: RateLimitHints) {
        self.bucket(model).observe(hints);
    }

    /// Keeps all requests to a model back for a while, as its server asked
    /// when it refused one.
    pub fn hold(&self, model: &ResolvedModel, wait: Duration) {
        self.observe(
            model,
            RateLimitHints {
                requests_remaining: Some(0),
                requests_reset: Some(wait),
                ..RateLimitHints::default()
            },
        );
    }

    /// How long a request of about that many tokens would wait now, if nobody
    /// stands before it.
    pub fn wait_for(&self, model: &ResolvedModel, tokens: u64) -> Duration {
        self.bucket(model).wait_for(tokens)
    }

    /// The longest wait of a session's requests at this moment, if it is
    /// worth showing.
    pub fn wait_of(&self, session: &SessionId) -> Option<RateWait> {
        self.waits.of(session)
    }

    fn bucket(&self, model: &ResolvedModel) -> Arc<Bucket> {
        let key = format!("{}\n{}", model.provider, model.model);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets
            .entry(key)
            .or_insert_with(|| Arc::new(Bucket::new()))
            .clone();
        bucket.set_ceiling(model.tokens_per_minute);
        while buckets.len() > RATE_LIMITED_MODELS {
            buckets.shift_remove_index(0);
        }
        bucket
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").finish_non_exhaustive()
    }
}

/// A provider that waits for its turn before each request. A long wait is
/// announced as a warning; [`RateLimiter::wait_of`] tells of shorter ones too,
/// while they last.
pub struct RateLimited {
    inner: Arc<dyn Provider>,
    limiter: RateLimiter,
}

impl RateLimited {
    /// Keeps the requests to `inner` within the limits.
    pub fn new(inner: Arc<dyn Provider>, limiter: RateLimiter) -> Self {
        Self { inner, limiter }
    }
}

#[async_trait]
impl Provider for RateLimited {
    fn capabilities(&self) -> ProviderCapabilities {
        self.inner.capabilities()
    }

    fn model_capabilities(&self, model: &ResolvedModel) -> ProviderCapabilities {
        self.inner.model_capabilities(model)
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        cancel: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let bucket = self.limiter.bucket(&request.model);
        let tokens = tokens::of_new_in(&request);
        let wait = RateWait {
            model: request.model.model.clone(),
            left: bucket.wait_for(tokens),
        };
        let announcement = announce(&wait);
        let (inner, waits) = (self.inner.clone(), self.limiter.waits.clone());
        let answer = async move {
            let waiting = waits.begin(request.session_id.clone(), wait);
            let reservation = tokio::select! {
                biased;
                () = cancel.cancelled() => return failed(ProviderError::cancelled()),
                reservation = bucket.reserve(tokens, waiting) => reservation,
            };
            match inner.stream(request, cancel).await {
                Ok(stream) => settle(stream, reservation),
                Err(error) => {
                    reservation.refund();
                    failed(provider_error(error))
                }
            }
        };
        let announcement = futures::stream::iter(announcement.map(Ok));
        Ok(Box::pin(announcement.chain(answer.into_stream().flatten())))
    }
}

fn announce(wait: &RateWait) -> Option<StreamEvent> {
    let long = wait.left >= Duration::from_millis(RATE_ANNOUNCED_WAIT_MILLIS);
    long.then(|| StreamEvent::ProviderWarning {
        message: wait.to_string(),
    })
}

fn failed(error: ProviderError) -> EventStream {
    Box::pin(futures::stream::iter([Err(error)]))
}

/// Watches an answer to pay what it really used, however it ends.
fn settle(stream: EventStream, reservation: Reservation) -> EventStream {
    let mut reservation = reservation;
    Box::pin(stream.map(move |item| {
        match &item {
            Ok(StreamEvent::UsageUpdate { usage }) => reservation.used(usage),
            Ok(StreamEvent::MessageStart { .. } | StreamEvent::ProviderWarning { .. }) => {}
            Ok(_) => reservation.answered(),
            Err(_) => reservation.failed(),
        }
        item
    }))
}

#[cfg(test)]
mod tests;
