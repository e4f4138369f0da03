//! What a shell says on its record channel: no I/O here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::limits::MAX_RECORD_BYTES;

/// The end of a command: how it ended, and where the shell is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndRecord {
    pub status: i32,
    /// Whether the shell takes itself for interrupted until it is told
    /// otherwise.
    pub interrupted: bool,
    pub cwd: PathBuf,
}

/// The status of a command that was interrupted.
const INTERRUPTED: i32 = 130;

impl EndRecord {
    /// The record of this name. It may stand behind bytes that a command has
    /// forged; the name itself cannot be.
    fn find(raw: &[u8], nonce: &str) -> Option<Self> {
        let start = format!("E {nonce} ").into_bytes();
        let at = raw
            .windows(start.len())
            .position(|window| window == start)?;
        let mut parts = raw.get(at + start.len()..)?.splitn(2, |byte| *byte == b' ');
        let status = std::str::from_utf8(parts.next()?).ok()?;
        let (status, interrupted) = match status.strip_suffix('!') {
            Some(_) => (INTERRUPTED, true),
            None => (status.parse().ok()?, false),
        };
        let cwd = OsString::from_vec(parts.next()?.to_vec()).into();
        Some(Self {
            status,
            interrupted,
            cwd,
        })
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
        // The end that belongs to us fits into what is kept.
        if self.bytes.len() > MAX_RECORD_BYTES && !self.bytes.contains(&0) {
            let kept = self.bytes.len() - MAX_RECORD_BYTES;
            self.bytes.drain(..kept);
        }
    }

    /// The first record of this name; all before it is dropped.
    pub(super) fn next(&mut self, nonce: &str) -> Option<EndRecord> {
        loop {
            let end = self.bytes.iter().position(|byte| *byte == 0)?;
            let raw = self.bytes.get(..end).unwrap_or_default();
            let record = EndRecord::find(raw, nonce);
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
            status,
            interrupted: false,
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
            b"E other 0 /",
            b"E \xff 0 /",
        ] {
            buffer.accept(garbage);
            buffer.accept(b"\0");
        }
        buffer.accept(b"E abc 7 /tmp/a b\0E def 8 /tmp");
        assert_eq!(buffer.next("abc"), Some(record(7)));
        assert_eq!(buffer.next("def"), None);
        buffer.accept(b"/a b\0");
        assert_eq!(buffer.next("def"), Some(record(8)));
    }

    #[test]
    fn an_interrupted_shell_says_so() {
        let mut buffer = RecordBuffer::default();
        buffer.accept(b"E abc 7! /tmp/a b\0");
        let interrupted = EndRecord {
            interrupted: true,
            ..record(130)
        };
        assert_eq!(buffer.next("abc"), Some(interrupted));
    }

    #[test]
    fn what_was_forged_before_a_record_does_not_hide_it() {
        let mut buffer = RecordBuffer::default();
        buffer.accept(b"E forged 0 /E abc 3 /tmp/a b\0");
        assert_eq!(buffer.next("abc"), Some(record(3)));
        buffer.accept(&vec![b'x'; MAX_RECORD_BYTES]);
        assert_eq!(buffer.bytes.len(), MAX_RECORD_BYTES);
        buffer.accept(b"E abc 0");
        assert_eq!(buffer.bytes.len(), MAX_RECORD_BYTES);
        buffer.accept(b" /tmp/a b\0");
        assert_eq!(buffer.next("abc"), Some(record(0)));
        assert_eq!(buffer.bytes.len(), 0);
    }
}
