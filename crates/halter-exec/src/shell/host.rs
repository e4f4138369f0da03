//! What a shell needs from the place it runs in.
//!
//! The logic of a persistent shell is the same everywhere; how its process
//! is made, how it is given files and streams, and who moves the bytes is
//! not. [`LocalHost`](super::LocalHost) does it within this program; a daemon
//! has another process own everything, so that the shell outlives it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ShellConfig;
use super::state::ShellState;
use crate::environment::Environment;
use crate::error::ExecError;
use crate::exit::ExitStatus;
use crate::spawn::find_program;
use crate::sys::Signal;
use crate::tree::TreeControl;

/// The place a persistent shell runs in.
pub trait ShellHost: Send {
    /// A shell that was started here.
    type Process: ShellProcess;

    /// The files the shell and this program share for as long as the shell
    /// lives. Asked for once, before the first process.
    fn files(&mut self) -> impl Future<Output = Result<ShellFiles, ExecError>> + Send;

    /// Starts a shell process.
    fn launch(
        &mut self,
        launch: &ShellLaunch<'_>,
    ) -> impl Future<Output = Result<Self::Process, ExecError>> + Send;

    /// Takes a shell that has ended; what it started may still run and goes
    /// on.
    fn retire(&mut self, process: Self::Process);

    /// Brings down a shell with everything it started, and waits for that.
    fn end(&mut self, process: Self::Process) -> impl Future<Output = ()> + Send;

    /// Called with the state of the shell whenever it has changed, and before
    /// anything is said to the shell that depends on it. Whoever stores it can
    /// [adopt](super::ShellDriver::adopt) the shell later.
    fn remember(&mut self, _state: &ShellState) {}

    /// The shell program, as the shell's surroundings name it.
    ///
    /// # Errors
    /// If there is none.
    fn find_shell(&self, config: &ShellConfig) -> Result<PathBuf, ExecError> {
        let find = |name: &OsStr| find_program(name, &config.environment, &config.cwd);
        match &config.program {
            Some(program) => find(program.as_os_str()),
            None => find(OsStr::new("bash")).or_else(|_| find(OsStr::new("sh"))),
        }
    }

    /// Which directory the shell finds under this name; `None` if that cannot
    /// be told from here, which leaves it to the shell to complain.
    ///
    /// # Errors
    /// If it is missing, not a directory, or out of reach.
    fn directory(&self, path: &Path) -> io::Result<Option<DirectoryIdentity>> {
        DirectoryIdentity::of(path).map(Some)
    }
}

impl DirectoryIdentity {
    /// That of the directory that this program finds under this name.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        if found.is_dir() {
            Ok(Self {
                device: found.dev(),
                inode: found.ino(),
            })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }
}

/// A directory, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryIdentity {
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// A shell process to be made.
///
/// Its descriptor 0 is the read end of a pipe whose write end takes
/// [`ShellProcess::send`]; 1 and 2 are `/dev/null`; [`RECORD_FD`] is the write
/// end of the pipe behind [`ShellProcess::records`]. It leads a session and a
/// tree of its own.
///
/// [`RECORD_FD`]: Self::RECORD_FD
#[derive(Debug)]
#[non_exhaustive]
pub struct ShellLaunch<'a> {
    /// The program, as [`ShellHost::find_shell`] found it.
    pub program: &'a Path,
    /// Its arguments, without the program itself.
    pub arguments: &'a [OsString],
    /// All the variables it starts with.
    pub environment: &'a Environment,
    /// The directory it starts in.
    pub cwd: &'a Path,
}

impl ShellLaunch<'_> {
    /// The descriptor the shell answers on.
    pub const RECORD_FD: i32 = 9;
}

/// A shell process, by whatever handle its host has.
pub trait ShellProcess: Send + Sync {
    /// Its number, as this program sees it.
    fn pid(&self) -> i32;

    /// Whether that is only the number of a client of it, so that nothing can
    /// be told from what this process does.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Writes to its descriptor 0, all of it; what is sent always fits into
    /// an empty pipe.
    ///
    /// # Errors
    /// If nobody can read it any more.
    fn send(&self, lines: &[u8]) -> io::Result<()>;

    /// The same for lines that need not arrive before the next ones: a host
    /// may send both together.
    ///
    /// # Errors
    /// If nobody can read it any more.
    fn send_later(&self, lines: &[u8]) -> io::Result<()> {
        self.send(lines)
    }

    /// How many bytes of what was sent the shell has not read yet.
    ///
    /// # Errors
    /// If the channel cannot be asked.
    fn unread(&self) -> io::Result<usize>;

    /// The next bytes of its records; `None` when the process has ended and
    /// everything it said has been returned. Nothing may be lost if the future
    /// is dropped.
    fn records(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Returns when the process has ended.
    fn exited(&self) -> impl Future<Output = ()> + Send;

    /// Whether it has ended.
    fn has_exited(&self) -> bool;

    /// Whether its host has lost hold of it: here it counts as ended, but it may
    /// go on with another driver, and its files are that one's.
    fn is_lost(&self) -> bool {
        false
    }

    /// How it ended; asked only after it has.
    ///
    /// # Errors
    /// If nobody knows.
    fn exit_status(&self) -> Result<ExitStatus, ExecError>;

    /// Signals the shell alone.
    fn signal(&self, signal: Signal);

    /// What runs in its tree besides the shell.
    fn followers(&self) -> EarlierProcesses;

    /// How many processes of its tree there are besides the shell, the
    /// earlier and what descends from these.
    fn count_others(&self, earlier: &EarlierProcesses) -> usize;

    /// Signals all that [`count_others`](Self::count_others) counts. None may
    /// slip through a KILL by forking.
    fn signal_others(&self, signal: Signal, earlier: &EarlierProcesses);

    /// How the tree is held together.
    fn tree_control(&self) -> TreeControl;
}

/// Processes that were there before a command, by number and start time: a
/// signal to the command passes them by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierProcesses {
    /// The number, and the start time in the unit of `/proc/<pid>/stat`.
    pub processes: HashSet<(i32, u64)>,
}

/// A file that this program and the shell both reach.
#[derive(Debug)]
pub struct SharedFile {
    file: File,
    path: PathBuf,
}

impl SharedFile {
    /// `file` is readable and writable and is what the shell opens at `path`.
    pub fn new(file: impl Into<File>, path: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            path: path.into(),
        }
    }

    /// Where the shell finds it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces its content.
    pub(super) fn write(&self, content: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(content, 0)
    }

    pub(super) fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)
    }

    pub(super) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() == 0)
    }

    /// Its content, or `None` if it is larger than `limit` bytes.
    pub(super) fn read(&self, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let size = self.file.metadata()?.len();
        let Some(size) = usize::try_from(size).ok().filter(|size| *size <= limit) else {
            return Ok(None);
        };
        let mut content = vec![0; size];
        let mut filled = 0;
        while let Some(rest) = content.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        content.truncate(filled);
        Ok(Some(content))
    }
}

/// The files a shell and its driver share. Empty at first; they hold the
/// shell's state, variables and all, so they belong in memory, or where nobody
/// else can read.
#[derive(Debug)]
pub struct ShellFiles {
    /// What is too long to be said on descriptor 0.
    pub mailbox: SharedFile,
    /// Two snapshots of the state, written in turn so that one is whole.
    pub turns: [SharedFile; 2],
    /// The state a shell leaves when it exits.
    pub exit: SharedFile,
}

/// Where the shell opens a command's streams.
#[derive(Debug, Clone, Copy)]
pub struct CommandStreams<'a> {
    /// What the command reads: a file, or a pipe that somebody feeds.
    pub stdin: &'a Path,
    /// Where its output goes.
    pub stdout: &'a Path,
    /// Where its errors go.
    pub stderr: &'a Path,
}
