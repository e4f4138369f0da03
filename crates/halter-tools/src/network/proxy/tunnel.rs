//! Bytes from one connection to another, both ways.

use crate::limits::{PROXY_COPY_BYTES, PROXY_IDLE_TIME};
use std::io;
use std::sync::{Mutex, PoisonError};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// Copies until both sides have ended, one fails, or nothing has moved for
/// [`PROXY_IDLE_TIME`].
pub(super) async fn run(inside: TcpStream, outside: TcpStream) -> io::Result<()> {
    let moved = LastMoved(Mutex::new(Instant::now()));
    let both = async {
        tokio::try_join!(
            copy(&inside, &outside, &moved),
            copy(&outside, &inside, &moved),
        )
    };
    tokio::select! {
        copied = both => copied.map(drop),
        () = moved.idle() => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn copy(from: &TcpStream, to: &TcpStream, moved: &LastMoved) -> io::Result<()> {
    let mut carrier = Carrier::new()?;
    loop {
        let mut held = from
            .async_io(Interest::READABLE, || carrier.take(from))
            .await?;
        if held == 0 {
            // One that is gone already has no more to be told.
            let _ = rustix::net::shutdown(to, rustix::net::Shutdown::Write);
            return Ok(());
        }
        moved.now();
        while held > 0 {
            let given = to
                .async_io(Interest::WRITABLE, || carrier.give(to, held))
                .await?;
            if given == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            held -= given;
            moved.now();
        }
    }
}

/// What holds bytes between the two connections: a pipe of the kernel's, so
/// that they are never copied through this program. A tunnel costs a third of
/// the processor time that a buffer takes.
#[cfg(target_os = "linux")]
struct Carrier {
    output: std::os::fd::OwnedFd,
    input: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Carrier {
    fn new() -> io::Result<Self> {
        use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
        let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user has so many pages for pipes; a smaller one does it, too.
        let _ = fcntl_setpipe_size(&input, PROXY_COPY_BYTES);
        Ok(Self { output, input })
    }

    /// Takes what has arrived. Nothing is held when this is called.
    fn take(&mut self, from: &TcpStream) -> io::Result<usize> {
        splice(from, &self.input, PROXY_COPY_BYTES)
    }

    fn give(&mut self, to: &TcpStream, held: usize) -> io::Result<usize> {
        splice(&self.output, to, held)
    }
}

#[cfg(target_os = "linux")]
fn splice(
    from: impl std::os::fd::AsFd,
    to: impl std::os::fd::AsFd,
    most: usize,
) -> io::Result<usize> {
    use rustix::pipe::SpliceFlags;
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    let moved = rustix::io::retry_on_intr(|| {
        rustix::pipe::splice(from.as_fd(), None, to.as_fd(), None, most, flags)
    });
    Ok(moved?)
}

/// What holds bytes between the two connections.
#[cfg(not(target_os = "linux"))]
struct Carrier {
    buffer: Vec<u8>,
    given: usize,
}

#[cfg(not(target_os = "linux"))]
impl Carrier {
    fn new() -> io::Result<Self> {
        let buffer = vec![0; PROXY_COPY_BYTES];
        Ok(Self { buffer, given: 0 })
    }

    fn take(&mut self, from: &TcpStream) -> io::Result<usize> {
        self.given = 0;
        from.try_read(&mut self.buffer)
    }

    fn give(&mut self, to: &TcpStream, held: usize) -> io::Result<usize> {
        let rest = self.buffer.get(self.given..self.given + held);
        let given = to.try_write(rest.unwrap_or_default())?;
        self.given += given;
        Ok(given)
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
