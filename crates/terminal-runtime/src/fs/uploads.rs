//! Writes that come in parts: kept in memory until the last part is there.

use std::collections::VecDeque;

use crate::limits::{MAX_FILE_UPLOADS, MAX_FILE_WRITE_BYTES};
use crate::protocol::{ErrorCode, WireError};

/// The parts that came so far, by the names of their writes.
#[derive(Default)]
pub(super) struct Uploads {
    /// The newest at the end; the oldest goes when there are too many.
    begun: VecDeque<(String, Vec<u8>)>,
}

/// Contents of files may be secret.
impl std::fmt::Debug for Uploads {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.begun.iter().map(|(name, bytes)| (name, bytes.len()));
        formatter.debug_map().entries(names).finish()
    }
}

impl Uploads {
    /// Adds a part. Gives the size by now.
    pub(super) fn add(&mut self, name: &str, offset: u64, part: &[u8]) -> Result<u64, WireError> {
        let known = self.begun.iter().position(|(known, _)| known == name);
        let (name, mut bytes) = match known.and_then(|index| self.begun.remove(index)) {
            Some(begun) => begun,
            None if offset == 0 => (name.to_owned(), Vec::new()),
            None => {
                let message = "the parts of this write are gone; send it from its start, nothing \
                               was written";
                return Err(failed(message, "upload_lost"));
            }
        };
        // A part that comes again replaces what followed: its answer was lost.
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if start > bytes.len() {
            self.begun.push_back((name, bytes));
            return Err(WireError::invalid(
                "params: `offset` is behind what was sent",
            ));
        }
        bytes.truncate(start);
        if bytes.len() + part.len() > MAX_FILE_WRITE_BYTES {
            let message = format!(
                "the file would have more than {MAX_FILE_WRITE_BYTES} bytes; make it with a \
                 command, nothing was written"
            );
            return Err(failed(message, "write_too_large"));
        }
        bytes.extend_from_slice(part);
        let size = bytes.len() as u64;
        if self.begun.len() >= MAX_FILE_UPLOADS {
            self.begun.pop_front();
        }
        self.begun.push_back((name, bytes));
        Ok(size)
    }

    /// All of a write.
    pub(super) fn take(&mut self, name: &str) -> Vec<u8> {
        let known = self.begun.iter().position(|(known, _)| known == name);
        let begun = known.and_then(|index| self.begun.remove(index));
        begun.map(|(_, bytes)| bytes).unwrap_or_default()
    }
}

fn failed(message: impl Into<String>, reason: &str) -> WireError {
    WireError::new(ErrorCode::FileFailed, message).with_reason(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_in_order_and_one_that_comes_again_counts_once() {
        let mut uploads = Uploads::default();
        assert_eq!(uploads.add("a", 0, b"one").unwrap(), 3);
        assert_eq!(uploads.add("a", 3, b"two").unwrap(), 6);
        assert_eq!(uploads.add("a", 3, b"two").unwrap(), 6);
        assert!(uploads.add("a", 9, b"x").is_err());
        assert_eq!(uploads.take("a"), b"onetwo");
        let lost = uploads.add("a", 3, b"two").unwrap_err();
        assert_eq!(lost.reason.as_deref(), Some("upload_lost"));
    }

    #[test]
    fn a_write_has_so_many_bytes_and_no_more() {
        let mut uploads = Uploads::default();
        let most = vec![0; MAX_FILE_WRITE_BYTES];
        assert!(uploads.add("a", 0, &most).is_ok());
        let over = uploads.add("a", most.len() as u64, b"x").unwrap_err();
        assert_eq!(over.reason.as_deref(), Some("write_too_large"));
    }

    #[test]
    fn so_many_writes_come_in_parts_at_once_and_no_more() {
        let mut uploads = Uploads::default();
        for number in 0..=MAX_FILE_UPLOADS {
            uploads.add(&number.to_string(), 0, b"x").unwrap();
        }
        assert_eq!(uploads.begun.len(), MAX_FILE_UPLOADS);
        assert!(uploads.add("0", 1, b"x").is_err());
        assert_eq!(uploads.add("1", 1, b"x").unwrap(), 2);
    }
}
