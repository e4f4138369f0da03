//! The ends of children, by a signal handler that writes to a pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Wakes whoever polls it when a child has ended.
#[derive(Debug)]
pub(crate) struct ChildEnds(UnixStream);

impl ChildEnds {
    /// In a program with one thread.
    pub(crate) fn watch() -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, woken)?;
        Ok(Self(wake))
    }

    /// Before the children that have ended are collected.
    pub(crate) fn clear(&self) {
        let mut buffer = [0_u8; 64];
        while matches!(rustix::io::read(&self.0, &mut buffer), Ok(1..)) {}
    }
}

impl AsFd for ChildEnds {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
