//! Our end of a child's output.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::coop::consume_budget;

use crate::limits::{FIRST_READ_BYTES, READ_CHUNK_BYTES, SPLICE_BYTES};
use crate::spool::Spool;
use crate::sys::{self, Moved};
use crate::terminal::is_hang_up;

/// The read end of a child's output.
#[derive(Debug)]
pub struct OutputPipe {
    fd: AsyncFd<OwnedFd>,
    /// Reused by every read. Starts small, since most commands say little, and
    /// grows when a read fills it.
    buffer: Vec<u8>,
    /// A second handle for moves on another thread, and what a terminal's
    /// bytes go through.
    mover: Option<Arc<Mover>>,
}

/// Moves output into a spool.
#[derive(Debug)]
pub(crate) struct Mover {
    fd: OwnedFd,
    /// A terminal's bytes can be moved into a file only through a pipe.
    relay: Option<(OwnedFd, OwnedFd)>,
}

impl Mover {
    pub(crate) fn move_into(&self, spool: &Spool) -> io::Result<Moved> {
        let Some((read, write)) = &self.relay else {
            return spool.splice_from(&self.fd);
        };
        let moved = match sys::splice_terminal(&self.fd, write, SPLICE_BYTES) {
            Err(error) if is_hang_up(&error) => Moved::End,
            other => other?,
        };
        if let Moved::Bytes(mut left) = moved {
            while let Moved::Bytes(count) = spool.splice_from(read)? {
                left = left.saturating_sub(count);
                if left == 0 {
                    break;
                }
            }
        }
        Ok(moved)
    }
}

/// What a read that does not wait found.
#[derive(Debug)]
pub(crate) enum Drained {
    Chunk(Bytes),
    Empty,
    End,
}

impl OutputPipe {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        sys::set_nonblocking(&fd)?;
        Ok(Self {
            fd: sys::watch_descriptor(fd, Interest::READABLE)?,
            buffer: Vec::new(),
            mover: None,
        })
    }

    /// Returns when there may be bytes, or the end, to be taken.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        loop {
            let mut ready = self.fd.readable().await?;
            if !self.is_empty()? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// Whether there is neither a byte nor the end.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        Ok(sys::waiting_in(self.fd.get_ref())? == Moved::WouldBlock)
    }

    /// Moves what is there into a spool.
    pub(crate) fn move_into(&mut self, spool: &Spool) -> io::Result<Moved> {
        if self.mover.is_none() && !self.is_terminal() {
            return spool.splice_from(self.fd.get_ref());
        }
        self.mover()?.move_into(spool)
    }

    /// The same for another thread. For a stream that goes on: with room for
    /// more at a time, where the system gives it.
    pub(crate) fn mover(&mut self) -> io::Result<Arc<Mover>> {
        if let Some(mover) = &self.mover {
            return Ok(Arc::clone(mover));
        }
        let relay = if self.is_terminal() {
            let (read, write) = sys::pipe()?;
            Some((read, write))
        } else {
            sys::widen_pipe(self.fd.get_ref(), SPLICE_BYTES);
            None
        };
        let fd = self.fd.get_ref().try_clone()?;
        let mover = Arc::new(Mover { fd, relay });
        self.mover = Some(Arc::clone(&mover));
        Ok(mover)
    }

    /// The next bytes, or `None` when no writer is left. Nothing is lost if
    /// the future is dropped.
    ///
    /// # Errors
    /// If the system refuses the read.
    pub async fn read(&mut self) -> io::Result<Option<Bytes>> {
        // A pipe that is never empty is always ready.
        consume_budget().await;
        loop {
            let mut ready = self.fd.readable().await?;
            match read_now(self.fd.get_ref(), &mut self.buffer)? {
                Drained::Chunk(chunk) => return Ok(Some(chunk)),
                Drained::End => return Ok(None),
                Drained::Empty => ready.clear_ready(),
            }
        }
    }

    /// What is in the pipe right now.
    pub(crate) fn read_now(&mut self) -> io::Result<Drained> {
        read_now(self.fd.get_ref(), &mut self.buffer)
    }

    /// Whether this is a terminal, which hands over what was written to it
    /// only after a moment.
    pub(crate) fn is_terminal(&self) -> bool {
        rustix::termios::isatty(self.fd.get_ref())
    }

    /// How many bytes the pipe can hold: everything written before some
    /// moment is within that many bytes from it.
    pub(crate) fn capacity(&self) -> usize {
        sys::pipe_capacity(self.fd.get_ref()).unwrap_or(READ_CHUNK_BYTES)
    }
}

fn read_now(fd: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<Drained> {
    if buffer.is_empty() {
        buffer.resize(FIRST_READ_BYTES, 0);
    }
    loop {
        match rustix::io::read(fd, buffer.as_mut_slice()) {
            Ok(0) => return Ok(Drained::End),
            Ok(count) => {
                let chunk = buffer.get(..count).unwrap_or_default();
                let chunk = Bytes::copy_from_slice(chunk);
                if count == buffer.len() && count < READ_CHUNK_BYTES {
                    buffer.resize(READ_CHUNK_BYTES, 0);
                }
                return Ok(Drained::Chunk(chunk));
            }
            Err(Errno::AGAIN) => return Ok(Drained::Empty),
            Err(Errno::INTR) => {}
            // How a terminal says that nobody has its other side any more.
            Err(Errno::IO) => return Ok(Drained::End),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[cfg_attr(halter_portable, ignore = "its pipes cannot be widened")]
    #[tokio::test]
    async fn reads_begin_small_and_grow_to_their_bound() {
        let (read, mut write) = std::io::pipe().unwrap();
        sys::widen_pipe(&read, 4 * READ_CHUNK_BYTES as u64);
        let mut pipe = OutputPipe::new(read.into()).unwrap();
        write
            .write_all(&vec![b'x'; FIRST_READ_BYTES + READ_CHUNK_BYTES + 1])
            .unwrap();
        let mut sizes = Vec::new();
        for _ in 0..3 {
            sizes.push(pipe.read().await.unwrap().unwrap().len());
        }
        assert_eq!(sizes, [FIRST_READ_BYTES, READ_CHUNK_BYTES, 1]);
    }
}
