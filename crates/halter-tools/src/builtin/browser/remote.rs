//! A browser elsewhere, over a WebSocket. It is connected to through the
//! network policy; what its pages load is beyond our reach, and the result
//! says so.

use super::connection::{Incoming, Outgoing};
use crate::context::ToolContext;
use crate::limits::{BROWSER_ENDPOINT_BYTES, BROWSER_MESSAGE_BYTES, BROWSER_START_SECS};
use crate::web::{RemoteBrowser, Tls, WebRequest, send};
use anyhow::{Context as _, anyhow, bail};
use futures::future::BoxFuture;
use futures::stream::{SplitSink, SplitStream};
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use halter_policy::{Destination, Host};
use hyper::header::HeaderMap;
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use url::Url;

/// Where its addresses are told, if the endpoint is an HTTP address.
const DISCOVERY: &str = "json/version";

/// What carries the WebSocket.
trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

type Socket = WebSocketStream<Box<dyn Carrier>>;

/// Our side of the connection.
pub(super) struct SocketOut(Mutex<SplitSink<Socket, Message>>);

/// The browser's side of the connection.
pub(super) struct SocketIn(SplitStream<Socket>);

/// Connects to the browser.
pub(super) async fn connect(
    context: &ToolContext,
    tls: &Tls,
    browser: &RemoteBrowser,
) -> anyhow::Result<(SocketOut, SocketIn)> {
    let address = match browser {
        RemoteBrowser::Endpoint(url) if url.scheme().starts_with("ws") => url.clone(),
        RemoteBrowser::Endpoint(url) => discovered(context, tls, url).await?,
        RemoteBrowser::Browserbase(service) => {
            let answer = asked(context, tls, service.request()?).await?;
            let told = answer.get("connectUrl").and_then(Value::as_str);
            let told = told.context("the service named no browser (`connectUrl`)")?;
            endpoint(told)?
        }
    };
    let stream = context.connect(&host_of(&address)?).await?;
    stream.set_nodelay(true).ok();
    let carrier: Box<dyn Carrier> = match address.scheme() {
        "wss" => {
            let host = address.host_str().unwrap_or_default();
            Box::new(tls.connect(host, stream).await?)
        }
        _ => Box::new(stream),
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(BROWSER_MESSAGE_BYTES))
        .max_frame_size(Some(BROWSER_MESSAGE_BYTES));
    let opened =
        tokio_tungstenite::client_async_with_config(address.as_str(), carrier, Some(config));
    // What went wrong is told without the address, which may hold a key.
    let (socket, _) = opened
        .await
        .map_err(|error| anyhow!("the browser at '{}' refuses: {error}", shown(&address)))?;
    let (out, incoming) = socket.split();
    Ok((SocketOut(Mutex::new(out)), SocketIn(incoming)))
}

/// Reads the address of a browser: of a WebSocket, or an HTTP one that tells
/// of it.
pub(crate) fn endpoint(text: &str) -> anyhow::Result<Url> {
    // What is wrong is said without the text, which may hold a key.
    let url = Url::parse(text.trim())
        .map_err(|error| anyhow!("the address of the browser is none: {error}"))?;
    if !matches!(url.scheme(), "ws" | "wss" | "http" | "https") {
        bail!("the address of the browser starts with ws, wss, http or https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        bail!("the address of the browser holds a user name or password; leave them out");
    }
    host_of(&url)?;
    Ok(url)
}

/// The host of such an address.
pub(super) fn host_of(url: &Url) -> anyhow::Result<Destination> {
    let host = url.host_str().unwrap_or_default();
    let host = Host::parse(host).map_err(|why| anyhow!("the browser's host is none: {why}"))?;
    let port = url.port_or_known_default();
    Ok(Destination { host, port })
}

/// An address without what may be secret in it.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

/// The WebSocket of a browser that tells of it at an HTTP address. It is at the
/// same host: what the browser calls itself may mean another one here.
async fn discovered(context: &ToolContext, tls: &Tls, url: &Url) -> anyhow::Result<Url> {
    let mut question = url.clone();
    let path = format!("{}/{DISCOVERY}", url.path().trim_end_matches('/'));
    question.set_path(&path);
    let request = WebRequest {
        url: question,
        headers: HeaderMap::new(),
        body: None,
        redirects: 0,
        body_bytes: BROWSER_ENDPOINT_BYTES,
        time: Duration::from_secs(BROWSER_START_SECS),
    };
    let answer = asked(context, tls, request).await?;
    let told = answer.get("webSocketDebuggerUrl").and_then(Value::as_str);
    let told = told.and_then(|told| Url::parse(told).ok());
    let told = told.context("nothing there tells of a browser (`webSocketDebuggerUrl`)")?;
    let mut address = url.clone();
    let scheme = match url.scheme() {
        "https" => "wss",
        _ => "ws",
    };
    address
        .set_scheme(scheme)
        .map_err(|()| anyhow!("the address of the browser is of no use"))?;
    address.set_path(told.path());
    address.set_query(told.query());
    Ok(address)
}

async fn asked(context: &ToolContext, tls: &Tls, request: WebRequest) -> anyhow::Result<Value> {
    let place = shown(&request.url);
    let answer = send(context, tls, request).await?;
    if !answer.status.is_success() || answer.is_cut {
        let status = answer.status.as_u16();
        bail!("'{place}' has no browser for us: it answered with status {status}");
    }
    serde_json::from_slice(&answer.body)
        .with_context(|| format!("'{place}' did not answer in JSON"))
}

impl Outgoing for SocketOut {
    fn send(&self, message: String) -> BoxFuture<'_, anyhow::Result<()>> {
        async move {
            let mut out = self.0.lock().await;
            let sent = out.send(Message::text(message)).await;
            sent.map_err(|_| anyhow!("the browser has ended"))
        }
        .boxed()
    }
}

impl Incoming for SocketIn {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<u8>>> {
        async move {
            loop {
                match self.0.next().await? {
                    Ok(Message::Text(text)) => return Some(text.as_bytes().to_vec()),
                    Ok(Message::Binary(bytes)) => return Some(bytes.to_vec()),
                    Ok(Message::Close(_)) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_browser_is_of_the_web_and_holds_no_password() {
        for fine in [
            "ws://127.0.0.1:9222/devtools/browser/1",
            "wss://browser.example/?token=x",
            "http://[::1]:9222",
            "https://browser.example/path/",
        ] {
            assert!(endpoint(fine).is_ok(), "{fine}");
        }
        for bad in [
            "",
            "127.0.0.1:9222",
            "file:///etc/passwd",
            "ws://me:s3cret@host/",
            "ftp://host/",
        ] {
            let error = endpoint(bad).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let url = endpoint("wss://browser.example:4443/a?token=s3cret").unwrap();
        assert_eq!(shown(&url), "wss://browser.example:4443");
    }
}
