//! Reading a stream from an offset.

use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::{Spool, SpoolSegment};
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
    offset: u64,
}

impl SpoolReader {
    pub(super) fn new(spool: Spool, offset: u64) -> Self {
        Self { spool, offset }
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
        let spool = &self.spool;
        let offset = self.offset;
        let found = spool.when(|| match spool.segment(offset, limit as u64) {
            Some(segment) => Some(Ok(segment)),
            None => without_bytes(spool, offset).map(Err),
        });
        match found.await {
            Ok(segment) => self.read(segment).await,
            Err(chunk) => Ok(self.past(chunk)),
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
            None => Ok(without_bytes(&self.spool, self.offset).map(|chunk| self.past(chunk))),
        }
    }

    /// Waits until there is something to read, a gap or the end.
    pub async fn ready(&self) {
        let something = || {
            let progress = self.spool.progress();
            (self.offset < progress.total || progress.finished).then_some(())
        };
        self.spool.when(something).await;
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

    /// Goes on after a piece that has no bytes.
    fn past(&mut self, chunk: SpoolChunk) -> SpoolChunk {
        if let SpoolChunk::Gap { to, .. } = chunk {
            self.offset = to;
        }
        chunk
    }
}

/// What there is to say at an offset where no byte can be read.
fn without_bytes(spool: &Spool, offset: u64) -> Option<SpoolChunk> {
    let progress = spool.progress();
    if offset >= progress.stored && offset < progress.total {
        return Some(SpoolChunk::Gap {
            from: offset,
            to: progress.total,
        });
    }
    (progress.finished && offset >= progress.total).then_some(SpoolChunk::End)
}

fn read_waiting(segment: &SpoolSegment) -> io::Result<(Vec<u8>, usize)> {
    let mut buffer = vec![0; usize::try_from(segment.length).unwrap_or(usize::MAX)];
    let count = segment.file.read_at(&mut buffer, segment.offset)?;
    Ok((buffer, count))
}
