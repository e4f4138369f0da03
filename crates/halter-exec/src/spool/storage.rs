//! The two files of a stream, and the one place that writes them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::limits::SPLICE_BYTES;
use crate::sys::{self, Moved};

/// What a stream that lost bytes has in its memory file behind the head: how
/// many bytes are kept, and how many were dropped without passing through the
/// overflow file.
const TRAILER_BYTES: usize = 16;

/// Space is given back in units of this size at most.
const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct Storage {
    head: Arc<File>,
    head_bytes: u64,
    overflow: Option<Arc<File>>,
    overflow_path: Option<PathBuf>,
    quota: u64,
    stored: u64,
    /// Dropped bytes that went through the overflow file and left a hole: its
    /// size counts them, exactly, whenever this program dies.
    in_hole: u64,
    /// Those that could not.
    uncounted: u64,
    problem: Option<String>,
    nowhere: Option<File>,
}

impl Storage {
    /// The storage of a stream that has not begun.
    pub(super) fn new(
        head: Arc<File>,
        head_bytes: u64,
        overflow_path: Option<PathBuf>,
        quota: u64,
    ) -> Self {
        Self {
            head,
            head_bytes,
            overflow: None,
            overflow_path,
            quota,
            stored: 0,
            in_hole: 0,
            uncounted: 0,
            problem: None,
            nowhere: None,
        }
    }

    /// How many bytes were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.in_hole + self.uncounted
    }

    /// Finds what an earlier program has kept.
    pub(super) fn take_up(&mut self) -> io::Result<()> {
        sys::settle(&self.head)?;
        let in_head = self.head.metadata()?.len();
        let mut in_file = 0;
        if let Some(path) = &self.overflow_path {
            match overflow_options().open(path) {
                Ok(file) => {
                    sys::settle(&file)?;
                    in_file = file.metadata()?.len();
                    self.overflow = Some(Arc::new(file));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.stored = in_head.min(self.head_bytes).max(in_file);
        if in_head > self.head_bytes {
            let mut trailer = [0; TRAILER_BYTES];
            self.head.read_exact_at(&mut trailer, self.head_bytes)?;
            let [stored, uncounted] = trailer_numbers(trailer);
            self.stored = stored;
            self.in_hole = in_file.saturating_sub(stored);
            self.uncounted = uncounted;
            // Nothing can be kept after a gap.
            self.quota = stored;
        }
        Ok(())
    }

    pub(super) fn head(&self) -> &Arc<File> {
        &self.head
    }

    pub(super) fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    pub(super) fn overflow_path(&self) -> Option<&Path> {
        self.overflow_path.as_deref()
    }

    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    pub(super) fn overflow(&self) -> Option<&Arc<File>> {
        self.overflow.as_ref()
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(super) fn is_full(&self) -> bool {
        self.room() == 0
    }

    pub(super) fn prepare_file(&mut self) -> bool {
        match self.opened_overflow() {
            Ok(_) => true,
            Err(error) => {
                self.give_up(&error);
                false
            }
        }
    }

    /// How many more bytes may be kept where the next one goes.
    fn room(&self) -> u64 {
        let in_head = self.head_bytes.min(self.quota).saturating_sub(self.stored);
        if in_head > 0 {
            return in_head;
        }
        if self.overflow_path.is_none() {
            return 0;
        }
        self.quota.saturating_sub(self.stored)
    }

    /// Moves what there is to where it belongs, or to nowhere.
    pub(super) fn take(&mut self, pipe: impl AsFd) -> io::Result<Moved> {
        let room = self.room();
        if room > 0 {
            match self.keep(&pipe, room.min(SPLICE_BYTES)) {
                Ok(moved) => {
                    if let Moved::Bytes(count) = moved {
                        self.stored += count;
                    }
                    return Ok(moved);
                }
                Err(error) => self.give_up(&error),
            }
        }
        self.lose(pipe)
    }

    /// Moves bytes that are not kept.
    fn lose(&mut self, pipe: impl AsFd) -> io::Result<Moved> {
        if self.quota != self.stored || self.in_hole + self.uncounted == 0 {
            // Noted before the first one goes.
            self.quota = self.stored;
            self.write_trailer();
        }
        if let Some(file) = self.overflow.clone().filter(|_| self.problem.is_none()) {
            let from = self.stored + self.in_hole;
            match sys::splice(&pipe, &*file, Some(from), SPLICE_BYTES) {
                Ok(Moved::Bytes(count)) => {
                    self.in_hole += count;
                    // The page the last hole ended in is whole by now.
                    let start = (from - from % PAGE_BYTES).max(self.stored);
                    sys::punch_hole(&file, start, from + count - start);
                    return Ok(Moved::Bytes(count));
                }
                Ok(other) => return Ok(other),
                Err(error) => self.give_up(&error),
            }
        }
        let nowhere = match &mut self.nowhere {
            Some(nowhere) => nowhere,
            none => none.insert(OpenOptions::new().write(true).open("/dev/null")?),
        };
        let moved = sys::splice(pipe, nowhere, None, SPLICE_BYTES)?;
        if let Moved::Bytes(count) = moved {
            self.note_dropped(count);
        }
        Ok(moved)
    }

    fn keep(&mut self, pipe: impl AsFd, room: u64) -> io::Result<Moved> {
        if self.stored < self.head_bytes {
            return sys::splice(pipe, &*self.head, Some(self.stored), room);
        }
        if self.overflow.is_none() {
            // No file for nothing.
            let waiting = sys::waiting_in(&pipe)?;
            if !matches!(waiting, Moved::Bytes(_)) {
                return Ok(waiting);
            }
        }
        let file = self.opened_overflow()?;
        sys::splice(pipe, &*file, Some(self.stored), room)
    }

    fn opened_overflow(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.overflow {
            return Ok(Arc::clone(file));
        }
        let path = self.overflow_path.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let file = overflow_options().create(true).open(path)?;
        let file = Arc::new(file);
        self.overflow = Some(Arc::clone(&file));
        Ok(file)
    }

    /// From here on everything is dropped: one gap, at the end, is what a
    /// reader can understand.
    fn give_up(&mut self, error: &io::Error) {
        let path = self.overflow_path.as_deref().unwrap_or("memory".as_ref());
        self.problem = Some(format!(
            "output could not be kept in {}: {error}",
            path.display()
        ));
        self.quota = self.stored;
    }

    /// Counts bytes that went elsewhere, where a later program finds it.
    pub(super) fn note_dropped(&mut self, count: u64) {
        self.uncounted += count;
        self.quota = self.stored;
        self.write_trailer();
    }

    fn write_trailer(&self) {
        let mut trailer = [0; TRAILER_BYTES];
        let (stored, uncounted) = trailer.split_at_mut(8);
        stored.copy_from_slice(&self.stored.to_le_bytes());
        uncounted.copy_from_slice(&self.uncounted.to_le_bytes());
        if let Err(error) = self.head.write_all_at(&trailer, self.head_bytes) {
            tracing::debug!(%error, "dropped output not noted");
        }
    }

    /// Has all kept bytes in the overflow file, and says where that is; `None`
    /// if there are none.
    pub(super) fn move_to_file(&mut self) -> io::Result<Option<PathBuf>> {
        if self.stored == 0 {
            let made = self.overflow.as_ref().and(self.overflow_path.as_ref());
            return Ok(made.cloned());
        }
        let file = self.opened_overflow()?;
        file.write_all_at(&self.in_memory(self.stored)?, 0)?;
        Ok(self.overflow_path.clone())
    }

    /// The kept bytes that are in memory, of the first `limit`.
    fn in_memory(&self, limit: u64) -> io::Result<Vec<u8>> {
        let count = limit.min(self.stored).min(self.head_bytes);
        let mut buffer = vec![0; usize::try_from(count).unwrap_or(0)];
        self.head.read_exact_at(&mut buffer, 0)?;
        Ok(buffer)
    }

    /// Writes the part in memory into the hole it has in the overflow file.
    pub(super) fn complete_file(&mut self, limit: u64) -> io::Result<Arc<File>> {
        let file = self.opened_overflow()?;
        file.write_all_at(&self.in_memory(limit)?, 0)?;
        file.set_len(self.stored.min(limit))?;
        self.quota = self.stored;
        Ok(file)
    }
}

/// The file of a closed stream. Nothing but a file is opened, and no link
/// followed, whatever somebody put there.
pub(super) fn open_to_read(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Not for appending, which `splice` cannot do, and never through a link
/// somebody put there.
fn overflow_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW);
    options
}

fn trailer_numbers(trailer: [u8; TRAILER_BYTES]) -> [u64; 2] {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (stored, dropped) = trailer.split_at(8);
    [number(stored), number(dropped)]
}
