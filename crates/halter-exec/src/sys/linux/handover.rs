//! Pipes, and the name under which a child can open a handle of ours without
//! having inherited it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

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

/// The name under which a process of the same user opens a handle of ours.
/// Each opening is a description of its own: own offset, own flags. It lasts
/// as long as the handle.
#[derive(Debug)]
pub(crate) struct Handover {
    path: PathBuf,
}

impl Handover {
    /// A file with this content that can be opened by name.
    pub(crate) fn file(content: &[u8]) -> io::Result<(File, Self)> {
        let mut file = super::splice::memory_file("halter-exec")?;
        file.write_all(content)?;
        let name = Self::of(&file);
        Ok((file, name))
    }

    /// A pipe, read end first, whose write end can be opened by name.
    pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd, Self)> {
        let (read, write) = pipe()?;
        let name = Self::of(&write);
        Ok((read, write, name))
    }

    fn of(handle: impl AsFd) -> Self {
        let fd = handle.as_fd().as_raw_fd();
        Self {
            path: PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Bytes nobody can guess.
pub(crate) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    use rustix::rand::{GetRandomFlags, getrandom};
    getrandom(bytes, GetRandomFlags::empty())?;
    Ok(())
}

/// Makes a named pipe that only this user can open in a directory.
pub(crate) fn make_fifo_in(directory: BorrowedFd<'_>, _: &Path, name: &str) -> io::Result<()> {
    use rustix::fs::{Mode, mkfifoat};
    Ok(mkfifoat(directory, name, Mode::RUSR | Mode::WUSR)?)
}
