//! Where answers go.

use std::io;
use std::task::{Context, Poll};

use halter_exec::SpoolSegment;
use tokio::io::AsyncWrite;

/// The sending side of a connection.
pub(super) trait Sink: AsyncWrite + Unpin + Send {
    /// Sends bytes from where they lie, after the first `sent`; says how many
    /// more have gone.
    ///
    /// # Errors
    /// `Unsupported` if they have to be read and written.
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        _: &SpoolSegment,
        _sent: u64,
    ) -> Poll<io::Result<u64>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl Sink for tokio::io::Stdout {}
