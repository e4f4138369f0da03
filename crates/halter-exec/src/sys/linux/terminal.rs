//! Pseudo-terminals by descriptor, never by name.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use super::splice::splice;
use crate::sys::Moved;

/// Both sides of a new terminal, ours first, closed on exec.
pub(crate) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    Ok((ours, theirs))
}

/// Moves what a terminal has to say into a pipe.
pub(crate) fn splice_terminal(
    terminal: impl AsFd,
    pipe: impl AsFd,
    limit: u64,
) -> io::Result<Moved> {
    match splice(&terminal, &pipe, None, limit) {
        // A full pipe and a silent terminal both say "again".
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            copy(terminal, pipe)
        }
        other => other,
    }
}

/// For kernels that cannot splice terminals: never more than the pipe takes
/// in one piece.
fn copy(terminal: impl AsFd, pipe: impl AsFd) -> io::Result<Moved> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut set = [
        PollFd::new(&terminal, PollFlags::IN),
        PollFd::new(&pipe, PollFlags::OUT),
    ];
    poll(&mut set, Some(&now))?;
    let [from, to] = &set;
    if from.revents().is_empty() || !to.revents().contains(PollFlags::OUT) {
        return Ok(Moved::WouldBlock);
    }
    let mut buffer = [0; rustix::pipe::PIPE_BUF];
    let count = rustix::io::read(&terminal, &mut buffer)?;
    let mut left = buffer.get(..count).unwrap_or_default();
    while !left.is_empty() {
        let written = rustix::io::write(&pipe, left)?;
        left = left.get(written..).unwrap_or_default();
    }
    Ok(if count == 0 {
        Moved::End
    } else {
        Moved::Bytes(count as u64)
    })
}
