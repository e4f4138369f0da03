//! Bytes from one connection to another, both ways.

use crate::limits::{PROXY_COPY_BYTES, PROXY_IDLE_TIME};
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// Copies until both sides have ended, one fails, or nothing has moved for
/// [`PROXY_IDLE_TIME`].
pub(super) async fn run(mut inside: TcpStream, mut outside: TcpStream) -> io::Result<()> {
    let moved = LastMoved(Mutex::new(Instant::now()));
    let (from_inside, to_inside) = inside.split();
    let (from_outside, to_outside) = outside.split();
    let both = async {
        tokio::try_join!(
            copy(from_inside, to_outside, &moved),
            copy(from_outside, to_inside, &moved),
        )
    };
    tokio::select! {
        copied = both => copied.map(drop),
        () = moved.idle() => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &LastMoved,
) -> io::Result<()> {
    let mut buffer = vec![0; PROXY_COPY_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        let Some(bytes) = buffer.get(..read).filter(|it| !it.is_empty()) else {
            return to.shutdown().await;
        };
        moved.now();
        to.write_all(bytes).await?;
        moved.now();
    }
}

struct LastMoved(Mutex<Instant>);

impl LastMoved {
    fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    async fn idle(&self) {
        loop {
            let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let until = last + PROXY_IDLE_TIME;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}
