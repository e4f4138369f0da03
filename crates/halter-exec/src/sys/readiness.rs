//! Whether a descriptor is ready, and that nobody waits until it is.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Moved;

/// Which of these things a descriptor is ready for, waiting at most so long
/// until it is for one.
pub(super) fn poll_one(
    fd: impl AsFd,
    flags: PollFlags,
    timeout: Duration,
) -> io::Result<PollFlags> {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let mut set = [PollFd::new(&fd, flags)];
    poll(&mut set, Some(&timeout))?;
    let [found] = set.map(|one| one.revents());
    Ok(found)
}

/// What an attempt to move bytes out of a pipe would find.
pub(crate) fn waiting_in(pipe: impl AsFd) -> io::Result<Moved> {
    let found = poll_one(&pipe, PollFlags::IN, Duration::ZERO)?;
    Ok(if found.contains(PollFlags::IN) {
        Moved::Bytes(rustix::io::ioctl_fionread(&pipe)?)
    } else if found.is_empty() {
        Moved::WouldBlock
    } else {
        Moved::End
    })
}

/// Has reads and writes through this handle, and all copies of it, not wait.
pub(crate) fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(&fd)?;
    if !flags.contains(OFlags::NONBLOCK) {
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    }
    Ok(())
}
