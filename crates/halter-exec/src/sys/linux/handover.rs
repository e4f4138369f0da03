//! Pipes and in-memory files, and the path under which a child can open one
//! of ours without having inherited it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};

/// A pipe, read end first, both ends closed on exec.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// How many bytes a pipe holds.
pub(crate) fn pipe_capacity(pipe: impl AsFd) -> Option<usize> {
    rustix::pipe::fcntl_getpipe_size(pipe).ok()
}

/// Has a pipe hold more, if the system lets it.
pub(crate) fn widen_pipe(pipe: impl AsFd, bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // Each user may have so much in pipes; without it this goes on as it was.
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
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

/// An anonymous file with this content; it vanishes with its last handle.
pub(crate) fn data_file(name: &str, content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file)
}

/// Where a process of the same user opens this handle of ours. Each opening
/// is a description of its own: own offset, own flags.
pub(crate) fn handover_path(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        fd.as_fd().as_raw_fd()
    ))
}
