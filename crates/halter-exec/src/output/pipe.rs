//! Our end of a child's output.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits::{FIRST_READ_BYTES, READ_CHUNK_BYTES};
use crate::sys;

/// The read end of a child's output.
#[derive(Debug)]
pub struct OutputPipe {
    fd: AsyncFd<OwnedFd>,
    /// Reused by every read. Starts small, since most commands say little, and
    /// grows when a read fills it.
    buffer: Vec<u8>,
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
        })
    }

    /// The next bytes, or `None` when no writer is left. Nothing is lost if
    /// the future is dropped.
    ///
    /// # Errors
    /// If the system refuses the read.
    pub async fn read(&mut self) -> io::Result<Option<Bytes>> {
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
        rustix::pipe::fcntl_getpipe_size(self.fd.get_ref()).unwrap_or(READ_CHUNK_BYTES)
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
