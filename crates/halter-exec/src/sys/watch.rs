//! Handles registered with the runtime's readiness queue.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

use super::PidFd;

/// A pipe end, socket or other descriptor with a queue, registered with the
/// runtime to report its readiness. Must be called within a runtime.
///
/// # Errors
/// If the system cannot watch such a descriptor.
pub fn watch_descriptor(fd: OwnedFd, interest: Interest) -> std::io::Result<AsyncFd<OwnedFd>> {
    try_watch_descriptor(fd, interest).map_err(|(_, error)| error)
}

/// The same, giving back a descriptor that cannot be watched.
///
/// # Errors
/// As for [`watch_descriptor`].
pub fn try_watch_descriptor(
    fd: OwnedFd,
    interest: Interest,
) -> Result<AsyncFd<OwnedFd>, (OwnedFd, std::io::Error)> {
    // SAFETY: an `OwnedFd` names the same open descriptor for all its life.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(|error| error.into_parts())
}

/// A process handle that becomes readable when the process ends.
pub(crate) fn watch_process(pidfd: PidFd) -> Result<AsyncFd<PidFd>, AsyncFdRegisterError<PidFd>> {
    // SAFETY: a `PidFd` owns its descriptor and never changes it.
    unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }
}
