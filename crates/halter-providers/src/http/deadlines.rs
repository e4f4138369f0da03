//! Deadlines of a request: until its response begins, and between two pieces
//! of it. Any byte is life, comments and pings included; there is no limit on
//! the whole of a healthy stream.

use super::transport::{BodyStream, HttpRequest, HttpResponse, Transport, TransportError};
use async_trait::async_trait;
use futures::StreamExt as _;
use std::time::Duration;
use tokio::time::timeout;

/// A transport with deadlines. That of the connection is the client's own,
/// see [`ClientSettings`](super::ClientSettings).
#[derive(Debug, Clone)]
pub struct Deadlines<T> {
    inner: T,
    first_byte: Duration,
    idle: Duration,
}

impl<T> Deadlines<T> {
    /// Waits `first_byte` for the head of a response and `idle` for each
    /// piece of its body.
    pub const fn new(inner: T, first_byte: Duration, idle: Duration) -> Self {
        Self {
            inner,
            first_byte,
            idle,
        }
    }
}

#[async_trait]
impl<T: Transport> Transport for Deadlines<T> {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let after = self.first_byte;
        let response = timeout(after, self.inner.send(request))
            .await
            .unwrap_or(Err(TransportError::FirstByteTimeout { after }))?;
        Ok(HttpResponse {
            body: watch(response.body, self.idle),
            ..response
        })
    }
}

fn watch(body: BodyStream, after: Duration) -> BodyStream {
    Box::pin(futures::stream::unfold(
        Some(body),
        move |body| async move {
            let mut body = body?;
            match timeout(after, body.next()).await {
                Ok(Some(item)) => Some((item, Some(body))),
                Ok(None) => None,
                Err(_) => Some((Err(TransportError::IdleTimeout { after }), None)),
            }
        },
    ))
}
