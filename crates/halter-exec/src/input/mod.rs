//! Standard input by offset: taken at once, delivered as the process reads.
//!
//! What was taken and not yet read lies in a memory file. Its size says how
//! much was taken, and where the file stands says how much was delivered; the
//! system keeps both, so that whoever opens the two descriptors after a crash
//! goes on without losing or repeating a byte.

mod error;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::tell;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

pub use error::InputError;

use crate::limits::{MAX_STDIN_BYTES, SPLICE_BYTES};
use crate::sys::{self, Moved};
use crate::terminal::Terminal;

/// Memory is given back in multiples of a page, and not for less than this.
const GIVE_BACK_BYTES: u64 = 256 * 1024;
const PAGE_BYTES: u64 = 4096;

/// What a process reads its standard input from.
#[derive(Debug)]
#[non_exhaustive]
pub enum InputTarget {
    /// The write end of a pipe; the end of input is its closing.
    Pipe(OwnedFd),
    /// Our side of a terminal; the end of input is a typed character.
    Terminal(Terminal),
}

/// What one attempt to deliver did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// The process can read this many more bytes.
    Bytes(u64),
    /// It has not read enough of the earlier ones.
    WouldBlock,
    /// Everything taken so far is delivered.
    Idle,
    /// The end of input is delivered too. A pipe must be closed wherever it
    /// is open for that to be seen.
    Ended,
    /// The process has closed its input.
    Closed,
}

/// The input of one process.
#[derive(Debug)]
pub struct InputSpool {
    memory: File,
    target: InputTarget,
    watched: OnceLock<AsyncFd<OwnedFd>>,
    state: Mutex<State>,
    /// Told when something was taken, and when something was delivered.
    taken: Notify,
    delivered: Notify,
}

#[derive(Debug, Default)]
struct State {
    accepted: u64,
    /// Up to where the memory has been given back.
    given_back: u64,
    ended: bool,
    end_delivered: bool,
    closed: bool,
}

impl InputSpool {
    /// Input for the process at the other end of `target`, which is made not
    /// to block us. `memory` is [empty](crate::host::Spool::memory_file), or what an
    /// earlier program has left.
    ///
    /// # Errors
    /// If `memory` cannot be used.
    pub fn new(memory: File, target: InputTarget) -> io::Result<Self> {
        let accepted = memory.metadata()?.len();
        match &target {
            InputTarget::Pipe(pipe) => sys::set_nonblocking(pipe)?,
            InputTarget::Terminal(terminal) => sys::set_nonblocking(terminal)?,
        }
        Ok(Self {
            memory,
            target,
            watched: OnceLock::new(),
            state: Mutex::new(State {
                accepted,
                ..State::default()
            }),
            taken: Notify::new(),
            delivered: Notify::new(),
        })
    }

    /// How many bytes were taken: the offset of the next one.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.lock().accepted
    }

    /// How many bytes the process can read or has read.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        tell(&self.memory).unwrap_or(0)
    }

    /// Takes bytes that begin at `offset`, or follow what there is. What was
    /// taken before is passed over, so that a sender may repeat itself.
    /// Returns the offset after the last byte.
    ///
    /// # Errors
    /// If bytes are missing in between, more are waiting than
    /// [`MAX_STDIN_BYTES`], or the input has ended.
    pub fn accept(&self, offset: Option<u64>, data: &[u8]) -> Result<u64, InputError> {
        let mut state = self.lock();
        let offset = offset.unwrap_or(state.accepted);
        let Some(repeated) = state.accepted.checked_sub(offset) else {
            return Err(InputError::Gap {
                expected: state.accepted,
                found: offset,
            });
        };
        let repeated = usize::try_from(repeated).unwrap_or(usize::MAX);
        let news = data.get(repeated..).unwrap_or_default();
        if news.is_empty() {
            return Ok(state.accepted);
        }
        if state.closed || state.ended {
            return Err(InputError::Closed);
        }
        let waiting = state.accepted.saturating_sub(self.delivered());
        if waiting + news.len() as u64 > MAX_STDIN_BYTES as u64 {
            return Err(InputError::Full);
        }
        self.memory
            .write_all_at(news, state.accepted)
            .map_err(InputError::Io)?;
        state.accepted += news.len() as u64;
        let accepted = state.accepted;
        drop(state);
        self.taken.notify_one();
        Ok(accepted)
    }

    /// Takes bytes as [`accept`](Self::accept) does, and waits for room first
    /// if there is none. Nothing is taken if the future is dropped before.
    ///
    /// # Errors
    /// If bytes are missing in between, one piece is larger than
    /// [`MAX_STDIN_BYTES`], or the input has ended.
    pub async fn write(&self, offset: Option<u64>, data: &[u8]) -> Result<u64, InputError> {
        loop {
            let delivered = self.delivered.notified();
            tokio::pin!(delivered);
            delivered.as_mut().enable();
            match self.accept(offset, data) {
                Err(InputError::Full) if data.len() <= MAX_STDIN_BYTES => delivered.await,
                other => return other,
            }
        }
    }

    /// Says that nothing comes after what was taken.
    pub fn end(&self) {
        self.lock().ended = true;
        self.taken.notify_one();
    }

    /// Gives the process what it can take now.
    ///
    /// # Errors
    /// If the system refuses for another reason than that nobody reads.
    pub fn deliver(&self) -> io::Result<Delivery> {
        let mut state = self.lock();
        if state.closed {
            return Ok(Delivery::Closed);
        }
        let before = self.delivered();
        let moved = if before < state.accepted {
            let limit = (state.accepted - before).min(SPLICE_BYTES);
            sys::send_file(&self.memory, self.descriptor(), limit)
        } else if state.ended && !state.end_delivered {
            self.deliver_end(&mut state)
        } else if state.ended {
            return Ok(Delivery::Ended);
        } else {
            return Ok(Delivery::Idle);
        };
        match moved {
            Ok(Moved::Bytes(count)) => {
                self.give_back(&mut state, before + count);
                drop(state);
                self.delivered.notify_waiters();
                Ok(Delivery::Bytes(count))
            }
            Ok(Moved::WouldBlock) => Ok(Delivery::WouldBlock),
            Ok(Moved::End) => Ok(Delivery::Ended),
            Err(error) if is_closed(&error) => {
                state.closed = true;
                drop(state);
                self.delivered.notify_waiters();
                Ok(Delivery::Closed)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives back the memory of what the process has read. A pipe refers to
    /// the pages of the file until then. The last byte stays: it tells
    /// whether a line has ended.
    fn give_back(&self, state: &mut State, delivered: u64) {
        let unread = match &self.target {
            InputTarget::Pipe(pipe) => rustix::io::ioctl_fionread(pipe).unwrap_or(delivered),
            InputTarget::Terminal(_) => 0,
        };
        let read = delivered.saturating_sub(unread).min(state.accepted - 1);
        let read = read - read % PAGE_BYTES;
        if read >= state.given_back + GIVE_BACK_BYTES {
            sys::punch_hole(&self.memory, state.given_back, read - state.given_back);
            state.given_back = read;
        }
    }

    /// A terminal is typed the character for the end: once where a line
    /// begins, twice within one, where the first only sends the line off.
    fn deliver_end(&self, state: &mut State) -> io::Result<Moved> {
        if let InputTarget::Terminal(terminal) = &self.target {
            let mut last = [b'\n'];
            if let Some(place) = state.accepted.checked_sub(1) {
                self.memory.read_exact_at(&mut last, place)?;
            }
            let ends = [terminal.end_of_input(); 2];
            let typed = if last == [b'\n'] { &ends[..1] } else { &ends };
            match rustix::io::write(terminal, typed) {
                Err(rustix::io::Errno::AGAIN) => return Ok(Moved::WouldBlock),
                other => other?,
            };
        }
        state.end_delivered = true;
        Ok(Moved::End)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.target {
            InputTarget::Pipe(pipe) => pipe.as_fd(),
            InputTarget::Terminal(terminal) => terminal.as_fd(),
        }
    }

    /// Delivers until the end of input is delivered, or the process does not
    /// want more. Can be dropped and called again, by one caller at a time.
    /// Must be called within a runtime.
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn pump(&self) -> io::Result<()> {
        let target = self.watched()?;
        loop {
            let mut writable = target.writable().await?;
            match self.deliver()? {
                Delivery::Bytes(_) => {}
                Delivery::WouldBlock => writable.clear_ready(),
                Delivery::Idle => {
                    drop(writable);
                    self.taken.notified().await;
                }
                Delivery::Ended | Delivery::Closed => return Ok(()),
            }
        }
    }

    /// The target, registered with the runtime when it is first waited for.
    fn watched(&self) -> io::Result<&AsyncFd<OwnedFd>> {
        if let Some(target) = self.watched.get() {
            return Ok(target);
        }
        let target = self.descriptor().try_clone_to_owned()?;
        let target = sys::watch_descriptor(target, Interest::WRITABLE)?;
        Ok(self.watched.get_or_init(|| target))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody is left to read: that is the process's right.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe || crate::terminal::is_hang_up(error)
}
