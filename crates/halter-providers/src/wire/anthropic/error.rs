//! What the service's errors mean, as a response or in a stream that had
//! begun well.

use super::headers::retry_after;
use crate::catalog::overflow;
use crate::wire::ErrorResponse;
use crate::wire::failure::{shown, shown_body};
use halter_protocol::{ProviderError, ProviderErrorKind};
use serde_json::Value;

/// A response that is not a success.
pub(super) fn from_response(response: &ErrorResponse<'_>) -> ProviderError {
    let report = Report::read(response.body);
    let should_retry = response.headers.header("x-should-retry").map(str::trim);
    let kind = match (report.kind(response.status), should_retry) {
        (kind, Some("false")) if is_retryable(&kind) => ProviderErrorKind::Fatal,
        (ProviderErrorKind::Fatal, Some("true")) if !report.is_spend_limit() => {
            ProviderErrorKind::Transient
        }
        (kind, _) => kind,
    };
    let mut error = ProviderError::new(report.sentence(Some(response.status)), kind)
        .with_status(response.status);
    if let Some(wait) = retry_after(response.headers) {
        error = error.with_backoff_hint(wait);
    }
    let header_id = response.headers.header("request-id").map(str::to_owned);
    if let Some(id) = header_id.or_else(|| report.request_id.clone()) {
        error = error.with_request_id(id);
    }
    report.with_hint(error)
}

/// An `error` event of a stream.
pub(super) fn from_event(data: &str) -> ProviderError {
    let report = Report::read(data.as_bytes());
    let error = ProviderError::new(report.sentence(None), report.kind(0));
    let error = match &report.request_id {
        Some(id) => error.with_request_id(id.clone()),
        None => error,
    };
    report.with_hint(error)
}

/// An answer that stopped before its end.
pub(super) fn truncated() -> ProviderError {
    ProviderError::new(
        "the connection ended before the model's answer was complete",
        ProviderErrorKind::Transient,
    )
}

/// An answer that ended, but not as the wire ends one.
pub(super) fn unexplained_end() -> ProviderError {
    ProviderError::new(
        "the model's answer ended without saying why",
        ProviderErrorKind::Transient,
    )
}

/// An event that should be readable and is not.
pub(super) fn unreadable(what: &str) -> ProviderError {
    ProviderError::new(
        format!("the model service sent {what}, which cannot be read"),
        ProviderErrorKind::Transient,
    )
    .with_hint("if it happens again, check that the base URL speaks the Anthropic Messages wire")
}

fn is_retryable(kind: &ProviderErrorKind) -> bool {
    matches!(
        kind,
        ProviderErrorKind::Transient | ProviderErrorKind::RateLimited
    )
}

/// An error body, as far as it could be read.
struct Report {
    /// Such as `overloaded_error`; empty if the body is not the service's.
    category: String,
    code: Option<String>,
    message: String,
    request_id: Option<String>,
}

impl Report {
    fn read(body: &[u8]) -> Self {
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return Self {
                category: String::new(),
                code: None,
                message: shown_body(body),
                request_id: None,
            };
        };
        let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str);
        Self {
            category: text("/error/type").unwrap_or_default().to_owned(),
            code: text("/error/details/error_code").map(str::to_owned),
            message: shown(text("/error/message").unwrap_or_default()),
            request_id: text("/request_id").map(str::to_owned),
        }
    }

    /// What a caller can do, by code, else category, else status.
    fn kind(&self, status: u16) -> ProviderErrorKind {
        if self.is_spend_limit() {
            return ProviderErrorKind::Fatal;
        }
        // Gateways report the refusal of the server behind them as their own failure.
        if matches!(status, 0 | 400 | 500..) && overflow::is_overflow(&self.message) {
            return ProviderErrorKind::ContextOverflow;
        }
        match (self.category.as_str(), status) {
            ("authentication_error" | "permission_error", _) => ProviderErrorKind::Authentication,
            ("request_too_large", _) => ProviderErrorKind::ContextOverflow,
            ("rate_limit_error", _) => ProviderErrorKind::RateLimited,
            ("overloaded_error" | "api_error" | "timeout_error" | "conflict_error", _) => {
                ProviderErrorKind::Transient
            }
            ("billing_error" | "not_found_error", _) => ProviderErrorKind::Fatal,
            (_, 401 | 403) => ProviderErrorKind::Authentication,
            (_, 413) => ProviderErrorKind::ContextOverflow,
            (_, 429) => ProviderErrorKind::RateLimited,
            (_, 408 | 409 | 500..) => ProviderErrorKind::Transient,
            _ => ProviderErrorKind::Fatal,
        }
    }

    fn is_spend_limit(&self) -> bool {
        let words = self.message.to_ascii_lowercase();
        self.code.as_deref() == Some("enforced_spend_limit_reached")
            || self.category == "billing_error"
            || [
                "spend limit",
                "spending limit",
                "credit balance",
                "usage limits",
                "monthly",
            ]
            .iter()
            .any(|phrase| words.contains(phrase))
    }

    fn sentence(&self, status: Option<u16>) -> String {
        let mut sentence = match status {
            Some(status) => format!("the model service answered {status}"),
            None => "the model service broke off its answer".to_owned(),
        };
        if !self.category.is_empty() {
            sentence.push_str(&format!(" ({})", self.category));
        }
        if !self.message.is_empty() {
            sentence.push_str(": ");
            sentence.push_str(&self.message);
        }
        sentence
    }

    fn with_hint(&self, error: ProviderError) -> ProviderError {
        let hint = match (&error.kind, self.category.as_str(), error.status) {
            (ProviderErrorKind::Authentication, "permission_error", _) => {
                "the key is valid but may not use this model or feature; use another key or model"
            }
            (ProviderErrorKind::Authentication, ..) => {
                "set ANTHROPIC_API_KEY, or `api_key` of the provider, to a valid key"
            }
            (ProviderErrorKind::ContextOverflow, ..) => "compact the session or start a new one",
            (ProviderErrorKind::Fatal, _, Some(429)) => {
                "the spend limit of the account is reached; raise it or wait for its next period"
            }
            (ProviderErrorKind::Fatal, "billing_error", _) => {
                "check the billing of the account that the key belongs to"
            }
            (ProviderErrorKind::Fatal, "not_found_error", _) => {
                "check the model's name and the provider's base URL"
            }
            _ => return error,
        };
        error.with_hint(hint)
    }
}
