//! Answers that the service blocks or that come out malformed.

use crate::wire::failure::shown;
use halter_protocol::{ProviderError, ProviderErrorKind};

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
