//! What errors of the service mean, before and after the response began.

use super::chunk::ErrorDetail;
use crate::wire::ErrorResponse;
use crate::wire::failure::{duration, retry_after, shown, shown_body};
use halter_protocol::{ProviderError, ProviderErrorKind};
use serde::Deserialize;

/// An error body; the service wraps it in an array where a stream was asked
/// for without events.
#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorBody {
    One { error: ErrorDetail },
    Listed(Vec<Wrapped>),
}

#[derive(Deserialize)]
struct Wrapped {
    error: ErrorDetail,
}

/// What a response that is not a success means.
pub(super) fn of_response(response: &ErrorResponse<'_>) -> ProviderError {
    let detail = match serde_json::from_slice(response.body) {
        Ok(ErrorBody::One { error }) => error,
        Ok(ErrorBody::Listed(list)) => list
            .into_iter()
            .next()
            .map(|wrapped| wrapped.error)
            .unwrap_or_default(),
        Err(_) => ErrorDetail::default(),
    };
    let text = match &detail.message {
        Some(message) => shown(message),
        None => shown_body(response.body),
    };
    let mut error = described(
        response.status,
        &detail,
        &text,
        "the model service answered",
    );
    // A gateway in front of the service may know better.
    if error.retryable() && response.headers.header("x-should-retry") == Some("false") {
        error.kind = ProviderErrorKind::Fatal;
        error.backoff_hint = None;
    }
    if let Some(id) = response
        .headers
        .header("x-goog-request-id")
        .or_else(|| response.headers.header("x-request-id"))
    {
        error = error.with_request_id(id);
    }
    match retry_after(response.headers) {
        Some(wait) if error.retryable() && error.backoff_hint.is_none() => {
            error.with_backoff_hint(wait)
        }
        _ => error,
    }
}

/// What an error inside a response that began well means.
pub(super) fn in_stream(detail: ErrorDetail) -> ProviderError {
    let text = shown(detail.message.as_deref().unwrap_or(""));
    let status = detail.code.unwrap_or(500);
    described(
        status,
        &detail,
        &text,
        "the model service broke the answer off with",
    )
}

/// The service does not let the model read the prompt.
pub(super) fn blocked_prompt(reason: &str, message: Option<&str>) -> ProviderError {
    let mut text = format!("the model service blocked the prompt ({})", shown(reason));
    if let Some(message) = message {
        text.push_str(": ");
        text.push_str(&shown(message));
    }
    ProviderError::new(text, ProviderErrorKind::Fatal)
        .with_hint("rephrase the request, or leave out what the service may object to")
}

/// The model failed to write a call that can be read.
pub(super) fn malformed_answer(reason: &str, message: Option<&str>) -> ProviderError {
    let mut text = format!("the model's answer was malformed ({})", shown(reason));
    if let Some(message) = message {
        text.push_str(": ");
        text.push_str(&shown(message));
    }
    ProviderError::new(text, ProviderErrorKind::Transient)
}

fn described(status: u16, detail: &ErrorDetail, text: &str, what: &str) -> ProviderError {
    let kind = kind_of(status, detail, text);
    let mut message = format!("{what} {status}");
    if let Some(name) = &detail.status {
        message.push_str(&format!(" ({})", shown(name)));
    }
    if !text.is_empty() {
        message.push_str(": ");
        message.push_str(text);
    }
    let mut error = ProviderError::new(message, kind.clone()).with_status(status);
    if let Some(hint) = hint(status, detail, &kind) {
        error = error.with_hint(hint);
    }
    let wait = detail
        .details
        .iter()
        .find_map(|extra| extra.retry_delay.as_deref().and_then(duration));
    match wait {
        Some(wait) if error.retryable() => error.with_backoff_hint(wait),
        _ => error,
    }
}

fn kind_of(status: u16, detail: &ErrorDetail, text: &str) -> ProviderErrorKind {
    let reason = |name: &str| {
        detail
            .details
            .iter()
            .any(|extra| extra.reason.as_deref() == Some(name))
    };
    let text = text.to_ascii_lowercase();
    let overflow = text.contains("exceeds the maximum number of tokens")
        || (text.contains("token count") && text.contains("exceed"));
    match status {
        400 if reason("API_KEY_INVALID") || text.contains("api key") => {
            ProviderErrorKind::Authentication
        }
        400 | 413 if overflow => ProviderErrorKind::ContextOverflow,
        401 | 403 => ProviderErrorKind::Authentication,
        413 => ProviderErrorKind::ContextOverflow,
        429 if is_used_up(detail, &text) => ProviderErrorKind::Fatal,
        429 => ProviderErrorKind::RateLimited,
        408 | 499.. => ProviderErrorKind::Transient,
        _ => ProviderErrorKind::Fatal,
    }
}

/// True if waiting a little does not help: the day's share or the money is
/// used up.
fn is_used_up(detail: &ErrorDetail, text: &str) -> bool {
    let per_day = detail
        .details
        .iter()
        .flat_map(|extra| &extra.violations)
        .any(|violation| {
            violation
                .quota_id
                .as_deref()
                .is_some_and(|id| id.contains("PerDay"))
        });
    per_day || text.contains("credits are depleted") || text.contains("spending cap")
}

fn hint(status: u16, detail: &ErrorDetail, kind: &ProviderErrorKind) -> Option<&'static str> {
    Some(match (kind, status) {
        (ProviderErrorKind::Authentication, _) => {
            "set GEMINI_API_KEY to a valid key that may use the model, or api_key of this provider in the configuration"
        }
        (ProviderErrorKind::ContextOverflow, _) => {
            "compact the conversation, or use a model with a larger window"
        }
        (ProviderErrorKind::Fatal, 404) => "check the model's name and the provider's base_url",
        (ProviderErrorKind::Fatal, 429) => {
            "the account's quota is used up: raise it, or wait until it is renewed"
        }
        (ProviderErrorKind::Fatal, _)
            if detail.status.as_deref() == Some("FAILED_PRECONDITION") =>
        {
            "the service does not serve this account or place: see its message"
        }
        _ => return None,
    })
}
