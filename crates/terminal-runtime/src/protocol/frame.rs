//! Binary frames: output without the cost of JSON strings, on connections
//! that said `hello` with `frames: true`.
//!
//! A frame is a header of [`HEADER_BYTES`] bytes, numbers with the lowest byte
//! first, and its payload:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | 0, which no line of JSON starts with |
//! | 1 | 1 for standard output, 2 for standard error |
//! | 2..4 | 0 |
//! | 4..8 | length of the payload |
//! | 8..16 | number of the stream: the hexadecimal digits of its `stream_id` |
//! | 16..24 | offset of the first byte of the payload |

use crate::exec::Stream;
use crate::limits::MAX_FRAME_BYTES;

/// The length of a header.
pub const HEADER_BYTES: usize = 24;

/// What the first byte of a frame is.
pub const MARK: u8 = 0;

/// The start of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The number of the stream it belongs to.
    pub stream_number: u64,
    /// Which of the command's streams.
    pub stream: Stream,
    /// Where the payload's first byte stands.
    pub offset: u64,
    /// How long the payload is, in bytes.
    pub length: usize,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The first byte is another one.
    #[error("a frame starts with byte 0, not {found}")]
    NotAFrame {
        /// What was there.
        found: u8,
    },
    /// The kind is none of this version.
    #[error("a frame of kind {kind} is unknown; both sides must speak the same version")]
    UnknownKind {
        /// The bytes 1 to 4 as a number.
        kind: u32,
    },
    /// The payload would be larger than allowed.
    #[error("a frame of {length} bytes is announced, the limit is {MAX_FRAME_BYTES}")]
    TooLong {
        /// The announced length.
        length: usize,
    },
}

impl FrameError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NotAFrame { .. } => "not_a_frame",
            Self::UnknownKind { .. } => "unknown_frame_kind",
            Self::TooLong { .. } => "frame_too_long",
        }
    }
}

impl FrameHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let kind = match self.stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        };
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        let mut bytes = [0; HEADER_BYTES];
        let fields = [MARK, kind, 0, 0]
            .into_iter()
            .chain(length.to_le_bytes())
            .chain(self.stream_number.to_le_bytes())
            .chain(self.offset.to_le_bytes());
        for (place, byte) in bytes.iter_mut().zip(fields) {
            *place = byte;
        }
        bytes
    }

    /// Reads a header; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the bytes are no frame.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, FrameError> {
        match bytes.first() {
            None => return Ok(None),
            Some(&MARK) => {}
            Some(&found) => return Err(FrameError::NotAFrame { found }),
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [_, a, b, c, l0, l1, l2, l3, rest @ ..] = *header;
        let [
            n0,
            n1,
            n2,
            n3,
            n4,
            n5,
            n6,
            n7,
            o0,
            o1,
            o2,
            o3,
            o4,
            o5,
            o6,
            o7,
        ] = rest;
        let stream = match u32::from_le_bytes([a, b, c, 0]) {
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong { length });
        }
        Ok(Some(Self {
            stream_number: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]),
            stream,
            offset: u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            length,
        }))
    }
}

/// A whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'bytes> {
    /// Its header.
    pub header: FrameHeader,
    /// Its payload.
    pub payload: &'bytes [u8],
}

impl<'bytes> Frame<'bytes> {
    /// How many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }

    /// The frame at the start of these bytes; `None` if more are needed.
    ///
    /// # Errors
    /// If the bytes are no frame.
    pub fn decode(bytes: &'bytes [u8]) -> Result<Option<Self>, FrameError> {
        let Some(header) = FrameHeader::decode(bytes)? else {
            return Ok(None);
        };
        let end = HEADER_BYTES + header.length;
        Ok(bytes
            .get(HEADER_BYTES..end)
            .map(|payload| Self { header, payload }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(length: usize) -> FrameHeader {
        FrameHeader {
            stream_number: 0x0102_0304_0506_0708,
            stream: Stream::Stderr,
            offset: 0x1112_1314_1516_1718,
            length,
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = frame(0x0a0b).encode();
        assert_eq!(bytes[..8], [0, 2, 0, 0, 0x0b, 0x0a, 0, 0]);
        assert_eq!(bytes[8..16], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(
            bytes[16..],
            [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]
        );
    }

    #[test]
    fn a_part_of_a_frame_asks_for_more() {
        let mut bytes = frame(3).encode().to_vec();
        bytes.extend(b"abcrest");
        for length in 0..HEADER_BYTES + 3 {
            assert_eq!(Frame::decode(&bytes[..length]), Ok(None), "{length}");
        }
        let whole = Frame::decode(&bytes).unwrap().unwrap();
        assert_eq!(
            (whole.header, whole.payload, whole.size()),
            (frame(3), &b"abc"[..], 27)
        );
    }

    #[test]
    fn a_payload_is_allowed_to_its_limit_and_no_longer() {
        let largest = frame(MAX_FRAME_BYTES);
        assert_eq!(FrameHeader::decode(&largest.encode()), Ok(Some(largest)));
        let length = MAX_FRAME_BYTES + 1;
        let error = FrameHeader::decode(&frame(length).encode());
        assert_eq!(error, Err(FrameError::TooLong { length }));
    }

    #[test]
    fn what_is_no_frame_is_said() {
        assert_eq!(
            Frame::decode(b"{\"id\""),
            Err(FrameError::NotAFrame { found: b'{' })
        );
        let mut bytes = frame(0).encode();
        bytes[1] = 9;
        assert_eq!(
            Frame::decode(&bytes),
            Err(FrameError::UnknownKind { kind: 9 })
        );
    }

    proptest! {
        #[test]
        fn headers_read_back(number: u64, offset: u64, length in 0_usize..=MAX_FRAME_BYTES, first: bool) {
            let stream = if first { Stream::Stdout } else { Stream::Stderr };
            let header = FrameHeader { stream_number: number, stream, offset, length };
            prop_assert_eq!(FrameHeader::decode(&header.encode()), Ok(Some(header)));
        }
    }
}
