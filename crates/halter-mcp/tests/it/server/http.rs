//! Over HTTP: who is let in, and hosts that vanish.

use super::host::ScriptedAgent;
use halter_mcp::limits::{
    HOST_RETURN_WAIT, HTTP_CONNECTIONS, HTTP_HEAD_WAIT, HTTP_IDLE, HTTP_SESSIONS, MESSAGE_BYTES,
};
use halter_mcp::server::{AgentServer, HttpGuard, serve_http};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "the-token-of-this-test";

struct Served {
    agent: Arc<ScriptedAgent>,
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

/// One answer, as far as it has come.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

async fn serve() -> Served {
    let agent = Arc::new(ScriptedAgent::default());
    let server = AgentServer::new(agent.clone(), "1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let guard = HttpGuard::with_token(TOKEN.to_owned().into())
        .allow_host("halter.example:443")
        .allow_origin("https://app.example:443");
    let serving = tokio::spawn(serve_http(server, listener, guard, stop.clone()));
    Served {
        agent,
        address,
        stop,
        serving,
    }
}

impl Served {
    fn headers(&self, more: &str) -> String {
        let address = self.address;
        let host = match more.to_ascii_lowercase().contains("host:") {
            true => String::new(),
            false => format!("Host: {address}\r\n"),
        };
        let token = match more.contains("Authorization") {
            true => String::new(),
            false => format!("Authorization: Bearer {TOKEN}\r\n"),
        };
        format!(
            "{host}{token}Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n{more}"
        )
    }

    /// Sends a request and leaves the connection open.
    async fn open(&self, path: &str, more: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let (headers, length) = (self.headers(more), body.len());
        let head = format!("POST {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // A server that refuses may not read the whole body.
        let _ = stream.write_all(body.as_bytes()).await;
        stream
    }

    async fn post(&self, more: &str, message: &Value) -> Answer {
        self.post_text("/mcp", more, &message.to_string()).await
    }

    async fn post_text(&self, path: &str, more: &str, body: &str) -> Answer {
        let more = format!("Connection: close\r\n{more}");
        let mut stream = self.open(path, &more, body).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Answer {
            status: head.split(' ').nth(1).unwrap_or("0").parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// The id of a new session of the protocol.
    async fn session(&self) -> Option<String> {
        let answer = self.post("", &initialize()).await;
        let line = answer
            .head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "))?;
        Some(line.to_owned())
    }

    async fn end(self) -> Arc<ScriptedAgent> {
        self.stop.cancel();
        self.serving.await.unwrap().unwrap();
        self.agent
    }
}

fn initialize() -> Value {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

fn task(id: u64, what: &str) -> Value {
    let params = json!({"name": "run_task", "arguments": {"task": what}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn only_who_has_the_token_and_the_right_names_is_let_in() {
    let served = serve().await;
    for (headers, status) in [
        ("", 200),
        ("Authorization: Bearer wrong\r\n", 401),
        ("Authorization: Bearer \r\n", 401),
        ("Authorization: Basic dTpw\r\n", 401),
        ("Host: evil.example\r\n", 403),
        ("Host: halter.example:443\r\n", 200),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: https://app.example\r\n", 200),
    ] {
        let answer = served.post(headers, &initialize()).await;
        assert_eq!(answer.status, status, "{headers}: {}", answer.body);
        if status == 401 {
            assert!(
                answer.head.contains("www-authenticate: bearer"),
                "{}",
                answer.head
            );
        }
        assert!(!answer.body.contains(TOKEN));
    }
    let other = served.post_text("/", "", "{}").await;
    assert_eq!(other.status, 404);
    let nonsense = served.post_text("/mcp", "", "{nonsense").await;
    assert!((400..500).contains(&nonsense.status), "{}", nonsense.status);
    let lost = served
        .post("Mcp-Session-Id: nobody\r\n", &task(2, "say x"))
        .await;
    assert_eq!(lost.status, 404, "{}", lost.body);
    served.end().await;
}

#[tokio::test]
async fn a_body_may_be_so_long_and_no_longer() {
    let served = serve().await;
    let padded = |length: usize| {
        let mut message = initialize();
        message["params"]["_meta"] = json!({"pad": ""});
        let empty = message.to_string().len();
        message["params"]["_meta"]["pad"] = json!("x".repeat(length - empty));
        message.to_string()
    };
    let fits = served.post_text("/mcp", "", &padded(MESSAGE_BYTES)).await;
    assert_eq!(fits.status, 200, "{}", fits.body);
    let answer = served
        .post_text("/mcp", "", &padded(MESSAGE_BYTES + 1))
        .await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    served.end().await;
}

#[tokio::test]
async fn so_many_hosts_have_a_session_and_no_more() {
    let served = serve().await;
    for _ in 0..HTTP_SESSIONS {
        assert!(served.session().await.is_some());
    }
    let answer = served.post("", &initialize()).await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    served.end().await;
}

#[tokio::test]
async fn a_connection_too_many_waits_for_its_turn() {
    let served = serve().await;
    let mut waiting = Vec::new();
    for _ in 0..HTTP_CONNECTIONS {
        waiting.push(TcpStream::connect(served.address).await.unwrap());
    }
    let refused = tokio::time::timeout(Duration::from_millis(200), served.session()).await;
    assert!(refused.is_err(), "no place is free");
    waiting.pop();
    assert!(served.session().await.is_some());
    served.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_head_has_its_time() {
    let served = serve().await;
    let mut slow = TcpStream::connect(served.address).await.unwrap();
    slow.write_all(b"POST /mcp HTTP/1.1\r\n").await.unwrap();
    let began = Instant::now();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    assert!(began.elapsed() >= HTTP_HEAD_WAIT && began.elapsed() < HTTP_HEAD_WAIT * 2);
    served.end().await;
}

#[tokio::test]
async fn a_host_that_vanishes_and_does_not_come_back_is_given_up() {
    let served = serve().await;
    let session = served.session().await.unwrap();
    let headers = format!("Mcp-Session-Id: {session}\r\n");
    let stream = served
        .open("/mcp", &headers, &task(2, "wait").to_string())
        .await;
    served.agent.started.notified().await;
    tokio::time::pause();
    drop(stream);
    let began = Instant::now();
    while served.agent.running.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(began.elapsed() < HOST_RETURN_WAIT * 3);
    }
    assert!(began.elapsed() >= HOST_RETURN_WAIT);
    served.end().await;
}

#[tokio::test]
async fn a_session_in_which_nothing_happens_ends() {
    let served = serve().await;
    let session = served.session().await.unwrap();
    let headers = format!("Mcp-Session-Id: {session}\r\n");
    assert_eq!(served.post(&headers, &task(2, "say x")).await.status, 200);
    tokio::time::pause();
    tokio::time::sleep(HTTP_IDLE + Duration::from_secs(60)).await;
    tokio::time::resume();
    assert_eq!(served.post(&headers, &task(3, "say x")).await.status, 404);
    served.end().await;
}

#[tokio::test]
async fn work_for_hosts_ends_with_the_server() {
    let served = serve().await;
    let session = served.session().await.unwrap();
    let headers = format!("Mcp-Session-Id: {session}\r\n");
    let _stream = served
        .open("/mcp", &headers, &task(2, "wait").to_string())
        .await;
    served.agent.started.notified().await;
    let agent = served.end().await;
    assert_eq!(agent.running.load(Ordering::SeqCst), 0);
}
