//! Output of background commands, kept within a bound.

use super::OutputPiece;
use std::collections::VecDeque;

/// The start and the end of what a command printed, for a [`RunningCommand`].
///
/// [`RunningCommand`]: super::RunningCommand
#[derive(Debug)]
pub struct KeptOutput {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
}

impl KeptOutput {
    /// Room for so many bytes: half from the start, half from the end.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let tail_limit = bytes / 2;
        Self {
            head: Vec::new(),
            head_limit: bytes - tail_limit,
            tail: VecDeque::new(),
            tail_limit,
            total: 0,
        }
    }

    /// How many bytes came so far, also those that are not kept.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is kept, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let is_whole = self.total == (self.head.len() + tail.len()) as u64;
        let hole = if is_whole { "" } else { "\n" };
        format!("{head}{hole}{}", String::from_utf8_lossy(&tail))
    }

    /// More has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let kept = rest.len().saturating_sub(self.tail_limit);
        let kept = rest.get(kept..).unwrap_or_default();
        let excess = (self.tail.len() + kept.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(kept);
    }

    /// What is kept from an offset on, or after it if nothing of that is. A
    /// piece ends where bytes are missing.
    #[must_use]
    pub fn piece(&self, offset: u64, most: usize) -> OutputPiece {
        let place = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(rest) = self.head.get(place..).filter(|rest| !rest.is_empty()) {
            let bytes = rest.get(..most).unwrap_or(rest).to_vec();
            return OutputPiece { offset, bytes };
        }
        let tail_start = self.total - self.tail.len() as u64;
        let offset = offset.clamp(tail_start, self.total);
        let skipped = usize::try_from(offset - tail_start).unwrap_or(usize::MAX);
        let bytes = self.tail.iter().skip(skipped).take(most).copied().collect();
        OutputPiece { offset, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, bytes: &str) -> OutputPiece {
        let bytes = bytes.as_bytes().to_vec();
        OutputPiece { offset, bytes }
    }

    #[test]
    fn the_start_and_the_end_of_what_was_printed_are_kept() {
        for split in 0..=10 {
            let mut kept = KeptOutput::new(8);
            let (left, right) = "0123456789".split_at(split);
            kept.push(left.as_bytes());
            kept.push(right.as_bytes());
            assert_eq!(kept.piece(0, 100), piece(0, "0123"), "{split}");
            assert_eq!(kept.piece(2, 1), piece(2, "2"), "{split}");
            assert_eq!(kept.piece(4, 100), piece(6, "6789"), "{split}");
            assert_eq!(kept.piece(8, 1), piece(8, "8"), "{split}");
            assert_eq!(kept.piece(10, 100), piece(10, ""), "{split}");
            assert_eq!(kept.piece(u64::MAX, 100), piece(10, ""), "{split}");
        }
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let mut kept = KeptOutput::new(8);
        kept.push(b"01234567");
        assert_eq!(kept.piece(0, 100), piece(0, "0123"));
        assert_eq!(kept.piece(4, 100), piece(4, "4567"));
    }
}
