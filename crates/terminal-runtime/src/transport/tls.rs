//! The certificate of a runtime that others reach over a network.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, the runtime's own first, in PEM form.
    pub certificate: PathBuf,
    /// The key, in PEM form.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads both. Blocks on the disk.
    ///
    /// # Errors
    /// If they cannot be used; the error names the file and never shows the
    /// key.
    pub fn read(&self) -> io::Result<Arc<ServerConfig>> {
        let certificates: Vec<CertificateDer<'static>> =
            CertificateDer::pem_file_iter(&self.certificate)
                .and_then(Iterator::collect)
                .map_err(|error| unusable(&self.certificate, &error))?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unusable(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                let builder = builder.with_no_client_auth();
                builder.with_single_cert(certificates, key)
            })
            .map_err(|error| unusable(&self.certificate, &error))?;
        Ok(Arc::new(config))
    }
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "`{}` cannot be used for TLS: {error}",
        file.display()
    ))
}
