//! A body posted to the one host that an address names.

use super::Tls;
use super::request::{destination, parse};
use crate::network::Connector;
use anyhow::{Context as _, bail};
use halter_policy::{Destination, Host, NetworkPolicy, NetworkSwitch, PolicySettings};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::fmt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

/// Posts to hosts that a person has named: each request reaches the host of its
/// address and nothing else, for redirects are not followed. The name is looked
/// up once, and one that leads to an address that is not public is refused;
/// such a host is named by its address, or as `localhost`.
#[derive(Clone, Default)]
pub struct HttpPost {
    tls: Tls,
}

impl HttpPost {
    pub(super) fn secured_by(tls: Tls) -> Self {
        Self { tls }
    }

    /// Posts JSON and returns the status and the body of the answer.
    ///
    /// # Errors
    /// If this is no address, its host may not be reached or does not answer,
    /// a header cannot be sent, or the answer has more than `max_bytes`.
    pub async fn json(
        &self,
        address: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
        max_bytes: usize,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        let url = parse(address)?;
        let request = request(&url, headers, body)?;
        let destination = destination(&url)?;
        let connector = Connector::new(only(&destination)?);
        let stream = connector.connect(&destination).await?;
        stream.set_nodelay(true).ok();
        match url.scheme() {
            "https" => {
                let host = url.host_str().unwrap_or_default();
                let stream = self.tls.connect(host, stream).await?;
                exchange(request, stream, max_bytes).await
            }
            _ => exchange(request, stream, max_bytes).await,
        }
    }
}

impl fmt::Debug for HttpPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPost").finish_non_exhaustive()
    }
}

/// A policy that lets one host through.
fn only(destination: &Destination) -> anyhow::Result<NetworkPolicy> {
    let mut settings = PolicySettings {
        network: NetworkSwitch::On,
        ..PolicySettings::default()
    };
    let here = match destination.host {
        Host::Address(address) => address.is_loopback(),
        Host::Name(_) => destination.host.is_localhost(),
    };
    match here {
        true => {
            let host = destination.host.to_string();
            let host = host.trim_matches(['[', ']']).to_owned();
            settings.allowed_loopback = vec![(host, destination.port)];
        }
        false => settings.allowed_hosts = vec![destination.host.to_string()],
    }
    Ok(NetworkPolicy::bind(&settings)?)
}

fn request(
    url: &Url,
    headers: &[(String, String)],
    body: Vec<u8>,
) -> anyhow::Result<Request<Full<Bytes>>> {
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let host = url.host_str().unwrap_or_default();
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let mut request = Request::post(target).body(Full::new(Bytes::from(body)))?;
    let given = request.headers_mut();
    for (name, value) in headers {
        let named = HeaderName::try_from(name.as_str());
        let named = named.with_context(|| format!("'{name}' is not the name of a header"))?;
        // What is wrong with a value is not said in its words: it may be a key.
        let Ok(mut value) = HeaderValue::from_str(value) else {
            bail!("the header '{name}' holds characters that no header has");
        };
        value.set_sensitive(true);
        given.insert(named, value);
    }
    given.insert(header::HOST, HeaderValue::from_str(&host)?);
    given.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    given.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

async fn exchange(
    request: Request<Full<Bytes>>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    max_bytes: usize,
) -> anyhow::Result<(u16, Vec<u8>)> {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .handshake(TokioIo::new(stream))
        .await?;
    let _moving = AbortOnDropHandle::new(tokio::spawn(async move {
        // How it ends is told by the answer.
        connection.await.unwrap_or_default();
    }));
    let response: Response<_> = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.context("the answer broke off")?;
        if let Some(data) = frame.data_ref() {
            if body.len() + data.len() > max_bytes {
                bail!("the answer has more than {max_bytes} bytes");
            }
            body.extend_from_slice(data);
        }
    }
    Ok((status, body))
}
