//! Servers on this computer: whether something listens.

use crate::limits::LOCAL_PROBE_MILLIS;
use futures::future::join_all;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Which of these addresses something listens at, in their order. Only a
/// connection is opened and closed again; nothing is sent. Addresses that are
/// not on this computer are never tried.
///
/// It takes as long as opening a connection on this computer takes, and
/// [`LOCAL_PROBE_MILLIS`] at most.
pub async fn listening(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let wait = Duration::from_millis(LOCAL_PROBE_MILLIS);
    let tried = addresses.iter().map(|address| async move {
        let local = address.ip().is_loopback();
        let open = local && matches!(timeout(wait, TcpStream::connect(address)).await, Ok(Ok(_)));
        open.then_some(*address)
    });
    join_all(tried).await.into_iter().flatten().collect()
}
