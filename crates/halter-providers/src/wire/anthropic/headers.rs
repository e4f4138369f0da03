//! What response headers say about rates.

use crate::wire::failure::{number, wait_until};
use crate::wire::{HeaderLookup, RateLimitHints};
use std::time::Duration;

/// What the rate-limit headers say.
pub(super) fn rate_limit(headers: &dyn HeaderLookup) -> RateLimitHints {
    // `tokens` is the tightest limit in force; where it is missing, input is
    // what a harness spends most of.
    let tokens = match number(headers, "anthropic-ratelimit-tokens-remaining") {
        Some(_) => "anthropic-ratelimit-tokens",
        None => "anthropic-ratelimit-input-tokens",
    };
    RateLimitHints {
        tokens_limit: number(headers, &format!("{tokens}-limit")),
        tokens_remaining: number(headers, &format!("{tokens}-remaining")),
        tokens_reset: until(headers, &format!("{tokens}-reset")),
        requests_remaining: number(headers, "anthropic-ratelimit-requests-remaining"),
        requests_reset: until(headers, "anthropic-ratelimit-requests-reset"),
    }
}

fn until(headers: &dyn HeaderLookup, name: &str) -> Option<Duration> {
    wait_until(headers, headers.header(name)?.trim().parse().ok()?)
}
