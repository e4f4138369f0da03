//! A server on loopback that answers each path as a test says.

use halter_policy::NetworkSwitch;
use halter_tools::PolicySettings;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// What a path is answered with.
#[derive(Clone)]
pub enum Reply {
    /// The bytes of an answer.
    Whole(Vec<u8>),
    /// The head, then the piece again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// The head and one piece, then nothing.
    Stuck(Vec<u8>),
}

impl Reply {
    pub fn ok(kind: &str, body: impl AsRef<[u8]>) -> Self {
        Self::with("200 OK", &[("Content-Type", kind)], body)
    }

    pub fn redirect(to: &str) -> Self {
        Self::with("302 Found", &[("Location", to)], "")
    }

    pub fn with(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len().to_string();
        let all = headers.iter().copied();
        let mut bytes = head(status, all.chain([("Content-Length", length.as_str())]));
        bytes.extend_from_slice(body);
        Self::Whole(bytes)
    }

    pub fn endless(kind: &str, piece: &str) -> Self {
        let head = head("200 OK", [("Content-Type", kind)]);
        Self::Endless(head, piece.as_bytes().to_vec())
    }

    pub fn stuck(kind: &str) -> Self {
        Self::Stuck(head("200 OK", [("Content-Type", kind)]))
    }

    /// Not a word.
    #[cfg(feature = "browser-tools")]
    pub fn silent() -> Self {
        Self::Stuck(Vec::new())
    }
}

fn head<'a>(status: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}\r\n").into_bytes()
}

/// A server that runs until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    state: Arc<State>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct State {
    replies: Mutex<HashMap<String, Reply>>,
    /// The heads of requests, in the order they came.
    seen: Mutex<Vec<String>>,
    asked: Notify,
}

impl Server {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            state,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Says how a path, with its query, is answered.
    pub fn on(&self, path: &str, reply: Reply) {
        let mut replies = self.state.replies.lock().unwrap();
        replies.insert(path.to_owned(), reply);
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Settings of a session that may reach the server, by its address.
    pub fn reachable(&self) -> PolicySettings {
        PolicySettings {
            network: NetworkSwitch::On,
            allowed_loopback: vec![("127.0.0.1".to_owned(), Some(self.address.port()))],
            ..PolicySettings::default()
        }
    }

    /// The heads of all requests so far.
    pub fn seen(&self) -> Vec<String> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Waits until there was a request.
    pub async fn asked(&self) {
        let waiting = async {
            loop {
                let asked = self.state.asked.notified();
                tokio::pin!(asked);
                asked.as_mut().enable();
                if !self.seen().is_empty() {
                    return;
                }
                asked.await;
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, waiting).await.unwrap();
    }

    /// Runs a call that waits for this server until its time is over. Nobody
    /// waits that long: once the server was asked, the clock stands still and
    /// jumps when there is nothing else to do.
    pub async fn waits_for<T>(&self, time: Duration, call: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let stopping_the_clock = async {
            self.asked().await;
            tokio::time::pause();
            Instant::now()
        };
        let (result, stopped) = tokio::join!(call, stopping_the_clock);
        let (whole, jumped) = (started.elapsed(), stopped.elapsed());
        assert!(whole >= time, "given up after {whole:?}");
        // Clocks of timers count milliseconds.
        assert!(
            jumped <= time + Duration::from_secs(1),
            "waited {jumped:?} more"
        );
        result
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    state.seen.lock().unwrap().push(head);
    state.asked.notify_waiters();
    let reply = state.replies.lock().unwrap().get(&path).cloned();
    let missing = || {
        Reply::with(
            "404 Not Found",
            &[("Content-Type", "text/plain")],
            "no page",
        )
    };
    match reply.unwrap_or_else(missing) {
        Reply::Whole(bytes) => {
            stream.write_all(&bytes).await.ok();
        }
        Reply::Endless(head, piece) => {
            stream.write_all(&head).await.ok();
            while stream.write_all(&piece).await.is_ok() {}
        }
        Reply::Stuck(head) => {
            stream.write_all(&head).await.ok();
            // Until the client leaves.
            stream.read_u8().await.ok();
        }
    }
}
