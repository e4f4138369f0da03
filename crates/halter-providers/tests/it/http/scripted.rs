//! A transport without a network, for tests of time and layers.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use halter_providers::http::{
    HttpRequest, HttpResponse, ResponseHeaders, Transport, TransportError,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What one request gets: after `head`, each piece after its pause. The body
/// ends only if `ends`.
#[derive(Clone)]
pub struct Script {
    pub head: Duration,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub pieces: Vec<(Duration, Result<Vec<u8>, TransportError>)>,
    pub ends: bool,
}

impl Script {
    pub fn new(status: u16, body: &str) -> Self {
        Self {
            head: Duration::ZERO,
            status,
            headers: Vec::new(),
            pieces: vec![(Duration::ZERO, Ok(body.as_bytes().to_vec()))],
            ends: true,
        }
    }
}

/// Plays scripts and keeps the requests.
#[derive(Clone, Default)]
pub struct Scripted {
    scripts: Arc<Mutex<VecDeque<Script>>>,
    pub requests: Arc<Mutex<Vec<HttpRequest>>>,
}

impl Scripted {
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self {
            scripts: Arc::new(Mutex::new(scripts.into_iter().collect())),
            requests: Arc::default(),
        }
    }

    pub fn bodies(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .map(|request| String::from_utf8(request.body.to_vec()).unwrap())
            .collect()
    }
}

#[async_trait]
impl Transport for Scripted {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.requests.lock().unwrap().push(request);
        let script = self.scripts.lock().unwrap().pop_front().unwrap();
        wait(script.head).await;
        let pieces = futures::stream::iter(script.pieces).then(|(pause, piece)| async move {
            wait(pause).await;
            piece.map(Bytes::from)
        });
        let rest = futures::stream::once(async move {
            if !script.ends {
                std::future::pending::<()>().await;
            }
        });
        let rest = rest.filter_map(|()| async { None });
        Ok(HttpResponse {
            status: script.status,
            headers: ResponseHeaders(script.headers),
            body: Box::pin(pieces.chain(rest)),
        })
    }
}

/// Even a sleep of no time takes until the next tick of the clock.
async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}
