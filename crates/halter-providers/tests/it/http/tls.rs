//! HTTPS with an authority of one's own, and HTTP/2 by negotiation.

use super::{HELLO, chat, hello};
use crate::support::{answer, outline};
use crate::wire_kit::fixture_dir;
use halter_protocol::ProviderErrorKind;
use halter_providers::http::{ClientSettings, Endpoint, HttpProvider, NetworkTransport};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

struct SecureServer {
    url: String,
    versions: Arc<Mutex<Vec<Version>>>,
    task: JoinHandle<()>,
}

impl Drop for SecureServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SecureServer {
    async fn start(protocol: &'static [u8]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let versions = Arc::new(Mutex::new(Vec::new()));
        let acceptor = TlsAcceptor::from(Arc::new(config(protocol)));
        let seen = versions.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust the server leaves here.
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let service = service_fn(|request: Request<Incoming>| {
                    seen.lock().unwrap().push(request.version());
                    async { Ok::<_, Infallible>(hello_response()) }
                });
                let io = TokioIo::new(stream);
                if protocol == b"h2" {
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(io, service).await;
                } else {
                    let builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.serve_connection(io, service).await;
                }
            }
        });
        Self {
            url,
            versions,
            task,
        }
    }
}

fn config(protocol: &[u8]) -> ServerConfig {
    let file = |name: &str| fixture_dir("tls").join(name);
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

fn hello_response() -> hyper::Response<Full<Bytes>> {
    hyper::Response::builder()
        .header("content-type", "text/event-stream")
        .body(Full::new(Bytes::from(HELLO)))
        .unwrap()
}

fn provider(url: &str, ca_file: Option<&str>) -> HttpProvider {
    let settings = ClientSettings {
        ca_file: ca_file.map(|name| fixture_dir("tls").join(name)),
        ..ClientSettings::default()
    };
    let transport = Arc::new(NetworkTransport::new(settings));
    HttpProvider::new(chat(), Endpoint::new(url), transport)
}

#[tokio::test]
async fn the_protocol_is_negotiated() {
    for (protocol, version) in [
        (&b"h2"[..], Version::HTTP_2),
        (&b"http/1.1"[..], Version::HTTP_11),
    ] {
        let server = SecureServer::start(protocol).await;
        let items = answer(&provider(&server.url, Some("ca.pem")), hello()).await;
        assert_eq!(outline(&items).last().unwrap(), "end end_turn");
        assert_eq!(*server.versions.lock().unwrap(), [version]);
    }
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let server = SecureServer::start(b"h2").await;
    let items = answer(&provider(&server.url, None), hello()).await;
    let error = items.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Transient);
    assert!(error.message.contains("certificate"), "{}", error.message);
}

#[tokio::test]
async fn a_file_without_certificates_is_refused() {
    let items = answer(&provider("https://x", Some("server.key")), hello()).await;
    let error = items.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Fatal);
    assert!(
        error
            .message
            .contains("it holds no certificate in PEM form"),
        "{}",
        error.message
    );
}
