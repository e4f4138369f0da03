//! What errors of the service mean.

use super::wire;
use crate::wire_kit::{Headers, error_of};
use halter_protocol::{ProviderError, ProviderErrorKind};
use halter_providers::wire::{RateLimitHints, Wire};
use std::time::Duration;

fn error(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ProviderError {
    error_of(&wire(), status, headers, body)
}

fn body(message: &str, kind: &str, code: &str) -> String {
    format!(r#"{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":{code}}}}}"#)
}

#[test]
fn statuses_and_codes_have_their_kinds() {
    let invalid = "invalid_request_error";
    for (status, body, kind) in [
        (400, body("no", invalid, "null"), ProviderErrorKind::Fatal),
        (
            400,
            body("too long", invalid, "\"context_length_exceeded\""),
            ProviderErrorKind::ContextOverflow,
        ),
        (
            400,
            body(
                "This model's maximum context length is 10 tokens.",
                invalid,
                "null",
            ),
            ProviderErrorKind::ContextOverflow,
        ),
        (
            401,
            body("bad key", invalid, "\"invalid_api_key\""),
            ProviderErrorKind::Authentication,
        ),
        (
            403,
            body("not here", "forbidden", "null"),
            ProviderErrorKind::Authentication,
        ),
        (402, body("pay", "billing", "402"), ProviderErrorKind::Fatal),
        (
            404,
            body("no model", invalid, "\"model_not_found\""),
            ProviderErrorKind::Fatal,
        ),
        (408, String::new(), ProviderErrorKind::Transient),
        (409, String::new(), ProviderErrorKind::Transient),
        (413, String::new(), ProviderErrorKind::ContextOverflow),
        (422, body("no", invalid, "null"), ProviderErrorKind::Fatal),
        (
            429,
            body("slow", "tokens", "\"rate_limit_exceeded\""),
            ProviderErrorKind::RateLimited,
        ),
        (
            429,
            body("pay", "insufficient_quota", "\"insufficient_quota\""),
            ProviderErrorKind::Fatal,
        ),
        (
            429,
            body("pay", "insufficient_quota", "null"),
            ProviderErrorKind::Fatal,
        ),
        (
            500,
            body("oops", "server_error", "null"),
            ProviderErrorKind::Transient,
        ),
        (
            502,
            "<html>bad gateway</html>".to_owned(),
            ProviderErrorKind::Transient,
        ),
        (
            503,
            body("later", "x", "\"slow_down\""),
            ProviderErrorKind::Transient,
        ),
        (529, String::new(), ProviderErrorKind::Transient),
    ] {
        let error = error(status, &[], &body);
        assert_eq!(error.kind, kind, "{status} {body}");
        assert_eq!(error.status, Some(status));
    }
}

#[test]
fn an_error_says_what_to_do_and_whom_to_ask() {
    let error = error(
        401,
        &[("x-request-id", "req_1")],
        &body(
            "Incorrect API key provided: sk-proj-aaa***zzz.",
            "invalid_request_error",
            "\"invalid_api_key\"",
        ),
    );
    assert_eq!(
        error.message,
        "the model service answered 401 (invalid_api_key): Incorrect API key provided: [key]"
    );
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert!(error.hint.unwrap().contains("OPENAI_API_KEY"));
}

#[test]
fn other_bodies_are_shown_without_keys() {
    for (body, shown) in [
        (r#"{"error":"no such thing"}"#, "no such thing"),
        (r#"{"detail":"Not Found"}"#, "Not Found"),
        (
            r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
            "bad",
        ),
        ("key sk-abcdef", "key [key]"),
    ] {
        let error = error(404, &[], body);
        assert!(error.message.ends_with(shown), "{}", error.message);
    }
}

#[test]
fn the_wish_to_wait_is_heard_wherever_it_is_said() {
    let limited = body(
        "Please try again in 1m2.5s. Thanks.",
        "tokens",
        "\"rate_limit_exceeded\"",
    );
    let wait =
        |headers: &[(&'static str, &'static str)]| error(429, headers, &limited).backoff_hint;
    assert_eq!(wait(&[]), Some(Duration::from_millis(62_500)));
    assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
    assert_eq!(
        wait(&[("retry-after", "7"), ("retry-after-ms", "250")]),
        Some(Duration::from_millis(250))
    );
    let quota = error(
        429,
        &[("retry-after", "7")],
        &body("pay", "x", "\"insufficient_quota\""),
    );
    assert_eq!((quota.backoff_hint, quota.retryable()), (None, false));
}

#[test]
fn headers_say_how_much_more_the_service_takes() {
    let headers = Headers(vec![
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "20ms"),
    ]);
    assert_eq!(
        wire().rate_limit(&headers),
        RateLimitHints {
            tokens_limit: Some(150_000),
            tokens_remaining: Some(149_984),
            tokens_reset: Some(Duration::from_secs(360)),
            requests_remaining: Some(59),
            requests_reset: Some(Duration::from_millis(20)),
        }
    );
    let nonsense = Headers(vec![("x-ratelimit-remaining-tokens", "many")]);
    assert_eq!(wire().rate_limit(&nonsense), RateLimitHints::default());
}
