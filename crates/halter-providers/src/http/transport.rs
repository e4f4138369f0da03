//! The way to a server, as a trait: one request, one response whose body
//! arrives in pieces. Deadlines and cassettes are layers around it.

use crate::wire::HeaderLookup;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use halter_protocol::{ProviderError, ProviderErrorKind};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The body of a response as it arrives.
pub type BodyStream = BoxStream<'static, Result<Bytes, TransportError>>;

/// Carries requests to a server.
///
/// Dropping the future or the body abandons the request: there is nothing
/// else to cancel.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends a request and waits for the head of the response. Any status is
    /// a response.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError>;
}

#[async_trait]
impl<T: Transport + ?Sized> Transport for Arc<T> {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.as_ref().send(request).await
    }
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// Asks for something that is there.
    Get,
    /// Asks for an answer to its body.
    Post,
}

/// A request. Its headers hold secrets, so `Debug` shows only their names.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// What it does.
    pub method: HttpMethod,
    /// Where to.
    pub url: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// A response.
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: ResponseHeaders,
    /// The body.
    pub body: BodyStream,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// The headers of a response, names in lower case, in the order they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseHeaders(pub Vec<(String, String)>);

impl HeaderLookup for ResponseHeaders {
    fn header(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(ours, _)| ours == name)
            .map(|(_, value)| value.as_str())
    }
}

impl ResponseHeaders {
    /// The server's name of the request.
    pub fn request_id(&self) -> Option<&str> {
        ["request-id", "x-request-id", "x-goog-request-id"]
            .iter()
            .find_map(|name| self.header(name))
    }
}

/// Why there is no response, or no whole one. Never holds a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The client cannot be set up as configured.
    #[error("{message}")]
    Setup {
        /// What is wrong with which setting.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// No connection to the server.
    #[error("no connection to {host}: {message}")]
    Connect {
        /// The server.
        host: String,
        /// Why not.
        message: String,
    },
    /// The connection took too long.
    #[error("no connection to {host} within {}", seconds(after))]
    ConnectTimeout {
        /// The server.
        host: String,
        /// How long was waited.
        after: Duration,
    },
    /// The server took too long to begin its response.
    #[error("the server did not begin to answer within {}", seconds(after))]
    FirstByteTimeout {
        /// How long was waited.
        after: Duration,
    },
    /// The server fell silent in the middle.
    #[error("the server sent nothing for {}", seconds(after))]
    IdleTimeout {
        /// How long was waited.
        after: Duration,
    },
    /// The connection broke.
    #[error("the connection to the server broke: {message}")]
    Broken {
        /// How.
        message: String,
    },
    /// A cassette has no answer to the request, or cannot be read or written.
    #[error("{message}")]
    Cassette {
        /// What happened, with the first difference.
        message: String,
    },
}

impl TransportError {
    /// The stable reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Setup { .. } => "transport_setup",
            Self::Connect { .. } => "connect_failed",
            Self::ConnectTimeout { .. } => "connect_timeout",
            Self::FirstByteTimeout { .. } => "first_byte_timeout",
            Self::IdleTimeout { .. } => "idle_timeout",
            Self::Broken { .. } => "connection_broken",
            Self::Cassette { .. } => "cassette",
        }
    }
}

impl From<TransportError> for ProviderError {
    fn from(error: TransportError) -> Self {
        let kind = match error {
            TransportError::Setup { .. } | TransportError::Cassette { .. } => {
                ProviderErrorKind::Fatal
            }
            _ => ProviderErrorKind::Transient,
        };
        let message = error.to_string();
        let hint = match error {
            TransportError::Setup { hint, .. } => hint,
            TransportError::Connect { .. } | TransportError::ConnectTimeout { .. } => {
                "check the provider's base_url, the network and the proxy settings"
            }
            TransportError::FirstByteTimeout { .. } => {
                "raise resilience.timeouts.request_secs if the server needs longer"
            }
            TransportError::IdleTimeout { .. } => {
                "raise resilience.timeouts.stream_idle_secs if the server pauses longer"
            }
            TransportError::Cassette { .. } => {
                "record the cassette anew, or undo what changed the request"
            }
            TransportError::Broken { .. } => return Self::new(message, kind),
        };
        Self::new(message, kind).with_hint(hint)
    }
}

fn seconds(duration: &Duration) -> String {
    match duration.as_secs_f64() {
        1.0 => "1 second".to_owned(),
        seconds => format!("{seconds} seconds"),
    }
}
