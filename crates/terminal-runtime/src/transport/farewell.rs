//! Whether an HTTP client is gone. Over TCP a client that has closed its
//! sending half looks like one that has left; only sending something to it
//! tells them apart.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::Bytes;
use hyper::Version;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use super::hangup::Hangup;

/// How long a client that sends nothing more is left in peace, and how often
/// it is asked after that.
const PROBE_PERIOD: Duration = Duration::from_secs(1);

/// Legal before any response, and ignored by every client of HTTP/1.1.
const STILL_WORKING: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

/// Watches one connection.
#[derive(Debug)]
pub(super) struct Farewell {
    socket: AsyncFd<OwnedFd>,
}

impl Farewell {
    pub(super) fn of(socket: &impl AsFd) -> io::Result<Self> {
        let copy = socket.as_fd().try_clone_to_owned()?;
        Ok(Self {
            socket: halter_exec::watch_descriptor(copy, Interest::READABLE)?,
        })
    }

    /// Returns when the client has finished sending.
    async fn finished_sending(&self) {
        loop {
            let Ok(mut ready) = self.socket.readable().await else {
                return;
            };
            let peeked = ready.try_io(|socket| {
                let mut byte = [0; 1];
                // The socket does not block.
                Ok(
                    rustix::net::recv(socket.get_ref(), &mut byte, RecvFlags::PEEK)
                        .map(|(read, _)| read)?,
                )
            });
            match peeked {
                Ok(Ok(0) | Err(_)) => return,
                // The next request waits already; more than that will wake us.
                Ok(Ok(_)) => ready.clear_ready(),
                Err(_) => {}
            }
        }
    }

    /// Returns when a client that waits for its response is gone. To be used
    /// only before the response has begun.
    pub(super) async fn before_response(&self, version: Version) {
        self.finished_sending().await;
        let Ok(hangup) = Hangup::of(&self.socket) else {
            return;
        };
        loop {
            tokio::select! {
                () = hangup.wait() => return,
                // An older client would take it for the response.
                () = tokio::time::sleep(PROBE_PERIOD), if version > Version::HTTP_10 => {
                    let _ = rustix::net::send(&self.socket, STILL_WORKING, SendFlags::empty());
                }
            }
        }
    }

    /// Returns when a client that reads a stream is gone.
    pub(super) async fn during_stream(&self, pieces: &mpsc::Sender<Bytes>) {
        let silent = async {
            self.finished_sending().await;
            let Ok(hangup) = Hangup::of(&self.socket) else {
                return;
            };
            loop {
                tokio::select! {
                    () = hangup.wait() => return,
                    () = tokio::time::sleep(PROBE_PERIOD) => {}
                }
                // An empty line between lines means nothing.
                let _ = pieces.try_send(Bytes::from_static(b"\n"));
            }
        };
        tokio::select! {
            () = pieces.closed() => {}
            () = silent => {}
        }
    }
}
