//! What the daemon and its holder use of Linux.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    socket_with,
};

use super::rights;

/// A new socket for messages that are whole or not there at all.
pub(crate) fn channel() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Two such sockets, connected.
#[cfg(test)]
pub(crate) fn channel_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
        flags,
        None,
    )?)
}

/// The next caller.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(accept_with(listener, flags)?)
}

/// What is left of a message that went in part: nothing, ever.
#[derive(Debug, Default)]
pub(crate) struct Unsent {}

impl Unsent {
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
}

/// Sends a message without waiting; nothing of it has gone if that fails.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    parts: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    _: &mut Unsent,
) -> io::Result<()> {
    rights::send(
        socket,
        parts,
        fds,
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Sends the rest of a message.
pub(crate) fn finish(_: BorrowedFd<'_>, _: &mut Unsent) -> io::Result<()> {
    Ok(())
}

/// Room for the next message.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    buffer: Vec<u8>,
}

/// Takes the next message of at most so many bytes, without waiting; an empty
/// one is the end.
pub(crate) fn receive<'a>(
    socket: BorrowedFd<'_>,
    arriving: &'a mut Arriving,
    most: usize,
) -> io::Result<(&'a [u8], Vec<OwnedFd>)> {
    let buffer = &mut arriving.buffer;
    buffer.resize(most, 0);
    let mut fds = Vec::new();
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let count = rights::receive(socket, buffer, &mut fds, flags)?;
    Ok((buffer.get(..count).unwrap_or_default(), fds))
}

/// The address of a name in a directory, which may have a longer path than an
/// address can hold. It is good while what comes with it lives.
pub(crate) fn place_in(directory: &Path, name: &str) -> io::Result<(SocketAddrUnix, File)> {
    let directory = File::open(directory)?;
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    Ok((SocketAddrUnix::new(path)?, directory))
}

/// Has processes that lose their parent become children of this one.
pub(crate) fn take_in_orphans() -> io::Result<()> {
    use rustix::process::{getpid, set_child_subreaper};
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Where processes of this user can open a descriptor of another one.
pub(crate) fn descriptor_path(pid: i32, number: i32) -> Option<PathBuf> {
    Some(PathBuf::from(format!("/proc/{pid}/fd/{number}")))
}
