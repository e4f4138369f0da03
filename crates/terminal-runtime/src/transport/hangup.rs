//! Whether a peer is gone, or has only finished sending.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::unix::AsyncFd;

use crate::sys;

/// Watches a socket for its peer's end. A peer that only closed its sending
/// half is still there.
#[derive(Debug)]
pub(super) struct Hangup {
    watched: AsyncFd<OwnedFd>,
}

impl Hangup {
    /// Starts to watch. The socket stays with its owner.
    pub(super) fn of(socket: impl AsFd) -> io::Result<Self> {
        let copy = socket.as_fd().try_clone_to_owned()?;
        let watched = halter_exec::host::watch_descriptor(copy, sys::HANGUP)?;
        Ok(Self { watched })
    }

    /// Returns when the peer is gone.
    pub(super) async fn wait(&self) {
        // An error means that the runtime is going, and the peer with it.
        while let Ok(mut seen) = self.watched.ready(sys::HANGUP).await {
            if sys::is_hangup(seen.ready()) {
                return;
            }
            seen.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn a_peer_that_only_stopped_sending_is_not_gone() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.shutdown().await.unwrap();
        let hangup = Hangup::of(&ours).unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), hangup.wait()).await;
        assert!(early.is_err());
        drop(theirs);
        tokio::time::timeout(Duration::from_secs(20), hangup.wait())
            .await
            .unwrap();
    }
}
