//! What a command reads, by offset.
//!
//! Accepted bytes are appended to an anonymous file that the holder has too;
//! how far they were delivered is that file's own position. Both survive the
//! daemon, so that a client that writes again after a crash writes nothing
//! twice.

use std::fs::File;
use std::io::{self, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use halter_exec::watch_descriptor;
use rustix::fs::{FallocateFlags, fallocate, seek};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::error::CoreError;
use crate::limits::{MAX_PENDING_INPUT_BYTES, TERMINAL_INPUT_BYTES};

/// The byte that ends a terminal's input.
const END_OF_TRANSMISSION: u8 = 4;

/// The input of one command.
#[derive(Debug)]
pub(super) struct Input {
    log: File,
    accepted: u64,
    ended: bool,
    sink: Sink,
}

/// Where it is delivered.
#[derive(Debug)]
enum Sink {
    Pipe(AsyncFd<OwnedFd>),
    Terminal(AsyncFd<OwnedFd>),
    Closed,
}

/// How far a delivery got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// All that was accepted has been taken.
    Done,
    /// All of it, and it was the last.
    Finished,
    /// Nobody reads it any more.
    Refused,
}

impl Input {
    /// Input through a pipe.
    pub(super) fn to_pipe(log: OwnedFd, pipe: OwnedFd, ended: bool) -> io::Result<Self> {
        let pipe = watch_descriptor(pipe, Interest::WRITABLE)?;
        Self::new(log, Sink::Pipe(pipe), ended)
    }

    /// Input typed at a terminal.
    pub(super) fn to_terminal(log: OwnedFd, master: OwnedFd, ended: bool) -> io::Result<Self> {
        let master = watch_descriptor(master, Interest::WRITABLE)?;
        Self::new(log, Sink::Terminal(master), ended)
    }

    fn new(log: OwnedFd, sink: Sink, ended: bool) -> io::Result<Self> {
        let log = File::from(log);
        Ok(Self {
            accepted: log.metadata()?.len(),
            log,
            ended,
            sink,
        })
    }

    /// Whether no more is accepted.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Accepts bytes of which the first is number `offset`; those accepted
    /// before are passed over. Returns the number of the next byte.
    pub(super) fn accept(
        &mut self,
        offset: Option<u64>,
        data: &Bytes,
        last: bool,
    ) -> Result<u64, CoreError> {
        let offset = offset.unwrap_or(self.accepted);
        if offset > self.accepted {
            return Err(CoreError::StdinGap {
                offset,
                expected: self.accepted,
            });
        }
        let known = usize::try_from(self.accepted - offset).unwrap_or(usize::MAX);
        let fresh = data.get(known..).unwrap_or_default();
        if self.ended && !fresh.is_empty() {
            return Err(CoreError::StdinClosed);
        }
        let internal = |error: io::Error| CoreError::Internal {
            message: format!("keeping the command's input failed: {error}"),
        };
        self.log
            .write_all_at(fresh, self.accepted)
            .map_err(internal)?;
        self.accepted += fresh.len() as u64;
        if last && !self.ended {
            if matches!(self.sink, Sink::Terminal(_)) {
                let end = [END_OF_TRANSMISSION];
                self.log
                    .write_all_at(&end, self.accepted)
                    .map_err(internal)?;
                self.accepted += 1;
            }
            self.ended = true;
        }
        Ok(self.accepted)
    }

    /// Whether more must be delivered before more is accepted.
    pub(super) fn is_full(&self) -> bool {
        self.accepted.saturating_sub(self.delivered()) >= MAX_PENDING_INPUT_BYTES
    }

    fn delivered(&self) -> u64 {
        seek(&self.log, rustix::fs::SeekFrom::Current(0)).unwrap_or(self.accepted)
    }

    /// Delivers until everything accepted has been taken, waiting for the
    /// reader. Nothing is lost if the future is dropped.
    pub(super) async fn deliver(&mut self) -> Delivery {
        loop {
            let delivered = self.delivered();
            if delivered >= self.accepted {
                if !self.ended {
                    return Delivery::Done;
                }
                if !matches!(self.sink, Sink::Terminal(_)) {
                    self.sink = Sink::Closed;
                }
                return Delivery::Finished;
            }
            let room = usize::try_from(self.accepted - delivered).unwrap_or(usize::MAX);
            let moved = match &self.sink {
                Sink::Pipe(pipe) => to_pipe(&self.log, pipe, room).await,
                Sink::Terminal(master) => to_terminal(&self.log, master, delivered, room).await,
                Sink::Closed => return Delivery::Refused,
            };
            if moved.is_err() {
                self.sink = Sink::Closed;
                self.ended = true;
                return Delivery::Refused;
            }
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // What was delivered need not take space; if it must, it does.
            let _ = fallocate(&self.log, flags, 0, self.delivered() / 4096 * 4096);
        }
    }
}

/// Moves from the log's position on, which moves along within the same call.
async fn to_pipe(log: &File, pipe: &AsyncFd<OwnedFd>, count: usize) -> io::Result<()> {
    loop {
        let mut ready = pipe.writable().await?;
        let flags = SpliceFlags::NONBLOCK;
        match splice(log, None, ready.get_inner(), None, count, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn to_terminal(
    mut log: &File,
    master: &AsyncFd<OwnedFd>,
    from: u64,
    count: usize,
) -> io::Result<()> {
    let mut buffer = vec![0; count.min(TERMINAL_INPUT_BYTES)];
    log.read_exact_at(&mut buffer, from)?;
    loop {
        let mut ready = master.writable().await?;
        match rustix::io::write(ready.get_inner(), &buffer) {
            Ok(written) => {
                io::Seek::seek(&mut log, SeekFrom::Start(from + written as u64))?;
                return Ok(());
            }
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
