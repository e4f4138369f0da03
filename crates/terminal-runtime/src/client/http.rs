//! Calls over HTTP: one connection each.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::Target;
use super::error::ClientError;
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

/// Sends a request and returns the response once its head is there.
pub(super) async fn send(
    target: &Target,
    address: SocketAddr,
    token: &Token,
    line: Vec<u8>,
) -> Result<(Response<Incoming>, Driver), ClientError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| ClientError::connecting(target, source))?;
    let _ = stream.set_nodelay(true);
    let lost = |_: hyper::Error| ClientError::lost(target);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(lost)?;
    let driver = Driver(tokio::spawn(connection).abort_handle());
    let request = Request::post("/")
        .header(HOST, address.to_string())
        .header(AUTHORIZATION, format!("Bearer {}", token.expose()))
        .body(Full::new(Bytes::from(line)))
        .map_err(|_| ClientError::Unreadable("the token cannot be sent in a header".to_owned()))?;
    let response = sender.send_request(request).await.map_err(lost)?;
    Ok((response, driver))
}

/// Sends a request and returns the whole body of the response.
pub(super) async fn post(
    target: &Target,
    address: SocketAddr,
    token: &Token,
    line: Vec<u8>,
) -> Result<Bytes, ClientError> {
    let (response, _driver) = send(target, address, token, line).await?;
    let body = Limited::new(response.into_body(), MAX_REPLY_BYTES)
        .collect()
        .await;
    body.map(http_body_util::Collected::to_bytes)
        .map_err(|_| ClientError::lost(target))
}
