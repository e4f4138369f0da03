//! Reading a stream from an offset.

use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use tokio::sync::watch;

use super::{Progress, Spool, SpoolSegment};
use crate::sys;

/// The next piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolChunk {
    /// Bytes of the stream.
    Data {
        /// Where the first of them stands.
        offset: u64,
        /// They themselves.
        bytes: Bytes,
    },
    /// Bytes that came and were not kept; there may be more after them.
    Gap {
        /// The first that is missing.
        from: u64,
        /// The first after them.
        to: u64,
    },
    /// There is nothing more, and nothing will come.
    End,
}

/// A place in a stream. It costs nothing while nobody reads, and nobody waits
/// for it.
#[derive(Debug, Clone)]
pub struct SpoolReader {
    spool: Spool,
    progress: watch::Receiver<Progress>,
    offset: u64,
}

impl SpoolReader {
    pub(super) fn new(spool: Spool, offset: u64) -> Self {
        let progress = spool.watch();
        Self {
            spool,
            progress,
            offset,
        }
    }

    /// Where the next byte it reads stands.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next piece, of at most `limit` bytes; waits until there is one.
    /// Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If kept bytes cannot be read.
    pub async fn next(&mut self, limit: usize) -> io::Result<SpoolChunk> {
        loop {
            self.progress.borrow_and_update();
            if let Some(segment) = self.spool.segment(self.offset, limit as u64) {
                return self.read(segment).await;
            }
            if let Some(chunk) = self.without_bytes() {
                return Ok(chunk);
            }
            if self.progress.changed().await.is_err() {
                return Ok(SpoolChunk::End);
            }
        }
    }

    /// The next piece that is there already; `None` if that is none. May wait
    /// for the disk.
    ///
    /// # Errors
    /// If kept bytes cannot be read.
    pub fn try_next(&mut self, limit: usize) -> io::Result<Option<SpoolChunk>> {
        match self.spool.segment(self.offset, limit as u64) {
            Some(segment) => {
                let (buffer, count) = read_waiting(&segment)?;
                self.advance(buffer, count).map(Some)
            }
            None => Ok(self.without_bytes()),
        }
    }

    /// Waits until there is something to read, a gap or the end.
    pub async fn ready(&mut self) {
        loop {
            let progress = *self.progress.borrow_and_update();
            if self.offset < progress.total || progress.finished {
                return;
            }
            if self.progress.changed().await.is_err() {
                return;
            }
        }
    }

    /// Moves to where bytes that were taken otherwise end.
    pub fn skip_to(&mut self, offset: u64) {
        self.offset = offset;
    }

    async fn read(&mut self, segment: SpoolSegment) -> io::Result<SpoolChunk> {
        let mut buffer = vec![0; usize::try_from(segment.length).unwrap_or(usize::MAX)];
        let (buffer, count) = match sys::read_cached(&segment.file, &mut buffer, segment.offset)? {
            Some(count) => (buffer, count),
            None => tokio::task::spawn_blocking(move || read_waiting(&segment))
                .await
                .map_err(io::Error::other)??,
        };
        self.advance(buffer, count)
    }

    fn advance(&mut self, mut buffer: Vec<u8>, count: usize) -> io::Result<SpoolChunk> {
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.truncate(count);
        let offset = self.offset;
        self.offset += count as u64;
        Ok(SpoolChunk::Data {
            offset,
            bytes: buffer.into(),
        })
    }

    /// What there is to say where no byte can be read.
    fn without_bytes(&mut self) -> Option<SpoolChunk> {
        let progress = *self.progress.borrow();
        if self.offset >= progress.stored && self.offset < progress.total {
            let from = self.offset;
            self.offset = progress.total;
            return Some(SpoolChunk::Gap {
                from,
                to: progress.total,
            });
        }
        (progress.finished && self.offset >= progress.total).then_some(SpoolChunk::End)
    }
}

fn read_waiting(segment: &SpoolSegment) -> io::Result<(Vec<u8>, usize)> {
    let mut buffer = vec![0; usize::try_from(segment.length).unwrap_or(usize::MAX)];
    let count = segment.file.read_at(&mut buffer, segment.offset)?;
    Ok((buffer, count))
}
