//! Reading a stream from an offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use super::{Segment, Spool};
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

/// What is at an offset.
enum Found {
    Bytes(Segment),
    Gap { from: u64, to: u64 },
    End,
}

/// A place in a stream. It costs nothing while nobody reads, and nobody waits
/// for it.
#[derive(Debug, Clone)]
pub struct SpoolReader {
    spool: Spool,
    offset: u64,
    /// The file of a closed stream: it may be removed while it is read.
    opened: Option<Arc<File>>,
}

impl SpoolReader {
    pub(super) fn new(spool: Spool, offset: u64) -> Self {
        Self {
            spool,
            offset,
            opened: None,
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
        let (spool, offset, opened) = (&self.spool, self.offset, &mut self.opened);
        let find = || find(spool, offset, limit, opened).transpose();
        let found = spool.when(find).await;
        match found? {
            Found::Bytes(segment) => self.read(segment).await,
            Found::Gap { from, to } => Ok(self.skip(from, to)),
            Found::End => Ok(SpoolChunk::End),
        }
    }

    /// The next piece that is there already; `None` if that is none. May wait
    /// for the disk.
    ///
    /// # Errors
    /// If kept bytes cannot be read.
    pub fn try_next(&mut self, limit: usize) -> io::Result<Option<SpoolChunk>> {
        match find(&self.spool, self.offset, limit, &mut self.opened)? {
            Some(Found::Bytes(segment)) => {
                let (buffer, count) = read_waiting(&segment)?;
                self.advance(buffer, count).map(Some)
            }
            Some(Found::Gap { from, to }) => Ok(Some(self.skip(from, to))),
            Some(Found::End) => Ok(Some(SpoolChunk::End)),
            None => Ok(None),
        }
    }

    fn skip(&mut self, from: u64, to: u64) -> SpoolChunk {
        self.offset = to;
        SpoolChunk::Gap { from, to }
    }

    async fn read(&mut self, segment: Segment) -> io::Result<SpoolChunk> {
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
}

/// What there is at an offset; `None` if nothing is yet.
fn find(
    spool: &Spool,
    offset: u64,
    limit: usize,
    opened: &mut Option<Arc<File>>,
) -> io::Result<Option<Found>> {
    if let Some(segment) = spool.segment(offset, limit as u64, opened)? {
        return Ok(Some(Found::Bytes(segment)));
    }
    let progress = spool.progress();
    if offset >= progress.stored && offset < progress.total {
        return Ok(Some(Found::Gap {
            from: offset,
            to: progress.total,
        }));
    }
    let is_over = progress.finished && offset >= progress.total;
    Ok(is_over.then_some(Found::End))
}

fn read_waiting(segment: &Segment) -> io::Result<(Vec<u8>, usize)> {
    let mut buffer = vec![0; usize::try_from(segment.length).unwrap_or(usize::MAX)];
    let count = segment.file.read_at(&mut buffer, segment.offset)?;
    Ok((buffer, count))
}
