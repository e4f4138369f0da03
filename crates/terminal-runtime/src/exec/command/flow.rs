//! From a command's pipes to its spools.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use halter_exec::Terminal;
use halter_exec::host::{Moved, Spool, system, try_watch_descriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::limits::LARGE_PIPE_BYTES;
use crate::sys;

/// How often a pipe is looked at that the system cannot watch.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// One stream on its way into its spool.
#[derive(Debug)]
pub(in crate::exec) struct Flow {
    source: FlowSource,
    spool: Spool,
    /// A terminal is no pipe: its bytes pass through one, held by the holder
    /// like any other, so that none is lost on the way.
    relay: Option<Relay>,
    enlarged: bool,
}

/// Where the bytes come from.
#[derive(Debug)]
enum FlowSource {
    /// Nobody has waited for anything yet.
    Unwatched(OwnedFd),
    Watched(AsyncFd<OwnedFd>),
    /// It has come to its end.
    Closed,
}

#[derive(Debug)]
struct Relay {
    terminal: Terminal,
    read: OwnedFd,
    write: OwnedFd,
}

impl Flow {
    /// The flow of a pipe.
    pub(in crate::exec) fn of_pipe(pipe: OwnedFd, spool: Spool) -> Self {
        Self {
            source: FlowSource::Unwatched(pipe),
            spool,
            relay: None,
            enlarged: false,
        }
    }

    /// A flow that has come to its end.
    pub(in crate::exec) fn ended(spool: Spool) -> Self {
        Self {
            source: FlowSource::Closed,
            spool,
            relay: None,
            enlarged: false,
        }
    }

    /// The flow of a terminal, through a pipe whose read end this is, if the
    /// system can make use of it.
    pub(in crate::exec) fn of_terminal(
        terminal: &Terminal,
        pipe: OwnedFd,
        spool: Spool,
    ) -> io::Result<Self> {
        let relay = match sys::way_into(&pipe)? {
            Some(write) => Some(Relay {
                terminal: terminal.try_clone()?,
                read: pipe,
                write,
            }),
            None => None,
        };
        Ok(Self {
            source: FlowSource::Unwatched(terminal.try_clone()?.into()),
            spool,
            relay,
            enlarged: true,
        })
    }

    /// Whether something may still come.
    pub(in crate::exec) fn is_open(&self) -> bool {
        !matches!(self.source, FlowSource::Closed)
    }

    /// Waits until something can be moved, and moves what is there. Never
    /// returns once the flow has come to its end.
    pub(in crate::exec) async fn advance(&mut self) {
        self.watch();
        let moved = match &self.source {
            FlowSource::Closed => return std::future::pending().await,
            FlowSource::Unwatched(pipe) => {
                tokio::time::sleep(POLL_PAUSE).await;
                step(pipe, &self.spool, self.relay.as_ref())
            }
            FlowSource::Watched(source) => match source.readable().await {
                Ok(mut ready) => {
                    let moved = step(ready.get_inner(), &self.spool, self.relay.as_ref());
                    if moved == Moved::WouldBlock {
                        ready.clear_ready();
                    }
                    moved
                }
                Err(_) => Moved::End,
            },
        };
        if moved == Moved::End {
            self.source = FlowSource::Closed;
        } else if !self.enlarged && self.spool.total() > LARGE_PIPE_BYTES as u64 {
            // A stream that is busy costs fewer turns with a larger pipe.
            if let Some(pipe) = self.pipe() {
                system::widen_pipe(pipe, LARGE_PIPE_BYTES as u64);
            }
            self.enlarged = true;
        }
    }

    /// Has the system say when there is something. Where it cannot, the pipe
    /// is looked at from time to time.
    fn watch(&mut self) {
        if !matches!(self.source, FlowSource::Unwatched(_)) {
            return;
        }
        let source = std::mem::replace(&mut self.source, FlowSource::Closed);
        if let FlowSource::Unwatched(pipe) = source {
            self.source = match try_watch_descriptor(pipe, Interest::READABLE) {
                Ok(watched) => FlowSource::Watched(watched),
                Err((pipe, _)) => FlowSource::Unwatched(pipe),
            };
        }
    }

    fn pipe(&self) -> Option<&OwnedFd> {
        match &self.source {
            FlowSource::Unwatched(pipe) => Some(pipe),
            FlowSource::Watched(watched) => Some(watched.get_ref()),
            FlowSource::Closed => None,
        }
    }

    /// Moves all that has been written until now.
    pub(in crate::exec) fn drain(&mut self) {
        while let Some(pipe) = self.pipe() {
            match step(pipe, &self.spool, self.relay.as_ref()) {
                Moved::Bytes(_) => {}
                Moved::WouldBlock => return,
                Moved::End => self.source = FlowSource::Closed,
            }
        }
    }
}

/// Moves what is there, up to a bound. A pipe that cannot be read any more is
/// at its end.
fn step(source: &OwnedFd, spool: &Spool, relay: Option<&Relay>) -> Moved {
    let Some(relay) = relay else {
        return spool.splice_from(source).unwrap_or(Moved::End);
    };
    // What is left in the relay from before comes first.
    match spool.splice_from(&relay.read) {
        Ok(Moved::WouldBlock) => {}
        Ok(moved) => return moved,
        Err(_) => return Moved::End,
    }
    match relay.terminal.splice_into(&relay.write) {
        Ok(Moved::Bytes(_)) => spool.splice_from(&relay.read).unwrap_or(Moved::End),
        Ok(other) => other,
        Err(_) => Moved::End,
    }
}

/// Both streams of a command; a terminal has only the first.
#[derive(Debug)]
pub(in crate::exec) struct Flows {
    pub stdout: Flow,
    pub stderr: Option<Flow>,
}

impl Flows {
    /// Moves output until the future is done.
    pub(in crate::exec) async fn run_until<Output>(
        &mut self,
        until: impl Future<Output = Output>,
    ) -> Output {
        tokio::pin!(until);
        loop {
            let Self { stdout, stderr } = self;
            tokio::select! {
                biased;
                output = &mut until => return output,
                () = stdout.advance() => {}
                () = advance(stderr.as_mut()) => {}
            }
        }
    }

    /// Moves all that has been written until now.
    pub(in crate::exec) fn drain(&mut self) {
        self.stdout.drain();
        if let Some(stderr) = &mut self.stderr {
            stderr.drain();
        }
    }

    pub(in crate::exec) fn is_open(&self) -> bool {
        self.stdout.is_open() || self.stderr.as_ref().is_some_and(Flow::is_open)
    }
}

pub(in crate::exec) async fn advance(flow: Option<&mut Flow>) {
    match flow {
        Some(flow) => flow.advance().await,
        None => std::future::pending().await,
    }
}

// Elsewhere pipes have the size they have.
#[cfg(all(test, target_os = "linux", not(halter_portable)))]
mod tests {
    use std::io::Write;

    use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};

    use super::*;

    #[tokio::test]
    async fn the_pipe_of_a_busy_stream_grows_once_it_has_shown_to_be_busy() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let memory = Spool::memory_file().unwrap();
        // Beyond the quota bytes are only counted, which is enough here.
        let spool = Spool::new(memory, None, 0).unwrap();
        let mut flow = Flow::of_pipe(read, spool.clone());
        let mut writer = std::fs::File::from(write);
        let small = fcntl_getpipe_size(&writer).unwrap();
        assert!(small < LARGE_PIPE_BYTES);
        let piece = vec![0_u8; 4096];
        while spool.total() < LARGE_PIPE_BYTES as u64 {
            writer.write_all(&piece).unwrap();
            flow.advance().await;
        }
        assert_eq!(spool.total(), LARGE_PIPE_BYTES as u64);
        assert_eq!(fcntl_getpipe_size(&writer).unwrap(), small);
        writer.write_all(b"x").unwrap();
        while spool.total() == LARGE_PIPE_BYTES as u64 {
            flow.advance().await;
        }
        assert_eq!(fcntl_getpipe_size(&writer).unwrap(), LARGE_PIPE_BYTES);
    }
}
