//! What errors of servers mean, as a response or inside a stream.

use crate::catalog::overflow;
use crate::wire::ErrorResponse;
use crate::wire::failure::{retry_after, shown, shown_body};
use halter_protocol::{ProviderError, ProviderErrorKind};
use serde_json::Value;

/// Codes and types of errors that stay until somebody pays.
const SPENT: [&str; 6] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "account_deactivated",
    "insufficient_balance",
    "payment_required",
];

/// Codes and types that say the conversation is too long.
const TOO_LONG: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "context_window_exceeded",
    "string_above_max_length",
];

/// Codes and types of errors that pass.
const PASSING: [&str; 7] = [
    "server_error",
    "internal_server_error",
    "InternalServerError",
    "overloaded_error",
    "server_is_overloaded",
    "slow_down",
    "timeout",
];

/// What a body or an event says of an error.
#[derive(Debug, Default)]
struct Report {
    message: Option<String>,
    /// The status that the text itself names.
    status: Option<u16>,
    /// `code` and `type`, where they are words.
    words: Vec<String>,
}

impl Report {
    fn read(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        // A list of errors, as Google's compatible endpoint has it.
        let value = match value {
            Value::Array(list) => list.into_iter().next()?,
            value => value,
        };
        let error = match value.get("error") {
            Some(Value::Null) | None => &value,
            Some(error) => error,
        };
        if let Value::String(message) = error {
            return Some(Self {
                message: Some(message.clone()),
                ..Self::default()
            });
        }
        let member = |name: &str| error.get(name).or_else(|| value.get(name));
        let message = ["message", "detail", "msg"]
            .iter()
            .find_map(|name| match member(name)? {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(other.to_string()),
            });
        let words = ["code", "type"]
            .iter()
            .filter_map(|name| Some(member(name)?.as_str()?.to_owned()))
            .collect();
        let status = member("code")
            .or_else(|| member("status"))
            .and_then(|code| {
                let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
                u16::try_from(number)
                    .ok()
                    .filter(|status| (400..600).contains(status))
            });
        Some(Self {
            message: message.map(|text| text + &upstream(error)),
            status,
            words,
        })
    }

    fn has(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }

    fn kind(&self, status: Option<u16>) -> ProviderErrorKind {
        let message = self.message.as_deref().unwrap_or_default();
        if self.has(&SPENT) {
            return ProviderErrorKind::Fatal;
        }
        if self.has(&TOO_LONG) || overflow::is_overflow(message) {
            return ProviderErrorKind::ContextOverflow;
        }
        match status.or(self.status) {
            Some(401 | 403) => ProviderErrorKind::Authentication,
            Some(413) => ProviderErrorKind::ContextOverflow,
            Some(429) => ProviderErrorKind::RateLimited,
            Some(408 | 409 | 425 | 500..) => ProviderErrorKind::Transient,
            Some(_) => ProviderErrorKind::Fatal,
            None if self.has(&["rate_limit_exceeded"]) => ProviderErrorKind::RateLimited,
            None if self.has(&["invalid_api_key", "authentication_error"]) => {
                ProviderErrorKind::Authentication
            }
            None if self.has(&[
                "invalid_request_error",
                "BadRequestError",
                "model_not_found",
            ]) =>
            {
                ProviderErrorKind::Fatal
            }
            None if self.has(&PASSING) => ProviderErrorKind::Transient,
            None => ProviderErrorKind::Transient,
        }
    }

    fn hint(&self, status: Option<u16>, kind: &ProviderErrorKind) -> Option<&'static str> {
        match (kind, status.or(self.status)) {
            _ if self.has(&SPENT) => Some("add credit to the account, or use another provider"),
            (_, Some(402)) => Some("add credit to the account, or use another provider"),
            (ProviderErrorKind::Authentication, _) => {
                Some("check the provider's api_key and what it is allowed to use")
            }
            (ProviderErrorKind::ContextOverflow, _) => {
                Some("compact the conversation, or use a model with a larger context window")
            }
            (ProviderErrorKind::Fatal, Some(404)) => {
                Some("check the model's name and the provider's base_url")
            }
            _ => None,
        }
    }
}

/// OpenRouter wraps the words of the provider it asked.
fn upstream(error: &Value) -> String {
    let raw = error.pointer("/metadata/raw").and_then(Value::as_str);
    let name = error
        .pointer("/metadata/provider_name")
        .and_then(Value::as_str);
    match (name, raw) {
        (Some(name), Some(raw)) => format!(" ({name}: {raw})"),
        (None, Some(raw)) => format!(" ({raw})"),
        (Some(name), None) => format!(" ({name})"),
        (None, None) => String::new(),
    }
}

/// A response that is not a success.
pub(super) fn from_response(response: &ErrorResponse<'_>) -> ProviderError {
    let report = Report::read(response.body).unwrap_or_default();
    let status = Some(response.status);
    let kind = match (
        report.kind(status),
        response.headers.header("x-should-retry"),
    ) {
        (ProviderErrorKind::Transient | ProviderErrorKind::RateLimited, Some("false")) => {
            ProviderErrorKind::Fatal
        }
        (ProviderErrorKind::Fatal, Some("true")) if !report.has(&SPENT) => {
            ProviderErrorKind::Transient
        }
        (kind, _) => kind,
    };
    let said = match &report.message {
        Some(message) => shown(message),
        None => shown_body(response.body),
    };
    let sentence = match said.is_empty() {
        true => format!("the server answered with HTTP status {}", response.status),
        false => format!(
            "the server answered with HTTP status {}: {said}",
            response.status
        ),
    };
    let mut error =
        with_hint(&report, status, ProviderError::new(sentence, kind)).with_status(response.status);
    if let Some(wait) = retry_after(response.headers) {
        error = error.with_backoff_hint(wait);
    }
    let request_id = ["x-request-id", "request-id", "cf-ray"]
        .iter()
        .find_map(|name| response.headers.header(name));
    match request_id {
        Some(id) => error.with_request_id(id),
        None => error,
    }
}

/// An error inside a stream that began well.
pub(super) fn from_event(data: &str) -> ProviderError {
    explained(data.as_bytes()).unwrap_or_else(unexplained)
}

/// The error that a text explains, if it does.
pub(super) fn explained(body: &[u8]) -> Option<ProviderError> {
    let report = Report::read(body)?;
    let message = report.message.as_ref()?;
    let sentence = format!("the server broke off its answer: {}", shown(message));
    let error = ProviderError::new(sentence, report.kind(None));
    let error = match report.status {
        Some(status) => error.with_status(status),
        None => error,
    };
    Some(with_hint(&report, None, error))
}

/// The server says that it failed and not why.
pub(super) fn unexplained() -> ProviderError {
    ProviderError::new(
        "the server broke off its answer without saying why",
        ProviderErrorKind::Transient,
    )
}

/// The stream ended before the answer did.
pub(super) fn cut_off() -> ProviderError {
    ProviderError::new(
        "the connection ended before the model's answer was complete",
        ProviderErrorKind::Transient,
    )
}

fn with_hint(report: &Report, status: Option<u16>, error: ProviderError) -> ProviderError {
    match report.hint(status, &error.kind) {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
