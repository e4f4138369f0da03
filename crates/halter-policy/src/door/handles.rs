//! What the door hands out: files and places of files, of this machine or of
//! the place where the session's commands run.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::PolicyError;

use super::aside::AsideHere;
use super::elsewhere::{FileKind, PlacedEntry, PlacedFiles, ReadElsewhere, RenameOver};
use super::place::{DeleteHere, RenameHere};
use super::read::{DirHere, Listing, ReadHere};
use super::write::{Precondition, WriteHere, Written, temporary_name};

/// A regular file, open for reading.
#[derive(Debug)]
pub struct ReadHandle {
    content: Content,
    metadata: FileMetadata,
}

#[derive(Debug)]
enum Content {
    Here(ReadHere),
    Elsewhere(ReadElsewhere),
}

/// What is known of an open file, as of opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    size: u64,
    owner: u32,
}

impl FileMetadata {
    /// Its size in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "the size of a file")]
    pub fn len(&self) -> u64 {
        self.size
    }

    /// The number of the user it belongs to.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.owner
    }
}

impl ReadHandle {
    pub(super) fn here(file: ReadHere) -> Self {
        let metadata = FileMetadata {
            size: file.metadata().len(),
            owner: file.metadata().uid(),
        };
        Self {
            content: Content::Here(file),
            metadata,
        }
    }

    pub(super) fn elsewhere(file: ReadElsewhere) -> Self {
        let metadata = FileMetadata {
            size: file.file.len,
            owner: file.file.owner,
        };
        Self {
            content: Content::Elsewhere(file),
            metadata,
        }
    }

    /// Where the file is, free of links.
    #[must_use]
    pub fn resolved(&self) -> &Path {
        match &self.content {
            Content::Here(file) => file.resolved(),
            Content::Elsewhere(file) => &file.file.path,
        }
    }

    /// What is known of the open file, as of opening it.
    #[must_use]
    pub fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }

    /// The content; from the start, if nothing of it was read yet.
    #[must_use]
    pub fn into_reader(mut self) -> FileReader {
        if let Content::Elsewhere(file) = &mut self.content {
            file.rewind();
        }
        FileReader(self.content)
    }

    /// Reads the whole file, from its start, if it has at most `max` bytes.
    ///
    /// # Errors
    /// [`PolicyError::ReadTooLarge`] if it has more, also if it grows past
    /// the limit while it is read.
    pub fn read_bounded(&mut self, max: u64) -> Result<Vec<u8>, PolicyError> {
        match &mut self.content {
            Content::Here(file) => file.read_bounded(max),
            Content::Elsewhere(file) => file.read_bounded(max),
        }
    }

    /// The SHA-256 of the content in lower-case hex, read from the start.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sha256(&mut self) -> Result<String, PolicyError> {
        match &mut self.content {
            Content::Here(file) => file.sha256(),
            Content::Elsewhere(file) => file.sha256(),
        }
    }
}

/// The content of a file.
#[derive(Debug)]
pub struct FileReader(Content);

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Content::Here(file) => file.file().read(buffer),
            Content::Elsewhere(file) => file.read(buffer),
        }
    }
}

/// A directory that was opened.
///
/// A walk may start at [`DirHandle::path`]; each file it finds goes through
/// [`FileDoor::open_read`](super::FileDoor::open_read) again.
#[derive(Debug)]
pub struct DirHandle(Directory);

#[derive(Debug)]
enum Directory {
    Here(DirHere),
    Elsewhere {
        files: Arc<dyn PlacedFiles>,
        resolved: PathBuf,
        spelled: PathBuf,
    },
}

impl DirHandle {
    pub(super) fn here(directory: DirHere) -> Self {
        Self(Directory::Here(directory))
    }

    pub(super) fn elsewhere(
        files: &Arc<dyn PlacedFiles>,
        resolved: PathBuf,
        spelled: PathBuf,
    ) -> Self {
        Self(Directory::Elsewhere {
            files: Arc::clone(files),
            resolved,
            spelled,
        })
    }

    /// Where the directory is, absolute and free of links.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.0 {
            Directory::Here(directory) => directory.path(),
            Directory::Elsewhere { resolved, .. } => resolved,
        }
    }

    /// The directory as the caller spelled it.
    #[must_use]
    pub fn spelled(&self) -> &Path {
        match &self.0 {
            Directory::Here(directory) => directory.spelled(),
            Directory::Elsewhere { spelled, .. } => spelled,
        }
    }

    /// The files of the place it is in, if that is not this machine.
    #[must_use]
    pub fn placed(&self) -> Option<&Arc<dyn PlacedFiles>> {
        match &self.0 {
            Directory::Here(_) => None,
            Directory::Elsewhere { files, .. } => Some(files),
        }
    }

    /// The names in the directory, in order, at most `max` of them.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn entries(&self, max: usize) -> Result<Listing, PolicyError> {
        match &self.0 {
            Directory::Here(directory) => directory.entries(max),
            Directory::Elsewhere {
                files, resolved, ..
            } => files.list(resolved, max),
        }
    }

    /// Names in the directory, at most `max` of them; of this machine in no
    /// order, and no more are read.
    pub(crate) fn first_entries(&self, max: usize) -> Result<Listing, PolicyError> {
        match &self.0 {
            Directory::Here(directory) => directory.first_entries(max),
            Directory::Elsewhere { .. } => self.entries(max),
        }
    }
}

/// The right to write one file, once. Dropping it changes nothing.
#[derive(Debug)]
pub struct WriteTicket(WriteAt);

#[derive(Debug)]
enum WriteAt {
    Here(WriteHere),
    Elsewhere(Arc<dyn PlacedFiles>, PlacedEntry),
}

impl WriteTicket {
    pub(super) fn here(ticket: WriteHere) -> Self {
        Self(WriteAt::Here(ticket))
    }

    pub(super) fn elsewhere(files: &Arc<dyn PlacedFiles>, found: PlacedEntry) -> Self {
        Self(WriteAt::Elsewhere(Arc::clone(files), found))
    }

    /// Where the file is or will be, free of links.
    #[must_use]
    pub fn resolved(&self) -> &Path {
        match &self.0 {
            WriteAt::Here(ticket) => ticket.resolved(),
            WriteAt::Elsewhere(_, found) => &found.path,
        }
    }

    /// The directories that writing would create, outermost first.
    #[must_use]
    pub fn new_directories(&self) -> Vec<PathBuf> {
        match &self.0 {
            WriteAt::Here(ticket) => ticket.new_directories(),
            WriteAt::Elsewhere(_, found) => {
                let above = found.path.ancestors().skip(1).take(found.missing);
                let mut above: Vec<_> = above.map(Path::to_path_buf).collect();
                above.reverse();
                above
            }
        }
    }

    /// The file as it is now, if there is one.
    ///
    /// # Errors
    /// It cannot be opened for reading, or has become something else than a
    /// regular file.
    pub fn existing(&self) -> Result<Option<ReadHandle>, PolicyError> {
        match &self.0 {
            WriteAt::Here(ticket) => Ok(ticket.existing()?.map(ReadHandle::here)),
            WriteAt::Elsewhere(_, found) if found.missing > 0 => Ok(None),
            WriteAt::Elsewhere(files, found) => match ReadElsewhere::open(files, &found.path) {
                Ok(file) if file.file.path != found.path => Err(PolicyError::Changed {
                    path: found.path.clone(),
                }),
                Ok(file) => Ok(Some(ReadHandle::elsewhere(file))),
                Err(PolicyError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Writes the file: whole or not at all. Missing parents are created, the
    /// mode of an existing file is kept and its owner where the system allows
    /// it. The name is replaced, so another hard link keeps the old content,
    /// and a link planted at the name is replaced, not followed.
    ///
    /// # Errors
    /// The precondition does not hold, or the system refuses. In both cases
    /// nothing has changed, and no temporary file or new directory is left.
    pub fn commit(self, bytes: &[u8], precondition: Precondition) -> Result<Written, PolicyError> {
        match self.0 {
            WriteAt::Here(ticket) => ticket.commit(bytes, precondition),
            WriteAt::Elsewhere(files, found) => files.write(&found.path, bytes, &precondition),
        }
    }
}

/// The right to delete one file, link or directory, once. Dropping it changes
/// nothing.
#[derive(Debug)]
pub struct DeleteTicket(DeleteAt);

#[derive(Debug)]
enum DeleteAt {
    Here(DeleteHere),
    Elsewhere {
        files: Arc<dyn PlacedFiles>,
        found: PlacedEntry,
        /// The most names that a directory may hold, as it was last counted.
        names: AtomicUsize,
    },
}

impl DeleteTicket {
    pub(super) fn here(ticket: DeleteHere) -> Self {
        Self(DeleteAt::Here(ticket))
    }

    pub(super) fn elsewhere(files: &Arc<dyn PlacedFiles>, found: PlacedEntry) -> Self {
        Self(DeleteAt::Elsewhere {
            files: Arc::clone(files),
            found,
            names: AtomicUsize::new(0),
        })
    }

    /// What has the name is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        match &self.0 {
            DeleteAt::Here(ticket) => ticket.is_directory(),
            DeleteAt::Elsewhere { found, .. } => found.kind == Some(FileKind::Directory),
        }
    }

    /// Counts what a directory holds, all the way down; at most `max` names.
    ///
    /// # Errors
    /// There are more, one may not be changed, or the names of a directory in
    /// it may not.
    pub fn check_tree(&self, max: usize) -> Result<usize, PolicyError> {
        match &self.0 {
            DeleteAt::Here(ticket) => ticket.check_tree(max),
            DeleteAt::Elsewhere {
                files,
                found,
                names,
            } => {
                let counted = match self.is_directory() {
                    true => files.check_tree(&found.path, max)?,
                    false => 0,
                };
                names.store(max, Ordering::Relaxed);
                Ok(counted)
            }
        }
    }

    /// Takes it from its name in one step, so that it can still come back. A
    /// directory elsewhere keeps its name until it is discarded, and may hold no
    /// more than [`check_tree`](Self::check_tree) was last asked to count.
    ///
    /// # Errors
    /// Something else has taken the name, or the system refuses. Then nothing
    /// has changed.
    pub fn set_aside(self) -> Result<SetAside, PolicyError> {
        let is_directory = self.is_directory();
        match self.0 {
            DeleteAt::Here(ticket) => Ok(SetAside(AsideAt::Here(ticket.set_aside()?))),
            DeleteAt::Elsewhere {
                files,
                found,
                names,
            } if is_directory => {
                let max = names.into_inner();
                Ok(SetAside(AsideAt::Tree { files, found, max }))
            }
            DeleteAt::Elsewhere {
                files, mut found, ..
            } => {
                let name = found.path.clone();
                let aside = name.with_file_name(temporary_name());
                files.rename(&found, &aside, RenameOver::Nothing)?;
                found.path = aside;
                let held = Some(HeldAside { files, found, name });
                Ok(SetAside(AsideAt::Elsewhere(held)))
            }
        }
    }

    /// Where it is; its directory is free of links.
    #[must_use]
    pub fn resolved(&self) -> &Path {
        match &self.0 {
            DeleteAt::Here(ticket) => ticket.resolved(),
            DeleteAt::Elsewhere { found, .. } => &found.path,
        }
    }

    /// Deletes it; of directories, only an empty one. A link is deleted itself,
    /// not what it leads to.
    ///
    /// # Errors
    /// Something else has taken the name, the directory is not empty, or the
    /// system refuses. Then nothing has changed.
    pub fn commit(self) -> Result<(), PolicyError> {
        match self.0 {
            DeleteAt::Here(ticket) => ticket.commit(),
            DeleteAt::Elsewhere { files, found, .. } => files.remove(&found, None),
        }
    }
}

/// A file, link or directory that has left its name and is deleted, unless it
/// comes back. Dropping it brings it back.
#[derive(Debug)]
pub struct SetAside(AsideAt);

#[derive(Debug)]
enum AsideAt {
    Here(AsideHere),
    Elsewhere(Option<HeldAside>),
    Tree {
        files: Arc<dyn PlacedFiles>,
        found: PlacedEntry,
        max: usize,
    },
}

/// A file elsewhere that has another name meanwhile.
#[derive(Debug)]
struct HeldAside {
    files: Arc<dyn PlacedFiles>,
    found: PlacedEntry,
    /// Its own name.
    name: PathBuf,
}

impl HeldAside {
    fn put_back(self) -> Result<(), PolicyError> {
        self.files
            .rename(&self.found, &self.name, RenameOver::Nothing)
    }
}

impl SetAside {
    /// Gives it its name again.
    ///
    /// # Errors
    /// Something else has taken the name; then it keeps the one it has, which
    /// the error says.
    pub fn restore(mut self) -> Result<(), PolicyError> {
        match std::mem::replace(&mut self.0, AsideAt::Elsewhere(None)) {
            AsideAt::Here(aside) => aside.restore(),
            AsideAt::Elsewhere(Some(held)) => held.put_back(),
            AsideAt::Elsewhere(None) | AsideAt::Tree { .. } => Ok(()),
        }
    }

    /// Deletes it, a directory with all it holds; links in it are not followed.
    ///
    /// # Errors
    /// The system refuses. Then what is left has its name again.
    pub fn discard(mut self) -> Result<(), PolicyError> {
        match std::mem::replace(&mut self.0, AsideAt::Elsewhere(None)) {
            AsideAt::Here(aside) => aside.discard(),
            AsideAt::Tree { files, found, max } => files.remove(&found, Some(max)),
            AsideAt::Elsewhere(None) => Ok(()),
            AsideAt::Elsewhere(Some(held)) => match held.files.remove(&held.found, None) {
                Ok(()) => Ok(()),
                Err(error) => {
                    held.put_back()?;
                    Err(error)
                }
            },
        }
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        // Whoever wants to know how it went calls `restore`.
        if let AsideAt::Elsewhere(held) = &mut self.0
            && let Some(held) = held.take()
        {
            let _ = held.put_back();
        }
    }
}

/// The right to rename one file, once. Dropping it changes nothing.
#[derive(Debug)]
pub struct RenameTicket(RenameAt);

#[derive(Debug)]
enum RenameAt {
    Here(RenameHere),
    Elsewhere {
        files: Arc<dyn PlacedFiles>,
        found: PlacedEntry,
        to: PathBuf,
    },
}

impl RenameTicket {
    pub(super) fn here(ticket: RenameHere) -> Self {
        Self(RenameAt::Here(ticket))
    }

    pub(super) fn elsewhere(
        files: &Arc<dyn PlacedFiles>,
        found: PlacedEntry,
        to: PathBuf,
    ) -> Result<Self, PolicyError> {
        if found.kind == Some(FileKind::Directory) {
            return Err(PolicyError::NotAFile { path: found.path });
        }
        Ok(Self(RenameAt::Elsewhere {
            files: Arc::clone(files),
            found,
            to,
        }))
    }

    /// Where the file is.
    #[must_use]
    pub fn from(&self) -> &Path {
        match &self.0 {
            RenameAt::Here(ticket) => ticket.from(),
            RenameAt::Elsewhere { found, .. } => &found.path,
        }
    }

    /// Where it will be, free of links.
    #[must_use]
    pub fn to(&self) -> PathBuf {
        match &self.0 {
            RenameAt::Here(ticket) => ticket.to(),
            RenameAt::Elsewhere { to, .. } => to.clone(),
        }
    }

    /// Renames it to a name that is free; missing parents are created.
    ///
    /// # Errors
    /// The new name is taken, something else has taken the old one, or the
    /// system refuses. Then nothing has changed.
    pub fn commit_new(self) -> Result<(), PolicyError> {
        self.commit(RenameOver::Nothing)
    }

    /// Renames it, replacing a file that has the new name.
    ///
    /// # Errors
    /// As [`RenameTicket::commit_new`], except that the name may be taken.
    pub fn commit_over(self) -> Result<(), PolicyError> {
        self.commit(RenameOver::File)
    }

    pub(super) fn commit(self, over: RenameOver) -> Result<(), PolicyError> {
        match self.0 {
            RenameAt::Here(ticket) => match over {
                RenameOver::Nothing => ticket.commit_new(),
                RenameOver::File => ticket.commit_over(),
            },
            RenameAt::Elsewhere { files, found, to } => files.rename(&found, &to, over),
        }
    }
}
