//! Tells `tracing` about model calls: who was asked, how long it took, what
//! it used, how it ended. Never what was said.

use crate::provider::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use async_trait::async_trait;
use futures::StreamExt as _;
use halter_protocol::{ProviderError, ResolvedModel, StreamEvent, Usage};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, debug, info_span};

/// A provider whose calls are traced in spans named `model_call`.
pub struct Traced {
    inner: Arc<dyn Provider>,
}

impl Traced {
    /// Traces the calls of `inner`.
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl Provider for Traced {
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
        let span = info_span!(
            "model_call",
            provider = %request.model.provider,
            model = %request.model.model,
            session = %request.session_id,
            turn = %request.turn_id,
            messages = request.messages.len(),
        );
        let mut call = Call::new(span.clone());
        let opened = self
            .inner
            .stream(request, cancel)
            .instrument(span.clone())
            .await;
        match opened {
            Ok(stream) => Ok(Box::pin(TracedStream { stream, call }.into_stream())),
            Err(error) => {
                match error.downcast_ref::<ProviderError>() {
                    Some(error) => call.failed(error),
                    None => call.failed_otherwise(),
                }
                Err(error)
            }
        }
    }
}

struct TracedStream {
    stream: EventStream,
    call: Call,
}

impl TracedStream {
    fn into_stream(self) -> impl futures::Stream<Item = Result<StreamEvent, ProviderError>> + Send {
        futures::stream::unfold(self, |mut this| async {
            let span = this.call.span.clone();
            let item = this.stream.next().instrument(span).await?;
            match &item {
                Ok(event) => this.call.event(event),
                Err(error) => this.call.failed(error),
            }
            Some((item, this))
        })
    }
}

/// What is told of one call.
struct Call {
    span: Span,
    began: Instant,
    first: Option<Instant>,
    usage: Usage,
    told: bool,
}

impl Call {
    fn new(span: Span) -> Self {
        Self {
            span,
            began: Instant::now(),
            first: None,
            usage: Usage::default(),
            told: false,
        }
    }

    fn event(&mut self, event: &StreamEvent) {
        if self.first.is_none() {
            self.first = Some(Instant::now());
        }
        match event {
            StreamEvent::UsageUpdate { usage } => self.usage = *usage,
            StreamEvent::MessageEnd { stop_reason, .. } => {
                self.told = true;
                let buckets = self.usage.buckets;
                self.span.in_scope(|| {
                    debug!(
                        stop_reason = %stop_reason,
                        first_event_ms = self.first_event_ms(),
                        total_ms = self.total_ms(),
                        uncached_input = buckets.uncached_input,
                        cache_read = buckets.cache_read,
                        cache_write = buckets.cache_write,
                        output = buckets.output,
                        reasoning = buckets.reasoning,
                        "the model answered"
                    );
                });
            }
            _ => {}
        }
    }

    fn failed(&mut self, error: &ProviderError) {
        self.told = true;
        self.span.in_scope(|| {
            debug!(
                kind = %error.kind,
                status = error.status,
                request_id = error.request_id,
                total_ms = self.total_ms(),
                error = %error,
                "the model call failed"
            );
        });
    }

    /// The text of an error of unknown type may hold anything.
    fn failed_otherwise(&mut self) {
        self.told = true;
        self.span
            .in_scope(|| debug!(total_ms = self.total_ms(), "the model call failed"));
    }

    fn first_event_ms(&self) -> u64 {
        millis(self.first.unwrap_or_else(Instant::now) - self.began)
    }

    fn total_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.told {
            self.span
                .in_scope(|| debug!(total_ms = self.total_ms(), "the model call was abandoned"));
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
