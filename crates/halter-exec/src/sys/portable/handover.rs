//! Pipes, and files and pipes with a name that a child can open.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::io::{FdFlags, fcntl_setfd};

/// Where named things are put for the moment they are needed.
const DIRECTORY: &str = "/tmp";

/// A pipe, read end first, both ends closed on exec. Another thread's child
/// may catch them in between; ours closes what it is not given.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe()?;
    fcntl_setfd(&read, FdFlags::CLOEXEC)?;
    fcntl_setfd(&write, FdFlags::CLOEXEC)?;
    Ok((read, write))
}

pub(crate) fn pipe_capacity(_: impl AsFd) -> Option<usize> {
    None
}

pub(crate) fn widen_pipe(_: impl AsFd, _: u64) {}

/// A name of ours in the file system, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Handover {
    path: PathBuf,
}

impl Handover {
    /// A file with this content that can be opened by name.
    pub(crate) fn file(content: &[u8]) -> io::Result<(File, Self)> {
        let (mut file, path) = new_file()?;
        let name = Self { path };
        file.write_all(content)?;
        Ok((file, name))
    }

    /// A pipe, read end first, whose write end can be opened by name.
    pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd, Self)> {
        let name = Self { path: new_name()? };
        make_fifo(&name.path)?;
        let read = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&name.path)?;
        let write = OpenOptions::new().write(true).open(&name.path)?;
        Ok((read.into(), write.into(), name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        remove_name(&self.path);
    }
}

/// A new file that only we can open.
pub(super) fn new_file() -> io::Result<(File, PathBuf)> {
    let path = new_name()?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .inspect_err(|_| remove_name(&path))?;
    Ok((file, path))
}

/// A name in a directory of its own that only we can enter: once that is
/// gone, a child that is late cannot make the file anew.
fn new_name() -> io::Result<PathBuf> {
    let name = crate::nonce::random().map_err(io::Error::other)?;
    let directory = Path::new(DIRECTORY).join(format!("halter-exec-{name}"));
    fs::DirBuilder::new().mode(0o700).create(&directory)?;
    Ok(directory.join("handed-over"))
}

pub(super) fn remove_name(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = path.parent().map(fs::remove_dir);
}

/// Bytes nobody can guess.
pub(crate) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    File::open("/dev/urandom")?.read_exact(bytes)
}

/// Makes a named pipe that only this user can open in a directory. Not every
/// system makes one by a handle of its directory.
pub(crate) fn make_fifo_in(_: BorrowedFd<'_>, path: &Path, name: &str) -> io::Result<()> {
    make_fifo(&path.join(name))
}

fn make_fifo(path: &Path) -> io::Result<()> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: takes a NUL-terminated string and a number.
    if unsafe { libc::mkfifo(text.as_ptr(), 0o600) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
