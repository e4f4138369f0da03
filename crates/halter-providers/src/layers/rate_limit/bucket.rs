//! One model's bucket of tokens.

use super::DEFAULT_TOKENS_PER_MINUTE;
use super::waits::Waiting;
use crate::limits::RATE_HOLD_SECS;
use crate::wire::RateLimitHints;
use halter_protocol::Usage;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};

const MINUTE_SECS: f64 = 60.0;

/// Tokens to take, filling up evenly.
pub(super) struct Bucket {
    state: Mutex<State>,
    /// Requests wait one after the other, in the order they came.
    turn: Semaphore,
    /// The rate changed: the one whose turn it is looks again.
    changed: Notify,
}

struct State {
    /// What the user set.
    ceiling: Option<f64>,
    /// What the server said it takes.
    server_limit: Option<f64>,
    /// What follows from both.
    per_minute: f64,
    /// Below zero after a request that cost more than was expected.
    tokens: f64,
    at: Instant,
    /// What the server said is left, and until when that counts.
    server_tokens: Option<(f64, Instant)>,
    server_requests: Option<(u64, Instant)>,
}

impl Bucket {
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                ceiling: None,
                server_limit: None,
                per_minute: f64::from(DEFAULT_TOKENS_PER_MINUTE),
                tokens: f64::from(DEFAULT_TOKENS_PER_MINUTE),
                at: Instant::now(),
                server_tokens: None,
                server_requests: None,
            }),
            turn: Semaphore::new(1),
            changed: Notify::new(),
        }
    }

    /// Says what the user set, if anything.
    pub fn set_ceiling(&self, per_minute: Option<u32>) {
        let mut state = self.lock();
        state.ceiling = per_minute.map(|set| f64::from(set.max(1)));
        self.update_rate(&mut state);
    }

    /// Changes the rate to what is known now; what is in the bucket changes
    /// with it.
    fn update_rate(&self, state: &mut State) {
        let per_minute = state.allowed_per_minute();
        if state.per_minute != per_minute {
            state.fill();
            state.tokens += per_minute - state.per_minute;
            state.per_minute = per_minute;
            self.changed.notify_one();
        }
    }

    pub fn observe(&self, hints: RateLimitHints) {
        let now = Instant::now();
        let until = |reset: Duration| now + reset.min(Duration::from_secs(RATE_HOLD_SECS));
        let mut state = self.lock();
        // Servers without a limit say 0.
        if let Some(limit) = hints.tokens_limit.filter(|limit| *limit > 0) {
            state.server_limit = Some(limit as f64);
            let debt = state.tokens.min(0.0);
            self.update_rate(&mut state);
            // The server took what went out before it named a smaller limit.
            state.tokens = state.tokens.max(debt);
        }
        if let (Some(left), Some(reset)) = (hints.tokens_remaining, hints.tokens_reset) {
            state.server_tokens = Some((left as f64, until(reset)));
        }
        if let (Some(left), Some(reset)) = (hints.requests_remaining, hints.requests_reset) {
            state.server_requests = Some((left, until(reset)));
        }
    }

    pub fn wait_for(&self, tokens: u64) -> Duration {
        let mut state = self.lock();
        state.fill();
        state.wait_for(tokens as f64)
    }

    /// Waits until the tokens are there and takes them; `waiting` is told how
    /// long that will be.
    pub async fn reserve(self: Arc<Self>, tokens: u64, waiting: Waiting) -> Reservation {
        // The semaphore is never closed; without a permit the order is lost,
        // nothing else.
        let turn = self.turn.acquire().await;
        loop {
            let wait = {
                let mut state = self.lock();
                state.fill();
                let wait = state.wait_for(tokens as f64);
                if wait.is_zero() {
                    state.take(tokens as f64);
                }
                wait
            };
            if wait.is_zero() {
                break;
            }
            waiting.expect(wait);
            tokio::select! {
                () = sleep(wait) => {}
                () = self.changed.notified() => {}
            }
        }
        drop(turn);
        Reservation {
            bucket: self,
            taken: tokens as f64,
            used: None,
            answered: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A server's own limit takes the place of the default; what the user set
    /// is a ceiling for both.
    fn allowed_per_minute(&self) -> f64 {
        match (self.ceiling, self.server_limit) {
            (Some(ceiling), Some(limit)) => ceiling.min(limit),
            (Some(allowed), None) | (None, Some(allowed)) => allowed,
            (None, None) => f64::from(DEFAULT_TOKENS_PER_MINUTE),
        }
    }

    fn fill(&mut self) {
        let now = Instant::now();
        let passed = (now - self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + passed * self.per_minute / MINUTE_SECS).min(self.per_minute);
        self.server_tokens = self.server_tokens.filter(|(_, until)| *until > now);
        self.server_requests = self.server_requests.filter(|(_, until)| *until > now);
    }

    /// A request larger than a whole minute waits for a full bucket, not for
    /// ever.
    fn wait_for(&self, tokens: f64) -> Duration {
        let missing = tokens.min(self.per_minute) - self.tokens;
        let own = Duration::try_from_secs_f64((missing / self.per_minute * MINUTE_SECS).max(0.0))
            .unwrap_or(Duration::ZERO);
        let server_tokens = match self.server_tokens {
            Some((left, until)) if left < tokens => until - self.at,
            _ => Duration::ZERO,
        };
        let server_requests = match self.server_requests {
            Some((0, until)) => until - self.at,
            _ => Duration::ZERO,
        };
        // Timers count in milliseconds: waiting for less would not end.
        let wait = own.max(server_tokens).max(server_requests);
        match wait.is_zero() {
            true => wait,
            false => wait.max(Duration::from_millis(1)),
        }
    }

    fn take(&mut self, tokens: f64) {
        self.tokens -= tokens;
        if let Some((left, _)) = &mut self.server_tokens {
            *left -= tokens;
        }
        if let Some((left, _)) = &mut self.server_requests {
            *left = left.saturating_sub(1);
        }
    }
}

/// Tokens taken for a request. Dropped, it pays what was used.
pub(super) struct Reservation {
    bucket: Arc<Bucket>,
    taken: f64,
    used: Option<f64>,
    answered: bool,
}

impl Reservation {
    /// The usage so far.
    pub fn used(&mut self, usage: &Usage) {
        let buckets = &usage.buckets;
        let used = [
            buckets.uncached_input,
            buckets.cache_write,
            buckets.output,
            buckets.reasoning,
        ]
        .into_iter()
        .fold(0, u64::saturating_add);
        self.used = Some(used as f64);
    }

    /// The service has begun to answer: the request counts.
    pub fn answered(&mut self) {
        self.answered = true;
    }

    /// The request failed: it counts only if it had been answered.
    pub fn failed(&mut self) {
        if !self.answered && self.used.is_none() {
            self.used = Some(0.0);
        }
    }

    /// Gives everything back.
    pub fn refund(mut self) {
        self.used = Some(0.0);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(used) = self.used {
            let mut state = self.bucket.lock();
            state.fill();
            state.tokens = (state.tokens + self.taken - used).min(state.per_minute);
        }
    }
}
