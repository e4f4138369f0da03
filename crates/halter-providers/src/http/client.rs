//! The transport over the network: reqwest, set up when it is first needed.

use super::tls;
use super::transport::{
    HttpMethod, HttpRequest, HttpResponse, ResponseHeaders, Transport, TransportError,
};
use crate::limits::{IDLE_CONNECTION_SECS, IDLE_CONNECTIONS, TCP_KEEPALIVE_SECS};
use async_trait::async_trait;
use futures::StreamExt as _;
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Url, redirect};
use std::error::Error as _;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::OnceCell;

/// How a client reaches servers. Nothing here is read from the environment:
/// whoever builds it decides.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// Until a connection stands.
    pub connect: Duration,
    /// The proxies to use.
    pub proxies: ProxySettings,
    /// A PEM file with authorities to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// What the client calls itself.
    pub user_agent: String,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            proxies: ProxySettings::default(),
            ca_file: None,
            user_agent: concat!("halter/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings")
            .field("connect", &self.connect)
            .field("proxies", &self.proxies)
            .field("ca_file", &self.ca_file)
            .field("user_agent", &self.user_agent)
            .finish()
    }
}

/// Proxies, as the variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
/// `NO_PROXY` spell them. Addresses may hold a password, so `Debug` shows only
/// which are set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// For `http` addresses.
    pub http: Option<String>,
    /// For `https` addresses.
    pub https: Option<String>,
    /// For addresses that have no proxy of their own.
    pub all: Option<String>,
    /// Hosts that are reached without a proxy, separated by commas.
    pub none_for: Option<String>,
}

impl ProxySettings {
    /// True if a proxy itself is reached over TLS.
    fn are_secure(&self) -> bool {
        [&self.http, &self.https, &self.all]
            .into_iter()
            .flatten()
            .any(|address| address.starts_with("https://"))
    }
}

impl fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxySettings")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("all", &self.all.is_some())
            .field("none_for", &self.none_for)
            .finish()
    }
}

/// A transport over the network. Connections are kept open between requests;
/// HTTP/2 is used where the server offers it; redirects are not followed,
/// so that a key is never sent to another host.
pub struct NetworkTransport {
    settings: ClientSettings,
    /// For what needs no certificates.
    plain: OnceCell<Client>,
    /// For everything else.
    secure: OnceCell<Client>,
}

impl NetworkTransport {
    /// A transport that is set up at its first request.
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            settings,
            plain: OnceCell::new(),
            secure: OnceCell::new(),
        }
    }

    async fn client(&self, url: &Url) -> Result<&Client, TransportError> {
        if url.scheme() == "http" && !self.settings.proxies.are_secure() {
            let build = async || build(&self.settings, tls::without_roots()?);
            return self.plain.get_or_try_init(build).await;
        }
        let build = async || {
            let ca_file = self.settings.ca_file.clone();
            let tls = tokio::task::spawn_blocking(move || tls::with_roots(ca_file.as_deref()))
                .await
                .map_err(|error| TransportError::Setup {
                    message: format!("the certificates could not be loaded: {error}"),
                    hint: "try again",
                })??;
            build(&self.settings, tls)
        };
        self.secure.get_or_try_init(build).await
    }

    fn failure(&self, host: String, error: reqwest::Error) -> TransportError {
        let after = self.settings.connect;
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => TransportError::ConnectTimeout { host, after },
            (true, false) => TransportError::Connect {
                host,
                message: causes(&error),
            },
            _ => TransportError::Broken {
                message: causes(&error),
            },
        }
    }
}

impl fmt::Debug for NetworkTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkTransport")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for NetworkTransport {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let url = parse(&request.url)?;
        let host = url.host_str().unwrap_or("the server").to_owned();
        let client = self.client(&url).await?;
        let mut sent = match request.method {
            HttpMethod::Get => client.get(url),
            HttpMethod::Post => client.post(url).body(request.body),
        };
        for (name, value) in &request.headers {
            sent = sent.header(name, value);
        }
        let response = sent
            .send()
            .await
            .map_err(|error| match error.is_builder() {
                // A header that cannot be sent; its value must not be shown.
                true => TransportError::Setup {
                    message: "a header of the request cannot be sent".to_owned(),
                    hint: "check the provider's headers and api_key for odd characters",
                },
                false => self.failure(host, error),
            })?;
        let headers = response
            .headers()
            .iter()
            .filter_map(|(name, value)| {
                Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
            })
            .collect();
        Ok(HttpResponse {
            status: response.status().as_u16(),
            headers: ResponseHeaders(headers),
            body: Box::pin(response.bytes_stream().map(|piece| {
                piece.map_err(|error| TransportError::Broken {
                    message: causes(&error),
                })
            })),
        })
    }
}

fn parse(url: &str) -> Result<Url, TransportError> {
    let wrong = |why: String| TransportError::Setup {
        message: format!("the address '{url}' cannot be used: {why}"),
        hint: "correct the provider's base_url; it begins with http:// or https://",
    };
    let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    match parsed.scheme() {
        "http" | "https" => Ok(parsed),
        scheme => Err(wrong(format!("its scheme is '{scheme}'"))),
    }
}

/// A client for other services than models, set up as for them: the system's
/// authorities, the same proxies, no redirects. Reads files; call it where that
/// may block.
///
/// # Errors
/// If a file or a proxy cannot be used.
pub fn network_client(settings: &ClientSettings) -> Result<Client, TransportError> {
    build(settings, tls::with_roots(settings.ca_file.as_deref())?)
}

fn build(settings: &ClientSettings, tls: rustls::ClientConfig) -> Result<Client, TransportError> {
    let builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls)
        .user_agent(&settings.user_agent)
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(settings.connect)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(Duration::from_secs(IDLE_CONNECTION_SECS))
        .tcp_keepalive(Duration::from_secs(TCP_KEEPALIVE_SECS))
        .tcp_nodelay(true);
    proxied(builder, &settings.proxies)?
        .build()
        .map_err(|error| TransportError::Setup {
            message: format!("the HTTP client cannot be set up: {}", causes(&error)),
            hint: "check the proxy and CA settings",
        })
}

fn proxied(
    builder: ClientBuilder,
    proxies: &ProxySettings,
) -> Result<ClientBuilder, TransportError> {
    type Kind = fn(&str) -> reqwest::Result<Proxy>;
    let kinds: [(&Option<String>, Kind, &str); 3] = [
        (&proxies.http, |url| Proxy::http(url), "http"),
        (&proxies.https, |url| Proxy::https(url), "https"),
        (&proxies.all, |url| Proxy::all(url), "all"),
    ];
    let mut builder = builder.no_proxy();
    for (address, kind, name) in kinds {
        let Some(address) = address.as_deref().filter(|address| !address.is_empty()) else {
            continue;
        };
        // The address may hold a password: it is not shown.
        let proxy = kind(address).map_err(|_| TransportError::Setup {
            message: format!("the proxy for '{name}' addresses has an address that cannot be used"),
            hint: "write it as http://host:port or socks5h://host:port",
        })?;
        let none_for = proxies.none_for.as_deref().and_then(NoProxy::from_string);
        builder = builder.proxy(proxy.no_proxy(none_for));
    }
    Ok(builder)
}

/// The causes of an error, without the address, which may hold a key.
fn causes(error: &reqwest::Error) -> String {
    let mut texts = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    match texts.is_empty() {
        true if error.is_timeout() => "it took too long".to_owned(),
        true => "unknown cause".to_owned(),
        false => texts.join(": "),
    }
}
