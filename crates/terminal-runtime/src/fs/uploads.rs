//! Writes that come in parts: kept in memory until the last part is there.

use std::collections::HashMap;
use std::time::Instant;

use crate::limits::{FILE_UPLOAD_AGE, MAX_FILE_UPLOADS, MAX_FILE_WRITE_BYTES, MAX_UPLOADED_BYTES};
use crate::protocol::{ErrorCode, WireError};

/// The parts that came so far, by the names of their writes.
#[derive(Default)]
pub(super) struct Uploads {
    begun: HashMap<String, Upload>,
}

struct Upload {
    bytes: Vec<u8>,
    /// When its last part came.
    last: Instant,
}

/// Contents of files may be secret.
impl std::fmt::Debug for Uploads {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.begun.iter();
        let names = names.map(|(name, upload)| (name, upload.bytes.len()));
        formatter.debug_map().entries(names).finish()
    }
}

impl Uploads {
    /// Adds a part. Gives the size by now.
    pub(super) fn add(
        &mut self,
        name: &str,
        offset: u64,
        part: &[u8],
        now: Instant,
    ) -> Result<u64, WireError> {
        // Whoever sent no more is gone.
        self.begun
            .retain(|_, upload| now.duration_since(upload.last) < FILE_UPLOAD_AGE);
        let kept: usize = self.begun.values().map(|upload| upload.bytes.len()).sum();
        let is_known = self.begun.contains_key(name);
        if !is_known && offset > 0 {
            let message = "the parts of this write are gone; send it from its start, nothing was \
                           written";
            return Err(failed(message, "upload_lost"));
        }
        let is_full = !is_known && self.begun.len() >= MAX_FILE_UPLOADS;
        if is_full || kept + part.len() > MAX_UPLOADED_BYTES {
            // What is refused is begun anew.
            self.begun.remove(name);
            let message = "too many large files are being written at once; try again in a moment, \
                           nothing was written";
            return Err(failed(message, "uploads_busy"));
        }
        let upload = self.begun.entry(name.to_owned()).or_insert(Upload {
            bytes: Vec::new(),
            last: now,
        });
        // A part that comes again replaces what followed: its answer was lost.
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if start > upload.bytes.len() {
            return Err(WireError::invalid(
                "params: `offset` is behind what was sent",
            ));
        }
        if start + part.len() > MAX_FILE_WRITE_BYTES {
            self.begun.remove(name);
            let message = format!(
                "the file would have more than {MAX_FILE_WRITE_BYTES} bytes; make it with a \
                 command, nothing was written"
            );
            return Err(failed(message, "write_too_large"));
        }
        upload.bytes.truncate(start);
        upload.bytes.extend_from_slice(part);
        upload.last = now;
        Ok(upload.bytes.len() as u64)
    }

    /// All of a write.
    pub(super) fn take(&mut self, name: &str) -> Vec<u8> {
        let begun = self.begun.remove(name);
        begun.map(|upload| upload.bytes).unwrap_or_default()
    }
}

fn failed(message: impl Into<String>, reason: &str) -> WireError {
    WireError::new(ErrorCode::FileFailed, message).with_reason(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(answer: Result<u64, WireError>) -> String {
        answer.unwrap_err().reason.unwrap()
    }

    #[test]
    fn parts_are_joined_in_order_and_one_that_comes_again_counts_once() {
        let (mut uploads, now) = (Uploads::default(), Instant::now());
        assert_eq!(uploads.add("a", 0, b"one", now).unwrap(), 3);
        assert_eq!(uploads.add("a", 3, b"two", now).unwrap(), 6);
        assert_eq!(uploads.add("a", 3, b"two", now).unwrap(), 6);
        assert!(uploads.add("a", 9, b"x", now).is_err());
        assert_eq!(uploads.take("a"), b"onetwo");
        assert_eq!(reason(uploads.add("a", 3, b"two", now)), "upload_lost");
    }

    #[test]
    fn a_write_has_so_many_bytes_and_no_more() {
        let (mut uploads, now) = (Uploads::default(), Instant::now());
        let most = vec![0; MAX_FILE_WRITE_BYTES];
        assert!(uploads.add("a", 0, &most, now).is_ok());
        let over = uploads.add("a", most.len() as u64, b"x", now);
        assert_eq!(reason(over), "write_too_large");
    }

    #[test]
    fn so_many_writes_come_in_parts_at_once_and_one_more_hurts_none() {
        let (mut uploads, now) = (Uploads::default(), Instant::now());
        for number in 0..MAX_FILE_UPLOADS {
            uploads.add(&number.to_string(), 0, b"x", now).unwrap();
        }
        assert_eq!(reason(uploads.add("more", 0, b"x", now)), "uploads_busy");
        assert_eq!(uploads.add("0", 1, b"x", now).unwrap(), 2);
        // Those that nobody went on with make room.
        let later = now + FILE_UPLOAD_AGE;
        assert!(uploads.add("more", 0, b"x", later).is_ok());
        assert_eq!(reason(uploads.add("0", 2, b"x", later)), "upload_lost");
    }

    #[test]
    fn so_many_bytes_are_kept_and_no_more() {
        let (mut uploads, now) = (Uploads::default(), Instant::now());
        let most = vec![0; MAX_FILE_WRITE_BYTES];
        for number in 0..MAX_UPLOADED_BYTES / MAX_FILE_WRITE_BYTES {
            uploads.add(&number.to_string(), 0, &most, now).unwrap();
        }
        assert_eq!(reason(uploads.add("more", 0, b"x", now)), "uploads_busy");
        uploads.take("0");
        assert!(uploads.add("more", 0, b"x", now).is_ok());
        // A write that is refused holds up no other one.
        assert_eq!(reason(uploads.add("more", 1, &most, now)), "uploads_busy");
        assert!(uploads.add("another", 0, &most, now).is_ok());
    }
}
