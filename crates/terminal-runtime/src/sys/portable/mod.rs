//! What the daemon and its holder use of any Unix.

mod framing;
mod place;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};

pub(crate) use framing::{Arriving, Unsent, finish, receive, send};
pub(crate) use place::place_in;

/// Room for messages on their way, in bytes: few are sent in parts.
const SOCKET_BUFFER_BYTES: usize = 256 * 1024;

/// A new socket for messages that are whole or not there at all: a stream,
/// since not every system has more.
pub(crate) fn channel() -> io::Result<OwnedFd> {
    prepared(rustix::net::socket(
        AddressFamily::UNIX,
        SocketType::STREAM,
        None,
    )?)
}

/// Two such sockets, connected.
#[cfg(test)]
pub(crate) fn channel_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) = std::os::unix::net::UnixStream::pair()?;
    Ok((prepared(one.into())?, prepared(other.into())?))
}

/// The next caller.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    prepared(rustix::net::accept(listener)?)
}

/// Closed on exec, not waiting, with room for messages. Another thread's
/// child may catch it before; ours closes what it is not given.
fn prepared(socket: OwnedFd) -> io::Result<OwnedFd> {
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    fcntl_setfl(&socket, fcntl_getfl(&socket)? | OFlags::NONBLOCK)?;
    // Without it this is only slower.
    let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
    #[cfg(target_vendor = "apple")]
    sockopt::set_socket_nosigpipe(&socket, true)?;
    Ok(socket)
}

fn closed_on_exec(fd: impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(fd, FdFlags::CLOEXEC)?)
}

/// Orphans go to the first process of the system.
pub(crate) fn take_in_orphans() -> io::Result<()> {
    Ok(())
}

/// No process can open a descriptor of another one.
pub(crate) fn descriptor_path(_: i32, _: i32) -> Option<PathBuf> {
    None
}
