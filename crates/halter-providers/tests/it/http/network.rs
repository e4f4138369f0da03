//! Connections, proxies and settings of the client.

use super::server::{Response, Server};
use super::{HELLO, chat, hello, provider};
use crate::support::{answer, events};
use halter_protocol::{ProviderError, ProviderErrorKind};
use halter_providers::http::{
    ClientSettings, Endpoint, HttpProvider, NetworkTransport, ProxySettings,
};
use std::path::PathBuf;
use std::sync::Arc;

fn with(url: &str, settings: ClientSettings) -> HttpProvider {
    let transport = Arc::new(NetworkTransport::new(settings));
    HttpProvider::new(chat(), Endpoint::new(url), transport)
}

async fn failure(provider: &HttpProvider) -> ProviderError {
    answer(provider, hello()).await.pop().unwrap().unwrap_err()
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let responses = (0..5).map(|_| Response::events().piece(HELLO));
    let server = Server::start(responses).await;
    let provider = provider(&server.url);
    for _ in 0..5 {
        events(&provider, hello()).await;
    }
    assert_eq!(server.requests().len(), 5);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_proxy_is_used_where_it_is_set() {
    let proxy = Server::start([Response::events().piece(HELLO)]).await;
    let settings = ClientSettings {
        proxies: ProxySettings {
            http: Some(proxy.url.clone()),
            ..ProxySettings::default()
        },
        ..ClientSettings::default()
    };
    events(&with("http://models.test", settings), hello()).await;
    assert_eq!(
        proxy.requests()[0].line,
        "POST http://models.test/v1/chat/completions HTTP/1.1"
    );
}

#[tokio::test]
async fn hosts_may_be_kept_from_the_proxy() {
    let server = Server::start([Response::events().piece(HELLO)]).await;
    let settings = ClientSettings {
        proxies: ProxySettings {
            all: Some("http://127.0.0.1:1".to_owned()),
            none_for: Some("localhost,127.0.0.1".to_owned()),
            ..ProxySettings::default()
        },
        ..ClientSettings::default()
    };
    events(&with(&server.url, settings), hello()).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let error = failure(&provider("http://127.0.0.1:1")).await;
    assert_eq!(error.kind, ProviderErrorKind::Transient);
    assert!(
        error.message.starts_with("no connection to 127.0.0.1: "),
        "{}",
        error.message
    );
    assert!(error.hint.unwrap().contains("base_url"));
}

#[tokio::test]
async fn wrong_settings_are_said_before_anything_is_sent() {
    let proxies = ProxySettings {
        all: Some("::user:hunter2@::".to_owned()),
        ..ProxySettings::default()
    };
    for (url, settings, said) in [
        ("ftp://x", ClientSettings::default(), "its scheme is 'ftp'"),
        (
            "models",
            ClientSettings::default(),
            "'models/v1/chat/completions'",
        ),
        (
            "http://x",
            ClientSettings {
                proxies,
                ..ClientSettings::default()
            },
            "the proxy for 'all' addresses",
        ),
        (
            "https://x",
            ClientSettings {
                ca_file: Some(PathBuf::from("/no/such/file.pem")),
                ..ClientSettings::default()
            },
            "the CA file '/no/such/file.pem' cannot be used",
        ),
    ] {
        let error = failure(&with(url, settings)).await;
        assert_eq!(error.kind, ProviderErrorKind::Fatal, "{url}");
        assert!(error.message.contains(said), "{}", error.message);
        assert!(!error.message.contains("hunter2"), "{}", error.message);
    }
}

#[tokio::test]
async fn certificates_are_loaded_only_for_https() {
    let server = Server::start([Response::events().piece(HELLO)]).await;
    let settings = ClientSettings {
        ca_file: Some(PathBuf::from("/no/such/file.pem")),
        ..ClientSettings::default()
    };
    events(&with(&server.url, settings), hello()).await;
}

#[tokio::test]
async fn a_key_that_is_no_header_is_not_shown() {
    let endpoint = Endpoint::new("http://127.0.0.1:1").with_api_key("line\nbreak-secret");
    let provider = HttpProvider::new(chat(), endpoint, super::network());
    let error = failure(&provider).await;
    assert_eq!(error.kind, ProviderErrorKind::Fatal);
    assert!(!error.message.contains("secret"), "{}", error.message);
}
