//! Calls over HTTP: one connection each, with TLS if that was chosen.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::error::ClientError;
use super::{RemoteTarget, Target};
use crate::limits::MAX_REPLY_BYTES;
use crate::settings::Token;

/// The task that drives a connection; ended with it.
#[derive(Debug)]
pub(super) struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection, encrypted or not.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<Stream: AsyncRead + AsyncWrite + Send + Unpin> Connection for Stream {}

/// How long a connection may take to be made and secured.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// A connection to a runtime behind HTTP, the name it goes by and its token.
async fn connect(target: &Target) -> io::Result<(Box<dyn Connection>, String, &Token)> {
    let plain = |stream: TcpStream| {
        let _ = stream.set_nodelay(true);
        stream
    };
    match target {
        Target::Socket(_) => Err(io::Error::other("a socket is no HTTP")),
        Target::Http { address, token } => {
            let stream = plain(TcpStream::connect(address).await?);
            Ok((Box::new(stream), address.to_string(), token))
        }
        Target::Remote(remote) => {
            let RemoteTarget {
                host,
                port,
                token,
                tls,
            } = &**remote;
            let bare = host.trim_matches(['[', ']']);
            let stream = plain(TcpStream::connect((bare, *port)).await?);
            let name = format!("{host}:{port}");
            let Some(tls) = tls else {
                return Ok((Box::new(stream), name, token));
            };
            let server = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(Arc::clone(tls));
            let secured = connector.connect(server, stream).await?;
            Ok((Box::new(secured), name, token))
        }
    }
}

/// Sends a request and returns the response once its head is there.
pub(super) async fn send(
    target: &Target,
    line: Vec<u8>,
) -> Result<(Response<Incoming>, Driver), ClientError> {
    let connected = match tokio::time::timeout(CONNECT_TIME, connect(target)).await {
        Ok(connected) => connected,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    let (stream, host, token) =
        connected.map_err(|source| ClientError::connecting(target, source))?;
    let lost = |_: hyper::Error| ClientError::lost(target);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(lost)?;
    let driver = Driver(tokio::spawn(connection).abort_handle());
    let request = Request::post("/")
        .header(HOST, host)
        .header(AUTHORIZATION, format!("Bearer {}", token.expose()))
        .body(Full::new(Bytes::from(line)))
        .map_err(|_| ClientError::Unreadable("the token cannot be sent in a header".to_owned()))?;
    let response = sender.send_request(request).await.map_err(lost)?;
    Ok((response, driver))
}

/// Sends a request and returns the whole body of the response.
pub(super) async fn post(target: &Target, line: Vec<u8>) -> Result<Bytes, ClientError> {
    let (response, _driver) = send(target, line).await?;
    let body = Limited::new(response.into_body(), MAX_REPLY_BYTES)
        .collect()
        .await;
    body.map(http_body_util::Collected::to_bytes)
        .map_err(|_| ClientError::lost(target))
}
