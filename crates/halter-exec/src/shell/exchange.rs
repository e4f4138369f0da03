//! Files and pipes that a contained shell can open by name: it sees nothing of
//! this program's descriptors, so they lie in a directory that both reach.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, unlinkat};

use crate::sandbox::Sandbox;
use crate::sys;

/// The directory of a sandbox.
#[derive(Debug, Clone)]
pub(super) struct SandboxExchange {
    directory: Arc<OwnedFd>,
    /// Its name inside.
    path: PathBuf,
}

/// A name in an [`SandboxExchange`], removed when this is dropped.
#[derive(Debug)]
pub(super) struct ExchangeName {
    exchange: SandboxExchange,
    name: String,
    path: PathBuf,
}

impl SandboxExchange {
    /// That of the sandbox, if it has one.
    pub(super) fn of(sandbox: &Sandbox) -> io::Result<Option<Self>> {
        let Some((directory, path)) = sandbox.exchange() else {
            return Ok(None);
        };
        Ok(Some(Self {
            directory: Arc::new(directory.try_clone_to_owned()?),
            path: path.to_owned(),
        }))
    }

    fn name(&self) -> io::Result<ExchangeName> {
        let name = crate::nonce::random().map_err(io::Error::other)?;
        Ok(ExchangeName {
            exchange: self.clone(),
            path: self.path.join(&name),
            name,
        })
    }

    /// A file with this content.
    pub(super) fn file(&self, content: &[u8]) -> io::Result<(File, ExchangeName)> {
        let name = self.name()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat(&*self.directory, &name.name, flags, mode)?);
        file.write_all(content)?;
        Ok((file, name))
    }

    /// A pipe, read end first.
    pub(super) fn pipe(&self) -> io::Result<(OwnedFd, OwnedFd, ExchangeName)> {
        let name = self.name()?;
        sys::make_fifo_in(self.directory.as_fd(), &self.path, &name.name)?;
        let read = self.open_pipe(&name, OFlags::RDONLY)?;
        let write = self.open_pipe(&name, OFlags::WRONLY)?;
        Ok((read, write, name))
    }

    /// Something else may have taken its place; links are not followed, and
    /// nothing but a pipe is accepted.
    fn open_pipe(&self, name: &ExchangeName, end: OFlags) -> io::Result<OwnedFd> {
        let flags = end | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let pipe = openat(&*self.directory, &name.name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&pipe)?.st_mode) != FileType::Fifo {
            return Err(io::Error::other("a pipe of the sandbox was replaced"));
        }
        Ok(pipe)
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl ExchangeName {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ExchangeName {
    fn drop(&mut self) {
        let _ = unlinkat(self.exchange.directory(), &self.name, AtFlags::empty());
    }
}
