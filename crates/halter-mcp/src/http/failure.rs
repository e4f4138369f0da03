//! What can go wrong with a request.

use crate::auth::AuthFailure;
use crate::limits::QUOTED_BYTES;
use crate::text::{plain, shortened};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::error::Error;

/// A request that has no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum HttpFailure {
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("the connection broke: {0}; what was asked may or may not have been done")]
    Broken(String),
    #[error("its answer broke off; what was asked may or may not have been done")]
    CutOff,
    #[error("it did not answer within {0} s")]
    TooSlow(u64),
    #[error("it redirects to {0}: if that is right, write that address into its entry")]
    Redirected(String),
    #[error("it answered with HTTP {status}{}", said(.body))]
    Status { status: u16, body: String },
    #[error("it answered with {0}, which is no message; check its address and its `type`")]
    ContentType(String),
    #[error("it sent more than {0} bytes in one message")]
    TooLarge(usize),
    #[error("it answered with something that is no message: {0}")]
    NoMessage(String),
    #[error("it answered another request than the one it was sent")]
    WrongId,
    #[error("it named no address to post to that is its own")]
    Endpoint,
    #[error(transparent)]
    Auth(#[from] AuthFailure),
}

fn said(body: &str) -> String {
    match body {
        "" => String::new(),
        body => format!(": {body}"),
    }
}

impl HttpFailure {
    /// Whether the same request may succeed a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::TooSlow(_) | Self::Broken(_) => true,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            _ => false,
        }
    }

    /// A failure of the client, without the address, which may hold a key.
    pub(crate) fn of(host: &str, error: &reqwest::Error) -> Self {
        let reason = causes(error);
        match error.is_connect() {
            true => Self::Unreachable {
                host: host.to_owned(),
                reason,
            },
            false => Self::Broken(reason),
        }
    }
}

/// The causes of an error, without its own text, which repeats the address.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    let mut texts = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    match texts.is_empty() {
        true if error.is_timeout() => "it took too long".to_owned(),
        true => "unknown cause".to_owned(),
        false => shortened(&plain(&texts.join(": ")), QUOTED_BYTES),
    }
}

/// The failure of a request behind an error of the library.
pub(crate) fn http_failure(error: &(dyn Error + 'static)) -> Option<HttpFailure> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(failure) = error.downcast_ref::<HttpFailure>() {
            return Some(failure.clone());
        }
        if let Some(StreamableHttpError::Client(failure)) =
            error.downcast_ref::<StreamableHttpError<HttpFailure>>()
        {
            return Some(failure.clone());
        }
        cause = error.source();
    }
    None
}
