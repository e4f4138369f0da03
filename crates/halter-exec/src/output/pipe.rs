//! Our ends of a child's pipes.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits::{FIRST_READ_BYTES, READ_CHUNK_BYTES};
use crate::sys::watch_descriptor;

fn nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = fcntl_getfl(fd)?;
    fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    Ok(())
}

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
        nonblocking(&fd)?;
        Ok(Self {
            fd: watch_descriptor(fd, Interest::READABLE)?,
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
            Err(error) => return Err(error.into()),
        }
    }
}

/// The write end of a child's standard input, with what is still to go.
#[derive(Debug)]
pub struct InputPipe {
    fd: AsyncFd<OwnedFd>,
    left: Bytes,
}

impl InputPipe {
    pub(crate) fn new(fd: OwnedFd, bytes: Bytes) -> io::Result<Self> {
        nonblocking(&fd)?;
        Ok(Self {
            fd: watch_descriptor(fd, Interest::WRITABLE)?,
            left: bytes,
        })
    }

    /// Writes until everything is written or the child does not want more;
    /// neither is an error. Can be dropped and called again.
    pub async fn write_all(&mut self) {
        while !self.left.is_empty() {
            let Ok(mut ready) = self.fd.writable().await else {
                return;
            };
            match rustix::io::write(self.fd.get_ref(), &self.left) {
                Ok(written) => drop(self.left.split_to(written)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                // The reader is gone: what it did not read, it did not want.
                Err(_) => return,
            }
        }
    }
}
