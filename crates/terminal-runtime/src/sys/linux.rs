//! What the daemon and its holder use of Linux.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_exec::host::system::{child_ends, clear_child_ends};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    socket_with,
};
use tokio::io::{Interest, Ready};

use super::{Guarantee, ProcessStat, rights};

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

/// Wakes whoever polls it when a child has ended.
#[derive(Debug)]
pub(crate) struct ChildEnds(OwnedFd);

impl ChildEnds {
    /// In a program with one thread.
    pub(crate) fn watch() -> io::Result<Self> {
        child_ends().map(Self)
    }

    /// Before the children that have ended are collected.
    pub(crate) fn clear(&self) {
        clear_child_ends(&self.0);
    }
}

impl AsFd for ChildEnds {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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

/// Another way into a pipe whose read end this is: bytes of a terminal pass
/// through it without ever being in the memory of this program.
pub(crate) fn way_into(pipe: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(Some(open(path, flags, Mode::empty())?))
}

/// After which time the number of a command's process is asked for: its tree
/// can be found without.
pub(crate) const NUMBER_NEEDED_AFTER: Duration = Duration::from_millis(50);

/// Descriptors this process has open.
pub(crate) fn open_descriptors() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

/// What a socket is watched for to learn that its peer is gone: nothing that
/// a living one could cause. What is left is the hang-up, which is always
/// reported.
pub(crate) const HANGUP: Interest = Interest::PRIORITY;

/// Whether that is what was seen.
pub(crate) fn is_hangup(_: Ready) -> bool {
    true
}

/// Whether the processes of containers can be told from here, and why not.
pub(crate) fn sees_containers() -> Result<(), &'static str> {
    Ok(())
}

/// The numbers of all processes.
pub(crate) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The namespace that numbers this process and its descendants.
pub(crate) fn namespace_of(pid: i32) -> io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{pid}/ns/pid"))?.ino())
}

/// The number of a process in the namespace it is in.
pub(crate) fn number_inside(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let innermost = numbers.and_then(|them| them.split_whitespace().next_back()?.parse().ok());
    innermost.unwrap_or(pid)
}

/// The variables a process was started with, each ended by a NUL.
pub(crate) fn environment_of(pid: i32) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ"))
}

/// A process that lives.
pub(crate) fn stat(pid: i32) -> Option<ProcessStat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and parentheses; what follows it does not.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(ProcessStat {
        parent: fields.get(1)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// What the runtime can rely on besides the levels of isolation.
pub(crate) fn guarantees() -> [Guarantee; 4] {
    [
        ("orphans_collected", Ok("subreaper")),
        ("output_survives_kill", Ok("splice")),
        ("input_survives_kill", Ok("sendfile")),
        ("state_in_memory", Ok("memory files")),
    ]
}
