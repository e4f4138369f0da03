//! A server over HTTP, written by hand so that a mistake in the library does
//! not agree with itself, and so that it can do what no library does.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A client as this crate wants it, for plain HTTP.
pub fn client() -> anyhow::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    Ok(client.build()?)
}

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub fn result(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }
}

/// A server and what it was asked.
pub struct HttpFixture {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    _serving: AbortOnDropHandle<()>,
}

impl HttpFixture {
    /// Serves until it is dropped. `answer` writes what it likes.
    pub async fn start<Answer, Done>(answer: Answer) -> Self
    where
        Answer: Fn(Asked, TcpStream) -> Done + Clone + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, answer)
    }

    pub fn on<Answer, Done>(listener: TcpListener, answer: Answer) -> Self
    where
        Answer: Fn(Asked, TcpStream) -> Done + Clone + Send + Sync + 'static,
        Done: Future<Output = ()> + Send + 'static,
    {
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log) = (answer.clone(), Arc::clone(&log));
                connections.spawn(async move {
                    let mut stream = stream;
                    if let Some(asked) = read(&mut stream).await {
                        log.lock().unwrap().push(asked.clone());
                        answer(asked, stream).await;
                    }
                });
            }
        });
        Self {
            url,
            asked,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// How often it was asked for a method of the protocol.
    pub fn count(&self, rpc: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|it| it.rpc() == rpc).count()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break end;
        }
        stream
            .read_buf(&mut bytes)
            .await
            .ok()
            .filter(|it| *it > 0)?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length");
    let length: usize = length.and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        stream.read_buf(&mut body).await.ok().filter(|it| *it > 0)?;
    }
    Some(Asked {
        method,
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// Writes a whole answer.
pub async fn reply(stream: &mut TcpStream, status: &str, more: &str, body: &str) {
    let text = format!(
        "HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

pub async fn reply_json(stream: &mut TcpStream, message: &Value) {
    let more = "Content-Type: application/json\r\nMcp-Session-Id: s1\r\n";
    reply(stream, "200 OK", more, &message.to_string()).await;
}

/// Begins an answer that has no length.
pub async fn begin(stream: &mut TcpStream, kind: &str) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
}

/// Writes the same for ever, until nobody reads it any more.
pub async fn endless(stream: &mut TcpStream, first: &str) {
    let mut written = stream.write_all(first.as_bytes()).await;
    let piece = vec![b'x'; 64 * 1024];
    while written.is_ok() {
        written = stream.write_all(&piece).await;
    }
}

/// Waits until the other side hangs up.
pub async fn until_gone(stream: &mut TcpStream) {
    let mut bytes = [0; 64];
    while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// Answers what every server answers. `None` if a tool is called, or something
/// else is wanted.
pub async fn usual(asked: &Asked, stream: &mut TcpStream, tools: &[&str]) -> Option<()> {
    match (asked.method.as_str(), asked.rpc()) {
        ("DELETE", _) => reply(stream, "200 OK", "", "").await,
        ("GET", _) => reply(stream, "405 Method Not Allowed", "", "").await,
        (_, "server/discover") => reply(stream, "400 Bad Request", "", "no").await,
        (_, "initialize") => {
            let result = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "http fixture", "version": "1.0"},
            });
            reply_json(stream, &asked.result(result)).await;
        }
        (_, "tools/list") => {
            let tools: Vec<Value> = tools
                .iter()
                .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                .collect();
            reply_json(stream, &asked.result(json!({"tools": tools}))).await;
        }
        (_, rpc) if rpc.starts_with("notifications/") => {
            reply(stream, "202 Accepted", "", "").await;
        }
        _ => return None,
    }
    Some(())
}

/// The answer of a tool.
pub fn said(asked: &Asked, text: &str) -> Value {
    asked.result(json!({"content": [{"type": "text", "text": text}]}))
}
