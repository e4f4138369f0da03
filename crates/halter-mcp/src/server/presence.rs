//! Hosts that vanish: an HTTP session whose stream breaks off and to which
//! nobody comes back is closed, and what runs for it ends.

use crate::limits::HOST_RETURN_WAIT;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;

/// How often each session was heard of.
pub(super) struct Presence {
    sessions: Arc<LocalSessionManager>,
    heard: Mutex<HashMap<Arc<str>, u64>>,
    stop: CancellationToken,
}

impl Presence {
    pub fn new(sessions: Arc<LocalSessionManager>, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            sessions,
            heard: Mutex::default(),
            stop,
        })
    }

    fn heard(&self) -> MutexGuard<'_, HashMap<Arc<str>, u64>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request of a session has come. One that names no session that there is
    /// leaves nothing behind.
    pub async fn hear(&self, session: &str) {
        let open = self.sessions.sessions.read().await;
        if !open.contains_key(session) {
            return;
        }
        let mut heard = self.heard();
        match heard.get_mut(session) {
            Some(times) => *times += 1,
            None => {
                // Most end by themselves.
                heard.retain(|other, _| open.contains_key(other));
                heard.insert(Arc::from(session), 1);
            }
        }
    }

    /// A stream of a session broke off.
    fn lost(self: &Arc<Self>, session: Arc<str>) {
        let times = self.heard().get(&session).copied();
        let presence = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(HOST_RETURN_WAIT) => {}
                () = presence.stop.cancelled() => return,
            }
            if presence.heard().get(&session).copied() != times {
                return;
            }
            presence.heard().remove(&session);
            tracing::info!(%session, "the host did not come back");
            if let Err(error) = presence.sessions.close_session(&session).await {
                tracing::debug!(%error, %session, "the session had ended");
            }
        });
    }
}

/// A stream of events that tells when it breaks off before its end.
pub(super) struct WatchedBody {
    events: BoxBody<Bytes, Infallible>,
    presence: Arc<Presence>,
    /// None once the stream has ended.
    session: Option<Arc<str>>,
}

impl WatchedBody {
    pub fn new(events: BoxBody<Bytes, Infallible>, presence: Arc<Presence>, session: &str) -> Self {
        Self {
            events,
            presence,
            session: Some(Arc::from(session)),
        }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.events).poll_frame(context);
        if let Poll::Ready(None) = polled {
            self.session = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.events.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.events.size_hint()
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.presence.lost(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_sessions_that_there_are_are_remembered() {
        let sessions = Arc::new(LocalSessionManager::default());
        let presence = Presence::new(Arc::clone(&sessions), CancellationToken::new());
        presence.hear("nobody").await;
        assert!(presence.heard().is_empty());
        for _ in 0..3 {
            let (session, _transport) = sessions.create_session().await.unwrap();
            presence.hear(&session).await;
            presence.hear(&session).await;
            let heard = presence.heard().clone();
            assert_eq!(heard, HashMap::from([(session.clone(), 2)]));
            sessions.close_session(&session).await.unwrap();
        }
    }
}
