//! Where a server is and what it is sent.

use crate::auth::OAuthSettings;
use crate::error::McpError;
use crate::limits::EVENT_READ_TIMEOUT;
use crate::names::ServerName;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// Makes the client that servers are asked with. It may read files, so it runs
/// on a thread for blocking work. The client must not follow redirects: what
/// is sent to one host is not for another.
pub type HttpClientLoader = Arc<dyn Fn() -> anyhow::Result<reqwest::Client> + Send + Sync>;

/// How a server over HTTP is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpTransport {
    /// One address that messages are posted to.
    #[default]
    Streamable,
    /// The transport of the first revision: an event stream that names the
    /// address to post to.
    LegacySse,
}

/// A server over HTTP. Values of headers are never shown.
#[derive(Clone)]
pub struct HttpSettings {
    /// How it is spoken to.
    pub transport: HttpTransport,
    /// Where it is.
    pub url: Url,
    /// What it is sent with each request.
    pub headers: HeaderMap,
    /// How long an event stream may be silent.
    pub read_timeout: Duration,
    /// Whether it is told that a session of the protocol has ended.
    pub end_session: bool,
    /// How users log in to it.
    pub oauth: OAuthSettings,
    /// Makes the client it is asked with.
    pub client: HttpClientLoader,
}

impl HttpSettings {
    /// A server at an address, with the defaults.
    ///
    /// # Errors
    /// If the address is none that a server can be asked at.
    pub fn new(server: &ServerName, url: &str, client: HttpClientLoader) -> Result<Self, McpError> {
        let wrong = |reason: String| McpError::Address {
            server: server.clone(),
            reason,
        };
        let url = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with https:// or http://".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "it holds a name or a password: send these by `headers`".to_owned(),
            ));
        }
        Ok(Self {
            transport: HttpTransport::default(),
            url,
            headers: HeaderMap::new(),
            read_timeout: EVENT_READ_TIMEOUT,
            end_session: true,
            oauth: OAuthSettings::default(),
            client,
        })
    }

    /// Sends a header with each request. Its value is never shown.
    ///
    /// # Errors
    /// If the header cannot be sent, or is the protocol's own.
    pub fn header(&mut self, server: &ServerName, name: &str, value: &str) -> Result<(), McpError> {
        let wrong = |reason: &str| McpError::Header {
            server: server.clone(),
            name: crate::error::shown_name(name),
            reason: reason.to_owned(),
        };
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong("this is no name of a header"))?;
        let ours = [ACCEPT, CONTENT_TYPE, HOST];
        if ours.contains(&parsed) || parsed == "last-event-id" || is_of_protocol(&parsed) {
            return Err(wrong("the protocol sets it itself"));
        }
        let mut value =
            HeaderValue::from_str(value).map_err(|_| wrong("its value cannot be sent"))?;
        value.set_sensitive(true);
        self.headers.insert(parsed, value);
        Ok(())
    }

    /// The host, for people. The rest of an address may hold a key.
    pub(crate) fn shown_host(&self) -> String {
        shown_host(&self.url)
    }
}

fn is_of_protocol(name: &HeaderName) -> bool {
    name.as_str().starts_with("mcp-")
}

/// A host with its port, as people write it.
pub(crate) fn shown_host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether an address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HttpSettings")
            .field("transport", &self.transport)
            .field("host", &self.shown_host())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<HttpSettings, McpError> {
        let name = ServerName::new("x")?;
        HttpSettings::new(&name, url, Arc::new(|| anyhow::bail!("no client")))
    }

    #[test]
    fn what_is_no_address_is_refused_and_no_password_is_repeated() {
        for wrong in [
            "",
            "docs",
            "ftp://a.example",
            "https://me:secret@a.example",
            "https://secret@a.example",
        ] {
            let error = settings(wrong).unwrap_err();
            assert_eq!(error.code(), "mcp_address", "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn no_value_of_a_header_is_shown_and_none_of_the_protocol_is_taken() {
        let name = ServerName::new("x").unwrap();
        let mut settings = settings("https://a.example/mcp?key=hidden").unwrap();
        settings
            .header(&name, "Authorization", "Bearer hidden")
            .unwrap();
        let shown = format!("{settings:?}");
        assert!(shown.contains("a.example") && shown.contains("authorization"));
        assert!(!shown.contains("hidden"), "{shown}");
        for wrong in ["Accept", "Mcp-Session-Id", "Last-Event-ID", "a b", ""] {
            let error = settings.header(&name, wrong, "hidden").unwrap_err();
            assert_eq!(error.code(), "mcp_header", "{wrong}");
        }
        let error = settings.header(&name, "X-Key", "hidden\n").unwrap_err();
        assert!(!error.to_string().contains("hidden"), "{error}");
    }

    #[test]
    fn this_machine_is_known() {
        for (url, meant) in [
            ("http://127.0.0.1:1/", true),
            ("http://localhost/", true),
            ("http://[::1]/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), meant, "{url}");
        }
    }
}
