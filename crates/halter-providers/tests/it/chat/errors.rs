//! What responses that are no success mean.

use halter_protocol::{ProviderError, ProviderErrorKind};
use halter_providers::http::ResponseHeaders;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::{ErrorResponse, RateLimitHints, Wire};
use std::time::Duration;

fn headers(pairs: &[(&str, &str)]) -> ResponseHeaders {
    ResponseHeaders(
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    )
}

fn error(status: u16, pairs: &[(&str, &str)], body: &str) -> ProviderError {
    Chat::new(Dialect::GENERIC).error(&ErrorResponse {
        status,
        headers: &headers(pairs),
        body: body.as_bytes(),
    })
}

#[test]
fn each_refusal_has_its_kind() {
    use ProviderErrorKind::{Authentication, ContextOverflow, Fatal, RateLimited, Transient};
    for (status, body, kind) in [
        (
            400,
            r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#,
            Fatal,
        ),
        (
            400,
            r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ContextOverflow,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
            ContextOverflow,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":4096}}"#,
            ContextOverflow,
        ),
        (
            401,
            r#"{"error":{"message":"no","code":"invalid_api_key"}}"#,
            Authentication,
        ),
        (
            402,
            r#"{"error":{"code":402,"message":"Insufficient credits"}}"#,
            Fatal,
        ),
        (403, r#"{"error":"forbidden"}"#, Authentication),
        (404, r#"{"error":"model 'x' not found"}"#, Fatal),
        (408, "", Transient),
        (413, "", ContextOverflow),
        (422, r#"{"detail":[{"loc":["body"],"msg":"x"}]}"#, Fatal),
        (
            429,
            r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#,
            RateLimited,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Fatal,
        ),
        (500, "oops", Transient),
        (502, "<html>bad gateway</html>", Transient),
        (
            503,
            r#"{"error":{"message":"Slow down","code":"slow_down"}}"#,
            Transient,
        ),
        (529, "", Transient),
    ] {
        assert_eq!(error(status, &[], body).kind, kind, "{status} {body}");
    }
}

#[test]
fn an_error_says_what_who_and_what_to_do() {
    let error = error(
        404,
        &[("x-request-id", "req_1")],
        r#"{"error":{"message":"The model 'x' does not exist","code":"model_not_found"}}"#,
    );
    assert_eq!(
        error.message,
        "the model service answered 404 (model_not_found): The model 'x' does not exist"
    );
    assert_eq!(error.status, Some(404));
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert_eq!(
        error.hint.as_deref(),
        Some("check the model's name and the provider's base_url")
    );
}

#[test]
fn the_servers_wishes_are_kept() {
    let wait = |pairs: &[(&str, &str)]| error(429, pairs, "{}").backoff_hint;
    assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
    assert_eq!(
        wait(&[("retry-after", "7"), ("retry-after-ms", "250")]),
        Some(Duration::from_millis(250))
    );
    assert_eq!(wait(&[]), None);
    let refused = error(503, &[("x-should-retry", "false")], "{}");
    assert_eq!(refused.kind, ProviderErrorKind::Fatal);
    let invited = error(400, &[("x-should-retry", "true")], "{}");
    assert_eq!(invited.kind, ProviderErrorKind::Transient);
    let spent = r#"{"error":{"message":"x","code":"insufficient_quota"}}"#;
    let spent = error(429, &[("x-should-retry", "true")], spent);
    assert_eq!(spent.kind, ProviderErrorKind::Fatal);
}

#[test]
fn keys_that_a_server_repeats_are_not_shown() {
    let error = error(
        401,
        &[],
        r#"{"error":{"message":"Incorrect API key provided: sk-proj-12345678abcdefgh.","code":"invalid_api_key"}}"#,
    );
    assert!(!error.message.contains("12345678"), "{}", error.message);
}

#[test]
fn the_headers_tell_of_rates() {
    let hints = Chat::new(Dialect::OPENAI).rate_limit(&headers(&[
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ]));
    assert_eq!(
        hints,
        RateLimitHints {
            tokens_limit: Some(150_000),
            tokens_remaining: Some(149_984),
            tokens_reset: Some(Duration::from_secs(360)),
            requests_remaining: Some(59),
            requests_reset: Some(Duration::from_secs(1)),
        }
    );
}
