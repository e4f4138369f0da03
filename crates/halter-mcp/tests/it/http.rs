//! Servers over HTTP: what they can do, and what they cannot do to us.

use crate::http_fixture::{
    Asked, HttpFixture, begin, client, endless, reply, reply_json, said, until_gone, usual,
};
use crate::support::{ENOUGH, Started};
use halter_mcp::limits::{
    EVENT_READ_TIMEOUT, FIRST_STREAM_WAIT, HTTP_ANSWER_WAIT, HTTP_CALL_TIMEOUT, HTTP_ERROR_BYTES,
    HTTP_RETRY_PAUSE, SERVER_MESSAGE_BYTES, START_TIMEOUT,
};
use halter_mcp::server::{HTTP_PATH, HttpGuard, serve_handler_over_http};
use halter_mcp::{HttpSettings, HttpTransport, ServerName, ServerSettings, ServerState};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub fn http_settings(url: &str) -> HttpSettings {
    HttpSettings::new(&name(), url, Arc::new(client)).unwrap()
}

pub fn name() -> ServerName {
    ServerName::new("x").unwrap()
}

pub fn server(url: &str) -> ServerSettings {
    ServerSettings::new(name(), http_settings(url))
}

const TOOLS: [&str; 12] = [
    "echo",
    "endless_body",
    "endless_event",
    "wrong_id",
    "page",
    "error_page",
    "error",
    "redirect",
    "broken",
    "hang",
    "large",
    "cut_off",
];

/// A server whose tools answer as their names say.
async fn hostile(asked: Asked, mut stream: TcpStream) {
    let stream = &mut stream;
    if usual(&asked, stream, &TOOLS).await.is_some() {
        return;
    }
    let html = "Content-Type: text/html\r\n";
    match asked.body["params"]["name"].as_str().unwrap_or_default() {
        "endless_body" => {
            begin(stream, "application/json").await;
            endless(stream, "{\"jsonrpc\":\"").await;
        }
        "endless_event" => {
            begin(stream, "text/event-stream").await;
            endless(stream, "data: ").await;
        }
        "wrong_id" => {
            let mut answer = said(&asked, "for somebody else");
            answer["id"] = json!(9999);
            reply_json(stream, &answer).await;
        }
        "page" => reply(stream, "200 OK", html, "<h1>Welcome</h1>").await,
        "error_page" => reply(stream, "502 Bad Gateway", html, "<h1>Sorry</h1>").await,
        "error" => {
            let long = "x".repeat(HTTP_ERROR_BYTES + 1);
            let plain = "Content-Type: text/plain\r\n";
            reply(stream, "503 Service Unavailable", plain, &long).await;
        }
        "redirect" => {
            let more = "Location: http://elsewhere.example/mcp?key=secret\r\n";
            reply(stream, "307 Temporary Redirect", more, "").await;
        }
        "broken" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").await;
        }
        "cut_off" => {
            begin(stream, "text/event-stream").await;
            let _ = stream.write_all(b"data: {\"jsonrpc\"").await;
        }
        "hang" => until_gone(stream).await,
        "large" => {
            let text = "y".repeat(100 * 1024 * 1024);
            reply_json(stream, &said(&asked, &text)).await;
        }
        _ => {
            let text = asked.header("x-key").unwrap_or("nothing");
            reply_json(stream, &said(&asked, text)).await;
        }
    }
}

#[tokio::test]
async fn a_server_over_http_answers_with_what_it_was_sent() {
    let fixture = HttpFixture::start(hostile).await;
    let mut http = http_settings(&fixture.url);
    http.header(&name(), "X-Key", "k1").unwrap();
    let settings = ServerSettings::new(name(), http);
    assert_eq!(settings.call_timeout, HTTP_CALL_TIMEOUT);
    let started = Started::one(settings).await;
    let status = started.status();
    assert!(matches!(status.state, ServerState::Ready), "{status:?}");
    assert_eq!(status.implementation.as_deref(), Some("http fixture 1.0"));
    assert_eq!(status.revision.as_deref(), Some("2025-11-25"));
    let answer = started.call("mcp__x__echo", json!({})).await.unwrap();
    assert_eq!(answer.to_model_text(), "k1");
    started.servers.shutdown().await;
    let asked = fixture.asked.lock().unwrap().clone();
    let last = asked.last().unwrap();
    assert_eq!(last.method, "DELETE");
    assert_eq!(last.header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn whatever_a_server_over_http_answers_the_next_call_goes_on() {
    let fixture = HttpFixture::start(hostile).await;
    let mut settings = server(&fixture.url);
    settings.call_timeout = ENOUGH;
    let started = Started::one(settings).await;
    let large = format!("more than {SERVER_MESSAGE_BYTES} bytes");
    for (tool, meant) in [
        ("wrong_id", "it answered another request"),
        ("page", "it answered with `text/html`, which is no message"),
        ("error_page", "it answered with HTTP 502"),
        ("error", "it answered with HTTP 503"),
        ("redirect", "it redirects to elsewhere.example"),
        ("broken", "the connection broke"),
        ("cut_off", "its answer broke off"),
        ("endless_body", large.as_str()),
        ("large", large.as_str()),
    ] {
        let tool = format!("mcp__x__{tool}");
        let error = started.call(&tool, json!({})).await.unwrap_err();
        assert!(error.message.contains(meant), "{tool}: {error}");
        assert!(error.message.len() < 1000, "{tool}: {error}");
        for hidden in ["secret", "<h1>", "xxxx"] {
            assert!(!error.message.contains(hidden), "{tool}: {error}");
        }
        let status = started.status();
        assert!(matches!(status.state, ServerState::Ready), "{status:?}");
        let answer = started.call("mcp__x__echo", json!({})).await;
        assert_eq!(answer.unwrap().to_model_text(), "nothing");
    }
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_sends_an_event_without_end_is_disconnected_and_comes_back() {
    let fixture = HttpFixture::start(hostile).await;
    let started = Started::one(server(&fixture.url)).await;
    let error = started.call("mcp__x__endless_event", json!({})).await;
    let error = error.unwrap_err().message;
    assert!(error.contains("an event of more than"), "{error}");
    let answer = started.call("mcp__x__echo", json!({})).await;
    assert_eq!(answer.unwrap().to_model_text(), "nothing");
    assert_eq!(fixture.count("initialize"), 2);
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_does_not_begin_its_answer_is_given_up_at_the_deadline() {
    let fixture = HttpFixture::start(hostile).await;
    let mut settings = server(&fixture.url);
    settings.call_timeout = Duration::from_millis(50);
    let started = Started::one(settings).await;
    let error = started.call("mcp__x__hang", json!({})).await.unwrap_err();
    assert!(error.message.contains("did not answer within"), "{error}");
    let status = started.status();
    assert!(matches!(status.state, ServerState::Ready), "{status:?}");
    started.servers.shutdown().await;
    // Nobody waits for a head for longer than a server has to start.
    assert!(HTTP_ANSWER_WAIT <= START_TIMEOUT);
    let silent = HttpFixture::start(|_, mut stream: TcpStream| async move {
        until_gone(&mut stream).await;
    })
    .await;
    let mut settings = server(&silent.url);
    settings.start_timeout = Duration::from_millis(50);
    let started = Started::new(vec![settings]);
    started.servers.started().await;
    let ServerState::Restarting(error) = started.status().state else {
        panic!("{:?}", started.status());
    };
    assert_eq!(error.code(), "mcp_start_deadline");
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_session_that_the_server_forgot_begins_anew_and_the_call_is_made() {
    let forgets = Arc::new(AtomicBool::new(false));
    let forgot = Arc::clone(&forgets);
    let fixture = HttpFixture::start(move |asked: Asked, mut stream| {
        let forgets = Arc::clone(&forgets);
        async move {
            let calls = asked.rpc() == "tools/call";
            if calls && forgets.swap(false, Ordering::SeqCst) {
                return reply(&mut stream, "404 Not Found", "", "").await;
            }
            hostile(asked, stream).await;
        }
    })
    .await;
    let started = Started::one(server(&fixture.url)).await;
    forgot.store(true, Ordering::SeqCst);
    let answer = started.call("mcp__x__echo", json!({})).await;
    assert_eq!(answer.unwrap().to_model_text(), "nothing");
    assert_eq!(fixture.count("initialize"), 2);
    assert_eq!(fixture.count("tools/call"), 2);
    started.servers.shutdown().await;
}

#[tokio::test]
async fn an_answer_whose_stream_broke_is_fetched_by_its_last_event() {
    let waiting: Arc<std::sync::Mutex<Option<Value>>> = Arc::default();
    let fixture = HttpFixture::start(move |asked: Asked, mut stream| {
        let waiting = Arc::clone(&waiting);
        async move {
            if asked.rpc() == "tools/call" {
                *waiting.lock().unwrap() = Some(said(&asked, "late"));
                begin(&mut stream, "text/event-stream").await;
                let _ = stream.write_all(b"id: e7\nretry: 1\ndata:\n\n").await;
            } else if asked.header("last-event-id") == Some("e7") {
                let answer = waiting.lock().unwrap().take();
                begin(&mut stream, "text/event-stream").await;
                let event = format!("id: e8\ndata: {}\n\n", answer.unwrap_or_default());
                let _ = stream.write_all(event.as_bytes()).await;
                until_gone(&mut stream).await;
            } else {
                usual(&asked, &mut stream, &["echo"]).await;
            }
        }
    })
    .await;
    let started = Started::one(server(&fixture.url)).await;
    let answer = started.call("mcp__x__echo", json!({})).await;
    assert_eq!(answer.unwrap().to_model_text(), "late");
    assert_eq!(fixture.count("tools/call"), 1);
    started.servers.shutdown().await;
}

/// The tools of a server, with one more once that is added.
fn with(added: &AtomicBool) -> &'static [&'static str] {
    match added.load(Ordering::SeqCst) {
        true => &["echo", "added"],
        false => &["echo"],
    }
}

#[tokio::test]
async fn tools_that_change_are_told_of_by_the_event_stream() {
    let (changed, added) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (tell, add) = (Arc::clone(&changed), Arc::clone(&added));
    let fixture = HttpFixture::start(move |asked: Asked, mut stream| {
        let (changed, added) = (Arc::clone(&changed), Arc::clone(&added));
        async move {
            if asked.method == "GET" {
                begin(&mut stream, "text/event-stream").await;
                changed.notified().await;
                let notice =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let event = format!("data: {notice}\n\n");
                let _ = stream.write_all(event.as_bytes()).await;
                return until_gone(&mut stream).await;
            }
            usual(&asked, &mut stream, with(&added)).await;
        }
    })
    .await;
    let started = Started::one(server(&fixture.url)).await;
    started.has("mcp__x__echo").await;
    // The list that is asked for when the stream is open comes too early.
    while fixture.count("tools/list") < 2 {
        tokio::task::yield_now().await;
    }
    add.store(true, Ordering::SeqCst);
    tell.notify_one();
    started.has("mcp__x__added").await;
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_busy_when_the_event_stream_is_first_wanted_is_asked_again() {
    let (busy, added) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicBool::new(false)),
    );
    let fixture = HttpFixture::start(move |asked: Asked, mut stream| {
        let (busy, added) = (Arc::clone(&busy), Arc::clone(&added));
        async move {
            if asked.method == "GET" {
                if busy.swap(false, Ordering::SeqCst) {
                    return reply(&mut stream, "503 Service Unavailable", "", "").await;
                }
                // What has changed until now was told to nobody.
                added.store(true, Ordering::SeqCst);
                begin(&mut stream, "text/event-stream").await;
                return until_gone(&mut stream).await;
            }
            usual(&asked, &mut stream, with(&added)).await;
        }
    })
    .await;
    let started = Started::one(server(&fixture.url)).await;
    started.has("mcp__x__added").await;
    started.servers.shutdown().await;
}

/// Whoever tells of a change before anybody has opened the stream for it tells
/// nobody.
#[tokio::test]
async fn tools_that_change_before_the_event_stream_is_open_are_learnt() {
    let (opens, added) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (open, add) = (Arc::clone(&opens), Arc::clone(&added));
    let fixture = HttpFixture::start(move |asked: Asked, mut stream| {
        let (opens, added) = (Arc::clone(&opens), Arc::clone(&added));
        async move {
            if asked.method == "GET" {
                opens.notified().await;
                begin(&mut stream, "text/event-stream").await;
                return until_gone(&mut stream).await;
            }
            usual(&asked, &mut stream, with(&added)).await;
        }
    })
    .await;
    // Ready without the stream.
    let started = Started::one(server(&fixture.url)).await;
    started.has("mcp__x__echo").await;
    add.store(true, Ordering::SeqCst);
    open.notify_one();
    started.has("mcp__x__added").await;
    started.servers.shutdown().await;
}

/// What a server asks during a call comes by the stream.
#[tokio::test]
async fn the_first_call_waits_for_the_event_stream_but_not_for_ever() {
    let (opens, is_open) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (open, opened) = (Arc::clone(&opens), Arc::clone(&is_open));
    let fixture = HttpFixture::start(move |asked: Asked, mut stream| {
        let (opens, is_open) = (Arc::clone(&opens), Arc::clone(&is_open));
        async move {
            if asked.method == "GET" {
                opens.notified().await;
                is_open.store(true, Ordering::SeqCst);
                begin(&mut stream, "text/event-stream").await;
                return until_gone(&mut stream).await;
            }
            if usual(&asked, &mut stream, &["echo"]).await.is_none() {
                let early = !is_open.load(Ordering::SeqCst);
                let result =
                    json!({"content": [{"type": "text", "text": format!("early: {early}")}]});
                reply_json(&mut stream, &asked.result(result)).await;
            }
        }
    })
    .await;
    let started = Started::one(server(&fixture.url)).await;
    started.has("mcp__x__echo").await;
    let open = async {
        // Time enough for a call that does not wait.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        open.notify_one();
    };
    let (answer, ()) = tokio::join!(started.call("mcp__x__echo", json!({})), open);
    assert_eq!(answer.unwrap().to_model_text(), "early: false");
    started.servers.shutdown().await;

    opened.store(false, Ordering::SeqCst);
    let started = Started::one(server(&fixture.url)).await;
    started.has("mcp__x__echo").await;
    let begun = tokio::time::Instant::now();
    for _ in 0..2 {
        let answer = started.call("mcp__x__echo", json!({})).await;
        assert_eq!(answer.unwrap().to_model_text(), "early: true");
    }
    assert!(begun.elapsed() >= FIRST_STREAM_WAIT);
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_told_of_and_used_again_when_it_is_back() {
    let fixture = HttpFixture::start(hostile).await;
    let address = fixture.url.clone();
    let started = Started::one(server(&address)).await;
    drop(fixture);
    let error = started.call("mcp__x__echo", json!({})).await.unwrap_err();
    assert!(error.message.contains("cannot be reached"), "{error}");
    let socket = address.trim_start_matches("http://");
    let listener = loop {
        // What it had may linger for a moment.
        match TcpListener::bind(socket.trim_end_matches("/mcp")).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let _back = HttpFixture::on(listener, hostile);
    tokio::time::timeout(ENOUGH, started.servers.settled(ENOUGH))
        .await
        .unwrap();
    let answer = started.call("mcp__x__echo", json!({})).await;
    assert_eq!(answer.unwrap().to_model_text(), "nothing");
    // One that stays away is looked for again for as long as it is wanted.
    assert!(HTTP_RETRY_PAUSE > Duration::ZERO);
    started.servers.shutdown().await;
}

/// A server of the newest revision, whose tools change when one is called.
#[derive(Clone)]
struct Changing {
    called: Arc<AtomicBool>,
    changes: tokio::sync::broadcast::Sender<()>,
}

impl rmcp::ServerHandler for Changing {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        let capabilities = rmcp::model::ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        rmcp::model::ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<rmcp::model::PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<rmcp::model::ListToolsResult, rmcp::ErrorData> {
        let names = match self.called.load(Ordering::SeqCst) {
            true => vec!["echo", "added"],
            false => vec!["echo"],
        };
        let tool = |name: &str| {
            let tool = json!({"name": name, "inputSchema": {"type": "object"}});
            serde_json::from_value(tool).unwrap()
        };
        let tools = names.into_iter().map(tool).collect();
        Ok(rmcp::model::ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        _: rmcp::model::CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<rmcp::model::CallToolResponse, rmcp::ErrorData> {
        self.called.store(true, Ordering::SeqCst);
        self.changes.send(()).unwrap();
        Ok(rmcp::model::CallToolResult::success(Vec::new()).into())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &rmcp::model::SubscriptionFilter,
    ) -> Option<rmcp::model::SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), rmcp::ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            tokio::select! {
                _ = changes.recv() => {
                    let _ = subscription.sink().notify_tool_list_changed().await;
                }
                () = subscription.cancelled() => return Ok(()),
            }
        }
    }
}

#[tokio::test]
async fn tools_of_the_newest_revision_that_change_are_told_of_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{HTTP_PATH}", listener.local_addr().unwrap());
    let changing = Changing {
        called: Arc::default(),
        changes: tokio::sync::broadcast::channel(16).0,
    };
    let subscribed = changing.changes.clone();
    let stop = tokio_util::sync::CancellationToken::new();
    let guard = HttpGuard::without_token();
    let serving = serve_handler_over_http(move || changing.clone(), listener, guard, stop.clone());
    let serving = tokio::spawn(serving);
    let started = Started::one(server(&url)).await;
    let status = started.status();
    assert_eq!(status.revision.as_deref(), Some("2026-07-28"), "{status:?}");
    while subscribed.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    started.call("mcp__x__echo", json!({})).await.unwrap();
    started.has("mcp__x__added").await;
    started.servers.shutdown().await;
    stop.cancel();
    serving.await.unwrap().unwrap();
}

/// A server of the older transport; `endpoint` is where it wants posts.
async fn older(endpoint: &'static str) -> HttpFixture {
    let (answers, _) = tokio::sync::broadcast::channel::<Value>(16);
    HttpFixture::start(move |asked: Asked, mut stream| {
        let answers = answers.clone();
        async move {
            if asked.method == "GET" {
                let mut coming = answers.subscribe();
                begin(&mut stream, "text/event-stream").await;
                let event = format!("event: endpoint\ndata: {endpoint}\n\n");
                let _ = stream.write_all(event.as_bytes()).await;
                while let Ok(message) = coming.recv().await {
                    if message == json!("end") {
                        return;
                    }
                    let event = format!("event: message\ndata: {message}\n\n");
                    let _ = stream.write_all(event.as_bytes()).await;
                }
                return;
            }
            assert_eq!(asked.path, "/messages?id=1");
            reply(&mut stream, "202 Accepted", "", "").await;
            let answer = match asked.rpc() {
                "initialize" => asked.result(json!({
                    "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "older", "version": "0"},
                })),
                "tools/list" => {
                    let schema = json!({"type": "object"});
                    let tools =
                        ["echo", "end"].map(|it| json!({"name": it, "inputSchema": schema}));
                    asked.result(json!({"tools": tools}))
                }
                "tools/call" if asked.body["params"]["name"] == "end" => json!("end"),
                "tools/call" => said(&asked, "from the stream"),
                _ => return,
            };
            let _ = answers.send(answer);
        }
    })
    .await
}

fn older_server(url: &str) -> ServerSettings {
    let mut http = http_settings(url);
    http.transport = HttpTransport::LegacySse;
    assert_eq!(http.read_timeout, EVENT_READ_TIMEOUT);
    ServerSettings::new(name(), http)
}

#[tokio::test]
async fn a_server_of_the_older_transport_answers_and_is_connected_again() {
    let fixture = older("/messages?id=1").await;
    let started = Started::one(older_server(&fixture.url)).await;
    let status = started.status();
    assert_eq!(status.revision.as_deref(), Some("2024-11-05"), "{status:?}");
    let answer = started.call("mcp__x__echo", json!({})).await;
    assert_eq!(answer.unwrap().to_model_text(), "from the stream");
    let error = started.call("mcp__x__end", json!({})).await.unwrap_err();
    assert!(error.message.contains("its event stream ended"), "{error}");
    let answer = started.call("mcp__x__echo", json!({})).await;
    assert_eq!(answer.unwrap().to_model_text(), "from the stream");
    assert_eq!(fixture.count("initialize"), 2);
    started.servers.shutdown().await;
}

#[tokio::test]
async fn nothing_is_posted_to_an_address_that_is_not_the_servers() {
    for endpoint in [
        "http://elsewhere.example/messages",
        "//elsewhere.example/",
        "http://[",
    ] {
        let fixture = older(endpoint).await;
        let started = Started::new(vec![older_server(&fixture.url)]);
        started.servers.started().await;
        let ServerState::Restarting(error) = started.status().state else {
            panic!("{:?}", started.status());
        };
        let error = error.to_string();
        assert!(error.contains("no address to post to"), "{error}");
        started.servers.shutdown().await;
    }
}
