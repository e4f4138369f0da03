//! What errors of the service mean, before and after the response began.

use super::events::{ErrorDetail, ErrorEvent};
use crate::catalog::overflow;
use crate::wire::failure::{duration, retry_after, shown, shown_body};
use crate::wire::{ErrorResponse, HeaderLookup, RateLimitHints};
use halter_protocol::{ProviderError, ProviderErrorKind};
use std::time::Duration;

/// What a response that is not a success means.
pub(super) fn of_response(response: &ErrorResponse<'_>) -> ProviderError {
    let event: Option<ErrorEvent> = serde_json::from_slice(response.body).ok();
    let detail = event.and_then(ErrorEvent::detail).unwrap_or_default();
    let text = match &detail.message {
        Some(message) => shown(message),
        None => shown_body(response.body),
    };
    let code = detail.code();
    let mut kind = kind_of(Some(response.status), code.as_deref(), &text);
    let waiting_helps = matches!(
        kind,
        ProviderErrorKind::Transient | ProviderErrorKind::RateLimited
    );
    if waiting_helps && response.headers.header("x-should-retry") == Some("false") {
        kind = ProviderErrorKind::Fatal;
    }
    let message = said(Some(response.status), code.as_deref(), &text);
    let mut error = ProviderError::new(message, kind.clone()).with_status(response.status);
    if let Some(id) = response.headers.header("x-request-id") {
        error = error.with_request_id(id);
    }
    if let Some(hint) = hint(&kind, code.as_deref(), &detail, &text) {
        error = error.with_hint(hint);
    }
    match retry_after(response.headers).or_else(|| wait_in_words(&text)) {
        Some(wait) if error.retryable() => error.with_backoff_hint(wait),
        _ => error,
    }
}

/// What an error inside a response that began well means.
pub(super) fn in_stream(detail: ErrorDetail) -> ProviderError {
    let text = shown(detail.message.as_deref().unwrap_or(""));
    let code = detail.code();
    let kind = kind_of(None, code.as_deref(), &text);
    let mut error = ProviderError::new(said(None, code.as_deref(), &text), kind.clone());
    if let Some(hint) = hint(&kind, code.as_deref(), &detail, &text) {
        error = error.with_hint(hint);
    }
    match wait_in_words(&text) {
        Some(wait) if error.retryable() => error.with_backoff_hint(wait),
        _ => error,
    }
}

/// What the headers of a response say about rates.
pub(super) fn rate_limit(headers: &dyn HeaderLookup) -> RateLimitHints {
    let number = |name| {
        headers
            .header(name)
            .and_then(|text| text.trim().parse().ok())
    };
    let wait = |name| headers.header(name).and_then(duration);
    RateLimitHints {
        tokens_remaining: number("x-ratelimit-remaining-tokens"),
        tokens_reset: wait("x-ratelimit-reset-tokens"),
        requests_remaining: number("x-ratelimit-remaining-requests"),
        requests_reset: wait("x-ratelimit-reset-requests"),
    }
}

fn said(status: Option<u16>, code: Option<&str>, text: &str) -> String {
    let mut message = match status {
        Some(status) => format!("the model service answered {status}"),
        None => "the model service broke the answer off".to_owned(),
    };
    if let Some(code) = code {
        message.push_str(&format!(" ({})", shown(code)));
    }
    if !text.is_empty() {
        message.push_str(": ");
        message.push_str(text);
    }
    message
}

fn kind_of(status: Option<u16>, code: Option<&str>, text: &str) -> ProviderErrorKind {
    if let Some(kind) = code.and_then(kind_of_code) {
        return kind;
    }
    let overflow = overflow::is_overflow(text);
    match status {
        // Gateways report the refusal of the server behind them as their own failure.
        Some(400 | 413 | 422 | 500..) if overflow => ProviderErrorKind::ContextOverflow,
        Some(401 | 403) => ProviderErrorKind::Authentication,
        Some(413) => ProviderErrorKind::ContextOverflow,
        Some(429) => ProviderErrorKind::RateLimited,
        Some(408 | 409 | 500..) => ProviderErrorKind::Transient,
        None if overflow => ProviderErrorKind::ContextOverflow,
        None if code == Some("invalid_request_error") => ProviderErrorKind::Fatal,
        // A stream that began had been accepted: what breaks it may pass.
        None => ProviderErrorKind::Transient,
        Some(_) => ProviderErrorKind::Fatal,
    }
}

fn kind_of_code(code: &str) -> Option<ProviderErrorKind> {
    Some(match code {
        "context_length_exceeded" | "exceed_context_size_error" | "context_window_exceeded" => {
            ProviderErrorKind::ContextOverflow
        }
        "insufficient_quota"
        | "usage_limit_reached"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "usage_not_included"
        | "402"
        | "invalid_prompt"
        | "invalid_image"
        | "invalid_image_format"
        | "image_too_large"
        | "model_not_found"
        | "unsupported_value"
        | "unsupported_parameter"
        | "cyber_policy" => ProviderErrorKind::Fatal,
        "invalid_api_key" | "account_deactivated" | "authentication_error" => {
            ProviderErrorKind::Authentication
        }
        "rate_limit_exceeded" | "429" | "too_many_requests" => ProviderErrorKind::RateLimited,
        "server_error" | "server_is_overloaded" | "slow_down" | "vector_store_timeout" => {
            ProviderErrorKind::Transient
        }
        _ => return None,
    })
}

fn hint(
    kind: &ProviderErrorKind,
    code: Option<&str>,
    detail: &ErrorDetail,
    text: &str,
) -> Option<String> {
    let quota = matches!(
        code,
        Some("insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" | "402")
    );
    Some(match kind {
        ProviderErrorKind::Authentication => {
            "set OPENAI_API_KEY to a valid key, or api_key of this provider in the configuration"
                .to_owned()
        }
        ProviderErrorKind::Fatal if quota => {
            "the account has no credit left: add some, or raise its spending limit".to_owned()
        }
        ProviderErrorKind::Fatal if code == Some("model_not_found") => {
            "check the model's name and that the account may use it".to_owned()
        }
        ProviderErrorKind::Fatal if text.contains("must be verified") => {
            "verify the organization at the service, or unset reasoning of the model".to_owned()
        }
        ProviderErrorKind::Fatal => match detail.param.as_deref() {
            Some("temperature") => "unset temperature of the provider".to_owned(),
            Some("reasoning.effort" | "reasoning") => "change reasoning of the model".to_owned(),
            Some(param) => format!("the service names the parameter '{}'", shown(param)),
            None => return None,
        },
        ProviderErrorKind::ContextOverflow => {
            "compact the conversation, or use a model with a larger window".to_owned()
        }
        _ => return None,
    })
}

/// The service also says how long to wait in its text: "Please try again in
/// 1.898s."
fn wait_in_words(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("try again in ")?;
    let word = rest.split_whitespace().next()?;
    duration(word.trim_end_matches(['.', ',']))
}
