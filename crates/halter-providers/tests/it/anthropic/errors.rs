//! Refusals and what they mean to a caller.

use crate::wire_kit::decode;
use halter_protocol::{ProviderError, ProviderErrorKind};
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::{ErrorResponse, HeaderLookup, RateLimitHints, Wire};
use std::time::Duration;

struct Headers(Vec<(&'static str, &'static str)>);

impl HeaderLookup for Headers {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

fn refused(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ProviderError {
    Anthropic::new().error(&ErrorResponse {
        status,
        headers: &Headers(headers.to_vec()),
        body: body.as_bytes(),
    })
}

fn of_type(kind: &str, message: &str) -> String {
    format!(
        r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_body"}}"#
    )
}

#[test]
fn each_refusal_has_its_kind() {
    use ProviderErrorKind::{Authentication, ContextOverflow, Fatal, RateLimited, Transient};
    let wait = ("retry-after", "3");
    type Headers = Vec<(&'static str, &'static str)>;
    type Case = (u16, Headers, &'static str, &'static str, ProviderErrorKind);
    let table: Vec<Case> = vec![
        (400, vec![], "invalid_request_error", "bad", Fatal),
        (
            400,
            vec![],
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            ContextOverflow,
        ),
        (
            400,
            vec![],
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ContextOverflow,
        ),
        (
            400,
            vec![("x-should-retry", "true")],
            "invalid_request_error",
            "x",
            Transient,
        ),
        (
            401,
            vec![],
            "authentication_error",
            "invalid x-api-key",
            Authentication,
        ),
        (402, vec![], "billing_error", "x", Fatal),
        (403, vec![], "permission_error", "x", Authentication),
        (404, vec![], "not_found_error", "model: x", Fatal),
        (408, vec![], "", "", Transient),
        (409, vec![], "conflict_error", "x", Transient),
        (413, vec![], "request_too_large", "x", ContextOverflow),
        (429, vec![wait], "rate_limit_error", "x", RateLimited),
        (
            429,
            vec![("retry-after-ms", "9")],
            "rate_limit_error",
            "x",
            RateLimited,
        ),
        (429, vec![], "rate_limit_error", "monthly limit", Fatal),
        // Gateways do not say how long to wait.
        (429, vec![], "rate_limit_error", "slow down", RateLimited),
        (429, vec![], "", "", RateLimited),
        // They wrap what the server behind them says.
        (
            500,
            vec![],
            "api_error",
            "litellm.BadRequestError: Requested tokens (4109) exceed context window of 2048",
            ContextOverflow,
        ),
        (
            429,
            vec![("x-should-retry", "true")],
            "rate_limit_error",
            "x",
            RateLimited,
        ),
        (
            429,
            vec![wait, ("x-should-retry", "false")],
            "rate_limit_error",
            "x",
            Fatal,
        ),
        (500, vec![], "api_error", "x", Transient),
        (
            500,
            vec![("x-should-retry", "false")],
            "api_error",
            "x",
            Fatal,
        ),
        (504, vec![], "timeout_error", "x", Transient),
        (529, vec![], "overloaded_error", "x", Transient),
        (529, vec![], "something_new", "x", Transient),
        (418, vec![], "something_new", "x", Fatal),
    ];
    for (status, headers, kind, message, expected) in table {
        let error = refused(status, &headers, &of_type(kind, message));
        assert_eq!(
            error.kind, expected,
            "{status} {headers:?} {kind} {message}"
        );
        assert_eq!(error.status, Some(status));
        let retried = matches!(expected, Transient | RateLimited);
        assert_eq!(error.retryable(), retried);
    }
}

#[test]
fn a_spend_limit_is_fatal_whatever_the_headers_say() {
    let with_code = |code: &str| {
        format!(
            r#"{{"error":{{"type":"rate_limit_error","message":"x","details":{{"error_code":"{code}"}}}}}}"#
        )
    };
    let limit = with_code("enforced_spend_limit_reached");
    for headers in [vec![("retry-after", "3")], vec![("x-should-retry", "true")]] {
        let error = refused(429, &headers, &limit);
        assert_eq!(error.kind, ProviderErrorKind::Fatal);
        assert!(error.hint.unwrap().contains("spend limit"));
    }
    let ramp = refused(429, &[], &with_code("ramp_limit_exceeded"));
    assert_eq!(ramp.kind, ProviderErrorKind::RateLimited);
}

#[test]
fn waits_are_read_in_every_spelling() {
    let date = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");
    for (headers, expected) in [
        (vec![("retry-after", "3")], Some(Duration::from_secs(3))),
        (
            vec![("retry-after", "0.5")],
            Some(Duration::from_millis(500)),
        ),
        (
            vec![("retry-after-ms", "1500"), ("retry-after", "9")],
            Some(Duration::from_millis(1500)),
        ),
        (
            vec![date, ("retry-after", "Sun, 15 Nov 2026 10:01:30 GMT")],
            Some(Duration::from_secs(90)),
        ),
        (
            vec![date, ("retry-after", "Sun, 15 Nov 2026 09:00:00 GMT")],
            Some(Duration::ZERO),
        ),
        (vec![("retry-after", "Sun, 15 Nov 2026 10:01:30 GMT")], None),
        (vec![("retry-after", "-1")], None),
        (vec![("retry-after", "soon")], None),
    ] {
        let error = refused(429, &headers, &of_type("rate_limit_error", "x"));
        assert_eq!(error.backoff_hint, expected, "{headers:?}");
        assert_eq!(error.kind, ProviderErrorKind::RateLimited, "{headers:?}");
    }
}

#[test]
fn an_error_says_what_happened_and_what_to_do() {
    let body = of_type(
        "authentication_error",
        "invalid x-api-key sk-ant-api03-SECRETSECRET",
    );
    let error = refused(401, &[("request-id", "req_head")], &body);
    assert_eq!(
        error.message,
        "the model service answered 401 (authentication_error): invalid x-api-key [key]"
    );
    assert_eq!(error.request_id.as_deref(), Some("req_head"));
    assert!(error.hint.as_deref().unwrap().contains("ANTHROPIC_API_KEY"));
    assert!(!format!("{error:?}").contains("SECRET"));
    let from_body = refused(404, &[], &of_type("not_found_error", "model: nope"));
    assert_eq!(from_body.request_id.as_deref(), Some("req_body"));
    assert!(from_body.hint.unwrap().contains("model's name"));
}

#[test]
fn a_body_that_is_not_the_services_is_shown() {
    let error = refused(502, &[], "<html>Bad Gateway</html>");
    assert_eq!(
        error.message,
        "the model service answered 502: <html>Bad Gateway</html>"
    );
    assert_eq!(error.kind, ProviderErrorKind::Transient);
    assert_eq!(
        refused(500, &[], "").message,
        "the model service answered 500"
    );
}

#[test]
fn errors_in_a_stream_have_the_same_kinds() {
    for (kind, expected) in [
        ("overloaded_error", ProviderErrorKind::Transient),
        ("api_error", ProviderErrorKind::Transient),
        ("rate_limit_error", ProviderErrorKind::RateLimited),
        ("authentication_error", ProviderErrorKind::Authentication),
        ("invalid_request_error", ProviderErrorKind::Fatal),
    ] {
        let event = format!("event: error\ndata: {}\n\n", of_type(kind, "x"));
        let error = decode(&Anthropic::new(), &event).1.unwrap();
        assert_eq!(error.kind, expected, "{kind}");
        assert_eq!(error.request_id.as_deref(), Some("req_body"));
    }
}

#[test]
fn rate_limits_are_read_from_headers() {
    let read = |headers: &[(&'static str, &'static str)]| {
        Anthropic::new().rate_limit(&Headers(headers.to_vec()))
    };
    let date = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");
    assert_eq!(
        read(&[
            date,
            ("anthropic-ratelimit-tokens-limit", "80000"),
            ("anthropic-ratelimit-tokens-remaining", "4000"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-15T10:00:20Z"),
            ("anthropic-ratelimit-input-tokens-limit", "2000000"),
            ("anthropic-ratelimit-input-tokens-remaining", "9000"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-11-15T09:59:00Z"),
        ]),
        RateLimitHints {
            tokens_limit: Some(80_000),
            tokens_remaining: Some(4_000),
            tokens_reset: Some(Duration::from_secs(20)),
            requests_remaining: Some(0),
            requests_reset: Some(Duration::ZERO),
        }
    );
    assert_eq!(
        read(&[
            ("anthropic-ratelimit-input-tokens-limit", "2000000"),
            ("anthropic-ratelimit-input-tokens-remaining", "9000"),
            (
                "anthropic-ratelimit-input-tokens-reset",
                "2026-11-15T10:00:20Z"
            ),
        ]),
        RateLimitHints {
            tokens_limit: Some(2_000_000),
            tokens_remaining: Some(9_000),
            ..RateLimitHints::default()
        }
    );
    assert_eq!(read(&[]), RateLimitHints::default());
}
