//! A file that the holder keeps and the daemon writes: what a message would
//! have told, without waking the holder.
//!
//! It has two places. Each entry goes to the one that does not hold the
//! newest, so that a daemon that is killed while it writes leaves the entry
//! before. Which is newer is told by a number, which is whole by a sum over
//! all of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::limits::MAX_JOURNAL_ENTRY_BYTES;

/// Sum, number, length with the mark of work.
const HEADER_BYTES: usize = 24;

/// Set in the length of an entry that tells of work.
const AT_WORK: u64 = 1 << 63;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Grows with each entry; never 0.
    pub sequence: u64,
    /// Whether it tells of work: a holder without a daemon waits for the next
    /// one as long as the newest entry does.
    pub working: bool,
    /// The rest, which only the daemon understands.
    pub payload: Vec<u8>,
}

/// Our side of such a file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// The place that is written next.
    place: u64,
    buffer: Vec<u8>,
}

impl Journal {
    /// The journal of this file, which may have entries.
    #[must_use]
    pub fn new(file: File) -> Self {
        let newest = newest(&file);
        Self {
            file,
            place: newest.map_or(0, |(place, _)| 1 - place),
            buffer: Vec::new(),
        }
    }

    /// Writes an entry; `false` if it is too long or cannot be written, and
    /// the one before is still the newest. `sequence` must have grown.
    pub fn write(&mut self, sequence: u64, working: bool, payload: &[u8]) -> bool {
        if payload.len() > MAX_JOURNAL_ENTRY_BYTES {
            return false;
        }
        let mark = if working { AT_WORK } else { 0 };
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; 8]);
        self.buffer.extend_from_slice(&sequence.to_le_bytes());
        let length = payload.len() as u64 | mark;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(payload);
        let (sum_place, summed) = self.buffer.split_at_mut(8);
        sum_place.copy_from_slice(&sum(summed).to_le_bytes());
        let written = self.file.write_all_at(&self.buffer, start(self.place));
        if written.is_ok() {
            self.place = 1 - self.place;
        }
        written.is_ok()
    }
}

/// The newest whole entry of a journal.
#[must_use]
pub fn read(file: &File) -> Option<Entry> {
    newest(file).map(|(_, entry)| entry)
}

fn newest(file: &File) -> Option<(u64, Entry)> {
    let entries = [0, 1].into_iter().filter_map(|place| {
        let entry = read_place(file, place).ok().flatten()?;
        Some((place, entry))
    });
    entries.max_by_key(|(_, entry)| entry.sequence)
}

/// Where a place begins: each has pages of its own.
fn start(place: u64) -> u64 {
    place * (MAX_JOURNAL_ENTRY_BYTES + HEADER_BYTES).next_multiple_of(4096) as u64
}

fn read_place(file: &File, place: u64) -> io::Result<Option<Entry>> {
    let mut header = [0; HEADER_BYTES];
    let size = file.metadata()?.len();
    if size < start(place) + HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, start(place))?;
    let number = |at: usize| {
        let bytes = header
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let (expected, sequence, length) = (number(0), number(8), number(16));
    let (length, working) = (length & !AT_WORK, length & AT_WORK != 0);
    let Ok(length) = usize::try_from(length) else {
        return Ok(None);
    };
    if sequence == 0 || length > MAX_JOURNAL_ENTRY_BYTES {
        return Ok(None);
    }
    let mut summed = vec![0; HEADER_BYTES - 8 + length];
    match file.read_exact_at(&mut summed, start(place) + 8) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let payload = summed.split_off(HEADER_BYTES - 8);
    let mut whole = summed;
    whole.extend_from_slice(&payload);
    Ok((sum(&whole) == expected).then_some(Entry {
        sequence,
        working,
        payload,
    }))
}

/// A sum that tells half an entry from a whole one; nobody forges any.
fn sum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = FACTOR ^ bytes.len() as u64;
    let mut mix = |word: u64| {
        state = (state ^ word).wrapping_mul(FACTOR);
        state ^= state >> 29;
    };
    let mut words = bytes.chunks_exact(8);
    for word in words.by_ref() {
        mix(word.try_into().map_or(0, u64::from_le_bytes));
    }
    let mut last = [0; 8];
    for (place, byte) in last.iter_mut().zip(words.remainder()) {
        *place = *byte;
    }
    mix(u64::from_le_bytes(last));
    state
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn file() -> File {
        halter_exec::Spool::memory_file().unwrap()
    }

    fn entry(sequence: u64, working: bool, payload: &[u8]) -> Option<Entry> {
        Some(Entry {
            sequence,
            working,
            payload: payload.to_vec(),
        })
    }

    #[test]
    fn the_newest_entry_counts_and_the_one_before_is_left_alone() {
        let file = file();
        assert_eq!(read(&file), None);
        let mut journal = Journal::new(file.try_clone().unwrap());
        assert!(journal.write(3, true, b"first"));
        assert_eq!(read(&file), entry(3, true, b"first"));
        assert!(journal.write(4, false, b"second"));
        assert_eq!(read(&file), entry(4, false, b"second"));
        // The next one goes where the first was, also for another daemon.
        let mut journal = Journal::new(file.try_clone().unwrap());
        assert!(journal.write(9, true, b""));
        assert_eq!(read(&file), entry(9, true, b""));
        file.write_all_at(&[0xff; HEADER_BYTES], start(0)).unwrap();
        assert_eq!(read(&file), entry(4, false, b"second"));
    }

    #[test]
    fn the_longest_entry_fits_and_one_byte_more_does_not() {
        assert_eq!(MAX_JOURNAL_ENTRY_BYTES, 32 * 1024);
        let file = file();
        let mut journal = Journal::new(file.try_clone().unwrap());
        let longest = vec![7; MAX_JOURNAL_ENTRY_BYTES];
        for sequence in 1..=3 {
            assert!(journal.write(sequence, true, &longest));
        }
        assert!(!journal.write(4, true, &[longest.as_slice(), &[7]].concat()));
        assert_eq!(read(&file), entry(3, true, &longest));
        assert!(journal.write(5, false, b"x"));
        assert_eq!(read(&file), entry(5, false, b"x"));
    }

    proptest! {
        /// However much of an entry was written when its daemon was killed,
        /// what is read is that entry or the one before.
        #[test]
        fn half_an_entry_is_none(
            before in vec(vec(any::<u8>(), 0..300), 1..4),
            last in vec(any::<u8>(), 0..300),
            cut in any::<prop::sample::Index>(),
        ) {
            let file = file();
            let mut journal = Journal::new(file.try_clone().unwrap());
            let mut sequence = 0;
            for payload in &before {
                sequence += 1;
                prop_assert!(journal.write(sequence, true, payload));
            }
            let kept = read(&file);
            let mut older = vec![0; HEADER_BYTES + 300];
            let place = start(journal.place);
            let found = file.read_at(&mut older, place).unwrap();
            prop_assert!(journal.write(sequence + 1, false, &last));
            let whole = journal.buffer.len();
            let cut = cut.index(whole + 1);
            // What was not written yet is what was there before.
            let rest = older.get(cut..found.max(cut)).unwrap();
            file.write_all_at(rest, place + cut as u64).unwrap();
            if cut >= found {
                let zeros = vec![0; whole.saturating_sub(cut)];
                file.write_all_at(&zeros, place + cut as u64).unwrap();
            } else if whole > found {
                file.write_all_at(&vec![0; whole - found], place + found as u64).unwrap();
            }
            let read = read(&file);
            prop_assert!(read == kept || read == entry(sequence + 1, false, &last));
            if cut == whole {
                prop_assert_eq!(read, entry(sequence + 1, false, &last));
            }
        }
    }
}
