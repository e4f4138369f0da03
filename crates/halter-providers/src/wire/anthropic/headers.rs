//! What response headers say about when to come back.
//!
//! Instants are turned into waits by the response's own `date`, so no clock
//! is read; without it they say nothing.

use crate::wire::{HeaderLookup, RateLimitHints};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
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
        tokens_remaining: number(headers, &format!("{tokens}-remaining")),
        tokens_reset: until(headers, &format!("{tokens}-reset")),
        requests_remaining: number(headers, "anthropic-ratelimit-requests-remaining"),
        requests_reset: until(headers, "anthropic-ratelimit-requests-reset"),
    }
}

/// What the server wants a caller to wait before the next try.
pub(super) fn retry_after(headers: &dyn HeaderLookup) -> Option<Duration> {
    let milliseconds = headers.header("retry-after-ms").map(str::trim);
    let seconds = headers.header("retry-after").map(str::trim);
    milliseconds
        .and_then(|text| positive(text, 1_000.0))
        .or_else(|| seconds.and_then(|text| positive(text, 1.0)))
        .or_else(|| seconds.and_then(|text| between(now(headers)?, http_date(text)?)))
}

fn positive(text: &str, per_second: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number / per_second).ok()
}

fn number(headers: &dyn HeaderLookup, name: &str) -> Option<u64> {
    headers.header(name)?.trim().parse().ok()
}

fn until(headers: &dyn HeaderLookup, name: &str) -> Option<Duration> {
    let reset: Timestamp = headers.header(name)?.trim().parse().ok()?;
    between(now(headers)?, reset)
}

fn now(headers: &dyn HeaderLookup) -> Option<Timestamp> {
    http_date(headers.header("date")?.trim())
}

fn http_date(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

/// The time from one instant to a later one; none at all if it has passed.
fn between(now: Timestamp, then: Timestamp) -> Option<Duration> {
    let wait = then.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}
