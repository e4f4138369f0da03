//! Stays under a service's limits instead of running into them.
//!
//! Each model of a provider has a bucket that holds one minute's tokens and
//! fills up evenly. A request takes out what it is likely to cost and gives
//! back, or pays, the difference when its usage is known. Tokens read from a
//! prompt cache cost nothing here. What a server's headers say holds as well.

mod bucket;

use crate::limits::{RATE_ANNOUNCED_WAIT_MILLIS, RATE_LIMITED_MODELS};
use crate::provider::{
    EventStream, Provider, ProviderCapabilities, ProviderRequest, provider_error,
};
use crate::tokens;
use crate::wire::RateLimitHints;
use async_trait::async_trait;
use bucket::{Bucket, Reservation};
use futures::{FutureExt as _, StreamExt as _};
use halter_protocol::{ProviderError, ResolvedModel, StreamEvent};
use indexmap::IndexMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Tokens per minute of a model whose rate is not configured.
pub const DEFAULT_TOKENS_PER_MINUTE: u32 = 500_000;

/// The rates of all models, shared by everything that asks them: clone it.
#[derive(Clone, Default)]
pub struct RateLimiter {
    buckets: Arc<Mutex<IndexMap<String, Arc<Bucket>>>>,
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

    fn bucket(&self, model: &ResolvedModel) -> Arc<Bucket> {
        let per_minute = model.tokens_per_minute.unwrap_or(DEFAULT_TOKENS_PER_MINUTE);
        let key = format!("{}\n{}", model.provider, model.model);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets
            .entry(key)
            .or_insert_with(|| Arc::new(Bucket::new(per_minute)))
            .clone();
        bucket.set_rate(per_minute);
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

/// A provider that waits for its turn before each request. A wait worth
/// mentioning is announced as a warning.
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
        let announcement = announce(bucket.wait_for(tokens), &request.model);
        let inner = self.inner.clone();
        let answer = async move {
            let reservation = tokio::select! {
                biased;
                () = cancel.cancelled() => return failed(ProviderError::cancelled()),
                reservation = bucket.reserve(tokens) => reservation,
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

fn announce(wait: Duration, model: &ResolvedModel) -> Option<StreamEvent> {
    if wait < Duration::from_millis(RATE_ANNOUNCED_WAIT_MILLIS) {
        return None;
    }
    let message = format!(
        "waiting about {} s to stay within the rate of '{}'",
        wait.as_secs_f64().ceil(),
        model.model
    );
    Some(StreamEvent::ProviderWarning { message })
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
