//! Server-sent events: bytes in any pieces to whole events.
//!
//! Follows the event stream format of the HTML standard: lines end in CR, LF
//! or CRLF, a byte order mark at the start is skipped, comments and unknown
//! fields are ignored, several `data` lines are joined by newlines. Two things
//! differ on purpose: an event is bounded in size, and one that the end of the
//! stream finds without its blank line is still delivered, because model
//! servers forget it.

use crate::limits::SSE_EVENT_BYTES;
use crate::wire::SseEvent;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Cuts a stream of bytes into events.
///
/// ```
/// use halter_providers::sse::{SseError, SseParser};
///
/// let mut parser = SseParser::new();
/// let mut seen = Vec::new();
/// for piece in [&b"event: greet\nda"[..], b"ta: hel", b"lo\r\n\r\n"] {
///     parser.feed(piece, |event| {
///         seen.push((event.name.to_owned(), event.data.to_owned()));
///         Ok::<(), SseError>(())
///     })?;
/// }
/// assert_eq!(seen, [("greet".to_owned(), "hello".to_owned())]);
/// # Ok::<(), SseError>(())
/// ```
#[derive(Debug, Default)]
pub struct SseParser {
    /// What came of a line that is not complete yet.
    line: Vec<u8>,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    /// The first line, which may begin with a byte order mark, is over.
    started: bool,
    name: Vec<u8>,
    /// The `data` lines of the event, joined.
    data: Option<Vec<u8>>,
}

impl SseParser {
    /// A parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece of the stream and hands on the events it
    /// completes. An error of `sink` ends the feeding and is returned.
    pub fn feed<E: From<SseError>>(
        &mut self,
        mut piece: &[u8],
        mut sink: impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr && !piece.is_empty() {
            self.after_cr = false;
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            let (head, tail) = piece.split_at(end);
            self.grow_line(head)?;
            self.end_line(&mut sink)?;
            piece = match tail {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.grow_line(piece)
    }

    /// The stream has ended: hands on an event that lacks its blank line.
    pub fn finish<E: From<SseError>>(
        &mut self,
        mut sink: impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.line.is_empty() {
            self.end_line(&mut sink)?;
        }
        self.deliver(&mut sink)
    }

    fn grow_line<E: From<SseError>>(&mut self, bytes: &[u8]) -> Result<(), E> {
        let event = self.name.len() + self.data.as_ref().map_or(0, Vec::len);
        if event + self.line.len() + bytes.len() > SSE_EVENT_BYTES {
            return Err(SseError::EventTooLarge.into());
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line<E: From<SseError>>(
        &mut self,
        sink: &mut impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if line.is_empty() {
            return self.deliver(sink);
        }
        let colon = memchr::memchr(b':', &line).unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match (field, &mut self.data) {
            (b"data", None) => self.data = Some(value.to_vec()),
            (b"data", Some(data)) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            (b"event", _) => self.name = value.to_vec(),
            _ => {}
        }
        // The room is used again for the next line.
        line.clear();
        self.line = line;
        Ok(())
    }

    /// Hands on the event, if it has data, and begins the next.
    fn deliver<E: From<SseError>>(
        &mut self,
        sink: &mut impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let name = std::mem::take(&mut self.name);
        let Some(data) = self.data.take() else {
            return Ok(());
        };
        sink(&SseEvent {
            name: &String::from_utf8_lossy(&name),
            data: &String::from_utf8_lossy(&data),
        })
    }
}

/// Why a stream cannot be cut into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// An event is larger than [`SSE_EVENT_BYTES`].
    #[error("the server sent an event of more than {SSE_EVENT_BYTES} bytes")]
    EventTooLarge,
}

impl SseError {
    /// The stable reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::EventTooLarge => "event_too_large",
        }
    }
}

#[cfg(test)]
mod tests;
