//! Reading a stream from an offset.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::{Spool, SpoolSegment};
use crate::sys::{self, Moved};

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

/// The next piece of a stream, for those who need not look at it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SpoolPart {
    /// Where its bytes lie.
    Segment(SpoolSegment),
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
        match self.find(limit).await {
            SpoolPart::Segment(segment) => self.read(segment).await,
            SpoolPart::Gap { from, to } => {
                self.offset = to;
                Ok(SpoolChunk::Gap { from, to })
            }
            SpoolPart::End => Ok(SpoolChunk::End),
        }
    }

    /// The same piece as [`next`](Self::next) would return, as it lies. To
    /// [send](SpoolSegment::send_to) it does not wait for the disk, unless
    /// memory is very scarce.
    ///
    /// # Errors
    /// If kept bytes cannot be read.
    pub async fn next_part(&mut self, limit: usize) -> io::Result<SpoolPart> {
        let part = self.find(limit).await;
        match &part {
            SpoolPart::Segment(segment) => {
                if !segment.is_cached()? {
                    let copy = segment.clone();
                    let read = move || read_waiting(&copy).map(drop);
                    let read = tokio::task::spawn_blocking(read);
                    read.await.map_err(io::Error::other)??;
                }
                self.offset += segment.length;
            }
            SpoolPart::Gap { to, .. } => self.offset = *to,
            SpoolPart::End => {}
        }
        Ok(part)
    }

    /// Waits until there is a piece.
    async fn find(&self, limit: usize) -> SpoolPart {
        let (spool, offset) = (&self.spool, self.offset);
        spool
            .when(|| match spool.segment(offset, limit as u64) {
                Some(segment) => Some(SpoolPart::Segment(segment)),
                None => without_bytes(spool, offset),
            })
            .await
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
            None => Ok(match without_bytes(&self.spool, self.offset) {
                Some(SpoolPart::Gap { from, to }) => {
                    self.offset = to;
                    Some(SpoolChunk::Gap { from, to })
                }
                Some(_) => Some(SpoolChunk::End),
                None => None,
            }),
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
}

impl SpoolSegment {
    /// Whether its ends are in memory, and so probably all of it.
    fn is_cached(&self) -> io::Result<bool> {
        let last = self.offset + self.length.saturating_sub(1);
        for offset in [last, self.offset] {
            if sys::read_cached(&self.file, &mut [0], offset)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends as much to a socket that does not block as it has room for now,
    /// after the first `sent` bytes.
    ///
    /// # Errors
    /// `Unsupported` where bytes have to be read to be sent; otherwise what
    /// the system says.
    pub fn send_to(&self, socket: impl AsFd, sent: u64) -> io::Result<Moved> {
        let limit = self.length.saturating_sub(sent);
        match sys::send_part(&self.file, self.offset + sent, socket, limit)? {
            Moved::End if limit > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            moved => Ok(moved),
        }
    }

    /// What comes after the first `sent` bytes, in memory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_after(&self, sent: u64) -> io::Result<Bytes> {
        let length = self.length.saturating_sub(sent);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, self.offset + sent)?;
        Ok(bytes.into())
    }
}

/// What there is to say at an offset where no byte can be read.
fn without_bytes(spool: &Spool, offset: u64) -> Option<SpoolPart> {
    let progress = spool.progress();
    if offset >= progress.stored && offset < progress.total {
        return Some(SpoolPart::Gap {
            from: offset,
            to: progress.total,
        });
    }
    (progress.finished && offset >= progress.total).then_some(SpoolPart::End)
}

fn read_waiting(segment: &SpoolSegment) -> io::Result<(Vec<u8>, usize)> {
    let mut buffer = vec![0; usize::try_from(segment.length).unwrap_or(usize::MAX)];
    let count = segment.file.read_at(&mut buffer, segment.offset)?;
    Ok((buffer, count))
}
