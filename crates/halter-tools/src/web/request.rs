//! One request, through the network policy, bounded in bytes, redirects and
//! time.

use super::Tls;
use crate::context::{ToolContext, cancelled};
use crate::limits::{WEB_ADDRESS_CHARS, WEB_HEAD_BYTES};
use anyhow::{Context as _, anyhow, bail};
use flate2::read::GzDecoder;
use halter_policy::{Destination, Host};
use halter_protocol::{ToolError, ToolErrorCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::io::Read;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

/// What the tools call themselves.
const USER_AGENT: &str = concat!("halter/", env!("CARGO_PKG_VERSION"));

/// A request for what is at an address.
pub(crate) struct WebRequest {
    pub(crate) url: Url,
    /// Sent to every host that the request is led to, so nothing secret unless
    /// no redirect is followed.
    pub(crate) headers: HeaderMap,
    /// What is posted; absent: what is there is asked for.
    pub(crate) body: Option<String>,
    /// Redirects that are followed; one more is an error.
    pub(crate) redirects: usize,
    /// Bytes of the body that are read; the rest is left.
    pub(crate) body_bytes: usize,
    /// How long all of it may take.
    pub(crate) time: Duration,
}

/// What a server answered.
pub(crate) struct Answer {
    /// Where it came from, after redirects.
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The body has more bytes than were read.
    pub(crate) is_cut: bool,
}

impl Answer {
    /// The text of a header, or nothing.
    pub(crate) fn header(&self, name: HeaderName) -> &str {
        let value = self.headers.get(name);
        value.and_then(|it| it.to_str().ok()).unwrap_or_default()
    }
}

/// Where an address leads. Its port is known also where it is not spelled.
///
/// # Errors
/// If this is not an address of the web.
pub(crate) fn destination(url: &Url) -> anyhow::Result<Destination> {
    if !matches!(url.scheme(), "http" | "https") {
        bail!(
            "'{}:' is not fetched, only http and https are; read a file with `read`",
            url.scheme()
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        bail!("it holds a user name or password; leave them out");
    }
    let host = url.host_str().unwrap_or_default();
    let host = Host::parse(host).map_err(|why| anyhow!("its host '{host}' is none: {why}"))?;
    let port = url.port_or_known_default();
    Ok(Destination { host, port })
}

/// Reads an address that somebody wrote.
pub(crate) fn parse(text: &str) -> anyhow::Result<Url> {
    let shown = || crate::suggest::shortened(&text.escape_debug().to_string());
    if text.chars().count() > WEB_ADDRESS_CHARS {
        bail!(
            "the address '{}' has more than {WEB_ADDRESS_CHARS} characters",
            shown()
        );
    }
    let url = Url::parse(text.trim()).map_err(|error| {
        anyhow!(
            "'{}' is not an address: {error}; write it whole, as in https://example.com/page",
            shown()
        )
    })?;
    destination(&url).with_context(|| format!("cannot fetch '{}'", shown()))?;
    Ok(url)
}

/// Sends a request and reads the answer, following redirects.
///
/// # Errors
/// If the policy refuses a host, a redirect leads nowhere, there is no answer,
/// or it takes too long; the status of an answer is the caller's to judge.
pub(crate) async fn send(
    context: &ToolContext,
    tls: &Tls,
    request: WebRequest,
) -> anyhow::Result<Answer> {
    let (time, shown) = (request.time, request.url.to_string());
    // A person who is asked about a host takes none of it.
    let pause = context.hosts.as_ref().map(|it| it.pause().clone());
    let pause = pause.unwrap_or_default();
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(cancelled().into()),
        sent = follow(context, tls, request) => sent,
        () = pause.sleep(time) => {
            let message = format!(
                "'{shown}' did not answer completely within {} s; give it more time where the \
                 call takes one, or try another address",
                time.as_secs()
            );
            Err(ToolError::new(ToolErrorCode::TimedOut, message).into())
        }
    }
}

async fn follow(
    context: &ToolContext,
    tls: &Tls,
    mut request: WebRequest,
) -> anyhow::Result<Answer> {
    let first = request.url.to_string();
    let mut followed = 0;
    loop {
        let response = match ask(context, tls, &request).await {
            Err(error) if followed > 0 => {
                return Err(error.context(format!(
                    "'{first}' leads to '{}'; if that is what you want, fetch it by that address",
                    request.url
                )));
            }
            Err(error) => return Err(error.context(format!("cannot fetch '{first}'"))),
            Ok(response) => response,
        };
        let Some(next) = redirect(&request.url, &response.0)? else {
            return read(request, response).await;
        };
        if followed == request.redirects {
            bail!(
                "cannot fetch '{first}': it leads on after {followed} redirects, now to '{next}'; \
                 fetch the address it should end at"
            );
        }
        destination(&next)
            .with_context(|| format!("cannot fetch '{first}': it leads to '{next}'"))?;
        followed += 1;
        request.url = next;
    }
}

/// The address that an answer sends us to.
fn redirect(from: &Url, response: &Response<Incoming>) -> anyhow::Result<Option<Url>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(header::LOCATION) else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(location.as_bytes());
    let next = from.join(&text);
    next.map(Some).map_err(|error| {
        let shown = crate::suggest::shortened(&text.escape_debug().to_string());
        anyhow!("cannot fetch '{from}': it leads to '{shown}', which is not an address: {error}")
    })
}

/// An answer whose body is still to be read, and the task that moves its
/// bytes.
type Open = (Response<Incoming>, AbortOnDropHandle<()>);

async fn ask(context: &ToolContext, tls: &Tls, request: &WebRequest) -> anyhow::Result<Open> {
    let stream = context.connect(&destination(&request.url)?).await?;
    stream.set_nodelay(true).ok();
    match request.url.scheme() {
        "https" => {
            let host = request.url.host_str().unwrap_or_default();
            let stream = tls.connect(host, stream).await?;
            exchange(request, stream).await
        }
        _ => exchange(request, stream).await,
    }
}

async fn exchange(
    request: &WebRequest,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> anyhow::Result<Open> {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(WEB_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    let moving = AbortOnDropHandle::new(tokio::spawn(async move {
        // How it ends is told by the answer.
        connection.await.unwrap_or_default();
    }));
    let response = sender.send_request(head(request)?).await?;
    Ok((response, moving))
}

fn head(request: &WebRequest) -> anyhow::Result<Request<Full<Bytes>>> {
    let url = &request.url;
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let method = match request.body {
        Some(_) => Method::POST,
        None => Method::GET,
    };
    let body = request.body.clone().unwrap_or_default();
    let body = Full::new(Bytes::from(body));
    let mut head = Request::builder().method(method).uri(target).body(body)?;
    let headers = head.headers_mut();
    headers.extend(request.headers.clone());
    headers.insert(header::HOST, HeaderValue::from_str(&host)?);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(head)
}

/// Reads the body as far as it is wanted.
async fn read(request: WebRequest, (response, moving): Open) -> anyhow::Result<Answer> {
    let broken = || format!("the answer of '{}' broke off", request.url);
    let (head, mut incoming) = response.into_parts();
    let (mut body, mut is_cut) = (Vec::new(), false);
    while let Some(frame) = incoming.frame().await {
        let frame = frame.with_context(broken)?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let room = request.body_bytes - body.len();
        body.extend_from_slice(data.get(..room).unwrap_or(data));
        if data.len() > room {
            is_cut = true;
            break;
        }
    }
    drop(moving);
    let mut answer = Answer {
        url: request.url,
        status: head.status,
        headers: head.headers,
        body,
        is_cut,
    };
    unpack(&mut answer, request.body_bytes)?;
    Ok(answer)
}

/// Undoes the encoding of a body, as far as the bound goes.
fn unpack(answer: &mut Answer, bound: usize) -> anyhow::Result<()> {
    let encoding = answer.header(header::CONTENT_ENCODING).to_ascii_lowercase();
    match encoding.as_str() {
        "" | "identity" => return Ok(()),
        "gzip" | "x-gzip" => {}
        other => bail!(
            "cannot read '{}': it is encoded as '{other}', which nobody asked for",
            answer.url
        ),
    }
    let mut unpacked = Vec::new();
    let decoder = GzDecoder::new(answer.body.as_slice());
    let read = decoder.take(bound as u64 + 1).read_to_end(&mut unpacked);
    if !answer.is_cut {
        read.with_context(|| format!("the compressed answer of '{}' is damaged", answer.url))?;
    }
    answer.is_cut |= unpacked.len() > bound;
    unpacked.truncate(bound);
    answer.body = unpacked;
    Ok(())
}
