//! Output that is kept: one append-only stream, its first bytes in memory,
//! the rest in a file, read by anybody from any offset.
//!
//! Bytes get here by `splice` and are never in this program's own memory, so
//! that none is lost if it is killed. Readers are offsets: replaying, fanning
//! out, falling behind and ten gigabytes are the same thing, and none of them
//! makes the writer wait.

mod reader;
mod storage;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

pub use reader::{SpoolChunk, SpoolReader};
use storage::Storage;

use crate::limits::SPOOL_HEAD_BYTES;
use crate::sys::{self, Moved};

/// One kept stream. Clones are the same stream.
///
/// The bytes at the beginning are in a memory file, those after them in the
/// overflow file, at the same offsets. What does not fit the quota, or a full
/// disk, is counted and shows up as one gap that begins where the kept bytes
/// end.
///
/// After a crash a spool is opened from the same memory file and path, and
/// holds every byte that had left the pipe.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use halter_exec::host::{Moved, Spool, SpoolChunk};
/// use std::io::Write;
///
/// let directory = tempfile::tempdir().unwrap();
/// let overflow = directory.path().join("stdout");
/// let spool = Spool::new(Spool::memory_file().unwrap(), overflow, 1 << 30).unwrap();
///
/// let (pipe, mut child) = std::io::pipe().unwrap();
/// child.write_all(b"hello").unwrap();
/// assert_eq!(spool.splice_from(&pipe).unwrap(), Moved::Bytes(5));
///
/// let mut reader = spool.reader(1);
/// let bytes = b"ello"[..].into();
/// assert_eq!(reader.next(100).await.unwrap(), SpoolChunk::Data { offset: 1, bytes });
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Spool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None` once the stream is closed.
    storage: Mutex<Option<Storage>>,
    /// Where readers find bytes without asking the writer. Taken after
    /// `storage` where both are.
    files: Mutex<Files>,
    head_bytes: u64,
    progress: Mutex<Progress>,
    /// Tells readers that wait of progress.
    came: Notify,
}

/// Where the bytes of a stream are.
#[derive(Debug)]
enum Files {
    Open {
        head: Arc<File>,
        overflow: Option<Arc<File>>,
    },
    /// All in this file, which a reader opens; `None` if there are none.
    Closed(Option<PathBuf>),
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SpoolProgress {
    /// Bytes that are kept: all from the first on.
    pub stored: u64,
    /// Bytes that came, those in the gap included.
    pub total: u64,
    /// Whether no more will come.
    pub finished: bool,
}

type Progress = SpoolProgress;

/// A part of a stream within one of its files.
#[derive(Debug, Clone)]
struct Segment {
    file: Arc<File>,
    /// Where in the file, and in the stream, the part begins.
    offset: u64,
    length: u64,
}

impl Spool {
    /// A stream whose first [`SPOOL_HEAD_BYTES`] are kept in `memory` and the
    /// rest in a file at `overflow`, made when it is needed, up to `quota`
    /// bytes together. Without `overflow` nothing is kept beyond the memory.
    ///
    /// Both may hold a stream already, left by a program that crashed: it is
    /// taken up where it ends.
    ///
    /// # Errors
    /// If what is there cannot be read.
    pub fn new(memory: File, overflow: impl Into<Option<PathBuf>>, quota: u64) -> io::Result<Self> {
        let head = Arc::new(memory);
        let mut storage = Storage::new(head, SPOOL_HEAD_BYTES, overflow.into(), quota);
        storage.take_up()?;
        Ok(Self::of(storage))
    }

    /// A stream that has not begun: `memory` is empty, and nothing is at
    /// `overflow`, which is not looked at. Otherwise as [`new`](Self::new).
    #[must_use]
    pub fn begin(memory: File, overflow: impl Into<Option<PathBuf>>, quota: u64) -> Self {
        Self::begin_with_head(memory, SPOOL_HEAD_BYTES, overflow.into(), quota)
    }

    /// The same with another size of the part in memory.
    pub(crate) fn begin_with_head(
        memory: File,
        head_bytes: u64,
        overflow: Option<PathBuf>,
        quota: u64,
    ) -> Self {
        Self::of(Storage::new(Arc::new(memory), head_bytes, overflow, quota))
    }

    fn of(storage: Storage) -> Self {
        let stored = storage.stored();
        let progress = Progress {
            stored,
            total: stored + storage.dropped(),
            finished: false,
        };
        let files = Files::Open {
            head: Arc::clone(storage.head()),
            overflow: storage.overflow().cloned(),
        };
        let head_bytes = storage.head_bytes();
        Self::with(Some(storage), files, head_bytes, progress)
    }

    /// A stream that has ended and been [closed](Self::close) by an earlier
    /// program: `stored` bytes in the file at `path`, of `total` that came.
    #[must_use]
    pub fn closed(path: PathBuf, stored: u64, total: u64) -> Self {
        let progress = Progress {
            stored,
            total,
            finished: true,
        };
        let files = Files::Closed((stored > 0).then_some(path));
        Self::with(None, files, 0, progress)
    }

    fn with(storage: Option<Storage>, files: Files, head_bytes: u64, progress: Progress) -> Self {
        Self {
            shared: Arc::new(Shared {
                storage: Mutex::new(storage),
                files: Mutex::new(files),
                head_bytes,
                progress: Mutex::new(progress),
                came: Notify::new(),
            }),
        }
    }

    /// An empty memory file for a new spool.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn memory_file() -> io::Result<File> {
        sys::memory_file("halter-spool")
    }

    /// Moves what is in a pipe now, or a part of it, without waiting for
    /// more; may wait for a disk that is overloaded once the stream has
    /// outgrown the memory. Bytes that cannot be kept are moved too, so that
    /// whoever writes them can go on.
    ///
    /// # Errors
    /// If the pipe cannot be read. Trouble with the file is none: it shows in
    /// [`problem`](Self::problem) and as a gap.
    pub fn splice_from(&self, pipe: impl AsFd) -> io::Result<Moved> {
        let mut storage = self.lock();
        let Some(storage) = &mut *storage else {
            return Ok(Moved::End);
        };
        let moved = storage.take(pipe)?;
        if let Moved::Bytes(count) = moved {
            if let Some(file) = storage.overflow() {
                self.show_overflow(file);
            }
            let stored = storage.stored();
            self.advance(|progress| {
                progress.stored = stored;
                progress.total += count;
            });
        }
        Ok(moved)
    }

    /// Lets readers find what is in the overflow file.
    fn show_overflow(&self, file: &Arc<File>) {
        if let Files::Open { overflow, .. } = &mut *lock(&self.shared.files) {
            overflow.get_or_insert_with(|| Arc::clone(file));
        }
    }

    /// Counts bytes that came and went elsewhere. Nothing is kept after them.
    pub(crate) fn skip(&self, count: u64) {
        if let Some(storage) = &mut *self.lock() {
            storage.note_dropped(count);
        }
        self.advance(|progress| progress.total += count);
    }

    /// Whether the next bytes can no longer be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().as_ref().is_none_or(Storage::is_full)
    }

    /// Whether the next bytes go to the file.
    pub(crate) fn is_in_file(&self) -> bool {
        self.progress().stored >= self.shared.head_bytes
    }

    /// Makes the file now, so that no move makes it later; `false` if that
    /// cannot be done, and nothing more kept.
    pub(crate) fn prepare_file(&self) -> bool {
        self.lock().as_mut().is_some_and(Storage::prepare_file)
    }

    /// Says that no more will come: readers at the end see it.
    pub fn finish(&self) {
        self.advance(|progress| progress.finished = true);
    }

    /// Closes the files of a stream that has ended, for one that is kept and
    /// may never be read again. What is in memory goes to the overflow file;
    /// whoever reads opens that.
    ///
    /// # Errors
    /// If the file cannot be written. The stream stays as it was then.
    pub fn close(&self) -> io::Result<()> {
        let mut storage = self.lock();
        if let Some(open) = &mut *storage {
            let path = open.move_to_file()?;
            *lock(&self.shared.files) = Files::Closed(path);
            *storage = None;
        }
        Ok(())
    }

    /// How far the stream has come.
    #[must_use]
    pub fn progress(&self) -> SpoolProgress {
        *lock(&self.shared.progress)
    }

    /// How many bytes came so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.progress().total
    }

    /// Why fewer bytes are kept than the quota allows, if writing failed.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let storage = self.lock();
        Some(storage.as_ref()?.problem()?.to_owned())
    }

    /// Somebody who reads from `offset` on, at their own pace.
    #[must_use]
    pub fn reader(&self, offset: u64) -> SpoolReader {
        SpoolReader::new(self.clone(), offset)
    }

    /// Where up to `limit` kept bytes from `offset` on lie, as far as they
    /// are in one file; `None` if there are none. The file of a closed stream
    /// is opened once, into `opened`.
    fn segment(
        &self,
        offset: u64,
        limit: u64,
        opened: &mut Option<Arc<File>>,
    ) -> io::Result<Option<Segment>> {
        let stored = self.progress().stored;
        let Some(available) = stored.checked_sub(offset).filter(|length| *length > 0) else {
            return Ok(None);
        };
        let files = lock(&self.shared.files);
        let (file, available) = match &*files {
            Files::Open { head, .. } if offset < self.shared.head_bytes => {
                let in_head = self.shared.head_bytes - offset;
                (Some(Arc::clone(head)), available.min(in_head))
            }
            Files::Open { overflow, .. } => (overflow.clone(), available),
            Files::Closed(path) => {
                if let (None, Some(path)) = (&opened, path) {
                    *opened = Some(Arc::new(storage::open_to_read(path)?));
                }
                (opened.clone(), available)
            }
        };
        Ok(file.map(|file| Segment {
            file,
            offset,
            length: available.min(limit),
        }))
    }

    /// The kept bytes from `from` up to `to`, in memory.
    pub(crate) fn read_range(&self, from: u64, to: u64) -> io::Result<Bytes> {
        use std::os::unix::fs::FileExt;
        let mut bytes = Vec::new();
        let mut offset = from;
        let mut opened = None;
        while let Some(segment) = self.segment(offset, to.saturating_sub(offset), &mut opened)?
            && segment.length > 0
        {
            let start = bytes.len();
            let length = usize::try_from(segment.length).unwrap_or(usize::MAX);
            bytes.resize(start + length, 0);
            let part = bytes.get_mut(start..).unwrap_or_default();
            segment.file.read_exact_at(part, segment.offset)?;
            offset += segment.length;
        }
        Ok(bytes.into())
    }

    /// Puts the kept bytes, up to `limit`, into the overflow file, made if
    /// there was none yet, and says where it is. `None` if the spool has no
    /// such file. Nothing can be kept afterwards.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn complete_file(&self, limit: u64) -> io::Result<Option<PathBuf>> {
        let mut storage = self.lock();
        let Some(storage) = &mut *storage else {
            return Ok(None);
        };
        let Some(path) = storage.overflow_path().map(ToOwned::to_owned) else {
            return Ok(None);
        };
        let file = storage.complete_file(limit)?;
        self.show_overflow(&file);
        Ok(Some(path))
    }

    /// Deletes the overflow file, if there is one. Readers that are at it may
    /// go on.
    ///
    /// # Errors
    /// If it is there and stays.
    pub fn remove(&self) -> io::Result<()> {
        let storage = self.lock();
        let files = lock(&self.shared.files);
        let path = match (&*storage, &*files) {
            // Without a file in our hands there is none by that name.
            (Some(storage), _) => storage.overflow().and_then(|_| storage.overflow_path()),
            (None, Files::Closed(path)) => path.as_deref(),
            (None, Files::Open { .. }) => None,
        };
        match path.map_or(Ok(()), std::fs::remove_file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn advance(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.shared.progress));
        self.shared.came.notify_waiters();
    }

    /// Waits until `found` finds something.
    async fn when<Found>(&self, mut found: impl FnMut() -> Option<Found>) -> Found {
        loop {
            let mut came = std::pin::pin!(self.shared.came.notified());
            // From here on nothing that comes is missed.
            came.as_mut().enable();
            if let Some(found) = found() {
                return found;
            }
            came.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Storage>> {
        lock(&self.shared.storage)
    }
}

fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
