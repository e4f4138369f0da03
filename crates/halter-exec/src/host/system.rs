//! Calls that every supported system has in its own way, for programs that
//! build on this crate and keep processes and pipes themselves.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use crate::sys::{self, Moved, Signal};

/// Lets this program have as many descriptors as it is allowed to ask for. What
/// it starts is given the limit that it was started with itself.
pub fn raise_descriptor_limit() {
    sys::raise_descriptor_limit();
}

/// Makes a named pipe that only this user can open in a directory, given as a
/// handle and, for systems that make pipes by path only, by its path.
///
/// # Errors
/// If something has that name, or the directory cannot be written to.
pub fn make_fifo(directory: BorrowedFd<'_>, path: &Path, name: &str) -> io::Result<()> {
    sys::make_fifo_in(directory, path, name)
}

/// The number of the user at the other end of a Unix socket.
///
/// # Errors
/// If the socket is not connected.
pub fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    sys::peer_user(socket)
}

/// Has a pipe hold more bytes, where the system lets it.
pub fn widen_pipe(pipe: impl AsFd, bytes: u64) {
    sys::widen_pipe(pipe, bytes);
}

/// Moves up to `limit` bytes from a pipe to the end of a file, at `offset`,
/// without waiting for any. They are in either of the two at any moment.
///
/// # Errors
/// If the pipe cannot be read or the file not be written.
pub fn move_to_file(
    pipe: impl AsFd,
    file: impl AsFd,
    offset: u64,
    limit: u64,
) -> io::Result<Moved> {
    sys::splice(pipe, file, Some(offset), limit)
}

/// Has a file end where its bytes do, if a program was killed that was in
/// [`move_to_file`].
///
/// # Errors
/// If the file cannot be read or written.
pub fn settle_file(file: &File) -> io::Result<()> {
    sys::settle(file)
}

/// Whether this program ignores a signal, as one that was started by `nohup`
/// does.
#[must_use]
pub fn is_ignored(signal: Signal) -> bool {
    sys::is_ignored(signal)
}

/// The memory of this program that is resident, in bytes; `None` if the
/// system does not say. May take as long as starting a program does.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    sys::process_table::resident_bytes()
}

/// Something to poll that is readable after a child of this program has
/// ended, once the calling thread, which must be the only one, takes no
/// `SIGCHLD` any more: for a program that collects all its children itself.
/// [`clear_child_ends`] before they are collected.
///
/// # Errors
/// If there are too many open descriptors.
#[cfg(all(target_os = "linux", not(halter_portable)))]
pub fn child_ends() -> io::Result<std::os::fd::OwnedFd> {
    sys::child_ends()
}

/// Has [`child_ends`] be readable again only after another child has ended.
#[cfg(all(target_os = "linux", not(halter_portable)))]
pub fn clear_child_ends(ends: impl AsFd) {
    // Ends that came together are announced once.
    let mut announcement = [0_u8; 128];
    let _ = rustix::io::read(ends, &mut announcement);
}
