//! Further attempts at a request that failed before anything of its answer
//! was shown.

use crate::limits::RETRY_HELD_EVENTS;
use crate::provider::{
    EventStream, Provider, ProviderCapabilities, ProviderRequest, provider_error,
};
use async_trait::async_trait;
use futures::StreamExt as _;
use halter_protocol::{ProviderError, ProviderErrorKind, ResolvedModel, StreamEvent, Usage};
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// When a failed request is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is sent, the first time included.
    pub max_attempts: u32,
    /// No attempt starts later than this after the first.
    pub deadline: Duration,
    /// The pause before the second attempt; it doubles each time.
    pub base_backoff: Duration,
    /// The longest pause, unless the server asks for a longer one.
    pub max_backoff: Duration,
    /// By how much a pause may vary at random, in percent.
    pub jitter_percent: u8,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            deadline: Duration::from_secs(60),
            base_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(30),
            jitter_percent: 25,
        }
    }
}

impl RetryPolicy {
    /// The pause after a failed attempt, counted from 1. `fraction` is the
    /// chance in it, from 0 to 1. What a server asks for is never cut short.
    fn pause(&self, attempt: u32, asked: Option<Duration>, fraction: f64) -> Duration {
        let spread = f64::from(self.jitter_percent.min(100)) / 100.0;
        match asked {
            Some(asked) => scale(asked, 1.0 + spread * fraction),
            None => {
                let doublings = attempt.saturating_sub(1).min(31);
                let pause = self
                    .base_backoff
                    .saturating_mul(1_u32 << doublings)
                    .min(self.max_backoff);
                scale(pause, 1.0 - spread + 2.0 * spread * fraction)
            }
        }
    }
}

fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// Where the chance in pauses comes from.
pub trait Jitter: Send + Sync {
    /// A number from 0 to 1.
    fn fraction(&self) -> f64;
}

/// Chance from the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemJitter;

impl Jitter for SystemJitter {
    fn fraction(&self) -> f64 {
        let random = RandomState::new().hash_one(0_u8);
        (random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A provider that tries again.
///
/// An attempt is repeated if its error may pass and nothing of its answer was
/// shown: text, reasoning or a call. Errors that stay (a spent budget, a wrong
/// key, a conversation that is too long) end the request at once. A pause is
/// announced as a warning. Tokens that failed attempts used are added to the
/// usage of the answer; where somebody [pays](ProviderRequest::attempts) for
/// them, they are asked before the next attempt.
pub struct Retry {
    inner: Arc<dyn Provider>,
    policy: RetryPolicy,
    jitter: Arc<dyn Jitter>,
}

impl Retry {
    /// Tries again as the policy says.
    pub fn new(inner: Arc<dyn Provider>, policy: RetryPolicy) -> Self {
        Self {
            inner,
            policy,
            jitter: Arc::new(SystemJitter),
        }
    }

    /// Replaces the chance in pauses.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Arc<dyn Jitter>) -> Self {
        self.jitter = jitter;
        self
    }
}

#[async_trait]
impl Provider for Retry {
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
        let run = Run {
            inner: self.inner.clone(),
            policy: self.policy.clone(),
            jitter: self.jitter.clone(),
            request,
            cancel,
            began: Instant::now(),
            attempt: 0,
            phase: Phase::Start,
            held: Vec::new(),
            shown: false,
            said: Vec::new(),
            used: None,
            lost: Usage::default(),
            out: VecDeque::new(),
        };
        Ok(Box::pin(futures::stream::unfold(run, |mut run| async {
            let item = run.next().await?;
            Some((item, run))
        })))
    }
}

enum Phase {
    Start,
    Pause(Duration),
    Open(EventStream),
    Done,
}

/// One request with all its attempts.
struct Run {
    inner: Arc<dyn Provider>,
    policy: RetryPolicy,
    jitter: Arc<dyn Jitter>,
    request: ProviderRequest,
    cancel: CancellationToken,
    began: Instant,
    attempt: u32,
    phase: Phase,
    /// Events of this attempt that show nothing yet.
    held: Vec<StreamEvent>,
    /// Something of the answer was shown.
    shown: bool,
    /// Warnings that were passed on; each attempt repeats them.
    said: Vec<String>,
    /// What this attempt used.
    used: Option<Usage>,
    /// What failed attempts used.
    lost: Usage,
    out: VecDeque<Result<StreamEvent, ProviderError>>,
}

impl Run {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(item) = self.out.pop_front() {
                return Some(item);
            }
            match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Done => return None,
                Phase::Pause(pause) => self.pause(pause).await,
                Phase::Start => self.start().await,
                Phase::Open(mut stream) => match stream.next().await {
                    Some(Ok(event)) => {
                        self.phase = Phase::Open(stream);
                        self.event(event);
                    }
                    Some(Err(error)) => self.failed(error),
                    None if self.shown => {}
                    None => self.failed(ProviderError::new(
                        "the connection ended before the model's answer began",
                        ProviderErrorKind::Transient,
                    )),
                },
            }
        }
    }

    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => self.out.push_back(Err(ProviderError::cancelled())),
            () = tokio::time::sleep(pause) => self.phase = Phase::Start,
        }
    }

    async fn start(&mut self) {
        self.attempt += 1;
        let opened = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ProviderError::cancelled().into()),
            opened = self.inner.stream(self.request.clone(), self.cancel.clone()) => opened,
        };
        match opened {
            Ok(stream) => self.phase = Phase::Open(stream),
            Err(error) => self.failed(provider_error(error)),
        }
    }

    fn event(&mut self, event: StreamEvent) {
        let event = match event {
            StreamEvent::ProviderWarning { message } => {
                if !self.said.contains(&message) {
                    if !self.shown && self.said.len() < RETRY_HELD_EVENTS {
                        self.said.push(message.clone());
                    }
                    self.out
                        .push_back(Ok(StreamEvent::ProviderWarning { message }));
                }
                return;
            }
            StreamEvent::UsageUpdate { usage } => {
                self.used = Some(usage);
                StreamEvent::UsageUpdate {
                    usage: self.with_lost(usage),
                }
            }
            event => event,
        };
        let shows_nothing = matches!(
            event,
            StreamEvent::MessageStart { .. }
                | StreamEvent::TextStart { .. }
                | StreamEvent::ThinkingStart { .. }
                | StreamEvent::UsageUpdate { .. }
        );
        if !self.shown && shows_nothing && self.held.len() < RETRY_HELD_EVENTS {
            self.held.push(event);
            return;
        }
        self.show();
        let ends = matches!(event, StreamEvent::MessageEnd { .. });
        if ends && self.used.is_none() && !self.lost.is_zero() {
            let usage = self.lost;
            self.out.push_back(Ok(StreamEvent::UsageUpdate { usage }));
        }
        self.out.push_back(Ok(event));
    }

    fn show(&mut self) {
        self.shown = true;
        self.out.extend(self.held.drain(..).map(Ok));
    }

    fn with_lost(&self, mut usage: Usage) -> Usage {
        usage.saturating_accumulate(&self.lost);
        usage
    }

    fn failed(&mut self, error: ProviderError) {
        if self.shown {
            self.out.push_back(Err(error));
            return;
        }
        self.held.clear();
        if let Some(used) = self.used.take() {
            self.lost.saturating_accumulate(&used);
        }
        match self.pause_after(&error) {
            Some(pause) => {
                self.announce(&error, pause);
                self.phase = Phase::Pause(pause);
            }
            None => {
                if !self.lost.is_zero() {
                    let usage = self.lost;
                    self.out.push_back(Ok(StreamEvent::UsageUpdate { usage }));
                }
                self.out.push_back(Err(error));
            }
        }
    }

    /// How long to wait for the next attempt; none if there is none.
    fn pause_after(&self, error: &ProviderError) -> Option<Duration> {
        if !error.retryable() || self.attempt >= self.policy.max_attempts {
            return None;
        }
        let attempts = self.request.attempts.as_ref();
        if !self.lost.is_zero() && attempts.is_some_and(|it| !it.allows_another(&self.lost)) {
            return None;
        }
        let fraction = self.jitter.fraction();
        let pause = self
            .policy
            .pause(self.attempt, error.backoff_hint, fraction);
        let starts = self.began.elapsed().checked_add(pause)?;
        (starts <= self.policy.deadline).then_some(pause)
    }

    fn announce(&mut self, error: &ProviderError, pause: Duration) {
        let message = format!(
            "attempt {} of {} failed: {error}; trying again in {:.1} s",
            self.attempt,
            self.policy.max_attempts,
            pause.as_secs_f64()
        );
        self.out
            .push_back(Ok(StreamEvent::ProviderWarning { message }));
    }
}
