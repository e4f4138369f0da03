//! TLS by rustls with ring: made here and given to the client, never
//! installed for the whole process.

use super::transport::TransportError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Where systems keep the certificates they trust, most common first.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/etc/ssl/cert.pem",
];

/// TLS that trusts nobody: for clients that never leave plain HTTP.
pub(super) fn without_roots() -> Result<ClientConfig, TransportError> {
    config(RootCertStore::empty())
}

/// TLS that trusts the system's authorities, or Mozilla's where the system
/// has none, and those of a file. Reads files; call it where that may block.
///
/// # Errors
/// If the file cannot be used.
pub fn with_roots(ca_file: Option<&Path>) -> Result<ClientConfig, TransportError> {
    let mut roots = RootCertStore::empty();
    for bundle in SYSTEM_BUNDLES {
        let certificates = certificates_in(Path::new(bundle)).unwrap_or_default();
        if roots.add_parsable_certificates(certificates).0 > 0 {
            break;
        }
    }
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(file) = ca_file {
        let certificates = certificates_in(file).map_err(|error| unusable(file, &error))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(unusable(file, "it holds no certificate in PEM form"));
        }
    }
    config(roots)
}

fn config(roots: RootCertStore) -> Result<ClientConfig, TransportError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TransportError::Setup {
            message: format!("TLS cannot be set up: {error}"),
            hint: "report this: the build lacks a TLS version",
        })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| error.to_string())
}

fn unusable(file: &Path, why: &str) -> TransportError {
    TransportError::Setup {
        message: format!("the CA file '{}' cannot be used: {why}", file.display()),
        hint: "name a readable PEM file with the certificates to trust",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http2_is_offered_first() {
        let config = without_roots().unwrap();
        assert_eq!(
            config.alpn_protocols,
            [b"h2".to_vec(), b"http/1.1".to_vec()]
        );
    }

    #[test]
    fn nothing_is_installed_for_the_process() {
        without_roots().unwrap();
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }
}
