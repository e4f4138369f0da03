//! A directory in which a shell is given files and streams that it opens by
//! name.
//!
//! Whoever runs in the container or below the other root can write there. So
//! nothing in it is opened by a path: everything is opened from a handle of
//! the directory, no link is followed, and what was opened is looked at before
//! it is used.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use halter_exec::host::{InputSpool, InputTarget, SharedFile, Spool, system};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::exec::command::flow::{Flow, Flows};
use crate::exec::command::start::{Streams, spool_path};
use crate::exec::core::CoreInner;
use crate::exec::session::Session;
use crate::exec::types::ExecStdin;
use crate::holder::{Key, Source, UnitKind};

/// The names of the files that a shell shares with its driver.
const FILES: [&str; 4] = ["mailbox", "even", "odd", "exit"];

/// The name of a file without content.
const EMPTY: &str = "empty";

/// A directory that we and the shell both see, where it does not see our
/// descriptors: in a container, below another root without `/proc`, or where
/// the system shows none.
#[derive(Debug)]
pub(in crate::exec) struct SharedDirectory {
    parent: PathBuf,
    name: String,
    /// Where the shell finds it.
    theirs: PathBuf,
    /// Opened once, before anybody who could replace it knows of it.
    handle: OnceLock<Arc<OwnedFd>>,
}

/// A named pipe in it.
pub(in crate::exec) struct Fifo {
    pub read: OwnedFd,
    pub write: OwnedFd,
    /// Where the shell finds it.
    pub theirs: PathBuf,
}

impl SharedDirectory {
    pub(in crate::exec) fn new(parent: PathBuf, name: String, theirs: PathBuf) -> Self {
        Self {
            parent,
            name,
            theirs,
            handle: OnceLock::new(),
        }
    }

    /// Where it is, for those who mount it.
    pub(in crate::exec) fn ours(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// Makes it, unless that was done before.
    pub(in crate::exec) fn make(&self) -> io::Result<Arc<OwnedFd>> {
        if let Some(handle) = self.handle.get() {
            return Ok(Arc::clone(handle));
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.parent)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat(CWD, &self.parent, flags, Mode::empty())?;
        match mkdirat(&parent, self.name.as_str(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = flags | OFlags::NOFOLLOW;
        let handle = openat(&parent, self.name.as_str(), flags, Mode::empty())?;
        let handle = Arc::clone(self.handle.get_or_init(|| Arc::new(handle)));
        self.new_file(EMPTY)?;
        Ok(handle)
    }

    /// New, empty files that a shell shares with its driver.
    pub(in crate::exec) fn files(&self) -> io::Result<Vec<File>> {
        FILES.iter().map(|name| self.new_file(name)).collect()
    }

    /// The same with the names the shell has for them.
    pub(in crate::exec) fn named(&self, files: Vec<File>) -> Vec<SharedFile> {
        let named = files.into_iter().zip(FILES);
        named
            .map(|(file, name)| SharedFile::new(file, self.theirs.join(name)))
            .collect()
    }

    /// A new file in place of whatever has its name.
    fn new_file(&self, name: &str) -> io::Result<File> {
        let directory = self.make()?;
        unlink(&directory, name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&*directory, name, flags | OFlags::CLOEXEC, mode)?;
        Ok(file.into())
    }

    /// A new named pipe in place of whatever has its name.
    pub(in crate::exec) fn fifo(&self, name: &str) -> io::Result<Fifo> {
        let directory = self.make()?;
        unlink(&directory, name)?;
        system::make_fifo(directory.as_fd(), &self.ours(), name)?;
        let read = self.open_fifo(name, OFlags::RDONLY)?;
        let write = self.open_fifo(name, OFlags::WRONLY)?;
        if identity(&read)? != identity(&write)? {
            return Err(io::Error::other("a named pipe was replaced"));
        }
        Ok(Fifo {
            read,
            write,
            theirs: self.theirs.join(name),
        })
    }

    /// Opens a pipe by its name, and nothing else that has it.
    fn open_fifo(&self, name: &str, access: OFlags) -> io::Result<OwnedFd> {
        let directory = self.make()?;
        let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&*directory, name, flags, Mode::empty())?;
        let file = File::from(opened);
        if !file.metadata()?.file_type().is_fifo() {
            return Err(io::Error::other("a named pipe was replaced"));
        }
        Ok(file.into())
    }

    /// Opens a command's input for a moment, which lets in a shell that waits
    /// to read it; `false` if it has none.
    pub(in crate::exec) fn touch_input(&self, key: Key) -> bool {
        self.open_fifo(&format!("{key}.in"), OFlags::WRONLY).is_ok()
    }

    /// Removes the names of a command's streams.
    pub(in crate::exec) fn forget(&self, key: Key) {
        let Some(directory) = self.handle.get() else {
            return;
        };
        for stream in ["in", "out", "err", "records"] {
            let _ = unlink(directory, &format!("{key}.{stream}"));
        }
    }

    pub(in crate::exec) fn remove(&self) {
        // Follows no link either.
        match fs::remove_dir_all(self.ours()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.ours().display(), %error, "a shared directory stays");
            }
            _ => {}
        }
    }
}

fn unlink(directory: &OwnedFd, name: &str) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The file system's name for what is open.
fn identity(file: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = File::from(file.try_clone()?).metadata()?;
    Ok((found.dev(), found.ino()))
}

impl CoreInner {
    /// Streams for a command whose shell opens them in a shared directory.
    pub(in crate::exec) fn named_streams(
        &self,
        session: &Session,
        key: Key,
        stdin: &ExecStdin,
        shared: &SharedDirectory,
    ) -> io::Result<Streams> {
        let link = &session.link;
        let mut units = Vec::new();
        let mut output = |stream: &str| -> io::Result<(Flow, Spool, PathBuf)> {
            let fifo = shared.fifo(&format!("{key}.{stream}"))?;
            let head = Spool::memory_file()?;
            let parts = [fifo.read.as_fd(), fifo.write.as_fd(), head.as_fd()];
            units.push(link.give(UnitKind::Output, &parts));
            let overflow = spool_path(&self.spool_dir, session.id, key, stream);
            let spool = Spool::begin(head, overflow, self.settings.spool_quota_bytes);
            Ok((Flow::of_pipe(fifo.read, spool.clone()), spool, fifo.theirs))
        };
        let (out_flow, stdout, out_path) = output("out")?;
        let (err_flow, stderr, err_path) = output("err")?;
        let name = format!("{key}.in");
        let mut input = None;
        let in_path = match stdin {
            ExecStdin::Null => shared.theirs.join(EMPTY),
            ExecStdin::Bytes(bytes) => {
                shared.new_file(&name)?.write_all_at(bytes, 0)?;
                shared.theirs.join(&name)
            }
            ExecStdin::Open => {
                let fifo = shared.fifo(&name)?;
                let log = Spool::memory_file()?;
                units.push(link.give(UnitKind::File, &[log.as_fd()]));
                let parts = [fifo.write.as_fd(), fifo.read.as_fd()];
                units.push(link.give(UnitKind::Input, &parts));
                input = Some(InputSpool::new(log, InputTarget::Pipe(fifo.write))?);
                fifo.theirs
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
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn shared(parent: &Path) -> SharedDirectory {
        SharedDirectory::new(parent.to_owned(), "shared".to_owned(), "/seen".into())
    }

    #[test]
    fn a_pipe_that_a_dead_daemon_left_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared(directory.path());
        let old = shared.fifo("7.out").unwrap();
        assert_eq!(old.theirs, Path::new("/seen/7.out"));
        File::from(old.write).write_all(b"old").unwrap();
        let new = shared.fifo("7.out").unwrap();
        File::from(new.write).write_all(b"new").unwrap();
        let read = |pipe: OwnedFd| {
            let mut text = String::new();
            File::from(pipe).read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(
            (read(old.read), read(new.read)),
            ("old".to_owned(), "new".to_owned())
        );
    }

    /// What a container can do to the directory that it is given.
    #[test]
    fn links_put_in_the_place_of_our_files_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious");
        fs::write(&precious, "kept").unwrap();
        let shared = shared(directory.path());
        shared.make().unwrap();
        for name in FILES.iter().chain(&["7.in", "7.out", EMPTY]) {
            let _ = fs::remove_file(shared.ours().join(name));
            symlink(&precious, shared.ours().join(name)).unwrap();
        }
        for mut file in shared.files().unwrap() {
            file.write_all(b"ours").unwrap();
        }
        let fifo = shared.fifo("7.out").unwrap();
        File::from(fifo.write).write_all(b"ours").unwrap();
        // A link that comes later is not followed either.
        fs::remove_file(shared.ours().join("7.out")).unwrap();
        symlink(&precious, shared.ours().join("7.out")).unwrap();
        assert!(shared.open_fifo("7.out", OFlags::WRONLY).is_err());
        assert!(!shared.touch_input(7));
        shared.forget(7);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
    }

    #[test]
    fn a_directory_that_was_replaced_by_a_link_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), directory.path().join("shared")).unwrap();
        assert!(shared(directory.path()).make().is_err());
        let ours = shared(directory.path());
        fs::remove_file(directory.path().join("shared")).unwrap();
        ours.make().unwrap();
        fs::rename(ours.ours(), directory.path().join("moved")).unwrap();
        symlink(elsewhere.path(), ours.ours()).unwrap();
        ours.files().unwrap();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
