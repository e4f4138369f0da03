//! TLS for the tools of the web, set up when it is first needed.

use crate::builtin::blocking;
use anyhow::{Context as _, bail};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Makes a TLS configuration. It may read files, so it runs on a thread for
/// blocking work.
pub type TlsLoader = Arc<dyn Fn() -> anyhow::Result<ClientConfig> + Send + Sync>;

/// TLS that is set up once. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    load: Option<TlsLoader>,
    made: Arc<OnceCell<Arc<ClientConfig>>>,
}

impl Tls {
    pub(super) fn new(load: TlsLoader) -> Self {
        Self {
            load: Some(load),
            made: Arc::default(),
        }
    }

    /// Secures a connection to a host.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> anyhow::Result<TlsStream<TcpStream>> {
        let config = self.made.get_or_try_init(|| self.load()).await?;
        // A name in a certificate has no brackets and no dot at its end.
        let name = host.trim_matches(['[', ']']).trim_end_matches('.');
        let name = ServerName::try_from(name.to_owned())
            .with_context(|| format!("'{host}' cannot be the name of a secure server"))?;
        let connector = TlsConnector::from(Arc::clone(config));
        let secured = connector.connect(name, stream).await;
        secured.with_context(|| format!("no secure connection to '{host}'"))
    }

    async fn load(&self) -> anyhow::Result<Arc<ClientConfig>> {
        let Some(load) = self.load.clone() else {
            bail!("https is not set up here; use an http address, or set WebSettings::with_tls");
        };
        let mut config = blocking(move || load()).await?;
        // The client speaks nothing else.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
