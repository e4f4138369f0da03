//! HTTP: one request per POST, streams as lines in a chunked body.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::guard::{HttpGuard, HttpVerdict};
use super::http_connections::{HttpConnectionSlot, HttpConnections};
use crate::limits::{HTTP_FIRST_BYTE_WAIT, MAX_HTTP_CONNECTIONS, MAX_REQUEST_BYTES};
use crate::protocol::{Call, ErrorCode, RequestId, WireError, decode, failure};
use crate::service::{CallAnswer, Client, Outlet, Service, StreamOrder};

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// The most bytes of the head of a request.
const HEAD_BYTES: usize = 64 * 1024;
/// How many pieces of a stream wait for a slow client.
const STREAM_PIECES: usize = 2;

/// A TCP address that is listened on.
#[derive(Debug)]
pub struct HttpTransport {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl HttpTransport {
    /// Listens on an address.
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            tls: None,
        })
    }

    /// The same with encryption.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<rustls::ServerConfig>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Where it is; the port is known even if any was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes connections until `closing` ends, and serves them to their end.
    pub async fn serve(self, service: Service, closing: CancellationToken) {
        let guard = Arc::new(HttpGuard::new(service.settings(), self.address));
        let room = HttpConnections::new();
        let mut serving = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = closing.cancelled() => break,
            };
            while serving.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let place = Arc::new(room.enter());
                    let exchange = Exchange {
                        service: service.clone(),
                        guard: Arc::clone(&guard),
                        place: Arc::clone(&place),
                    };
                    let (closing, tls) = (closing.clone(), self.tls.clone());
                    serving.spawn(async move {
                        tokio::select! {
                            () = serve_one(exchange, stream, tls, closing) => {}
                            () = place.evicted() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        while serving.join_next().await.is_some() {}
    }
}

async fn serve_one(
    exchange: Exchange,
    stream: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    closing: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    tokio::select! {
        spoken = tokio::time::timeout(HTTP_FIRST_BYTE_WAIT, stream.readable()) => {
            if spoken.is_err() {
                return;
            }
        }
        () = closing.cancelled() => return,
    }
    let Some(tls) = tls else {
        return serve_http(exchange, stream, closing).await;
    };
    let secured = tokio::time::timeout(HTTP_FIRST_BYTE_WAIT, TlsAcceptor::from(tls).accept(stream));
    match secured.await {
        Ok(Ok(stream)) => Box::pin(serve_http(exchange, stream, closing)).await,
        Ok(Err(error)) => tracing::debug!(%error, "a connection was not secured"),
        Err(_) => {}
    }
}

async fn serve_http<Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    exchange: Exchange,
    stream: Stream,
    closing: CancellationToken,
) {
    let ended = exchange.service.ended();
    let deadline = exchange.service.settings().request_deadline;
    let handler = service_fn(move |request: Request<Incoming>| {
        let exchange = exchange.clone();
        async move { Ok::<_, Infallible>(exchange.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadline)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), handler);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // What a client does to its own connection is its own business.
        _ = connection.as_mut() => return,
        () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection => {}
        () = ended.cancelled() => {}
    }
}

/// One request and its response.
#[derive(Clone)]
struct Exchange {
    service: Service,
    guard: Arc<HttpGuard>,
    place: Arc<HttpConnectionSlot>,
}

/// A refusal before the runtime itself is asked.
struct HttpRefusal {
    status: StatusCode,
    error: WireError,
    header: Option<(HeaderName, &'static str)>,
}

impl HttpRefusal {
    fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status,
            error: WireError::new(code, message),
            header: None,
        }
    }
}

impl Exchange {
    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let body = match self.receive(request).await {
            Ok(body) => body,
            Err(refusal) => {
                let mut response = reply(
                    refusal.status,
                    failure(&RequestId::unknown(), &refusal.error),
                );
                if let Some((name, value)) = refusal.header {
                    response
                        .headers_mut()
                        .insert(name, HeaderValue::from_static(value));
                }
                return response;
            }
        };
        let request = match decode(&body) {
            Ok(request) => request,
            Err(rejection) => {
                return reply(
                    StatusCode::BAD_REQUEST,
                    failure(&rejection.id, &rejection.error),
                );
            }
        };
        let id = request.id;
        match Call::parse(&request.method, request.params) {
            Ok(call) => self.perform(id, call).await,
            Err(error) => reply(StatusCode::OK, failure(&id, &error)),
        }
    }

    /// The body of a request that may come in.
    async fn receive(&self, request: Request<Incoming>) -> Result<Bytes, HttpRefusal> {
        self.admit(&request)?;
        find_place(&request)?;
        let deadline = self.service.settings().request_deadline;
        let body = Limited::new(request.into_body(), MAX_REQUEST_BYTES);
        match tokio::time::timeout(deadline, body.collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(HttpRefusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                ErrorCode::InvalidParams,
                format!(
                    "the request has more than {MAX_REQUEST_BYTES} bytes; send large input with exec.write"
                ),
            )),
            Ok(Err(_)) => Err(HttpRefusal::new(
                StatusCode::BAD_REQUEST,
                ErrorCode::InvalidParams,
                "the body of the request could not be read",
            )),
            Err(_) => Err(HttpRefusal::new(
                StatusCode::REQUEST_TIMEOUT,
                ErrorCode::InvalidParams,
                format!(
                    "the request was not complete after {} s",
                    deadline.as_secs_f64()
                ),
            )),
        }
    }

    /// Whether whoever sent this may ask at all.
    fn admit(&self, request: &Request<Incoming>) -> Result<(), HttpRefusal> {
        // Said twice it could mean one thing here and another on the way.
        for name in [HOST, ORIGIN, AUTHORIZATION] {
            if request.headers().get_all(&name).iter().nth(1).is_some() {
                return Err(HttpRefusal::new(
                    StatusCode::BAD_REQUEST,
                    ErrorCode::AuthFailed,
                    format!("the header `{name}` may be sent once only"),
                ));
            }
        }
        let header = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
        // A target in absolute form carries the host itself.
        let authority = request
            .uri()
            .authority()
            .map(|authority| authority.as_str().as_bytes());
        let verdict = self.guard.judge(
            authority.or(header(HOST)),
            header(ORIGIN),
            header(AUTHORIZATION),
        );
        let refused = |status, message| HttpRefusal::new(status, ErrorCode::AuthFailed, message);
        match verdict {
            HttpVerdict::Allowed if self.place.show_token() => Ok(()),
            HttpVerdict::Allowed => Err(HttpRefusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::ResourcePressure,
                format!("{MAX_HTTP_CONNECTIONS} connections are open already; close one"),
            )),
            HttpVerdict::WrongHost => Err(refused(
                StatusCode::FORBIDDEN,
                "this Host is not served here; use the address the runtime listens on, or --allowed-hosts",
            )),
            HttpVerdict::WrongOrigin => Err(refused(
                StatusCode::FORBIDDEN,
                "requests of web pages are refused; list the Origin with --allowed-origins",
            )),
            HttpVerdict::WrongToken => {
                tracing::warn!("a request without the right token was refused");
                let mut refusal = refused(
                    StatusCode::UNAUTHORIZED,
                    "the token is missing or wrong; send `Authorization: Bearer` with TRL_AUTH_TOKEN",
                );
                refusal.header = Some((WWW_AUTHENTICATE, "Bearer"));
                Err(refusal)
            }
        }
    }

    async fn perform(self, id: RequestId, call: Call) -> Response<Body> {
        let client = Arc::new(Client::default());
        // Dropped by hyper when the connection is closed.
        let gone = client.gone().clone().drop_guard();
        let (sender, response) = oneshot::channel();
        // On its own: what was started must not be lost with this exchange.
        tokio::spawn(self.fulfil(id, call, client, sender));
        let response = response.await;
        gone.disarm();
        response.unwrap_or_else(|_| reply(StatusCode::OK, Vec::new()))
    }

    /// Makes a call and hands over its response. A stream is sent to its end,
    /// or stopped because nobody has taken the response.
    async fn fulfil(
        self,
        id: RequestId,
        call: Call,
        client: Arc<Client>,
        response: oneshot::Sender<Response<Body>>,
    ) {
        let line = match self.service.call(&id, call, &client).await {
            CallAnswer::Line(line) => line,
            CallAnswer::Result(order) => self.service.result_line(&id, &order),
            CallAnswer::Nobody => Vec::new(),
            CallAnswer::Stream(order) => {
                let (sender, receiver) = mpsc::channel(STREAM_PIECES);
                // If nobody takes it, the receiver is gone with it.
                let _ = response.send(stream_response(receiver));
                self.stream(&id, order, &client, sender).await;
                return;
            }
        };
        let _ = response.send(reply(StatusCode::OK, line));
    }

    async fn stream(
        self,
        id: &RequestId,
        order: StreamOrder,
        client: &Client,
        sender: mpsc::Sender<Bytes>,
    ) {
        let outlet = BodyOutlet { sender };
        let first = Bytes::from(order.first_line(id));
        if outlet.sender.send(first).await.is_err() {
            client.gone().cancel();
        }
        let sending = self.service.send_stream(order, client, &outlet);
        let watching = async {
            outlet.sender.closed().await;
            client.gone().cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = sending => {}
            () = watching => {}
        }
    }
}

/// Whether this was sent to where requests go.
fn find_place(request: &Request<Incoming>) -> Result<(), HttpRefusal> {
    if request.method() != Method::POST {
        let mut refusal = HttpRefusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            ErrorCode::InvalidParams,
            "send requests by POST",
        );
        refusal.header = Some((ALLOW, "POST"));
        return Err(refusal);
    }
    if request.uri().path() != "/" {
        return Err(HttpRefusal::new(
            StatusCode::NOT_FOUND,
            ErrorCode::InvalidParams,
            "send requests to `/`",
        ));
    }
    Ok(())
}

/// A response whose body comes piece by piece.
fn stream_response(receiver: mpsc::Receiver<Bytes>) -> Response<Body> {
    let pieces = futures::stream::unfold(receiver, |mut receiver| async {
        let piece = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(piece)), receiver))
    });
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The lines of a stream on their way into a body.
struct BodyOutlet {
    sender: mpsc::Sender<Bytes>,
}

impl Outlet for BodyOutlet {
    async fn send(&self, head: &[u8], body: &[u8]) -> io::Result<()> {
        let piece = Bytes::from([head, body].concat());
        self.sender
            .send(piece)
            .await
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

fn reply(status: StatusCode, line: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(line)).boxed_unsync());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
