//! What is the same for every way to a server: how its end is noticed, how a
//! flood is stopped, and how an answer that comes too late is dropped.

use crate::limits::{FLOOD_MESSAGES, FLOOD_WINDOW};
use rmcp::ErrorData;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How a connection ends, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closing {
    closed: CancellationToken,
    reason: Arc<Mutex<Option<String>>>,
}

impl Closing {
    /// Says why the connection is given up. The first reason stays.
    pub(crate) fn because(&self, reason: String) {
        let mut told = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        told.get_or_insert(reason);
    }

    /// Ends the connection, and says why.
    pub(crate) fn close(&self, reason: String) {
        self.because(reason);
        self.closed.cancel();
    }

    /// Ends the connection. Its server may have said why.
    pub(crate) fn end(&self) {
        self.closed.cancel();
    }

    /// Why it was given up, if it was.
    pub(crate) fn reason(&self) -> Option<String> {
        let told = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone()
    }

    /// Returns when the connection is closed.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }
}

/// How long a server is asked for the newest revision. One that knows older
/// ones only may leave a question alone that it does not know.
#[derive(Debug, Clone)]
pub(crate) struct ProbeDeadline {
    pub(crate) until: Instant,
    /// Whether it passed without an answer.
    pub(crate) passed: Arc<AtomicBool>,
}

/// A way to a server that is watched.
pub(crate) struct Watched<Inner> {
    inner: Inner,
    closing: Closing,
    _closes: DropGuard,
    /// The first question to a server of the newest revision; a slow one may
    /// answer it after the older handshake has begun.
    probe: Option<RequestId>,
    deadline: Option<ProbeDeadline>,
    handshake_begun: bool,
    window: Instant,
    received: u32,
}

impl<Inner> Watched<Inner> {
    pub(crate) fn new(inner: Inner, closing: Closing, deadline: Option<ProbeDeadline>) -> Self {
        Self {
            inner,
            _closes: closing.closed.clone().drop_guard(),
            closing,
            probe: None,
            deadline,
            handshake_begun: false,
            window: Instant::now(),
            received: 0,
        }
    }

    /// Counts a message. `false` if there were too many.
    fn counts(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.window) >= FLOOD_WINDOW {
            self.window = now;
            self.received = 0;
        }
        self.received += 1;
        self.received <= FLOOD_MESSAGES
    }

    /// The answer of a server that did not give one: it does not know the
    /// question. The library then begins the older handshake.
    fn unanswered(&self, deadline: &ProbeDeadline) -> Option<ServerJsonRpcMessage> {
        deadline.passed.store(true, Ordering::Relaxed);
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "it did not answer", None);
        let id = self.probe.clone()?;
        Some(ServerJsonRpcMessage::error(error, Some(id)))
    }

    fn comes_too_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        self.handshake_begun && id.is_some() && id == self.probe.as_ref()
    }
}

impl<Inner: Transport<RoleClient> + 'static> Transport<RoleClient> for Watched<Inner> {
    type Error = Inner::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &message {
            match &request.request {
                ClientRequest::DiscoverRequest(_) if !self.handshake_begun => {
                    self.probe = Some(request.id.clone());
                }
                ClientRequest::InitializeRequest(_) => self.handshake_begun = true,
                _ => {}
            }
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let deadline = self.deadline.clone();
            let waits = self.probe.is_some() && !self.handshake_begun;
            let message = match deadline.filter(|_| waits) {
                None => self.inner.receive().await?,
                Some(deadline) => tokio::select! {
                    biased;
                    message = self.inner.receive() => message?,
                    () = tokio::time::sleep_until(deadline.until) => {
                        self.deadline = None;
                        return self.unanswered(&deadline);
                    }
                },
            };
            if !self.counts() {
                let reason = format!(
                    "it sent more than {FLOOD_MESSAGES} messages in {} s",
                    FLOOD_WINDOW.as_secs()
                );
                self.closing.because(reason);
                return None;
            }
            if !self.comes_too_late(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
