//! What the daemon and its holder use of any Unix.

mod child_ends;
mod framing;
mod place;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::io::{Interest, Ready};

use super::{Guarantee, ProcessStat};
pub(crate) use child_ends::ChildEnds;
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

/// A terminal's bytes go to their file without a detour.
pub(crate) fn way_into(_: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

/// After which time the number of a command's process is asked for: nothing
/// else leads to its tree.
pub(crate) const NUMBER_NEEDED_AFTER: Duration = Duration::ZERO;

/// Descriptors this process has open.
pub(crate) fn open_descriptors() -> u64 {
    std::fs::read_dir("/dev/fd").map_or(0, |entries| entries.count() as u64)
}

/// What a socket is watched for to learn that its peer is gone.
pub(crate) const HANGUP: Interest = Interest::WRITABLE;

/// Whether that is what was seen: nobody is left who could read.
pub(crate) fn is_hangup(seen: Ready) -> bool {
    seen.is_write_closed()
}

/// Whether the processes of containers can be told from here, and why not.
pub(crate) fn sees_containers() -> Result<(), &'static str> {
    Err("the processes of containers cannot be seen on this system")
}

/// The numbers of all processes: only asked for containers.
pub(crate) fn processes() -> Vec<i32> {
    Vec::new()
}

/// The namespace that numbers this process and its descendants.
pub(crate) fn namespace_of(_: i32) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The number of a process in the namespace it is in: there is but one.
pub(crate) fn number_inside(pid: i32) -> i32 {
    pid
}

/// The variables a process was started with, each ended by a NUL.
pub(crate) fn environment_of(_: i32) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A process that lives: only asked for containers.
pub(crate) fn stat(_: i32) -> Option<ProcessStat> {
    None
}

/// What the runtime can rely on besides the levels of isolation.
pub(crate) fn guarantees() -> [Guarantee; 4] {
    [
        (
            "orphans_collected",
            Err(
                "a process that loses its parent leaves the runtime's sight, \
                 unless it stays in its group",
            ),
        ),
        ("output_survives_kill", Ok("shared mappings")),
        (
            "input_survives_kill",
            Err("input that the daemon hands over at the moment it is killed may be given twice"),
        ),
        (
            "state_in_memory",
            Err("the state of shells passes through files of mode 0600, \
                 and output through files without a name"),
        ),
    ]
}
