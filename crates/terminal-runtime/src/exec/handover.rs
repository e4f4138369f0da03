//! How a shell is given files and streams that it opens by name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use halter_exec::{InputSpool, InputTarget, SharedFile, Spool, system};
use rustix::fs::{Mode, OFlags, open};

use super::core::CoreInner;
use super::order::ExecStdin;
use super::output::{Flow, Flows};
use super::start::{Streams, spool_path};
use crate::holder::{Key, Source, UnitKind};

/// The names of the files that a shell shares with its driver.
const FILES: [&str; 4] = ["mailbox", "even", "odd", "exit"];

/// The name of a file without content.
const EMPTY: &str = "empty";

/// A directory that we and the shell both see, where it does not see our
/// descriptors: in a container, below another root without `/proc`, or where
/// the system shows none.
#[derive(Debug, Clone)]
pub(super) struct SharedDirectory {
    pub ours: PathBuf,
    pub theirs: PathBuf,
}

impl SharedDirectory {
    /// Makes it, unless an earlier daemon has.
    pub(super) fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.ours)?;
        private_file(&self.ours.join(EMPTY)).map(drop)
    }

    /// The files a shell shares with its driver, as they are.
    pub(super) fn files(&self) -> io::Result<Vec<SharedFile>> {
        self.make()?;
        let file = |name: &&str| {
            let file = private_file(&self.ours.join(name))?;
            Ok(SharedFile::new(file, self.theirs.join(name)))
        };
        FILES.iter().map(file).collect()
    }

    /// A named pipe: our read end, a write end, and the name inside.
    pub(super) fn fifo(&self, name: &str) -> io::Result<(OwnedFd, OwnedFd, PathBuf)> {
        let path = self.ours.join(name);
        match system::make_fifo(&path) {
            // A daemon died before the holder heard of what it was for.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&path)?;
                system::make_fifo(&path)?;
            }
            made => made?,
        }
        let common = OFlags::CLOEXEC | OFlags::NONBLOCK;
        let read = open(&path, OFlags::RDONLY | common, Mode::empty())?;
        let write = open(&path, OFlags::WRONLY | common, Mode::empty())?;
        Ok((read, write, self.theirs.join(name)))
    }

    /// Opens a command's input for a moment, which lets in a shell that waits
    /// to read it; `false` if it has none.
    pub(super) fn touch_input(&self, key: Key) -> bool {
        let path = self.ours.join(format!("{key}.in"));
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        open(&path, flags, Mode::empty()).is_ok()
    }

    /// Removes the names of a command's streams.
    pub(super) fn forget(&self, key: Key) {
        for stream in ["in", "out", "err", "records"] {
            let _ = fs::remove_file(self.ours.join(format!("{key}.{stream}")));
        }
    }

    pub(super) fn remove(&self) {
        match fs::remove_dir_all(&self.ours) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.ours.display(), %error, "a shared directory stays");
            }
            _ => {}
        }
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

impl CoreInner {
    /// Streams for a command whose shell opens them in a shared directory.
    pub(super) fn named_streams(
        &self,
        key: Key,
        stdin: &ExecStdin,
        shared: &SharedDirectory,
    ) -> io::Result<Streams> {
        let mut units = Vec::new();
        let mut output = |stream: &str| -> io::Result<(Flow, Spool, PathBuf)> {
            let (read, write, path) = shared.fifo(&format!("{key}.{stream}"))?;
            let head = Spool::memory_file()?;
            let parts = [read.as_fd(), write.as_fd(), head.as_fd()];
            units.push(self.link.give(UnitKind::Output, &parts));
            let overflow = spool_path(&self.spool_dir, key, stream);
            let spool = Spool::begin(head, overflow, self.settings.spool_quota_bytes);
            Ok((Flow::of_pipe(read, spool.clone()), spool, path))
        };
        let (out_flow, stdout, out_path) = output("out")?;
        let (err_flow, stderr, err_path) = output("err")?;
        let name = format!("{key}.in");
        let mut input = None;
        let in_path = match stdin {
            ExecStdin::Null => shared.theirs.join(EMPTY),
            ExecStdin::Bytes(bytes) => {
                let file = private_file(&shared.ours.join(&name))?;
                file.set_len(0)?;
                file.write_all_at(bytes, 0)?;
                shared.theirs.join(&name)
            }
            ExecStdin::Open => {
                let (read, write, path) = shared.fifo(&name)?;
                let log = Spool::memory_file()?;
                units.push(self.link.give(UnitKind::File, &[log.as_fd()]));
                let parts = [write.as_fd(), read.as_fd()];
                units.push(self.link.give(UnitKind::Input, &parts));
                input = Some(InputSpool::new(log, InputTarget::Pipe(write))?);
                path
            }
        };
        Ok(Streams {
            units,
            slots: [Source::Null; 3],
            paths: [in_path, out_path, err_path],
            flows: Flows {
                stdout: out_flow,
                stderr: Some(err_flow),
            },
            stdout,
            stderr: Some(stderr),
            input,
            terminal: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_pipe_that_a_dead_daemon_left_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let shared = SharedDirectory {
            ours: directory.path().to_owned(),
            theirs: "/seen".into(),
        };
        let (old, old_write, path) = shared.fifo("7.out").unwrap();
        assert_eq!(path, Path::new("/seen/7.out"));
        File::from(old_write).write_all(b"old").unwrap();
        let (new, new_write, _) = shared.fifo("7.out").unwrap();
        File::from(new_write).write_all(b"new").unwrap();
        let read = |pipe: OwnedFd| {
            let mut text = String::new();
            File::from(pipe).read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!((read(old), read(new)), ("old".to_owned(), "new".to_owned()));
    }
}
