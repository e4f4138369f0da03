//! How names become addresses.

use async_trait::async_trait;
use std::io;
use std::net::IpAddr;

/// Looks up names of hosts.
#[async_trait]
pub trait HostResolver: Send + Sync + std::fmt::Debug {
    /// The addresses of a name, best first. Whoever asks checks each of them.
    ///
    /// # Errors
    /// If there are none, or nobody could be asked.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the system, as other programs on this machine do.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl HostResolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|it| it.ip()).collect())
    }
}
