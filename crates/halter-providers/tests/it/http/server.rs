//! A small HTTP/1.1 server on loopback whose every byte a test decides.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// What the server sends for one request.
#[derive(Clone, Default)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Piece(Vec<u8>),
    Gate(Arc<Notify>),
    /// The connection is closed in the middle of the body.
    Cut,
}

impl Response {
    pub fn new(status: u16, content_type: &str) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            steps: Vec::new(),
        }
    }

    pub fn events() -> Self {
        Self::new(200, "text/event-stream; charset=utf-8")
    }

    pub fn json(status: u16, body: &str) -> Self {
        Self::new(status, "application/json").piece(body)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn piece(mut self, bytes: impl AsRef<[u8]>) -> Self {
        // An empty chunk would be the end of the body.
        if !bytes.as_ref().is_empty() {
            self.steps.push(Step::Piece(bytes.as_ref().to_vec()));
        }
        self
    }

    pub fn gate(mut self, gate: &Arc<Notify>) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self
    }

    pub fn cut(mut self) -> Self {
        self.steps.push(Step::Cut);
        self
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Captured {
    /// `POST /path HTTP/1.1`.
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Captured {
    pub fn header(&self, name: &str) -> Vec<&str> {
        let found = self.headers.iter().filter(|(ours, _)| ours == name);
        found.map(|(_, value)| value.as_str()).collect()
    }
}

#[derive(Default)]
struct Shared {
    responses: Mutex<VecDeque<Response>>,
    requests: Mutex<Vec<Captured>>,
    connections: AtomicUsize,
    /// Connections that a client closed between two requests.
    closed: AtomicUsize,
    /// A client that closed before its response was written.
    gone: Notify,
}

/// The server; stops when it is dropped.
pub struct Server {
    pub url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start(responses: impl IntoIterator<Item = Response>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            responses: Mutex::new(responses.into_iter().collect()),
            ..Shared::default()
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Self { url, shared, task }
    }

    pub fn requests(&self) -> Vec<Captured> {
        self.shared.requests.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// The connections that were closed between two requests.
    pub fn closed(&self) -> usize {
        self.shared.closed.load(Ordering::SeqCst)
    }

    /// Waits until a client has closed its connection during a response.
    pub async fn client_gone(&self) {
        self.shared.gone.notified().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = shared.clone();
        connections.spawn(async move {
            let _ = serve(stream, &shared).await;
        });
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = read_request(&mut stream, &mut buffer).await? else {
            shared.closed.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        };
        shared.requests.lock().unwrap().push(request);
        let response = shared.responses.lock().unwrap().pop_front();
        let response = response.unwrap_or_else(|| Response::json(500, "no response is scripted"));
        let mut head = format!(
            "HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n",
            response.status
        );
        for (name, value) in &response.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // One write up to the next gate: a client sees all of it or nothing.
        let mut written = format!("{head}\r\n").into_bytes();
        for step in response.steps {
            match step {
                Step::Cut => return stream.write_all(&written).await,
                Step::Gate(gate) => {
                    stream.write_all(&std::mem::take(&mut written)).await?;
                    wait(&mut stream, &gate, shared).await?;
                }
                Step::Piece(bytes) => {
                    written.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                    written.extend_from_slice(&bytes);
                    written.extend_from_slice(b"\r\n");
                }
            }
        }
        written.extend_from_slice(b"0\r\n\r\n");
        stream.write_all(&written).await?;
    }
}

/// Waits for the gate, or notes that the client is gone.
async fn wait(stream: &mut TcpStream, gate: &Notify, shared: &Shared) -> std::io::Result<()> {
    let mut byte = [0];
    tokio::select! {
        () = gate.notified() => Ok(()),
        _ = stream.read(&mut byte) => {
            shared.gone.notify_one();
            Err(std::io::Error::other("the client is gone"))
        }
    }
}

async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> std::io::Result<Option<Captured>> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    let total = end + 4 + length;
    while buffer.len() < total {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = String::from_utf8(buffer[end + 4..total].to_vec()).unwrap();
    buffer.drain(..total);
    Ok(Some(Captured {
        line,
        headers,
        body,
    }))
}
