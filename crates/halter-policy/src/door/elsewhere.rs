//! Files that are not this machine's: those of the place where a session's
//! commands run.
//!
//! A door that has a [`FilePlace`] judges a path here, as spelled, and has the
//! place resolve and open it under the same [`FileRules`]. Where that led is
//! judged here again before anything of it is used. A change names the place
//! that was judged and follows no link on the way to it.

use std::fmt::Debug;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use halter_protocol::ContentHash;
use rustix::fs::FileType;

use crate::error::{Access, PolicyError};
use crate::limits::FILE_PIECE_BYTES;

use super::read::Listing;
use super::write::{Precondition, Written};

/// A place whose files are not those of this machine.
pub trait FilePlace: Send + Sync + Debug {
    /// The files there, for a session with these rules. Blocking.
    ///
    /// # Errors
    /// The place cannot be reached, or the rules cannot be held there.
    fn open(&self, rules: FileRules) -> Result<Arc<dyn PlacedFiles>, PolicyError>;
}

/// A [`FilePlace`] as part of a session's scope; equal to itself only.
#[derive(Debug, Clone)]
pub struct SessionFiles(pub Arc<dyn FilePlace>);

impl PartialEq for SessionFiles {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SessionFiles {}

/// What a session may do with files, as data that another machine can hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FileRules {
    /// The session's directory, absolute.
    pub working_dir: PathBuf,
    /// Directories that may be read and written, absolute.
    pub write_roots: Vec<PathBuf>,
    /// Directories that may be read, absolute.
    pub read_roots: Vec<PathBuf>,
    /// As `policy.sensitive_path_patterns`: absent, the built-in list.
    pub sensitive: Option<Vec<String>>,
    /// Files and directories that stay closed.
    pub closed: Vec<PathBuf>,
    /// The user's home directory, in which closed files usually lie.
    pub home: Option<PathBuf>,
}

/// The files of a place, under rules. Paths are absolute. Blocking.
pub trait PlacedFiles: Send + Sync + Debug {
    /// Where a path leads, and what is there.
    ///
    /// # Errors
    /// The rules forbid it, or it leads nowhere.
    fn look(&self, path: &Path, access: Access) -> Result<PlacedEntry, PolicyError>;
    /// What has this name, to be changed. A link stands for itself.
    ///
    /// # Errors
    /// The rules forbid it, or nothing has the name.
    fn look_name(&self, path: &Path) -> Result<PlacedEntry, PolicyError>;
    /// A part of a file, at most `max` bytes; with a `version`, only of that.
    ///
    /// # Errors
    /// The rules forbid it, or it is no file or another version.
    fn read(
        &self,
        path: &Path,
        offset: u64,
        max: usize,
        version: Option<&str>,
    ) -> Result<FilePiece, PolicyError>;
    /// Puts a whole file in place, or changes nothing. The path is one that
    /// [`look`](Self::look) gave.
    ///
    /// # Errors
    /// As [`super::WriteTicket::commit`]; also if a link has been put on the
    /// way.
    fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        precondition: &Precondition,
    ) -> Result<Written, PolicyError>;
    /// The names in a directory, in order, at most `max` of them.
    ///
    /// # Errors
    /// The rules forbid it, or it is no directory.
    fn list(&self, path: &Path, max: usize) -> Result<Listing, PolicyError>;
    /// What lies below a directory, as a search walks it.
    ///
    /// # Errors
    /// The rules forbid it, or it is no directory.
    fn walk(&self, path: &Path, plan: &PlacedWalkPlan) -> Result<PlacedWalk, PolicyError>;
    /// Counts what a directory holds, before it is deleted.
    ///
    /// # Errors
    /// As [`super::DeleteTicket::check_tree`].
    fn check_tree(&self, path: &Path, max: usize) -> Result<usize, PolicyError>;
    /// Deletes what [`look_name`](Self::look_name) found; a directory with all
    /// it holds if `tree` is the most names that may be.
    ///
    /// # Errors
    /// Something else has the name, or the system refuses.
    fn remove(&self, found: &PlacedEntry, tree: Option<usize>) -> Result<(), PolicyError>;
    /// Renames what [`look_name`](Self::look_name) found to a name that is free,
    /// or over another file.
    ///
    /// # Errors
    /// As [`super::RenameTicket::commit_new`].
    fn rename(&self, found: &PlacedEntry, to: &Path, over: RenameOver) -> Result<(), PolicyError>;
    /// Creates a directory and its missing parents. Gives whether it is new.
    ///
    /// # Errors
    /// As [`super::FileDoor::create_dir`].
    fn create_dir(&self, path: &Path) -> Result<bool, PolicyError>;
}

/// Which names a walk elsewhere gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacedWalkPlan {
    /// A glob pattern; hidden names are left out unless it mentions them.
    pub hidden: String,
    /// How deep below the directory.
    pub max_depth: Option<usize>,
    /// The most names.
    pub max: usize,
}

/// What a walk elsewhere found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacedWalk {
    /// All names below the directory, each directory before what it holds.
    pub entries: Vec<WalkedEntry>,
    /// Names that were left out because of the rules.
    pub closed: usize,
    /// Names that could not be looked at.
    pub unreadable: usize,
    /// There are more than were asked for.
    pub is_cut: bool,
}

/// One name that a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkedEntry {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// When its content last changed.
    pub modified: Option<SystemTime>,
}

/// Whether a rename may replace a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameOver {
    /// The new name must be free.
    Nothing,
    /// A file of that name is replaced.
    File,
}

/// What a path leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacedEntry {
    /// Where it is; free of links, but for the name of a link itself.
    pub path: PathBuf,
    /// What is there; absent: nothing.
    pub kind: Option<FileKind>,
    /// How many of the last directories of the path do not exist.
    pub missing: usize,
    /// Size in bytes.
    pub len: u64,
    /// The number of its owner.
    pub owner: u32,
    /// What tells it from everything else that could have its name.
    pub identity: String,
    /// Changes with its content.
    pub version: String,
}

impl PlacedEntry {
    /// Whether a directory is there.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == Some(FileKind::Directory)
    }
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// The file.
    pub file: PlacedEntry,
    /// The bytes; fewer than asked for only at the end.
    pub bytes: Vec<u8>,
}

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// Something else.
    Other,
}

impl FileKind {
    /// The name on the wire and in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Other => "other",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let known = [
            Self::File,
            Self::Directory,
            Self::Link,
            Self::Fifo,
            Self::Socket,
            Self::Device,
        ];
        let found = known.into_iter().find(|kind| kind.name() == name);
        found.unwrap_or(Self::Other)
    }

    pub(super) const fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Self::Device,
            FileType::Unknown => Self::Other,
        }
    }

    pub(super) const fn file_type(self) -> FileType {
        match self {
            Self::File => FileType::RegularFile,
            Self::Directory => FileType::Directory,
            Self::Link => FileType::Symlink,
            Self::Fifo => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::Device => FileType::CharacterDevice,
            Self::Other => FileType::Unknown,
        }
    }
}

/// What tells a directory of this machine from every other, also to another
/// process that sees it by another name; absent where that cannot be said.
#[must_use]
pub fn directory_mark(path: &Path) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let found = std::fs::metadata(path).ok()?;
    Some(format!("{}-{}-{}", boot.trim(), found.dev(), found.ino()))
}

/// A file elsewhere that is read piece by piece.
#[derive(Debug)]
pub(super) struct ReadElsewhere {
    pub(super) files: Arc<dyn PlacedFiles>,
    pub(super) file: PlacedEntry,
    /// The piece that was fetched last, and where it starts.
    piece: Vec<u8>,
    start: u64,
    position: u64,
}

impl ReadElsewhere {
    /// Opens a file by fetching its first piece.
    pub(super) fn open(files: &Arc<dyn PlacedFiles>, path: &Path) -> Result<Self, PolicyError> {
        let FilePiece { file, bytes } = files.read(path, 0, FILE_PIECE_BYTES, None)?;
        Ok(Self {
            files: Arc::clone(files),
            file,
            piece: bytes,
            start: 0,
            position: 0,
        })
    }

    pub(super) fn rewind(&mut self) {
        self.position = 0;
    }

    pub(super) fn read_bounded(&mut self, max: u64) -> Result<Vec<u8>, PolicyError> {
        if self.file.len > max {
            return Err(PolicyError::ReadTooLarge {
                path: self.file.path.clone(),
                bytes: self.file.len,
                max,
            });
        }
        self.rewind();
        let mut bytes = Vec::with_capacity(usize::try_from(self.file.len).unwrap_or_default());
        while let piece = self.next_piece()?
            && !piece.is_empty()
        {
            bytes.extend_from_slice(piece);
            let count = piece.len() as u64;
            self.position += count;
        }
        Ok(bytes)
    }

    pub(super) fn sha256(&mut self) -> Result<String, PolicyError> {
        self.rewind();
        let mut hash = ContentHash::default();
        while let piece = self.next_piece()?
            && !piece.is_empty()
        {
            hash.update(piece);
            let count = piece.len() as u64;
            self.position += count;
        }
        Ok(hash.hex())
    }

    /// What is there from the position on; empty at the end. All pieces are of
    /// one version of the file.
    fn next_piece(&mut self) -> Result<&[u8], PolicyError> {
        let end = self.start + self.piece.len() as u64;
        let is_held = (self.start..end).contains(&self.position);
        if !is_held && self.position < self.file.len {
            let version = Some(self.file.version.as_str());
            let path = &self.file.path;
            let piece = self
                .files
                .read(path, self.position, FILE_PIECE_BYTES, version)?;
            self.piece = piece.bytes;
            self.start = self.position;
        }
        let skipped = usize::try_from(self.position.saturating_sub(self.start));
        let skipped = skipped.unwrap_or(usize::MAX);
        Ok(self.piece.get(skipped..).unwrap_or_default())
    }
}

impl Read for ReadElsewhere {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.next_piece().map_err(|error| match error {
            PolicyError::Changed { .. } => {
                io::Error::new(io::ErrorKind::StaleNetworkFileHandle, error)
            }
            error => io::Error::new(io::ErrorKind::ConnectionAborted, error),
        })?;
        let count = piece.len().min(buffer.len());
        let (Some(from), Some(to)) = (piece.get(..count), buffer.get_mut(..count)) else {
            return Ok(0);
        };
        to.copy_from_slice(from);
        self.position += count as u64;
        Ok(count)
    }
}
