//! What the errors of services mean, as a response or inside a stream that
//! began well. The services differ in how they spell an error, not in what can
//! go wrong, so one reader serves all wires.

use super::failure::{duration, retry_after, shown, shown_body};
use super::{ErrorResponse, HeaderLookup};
use crate::catalog::overflow;
use halter_protocol::{ProviderError, ProviderErrorKind};
use serde_json::Value;
use std::time::Duration;

/// Words of errors that stay until somebody pays or a period ends.
const SPENT: [&str; 10] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "insufficient_balance",
    "payment_required",
    "usage_limit_reached",
    "usage_not_included",
    "enforced_spend_limit_reached",
    "account_deactivated",
];

/// The same in sentences, where a service has no word for it.
const SAID_OF_SPENT: [&str; 7] = [
    "spend limit",
    "spending limit",
    "spending cap",
    "credit balance",
    "credits are depleted",
    "usage limits",
    "monthly limit",
];

const TOO_LONG: [&str; 5] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "context_window_exceeded",
    "string_above_max_length",
    "request_too_large",
];

const UNAUTHORIZED: [&str; 4] = [
    "invalid_api_key",
    "authentication_error",
    "permission_error",
    "API_KEY_INVALID",
];

const TOO_OFTEN: [&str; 3] = [
    "rate_limit_error",
    "rate_limit_exceeded",
    "too_many_requests",
];

const PASSING: [&str; 9] = [
    "overloaded_error",
    "api_error",
    "timeout_error",
    "conflict_error",
    "server_error",
    "internal_server_error",
    "server_is_overloaded",
    "slow_down",
    "vector_store_timeout",
];

const FINAL: [&str; 9] = [
    "not_found_error",
    "model_not_found",
    "invalid_prompt",
    "invalid_image",
    "invalid_image_format",
    "image_too_large",
    "unsupported_value",
    "unsupported_parameter",
    "cyber_policy",
];

/// Words that are final in a stream; a response's status says more.
const FINAL_IN_STREAM: [&str; 2] = ["invalid_request_error", "BadRequestError"];

/// Headers in which services name a request.
const REQUEST_IDS: [&str; 4] = ["request-id", "x-request-id", "x-goog-request-id", "cf-ray"];

/// What a body or an event says of an error.
#[derive(Debug, Default)]
pub(super) struct ErrorReport {
    message: Option<String>,
    /// Codes, types and reasons; the one to show first.
    words: Vec<String>,
    /// The status that the text itself names.
    status: Option<u16>,
    param: Option<String>,
    wait: Option<Duration>,
    request_id: Option<String>,
}

impl ErrorReport {
    /// Reads a text; none if it is no JSON.
    pub fn read(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        // Google wraps an error in a list where a stream was asked for.
        Some(Self::of(match &value {
            Value::Array(list) => list.first()?,
            value => value,
        }))
    }

    /// Reads an error, with or without an object around it.
    pub fn of(value: &Value) -> Self {
        let error = value.get("error").filter(|error| !error.is_null());
        let error = error.unwrap_or(value);
        let member = |name: &str| error.get(name).or_else(|| value.get(name));
        let message = match error {
            Value::String(message) => Some(message.clone()),
            _ => ["message", "detail", "msg"].iter().find_map(|name| {
                let text = member(name).filter(|text| !text.is_null())?;
                Some(
                    text.as_str()
                        .map_or_else(|| text.to_string(), str::to_owned),
                )
            }),
        };
        let codes = [
            error.pointer("/details/error_code"),
            error.get("code"),
            error.get("status"),
            error.get("type"),
        ];
        let extras = error.get("details").and_then(Value::as_array);
        let extras = || extras.into_iter().flatten();
        let violations = extras()
            .filter_map(|extra| extra.get("violations")?.as_array())
            .flatten()
            .filter_map(|violation| violation.get("quotaId"));
        let reasons = extras().filter_map(|extra| extra.get("reason"));
        let words = codes.into_iter().flatten().chain(reasons).chain(violations);
        let number = |code: &Value| code.as_u64().or_else(|| code.as_str()?.parse().ok());
        let status = [member("code"), member("status")].into_iter().flatten();
        Self {
            message: message.map(|text| text + &upstream(error)),
            words: words
                .filter_map(Value::as_str)
                .filter(|word| *word != "error" && word.parse::<u16>().is_err())
                .map(str::to_owned)
                .collect(),
            status: status
                .filter_map(|code| u16::try_from(number(code)?).ok())
                .find(|status| (400..600).contains(status)),
            param: error
                .get("param")
                .and_then(Value::as_str)
                .map(str::to_owned),
            wait: extras().find_map(|extra| duration(extra.get("retryDelay")?.as_str()?)),
            request_id: value
                .get("request_id")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }

    /// True if it says anything at all.
    pub fn explains(&self) -> bool {
        self.message.is_some() || !self.words.is_empty()
    }

    fn has(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.as_deref().unwrap_or_default();
        let message = message.to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    /// True if waiting a little does not help: money or the day's share is used
    /// up.
    fn is_spent(&self, status: Option<u16>) -> bool {
        let per_day = self.words.iter().any(|word| word.contains("PerDay"));
        self.has(&SPENT)
            || per_day
            || (matches!(status, None | Some(400 | 402 | 403 | 429)) && self.says(&SAID_OF_SPENT))
    }

    fn is_overflow(&self, status: Option<u16>) -> bool {
        // Gateways report the refusal of the server behind them as their own failure.
        let telling = matches!(status, None | Some(400 | 413 | 422 | 500..));
        let message = self.message.as_deref().unwrap_or_default();
        self.has(&TOO_LONG) || (telling && overflow::is_overflow(message))
    }

    fn kind(&self, response_status: Option<u16>) -> ProviderErrorKind {
        let status = response_status.or(self.status);
        let bad_key = status == Some(400) && self.says(&["api key"]);
        match status {
            _ if self.is_spent(status) => ProviderErrorKind::Fatal,
            _ if self.is_overflow(status) => ProviderErrorKind::ContextOverflow,
            _ if self.has(&UNAUTHORIZED) || bad_key => ProviderErrorKind::Authentication,
            _ if self.has(&TOO_OFTEN) => ProviderErrorKind::RateLimited,
            _ if self.has(&FINAL) => ProviderErrorKind::Fatal,
            _ if self.has(&PASSING) => ProviderErrorKind::Transient,
            Some(401 | 403) => ProviderErrorKind::Authentication,
            Some(413) => ProviderErrorKind::ContextOverflow,
            Some(429) => ProviderErrorKind::RateLimited,
            Some(408 | 409 | 425 | 499..) => ProviderErrorKind::Transient,
            Some(_) => ProviderErrorKind::Fatal,
            None if self.has(&FINAL_IN_STREAM) => ProviderErrorKind::Fatal,
            // A stream that began had been accepted: what breaks it may pass.
            None => ProviderErrorKind::Transient,
        }
    }

    fn hint(&self, error: &ProviderError, key_variable: Option<&str>) -> Option<String> {
        let status = error.status.or(self.status);
        let hint = match (&error.kind, status) {
            (ProviderErrorKind::Authentication, _)
                if self.has(&["permission_error", "PERMISSION_DENIED"]) =>
            {
                "the key is valid but may not use this model or feature; use another key or model"
            }
            (ProviderErrorKind::Authentication, _) => {
                return Some(match key_variable {
                    Some(name) => {
                        format!("set {name}, or `api_key` of the provider, to a valid key")
                    }
                    None => "check the provider's api_key and what it is allowed to use".to_owned(),
                });
            }
            (ProviderErrorKind::ContextOverflow, _) => {
                "compact the conversation, or use a model with a larger context window"
            }
            (ProviderErrorKind::Fatal, status)
                if self.is_spent(status) || matches!(status, Some(402 | 429)) =>
            {
                "the account's credit, spend limit or quota is used up: raise it, \
                 wait for its next period, or use another provider"
            }
            (ProviderErrorKind::Fatal, status)
                if status == Some(404) || self.has(&["model_not_found", "not_found_error"]) =>
            {
                "check the model's name and the provider's base_url"
            }
            (ProviderErrorKind::Fatal, _) if self.says(&["must be verified"]) => {
                "verify the organization at the service, or unset reasoning of the model"
            }
            (ProviderErrorKind::Fatal, _) if self.has(&["FAILED_PRECONDITION"]) => {
                "the service does not serve this account or place: see its message"
            }
            (ProviderErrorKind::Fatal, _) => match self.param.as_deref()? {
                "temperature" => "unset temperature of the provider",
                "reasoning.effort" | "reasoning" => "change reasoning of the model",
                param => {
                    return Some(format!(
                        "the service names the parameter '{}'",
                        shown(param)
                    ));
                }
            },
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// The error as one of an answer that had begun.
    pub fn in_stream(&self, key_variable: Option<&str>) -> ProviderError {
        let text = self.message.as_deref().map(shown).unwrap_or_default();
        let beginning = "the model service broke off its answer".to_owned();
        let error = ProviderError::new(self.sentence(beginning, &text), self.kind(None));
        let error = match self.status {
            Some(status) => error.with_status(status),
            None => error,
        };
        let wait = self.wait.or_else(|| wait_in_words(&text));
        self.completed(error, wait, self.request_id.as_deref(), key_variable)
    }

    fn sentence(&self, mut sentence: String, text: &str) -> String {
        if let Some(word) = self.words.first() {
            sentence.push_str(&format!(" ({})", shown(word)));
        }
        if !text.is_empty() {
            sentence.push_str(": ");
            sentence.push_str(text);
        }
        sentence
    }

    fn completed(
        &self,
        mut error: ProviderError,
        wait: Option<Duration>,
        request_id: Option<&str>,
        key_variable: Option<&str>,
    ) -> ProviderError {
        if let Some(hint) = self.hint(&error, key_variable) {
            error = error.with_hint(hint);
        }
        if let Some(id) = request_id {
            error = error.with_request_id(id);
        }
        match wait {
            Some(wait) if error.retryable() => error.with_backoff_hint(wait),
            _ => error,
        }
    }
}

/// What a response that is not a success means. The variable is the one that
/// usually holds the service's key.
pub(super) fn of_response(
    response: &ErrorResponse<'_>,
    key_variable: Option<&str>,
) -> ProviderError {
    let report = ErrorReport::read(response.body).unwrap_or_default();
    let status = Some(response.status);
    let text = match &report.message {
        Some(message) => shown(message),
        None => shown_body(response.body),
    };
    let retryable = |kind: &ProviderErrorKind| {
        matches!(
            kind,
            ProviderErrorKind::Transient | ProviderErrorKind::RateLimited
        )
    };
    let should_retry = response.headers.header("x-should-retry").map(str::trim);
    let kind = match (report.kind(status), should_retry) {
        (kind, Some("false")) if retryable(&kind) => ProviderErrorKind::Fatal,
        (ProviderErrorKind::Fatal, Some("true")) if !report.is_spent(status) => {
            ProviderErrorKind::Transient
        }
        (kind, _) => kind,
    };
    let beginning = format!("the model service answered {}", response.status);
    let error = ProviderError::new(report.sentence(beginning, &text), kind);
    let wait = report.wait.or_else(|| retry_after(response.headers));
    let request_id = request_id(response.headers).or(report.request_id.as_deref());
    report.completed(
        error.with_status(response.status),
        wait.or_else(|| wait_in_words(&text)),
        request_id,
        key_variable,
    )
}

fn request_id(headers: &dyn HeaderLookup) -> Option<&str> {
    REQUEST_IDS.iter().find_map(|name| headers.header(name))
}

/// The stream ended before the answer did.
pub(super) fn cut_off() -> ProviderError {
    ProviderError::new(
        "the connection ended before the model's answer was complete",
        ProviderErrorKind::Transient,
    )
}

/// Something in the stream should be readable and is not.
pub(super) fn unreadable(what: &str) -> ProviderError {
    ProviderError::new(
        format!("the model service sent {what}, which cannot be read"),
        ProviderErrorKind::Transient,
    )
    .with_hint("if it happens again, check that the provider's wire and base_url fit the server")
}

/// OpenRouter wraps the words of the provider it asked.
fn upstream(error: &Value) -> String {
    let text = |pointer: &str| error.pointer(pointer).and_then(Value::as_str);
    match (text("/metadata/provider_name"), text("/metadata/raw")) {
        (Some(name), Some(raw)) => format!(" ({name}: {raw})"),
        (None, Some(said)) | (Some(said), None) => format!(" ({said})"),
        (None, None) => String::new(),
    }
}

/// OpenAI also says how long to wait in its text: "Please try again in 1.898s."
fn wait_in_words(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("try again in ")?;
    let word = rest.split_whitespace().next()?;
    duration(word.trim_end_matches(['.', ',']))
}
