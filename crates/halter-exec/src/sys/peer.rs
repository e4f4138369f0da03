//! Who is at the other end of a socket.

use std::io;
use std::os::fd::AsFd;

/// The user whose process connected, or listened, at the other end.
#[cfg(target_os = "linux")]
pub(crate) fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(peer.uid.as_raw())
}

/// The user whose process connected, or listened, at the other end.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    use std::os::fd::AsRawFd;
    let (mut user, mut group) = (0, 0);
    // SAFETY: the descriptor is open, and both out-pointers are valid for
    // writes.
    let result = unsafe { libc::getpeereid(socket.as_fd().as_raw_fd(), &mut user, &mut group) };
    if result == 0 {
        Ok(user)
    } else {
        Err(io::Error::last_os_error())
    }
}
