//! Lines and frames out of one stream of bytes.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::limits::MAX_REPLY_BYTES;
use crate::protocol::frame::{FrameError, FrameHeader, HEADER_BYTES, MARK};

/// What a runtime sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A line of JSON, without its newline.
    Line(Bytes),
    /// A binary frame.
    Frame(FrameHeader, Bytes),
}

/// Why bytes are neither lines nor frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DemuxError {
    /// A frame is broken.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A line does not end.
    #[error("a line has more than {MAX_REPLY_BYTES} bytes")]
    LineTooLong,
}

/// Takes bytes as they come and gives lines and frames.
#[derive(Debug)]
pub struct Demux {
    buffer: BytesMut,
    /// How many bytes of the buffer are known to hold no newline.
    searched: usize,
    max_line: usize,
}

impl Default for Demux {
    fn default() -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            max_line: MAX_REPLY_BYTES,
        }
    }
}

impl Demux {
    /// More bytes have come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Where more bytes can be put.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next line or frame; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If what has come is neither.
    pub fn next_item(&mut self) -> Result<Option<Item>, DemuxError> {
        loop {
            if self.buffer.first() == Some(&MARK) {
                return self.next_frame();
            }
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(found) = fresh.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.buffer.len();
                if self.searched > self.max_line {
                    return Err(DemuxError::LineTooLong);
                }
                return Ok(None);
            };
            let end = self.searched + found;
            self.searched = 0;
            let line = self.buffer.split_to(end).freeze();
            self.buffer.advance(1);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(Item::Line(line)));
            }
        }
    }

    fn next_frame(&mut self) -> Result<Option<Item>, DemuxError> {
        let Some(header) = FrameHeader::decode(&self.buffer)? else {
            return Ok(None);
        };
        if self.buffer.len() < HEADER_BYTES + header.length {
            self.buffer
                .reserve(HEADER_BYTES + header.length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        let payload = self.buffer.split_to(header.length).freeze();
        Ok(Some(Item::Frame(header, payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Stream;
    use proptest::prelude::*;

    fn frame(payload: &[u8]) -> (FrameHeader, Vec<u8>) {
        let header = FrameHeader {
            stream_number: 7,
            stream: Stream::Stdout,
            offset: 9,
            length: payload.len(),
        };
        (header, [&header.encode()[..], payload].concat())
    }

    proptest! {
        #[test]
        fn lines_and_frames_are_found_however_they_are_cut(
            parts in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..12),
            size in 1_usize..50,
        ) {
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for (framed, payload) in parts {
                if framed {
                    let (header, encoded) = frame(&payload);
                    bytes.extend(encoded);
                    expected.push(Item::Frame(header, payload.into()));
                } else {
                    let line = format!("{{\"n\":{}}}", payload.len());
                    bytes.extend(line.as_bytes());
                    bytes.push(b'\n');
                    expected.push(Item::Line(line.into()));
                }
            }
            let (mut demux, mut found) = (Demux::default(), Vec::new());
            for chunk in bytes.chunks(size) {
                demux.push(chunk);
                while let Some(item) = demux.next_item().unwrap() {
                    found.push(item);
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_line_is_held_to_its_limit_and_no_longer() {
        let mut demux = Demux::default();
        assert_eq!(demux.max_line, MAX_REPLY_BYTES);
        demux.max_line = 10;
        demux.push(&[b'x'; 10]);
        assert_eq!(demux.next_item(), Ok(None));
        demux.push(b"x");
        assert_eq!(demux.next_item(), Err(DemuxError::LineTooLong));
    }
}
