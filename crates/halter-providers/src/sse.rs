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
use std::borrow::Cow;
use std::ops::Range;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Cuts a stream of bytes into events.
///
/// An event that lies in one piece of input, as nearly all do, is handed on
/// without being copied.
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
    /// What came of an event that is not complete yet.
    carried: Vec<u8>,
    scan: Scan,
    started: bool,
}

/// How far an event is known. Positions count from the start of the event.
#[derive(Debug, Default)]
struct Scan {
    /// Where the line that is not complete yet begins.
    line: usize,
    /// Up to where that line is known to have no end.
    searched: usize,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    name: Option<Range<usize>>,
    /// The only `data` line so far.
    data: Option<Range<usize>>,
    /// All `data` lines, once there are several.
    joined: Vec<u8>,
    several: bool,
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
        piece: &[u8],
        mut sink: impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.carried.is_empty() {
            let used = self.take(piece, &mut sink)?;
            self.carried
                .extend_from_slice(piece.get(used..).unwrap_or(&[]));
        } else {
            let mut bytes = std::mem::take(&mut self.carried);
            bytes.extend_from_slice(piece);
            let used = self.take(&bytes, &mut sink)?;
            bytes.drain(..used);
            self.carried = bytes;
        }
        if self.carried.len() > SSE_EVENT_BYTES {
            return Err(SseError::EventTooLarge.into());
        }
        Ok(())
    }

    /// The stream has ended: hands on an event that lacks its blank line.
    pub fn finish<E: From<SseError>>(
        &mut self,
        mut sink: impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bytes = std::mem::take(&mut self.carried);
        let mut scan = std::mem::take(&mut self.scan);
        if let Some(line) = bytes.get(scan.line..).filter(|line| !line.is_empty()) {
            let start = scan.line;
            scan.field(&bytes, start..start + line.len());
        }
        scan.deliver(&bytes, &mut sink)
    }

    /// Reads whole events; returns how many bytes they and what separates
    /// them take up.
    fn take<E: From<SseError>>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut event = 0;
        if !self.started {
            let Some(skipped) = skip_byte_order_mark(bytes) else {
                return Ok(0);
            };
            self.started = true;
            event = skipped;
        }
        loop {
            let Some(rest) = bytes.get(event..) else {
                return Ok(event);
            };
            match self.scan.next_line(rest) {
                Line::Incomplete => return Ok(event),
                Line::Skip(to) => event += to,
                Line::Field => {
                    if rest.len() > SSE_EVENT_BYTES && self.scan.line > SSE_EVENT_BYTES {
                        return Err(SseError::EventTooLarge.into());
                    }
                }
                Line::Blank(to) => {
                    self.scan.deliver(rest, sink)?;
                    event += to;
                }
            }
        }
    }
}

/// What the next line of an event is.
enum Line {
    /// Its end has not arrived.
    Incomplete,
    /// Nothing of the event is known yet, nor after this line: it begins at
    /// this position.
    Skip(usize),
    /// A field, or a comment within an event.
    Field,
    /// The end of the event; the next one begins at this position.
    Blank(usize),
}

impl Scan {
    fn next_line(&mut self, event: &[u8]) -> Line {
        if self.after_cr && event.len() > self.line {
            self.after_cr = false;
            if event.get(self.line) == Some(&b'\n') {
                self.line += 1;
                self.searched = self.searched.max(self.line);
                if self.is_empty() {
                    return self.skip();
                }
            }
        }
        let from = self.searched.max(self.line);
        let Some(found) = event
            .get(from..)
            .and_then(|tail| memchr::memchr2(b'\n', b'\r', tail))
        else {
            self.searched = event.len();
            return Line::Incomplete;
        };
        let end = from + found;
        let line = self.line..end;
        self.after_cr = event.get(end) == Some(&b'\r');
        self.line = end + 1;
        self.searched = self.line;
        if line.is_empty() {
            return Line::Blank(self.line);
        }
        self.field(event, line);
        if self.is_empty() {
            return self.skip();
        }
        Line::Field
    }

    fn is_empty(&self) -> bool {
        self.name.is_none() && self.data.is_none()
    }

    fn skip(&mut self) -> Line {
        self.searched = 0;
        Line::Skip(std::mem::take(&mut self.line))
    }

    fn field(&mut self, event: &[u8], line: Range<usize>) {
        let Some(text) = event.get(line.clone()) else {
            return;
        };
        let (name, value) = match memchr::memchr(b':', text) {
            Some(colon) => {
                let space = usize::from(text.get(colon + 1) == Some(&b' '));
                (text.get(..colon), line.start + colon + 1 + space..line.end)
            }
            None => (Some(text), line.end..line.end),
        };
        match name {
            Some(b"data") => self.data_line(event, value),
            Some(b"event") => self.name = Some(value),
            _ => {}
        }
    }

    fn data_line(&mut self, event: &[u8], value: Range<usize>) {
        let Some(first) = self.data.clone() else {
            self.data = Some(value);
            return;
        };
        if !self.several {
            self.several = true;
            self.joined.clear();
            self.joined
                .extend_from_slice(event.get(first).unwrap_or(&[]));
        }
        self.joined.push(b'\n');
        self.joined
            .extend_from_slice(event.get(value).unwrap_or(&[]));
    }

    /// Hands on the event, if it has data, and begins the next.
    fn deliver<E: From<SseError>>(
        &mut self,
        event: &[u8],
        sink: &mut impl FnMut(&SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let name = self.name.take().and_then(|range| event.get(range));
        let single = self.data.take().and_then(|range| event.get(range));
        let several = std::mem::take(&mut self.several);
        self.line = 0;
        self.searched = 0;
        let Some(single) = single else {
            return Ok(());
        };
        let data = if several { &self.joined } else { single };
        if data.len() > SSE_EVENT_BYTES {
            return Err(SseError::EventTooLarge.into());
        }
        sink(&SseEvent {
            name: &lossy(name.unwrap_or(&[])),
            data: &lossy(data),
        })
    }
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// How many bytes a mark at the start takes up; none while that is open.
fn skip_byte_order_mark(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        Some(BYTE_ORDER_MARK.len())
    } else if BYTE_ORDER_MARK.starts_with(bytes) {
        None
    } else {
        Some(0)
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
