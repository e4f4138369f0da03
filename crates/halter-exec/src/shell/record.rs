//! What a shell says on its record channel: no I/O here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::limits::MAX_RECORD_BYTES;

/// The end of a command: its name, how it ended, and where the shell is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndRecord {
    pub nonce: String,
    pub status: i32,
    pub cwd: PathBuf,
}

impl EndRecord {
    fn parse(raw: &[u8]) -> Option<Self> {
        let rest = raw.strip_prefix(b"E ")?;
        let mut parts = rest.splitn(3, |byte| *byte == b' ');
        let nonce = String::from_utf8(parts.next()?.to_vec()).ok()?;
        let status = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let cwd = OsString::from_vec(parts.next()?.to_vec()).into();
        Some(Self { nonce, status, cwd })
    }
}

/// The stream of records, cut at its NUL bytes; garbage is passed over.
#[derive(Debug, Default)]
pub(super) struct RecordBuffer {
    bytes: Vec<u8>,
}

impl RecordBuffer {
    pub(super) fn accept(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Only a command that forges records writes that much without an end.
        if self.bytes.len() > MAX_RECORD_BYTES && !self.bytes.contains(&0) {
            self.bytes.clear();
        }
    }

    pub(super) fn next(&mut self) -> Option<EndRecord> {
        loop {
            let end = self.bytes.iter().position(|byte| *byte == 0)?;
            let record = EndRecord::parse(self.bytes.get(..end).unwrap_or_default());
            self.bytes.drain(..=end);
            if record.is_some() {
                return record;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: i32) -> EndRecord {
        EndRecord {
            nonce: "abc".to_owned(),
            status,
            cwd: PathBuf::from("/tmp/a b"),
        }
    }

    #[test]
    fn records_are_read_and_garbage_is_passed_over() {
        let mut buffer = RecordBuffer::default();
        for garbage in [
            &b""[..],
            b"E",
            b"E abc",
            b"E abc x /",
            b"X abc 0 /",
            b"E \xff 0 /",
        ] {
            buffer.accept(garbage);
            buffer.accept(b"\0");
        }
        buffer.accept(b"E abc 7 /tmp/a b\0E abc 8 /tmp");
        assert_eq!(buffer.next(), Some(record(7)));
        assert_eq!(buffer.next(), None);
        buffer.accept(b"/a b\0");
        assert_eq!(buffer.next(), Some(record(8)));
    }

    #[test]
    fn what_never_ends_is_dropped_at_the_limit() {
        let mut buffer = RecordBuffer::default();
        buffer.accept(&vec![b'x'; MAX_RECORD_BYTES]);
        assert_eq!(buffer.bytes.len(), MAX_RECORD_BYTES);
        buffer.accept(b"x");
        assert_eq!(buffer.bytes.len(), 0);
        buffer.accept(b"E abc 0 /tmp/a b\0");
        assert_eq!(buffer.next(), Some(record(0)));
    }
}
