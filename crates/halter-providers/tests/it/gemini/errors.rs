//! What errors of the service mean.

use super::wire;
use crate::wire_kit::{Headers, error_of};
use halter_protocol::{ProviderError, ProviderErrorKind};
use halter_providers::wire::{RateLimitHints, Wire};
use std::time::Duration;

fn error(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ProviderError {
    error_of(&wire(), status, headers, body)
}

fn body(message: &str, status: &str, details: &str) -> String {
    format!(
        r#"{{"error":{{"code":1,"message":"{message}","status":"{status}","details":[{details}]}}}}"#
    )
}

#[test]
fn statuses_and_reasons_have_their_kinds() {
    let invalid = "INVALID_ARGUMENT";
    let exhausted = "RESOURCE_EXHAUSTED";
    for (status, body, kind) in [
        (400, body("no", invalid, ""), ProviderErrorKind::Fatal),
        (
            400,
            body("API key not valid.", invalid, ""),
            ProviderErrorKind::Authentication,
        ),
        (
            400,
            body(
                "x",
                invalid,
                r#"{"@type":"ErrorInfo","reason":"API_KEY_INVALID"}"#,
            ),
            ProviderErrorKind::Authentication,
        ),
        (
            400,
            body(
                "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
                invalid,
                "",
            ),
            ProviderErrorKind::ContextOverflow,
        ),
        (
            400,
            body("User location is not supported.", "FAILED_PRECONDITION", ""),
            ProviderErrorKind::Fatal,
        ),
        (401, String::new(), ProviderErrorKind::Authentication),
        (
            403,
            body("no", "PERMISSION_DENIED", ""),
            ProviderErrorKind::Authentication,
        ),
        (
            404,
            body("no model", "NOT_FOUND", ""),
            ProviderErrorKind::Fatal,
        ),
        (408, String::new(), ProviderErrorKind::Transient),
        (413, String::new(), ProviderErrorKind::ContextOverflow),
        (
            429,
            body("slow", exhausted, ""),
            ProviderErrorKind::RateLimited,
        ),
        (
            429,
            body(
                "slow",
                exhausted,
                r#"{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]}"#,
            ),
            ProviderErrorKind::RateLimited,
        ),
        (
            429,
            body(
                "no more",
                exhausted,
                r#"{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}"#,
            ),
            ProviderErrorKind::Fatal,
        ),
        (
            429,
            body("Your prepayment credits are depleted.", exhausted, ""),
            ProviderErrorKind::Fatal,
        ),
        (
            500,
            body("oops", "INTERNAL", ""),
            ProviderErrorKind::Transient,
        ),
        (502, "<html>".to_owned(), ProviderErrorKind::Transient),
        (
            503,
            body("busy", "UNAVAILABLE", ""),
            ProviderErrorKind::Transient,
        ),
        (
            504,
            body("late", "DEADLINE_EXCEEDED", ""),
            ProviderErrorKind::Transient,
        ),
    ] {
        let error = error(status, &[], &body);
        assert_eq!(error.kind, kind, "{status} {body}");
        assert_eq!(error.status, Some(status));
    }
}

#[test]
fn an_error_says_what_to_do_and_whom_to_ask() {
    let error = error(
        400,
        &[("x-request-id", "req_1")],
        &body("API key AIzaSyD-x_y not valid.", "INVALID_ARGUMENT", ""),
    );
    assert_eq!(
        error.message,
        "the model service answered 400 (INVALID_ARGUMENT): API key [key] not valid."
    );
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert!(error.hint.unwrap().contains("GEMINI_API_KEY"));
}

#[test]
fn an_error_in_a_list_is_read_too() {
    let listed = format!("[{}]", body("slow", "RESOURCE_EXHAUSTED", ""));
    assert_eq!(
        error(429, &[], &listed).message,
        "the model service answered 429 (RESOURCE_EXHAUSTED): slow"
    );
    assert_eq!(error(429, &[], "[]").kind, ProviderErrorKind::RateLimited);
}

#[test]
fn the_wish_to_wait_is_heard_wherever_it_is_said() {
    let retry_info = r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12.5s"}"#;
    let limited = body("slow", "RESOURCE_EXHAUSTED", retry_info);
    let wait = error(429, &[("retry-after", "7")], &limited).backoff_hint;
    assert_eq!(wait, Some(Duration::from_millis(12_500)));
    let wait = error(503, &[("retry-after", "7")], "").backoff_hint;
    assert_eq!(wait, Some(Duration::from_secs(7)));
    let fatal = error(404, &[("retry-after", "7")], "").backoff_hint;
    assert_eq!(fatal, None);
}

#[test]
fn headers_say_nothing_about_rates() {
    let headers = Headers(vec![("x-ratelimit-remaining-tokens", "1")]);
    assert_eq!(wire().rate_limit(&headers), RateLimitHints::default());
}

#[test]
fn a_gateway_may_forbid_another_attempt() {
    let told = |headers| error(429, headers, &body("slow", "RESOURCE_EXHAUSTED", ""));
    assert!(told(&[]).retryable());
    let forbidden = told(&[("x-should-retry", "false"), ("retry-after", "1")]);
    assert_eq!(forbidden.kind, ProviderErrorKind::Fatal);
    assert_eq!(forbidden.backoff_hint, None);
}
