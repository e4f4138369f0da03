//! Any number of hosts over HTTP, each with the token.

use super::handler::AgentServer;
use super::presence::{Presence, WatchedBody};
use crate::limits::{
    HTTP_CONNECTIONS, HTTP_HEAD_WAIT, HTTP_IDLE, HTTP_SESSIONS, MESSAGE_BYTES, STREAM_CLOSE_WAIT,
    WORK_END_WAIT,
};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Where the protocol is spoken.
pub const HTTP_PATH: &str = "/mcp";

/// Names the HTTP session of older revisions.
const SESSION_HEADER: &str = "mcp-session-id";
/// Names the revision, since those without such a session always.
const REVISION_HEADER: &str = "mcp-protocol-version";
/// How long to wait after a connection could not be accepted, say because
/// there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type HttpResponse = Response<BoxBody<Bytes, Infallible>>;

/// Who may speak over HTTP.
#[derive(Debug, Clone, Default)]
pub struct HttpGuard {
    token: Option<SecretString>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl HttpGuard {
    /// Whoever sends this token.
    pub fn with_token(token: SecretString) -> Self {
        Self {
            token: Some(token),
            ..Self::default()
        }
    }

    /// Anybody who reaches the address: only for a server that does no harm.
    pub fn without_token() -> Self {
        Self::default()
    }

    /// Also answers requests for this name of the server, as `host` or
    /// `host:port`. Its address and `localhost` are known.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Also answers pages of this origin, such as `https://app.example.com:443`.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// A token that nobody guesses.
    pub fn new_token() -> SecretString {
        let mut hash = Sha256::new();
        // Each has 74 random bits.
        for _ in 0..4 {
            hash.update(uuid::Uuid::now_v7().as_bytes());
        }
        let digits = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        digits.into()
    }

    /// True if the request carries the token, compared without telling how
    /// much of it is right.
    fn lets_in<B>(&self, request: &Request<B>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let sent = request.headers().get(AUTHORIZATION);
        let sent = sent.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        sent.is_some_and(|sent| sent.ct_eq(token.expose_secret().as_bytes()).into())
    }

    fn config(&self, address: SocketAddr, stop: CancellationToken) -> StreamableHttpServerConfig {
        let port = address.port();
        let own = [address.to_string(), format!("localhost:{port}")];
        let origins = own.iter().map(|host| format!("http://{host}"));
        StreamableHttpServerConfig::default()
            .with_allowed_origins(origins.chain(self.origins.iter().cloned()))
            .with_allowed_hosts(own.iter().chain(&self.hosts))
            .enforce_origin_validation()
            .with_max_request_body_bytes(MESSAGE_BYTES)
            .with_cancellation_token(stop)
    }
}

/// Serves an agent over HTTP, below [`HTTP_PATH`], until `stop` fires. Nothing
/// runs for a host any more when this returns.
///
/// # Errors
/// If the listener has no address.
pub async fn serve_http(
    server: AgentServer,
    listener: TcpListener,
    guard: HttpGuard,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let handler = server.clone();
    let (gone, ended) = (server.gone().clone(), stop.clone());
    let work_ends = tokio::spawn(async move {
        ended.cancelled().await;
        gone.cancel();
    });
    let served = serve_handler_over_http(move || handler.clone(), listener, guard, stop).await;
    server.gone().cancel();
    work_ends.abort();
    if tokio::time::timeout(WORK_END_WAIT, server.ended())
        .await
        .is_err()
    {
        tracing::warn!("a task did not end in time");
    }
    served
}

/// Serves any handler over HTTP, with the same guards and bounds. `handler` is
/// asked for one per session, or per request where there are no sessions.
///
/// # Errors
/// If the listener has no address.
pub async fn serve_handler_over_http<H: ServerHandler>(
    handler: impl Fn() -> H + Send + Sync + 'static,
    listener: TcpListener,
    guard: HttpGuard,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let mut sessions = LocalSessionManager::default();
    let mut session = SessionConfig::default();
    session.keep_alive = Some(HTTP_IDLE);
    sessions.session_config = session;
    let sessions = Arc::new(sessions);
    let config = guard.config(listener.local_addr()?, stop.child_token());
    let door = Arc::new(Door {
        service: StreamableHttpService::new(move || Ok(handler()), sessions.clone(), config),
        presence: Presence::new(sessions.clone(), stop.clone()),
        sessions,
        guard,
    });
    let places = Arc::new(Semaphore::new(HTTP_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &places) => match accepted {
                Some(accepted) => accepted,
                None => continue,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = stop.cancelled() => break,
        };
        connections.spawn(serve_connection(stream, place, door.clone(), stop.clone()));
    }
    close_sessions(&door.sessions).await;
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STREAM_CLOSE_WAIT, ended)
        .await
        .is_err()
    {
        connections.shutdown().await;
    }
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn close_sessions(sessions: &LocalSessionManager) {
    use rmcp::transport::streamable_http_server::SessionManager as _;
    let open: Vec<_> = sessions.sessions.read().await.keys().cloned().collect();
    for id in open {
        // One that has ended meanwhile is as good.
        let _ = sessions.close_session(&id).await;
    }
}

async fn serve_connection<H: ServerHandler>(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    door: Arc<Door<H>>,
    stop: CancellationToken,
) {
    let answer = service_fn(move |request| {
        let door = door.clone();
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HTTP_HEAD_WAIT)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = &mut connection => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// What stands between a request and the protocol.
struct Door<H> {
    service: StreamableHttpService<H, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    presence: Arc<Presence>,
    guard: HttpGuard,
}

impl<H: ServerHandler> Door<H> {
    async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        if request.uri().path() != HTTP_PATH {
            let message = format!("there is nothing here; the protocol is spoken at {HTTP_PATH}");
            return refusal(StatusCode::NOT_FOUND, message);
        }
        if !self.guard.lets_in(&request) {
            let message = "the token is missing or wrong: send `Authorization: Bearer TOKEN`";
            let mut refused = refusal(StatusCode::UNAUTHORIZED, message.to_owned());
            let headers = refused.headers_mut();
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        }
        let session = header(&request, SESSION_HEADER).map(str::to_owned);
        match &session {
            Some(session) => self.presence.hear(session).await,
            None if self.is_full(&request).await => {
                let message = format!("{HTTP_SESSIONS} hosts are connected already");
                return refusal(StatusCode::SERVICE_UNAVAILABLE, message);
            }
            None => {}
        }
        let response = self.service.handle(request).await;
        match session {
            Some(session) if is_stream(&response) => response
                .map(|events| WatchedBody::new(events, self.presence.clone(), &session).boxed()),
            _ => response,
        }
    }

    /// True if the request may begin a session and there is no room for one.
    async fn is_full<B>(&self, request: &Request<B>) -> bool {
        let newest = ProtocolVersion::V_2026_07_28;
        let begins = header(request, REVISION_HEADER).is_none_or(|it| it < newest.as_str());
        begins && self.sessions.sessions.read().await.len() >= HTTP_SESSIONS
    }
}

fn header<'a, B>(request: &'a Request<B>, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

fn is_stream(response: &HttpResponse) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

fn refusal(status: StatusCode, message: String) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from(message)).boxed());
    *response.status_mut() = status;
    response
}
