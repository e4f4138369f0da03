//! Bytes that come to lie in a file without having been in memory of this
//! program's own.
//!
//! The file is first made longer: by room for the bytes, filled in, and by a
//! note that says where they are to come and how many. Then it is mapped and
//! read into: what the system has taken out of a pipe is part of the file by
//! then, and stays so if this program is killed. Whoever opens the file after
//! that cuts off the note, and the room if nothing came. As many bytes are
//! asked for as wait, so they come together; that none has come is seen from
//! the filler, which is no text.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::io::Errno;

use crate::sys::Moved;

/// What the system writes within so many bytes it writes as a whole.
const PAGE_BYTES: u64 = 4096;

/// Bytes that land at a time.
const MOST_BYTES: usize = 64 * 1024;

/// No text has any of these.
const MARK: [u8; 32] = [
    0xfb, 0xf9, 0xff, 0xfa, 0xfe, 0xf8, 0xfd, 0xfc, 0xf8, 0xfe, 0xfa, 0xfb, 0xff, 0xf9, 0xfc, 0xfd,
    0xff, 0xfb, 0xf8, 0xfc, 0xfd, 0xfa, 0xf9, 0xfe, 0xfc, 0xff, 0xfb, 0xfd, 0xf9, 0xf8, 0xfe, 0xfa,
];

/// The mark again and again.
static FILLER: [[u8; MARK.len()]; MOST_BYTES / MARK.len()] = [MARK; MOST_BYTES / MARK.len()];

/// So many bytes of filler at the end of bytes that have come are no chance:
/// the rest has not come.
const SURE_BYTES: usize = 16;

/// Moves up to `limit` bytes, of which at least one waits or the end does.
/// The file ends behind them.
pub(super) fn land(from: impl AsFd, to: impl AsFd, offset: u64, limit: u64) -> io::Result<Moved> {
    let length = usize::try_from(limit).unwrap_or(MOST_BYTES).min(MOST_BYTES);
    let file = File::from(to.as_fd().try_clone_to_owned()?);
    let landed = Note { offset, length }
        .make_room(&file)
        .and_then(|()| Window::open(to.as_fd(), offset, length))
        .and_then(|window| window.read_from(from.as_fd()));
    let count = match landed {
        Ok(Moved::Bytes(count)) => count,
        _ => 0,
    };
    file.set_len(offset + count)?;
    landed
}

/// Cuts off what is not of the file when a program was killed.
pub(crate) fn settle(file: &File) -> io::Result<()> {
    match Note::find(file)? {
        None => Ok(()),
        Some((note, RoomState::Growing)) => file.set_len(note.offset),
        Some((note, RoomState::Ready)) => {
            let mut found = vec![0; note.length];
            file.read_exact_at(&mut found, note.offset)?;
            file.set_len(note.offset + arrived(&found) as u64)
        }
    }
}

/// How many bytes of what was filler have come.
fn arrived(found: &[u8]) -> usize {
    let filler = FILLER.as_flattened().get(..found.len()).unwrap_or_default();
    let pairs = found.iter().zip(filler).rev();
    let left = pairs.take_while(|(byte, filler)| byte == filler).count();
    if left == found.len() || left >= SURE_BYTES {
        found.len() - left
    } else {
        found.len()
    }
}

/// Whether the room for bytes is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoomState {
    Growing = 1,
    Ready = 2,
}

/// What is to come where. Ends a file that is being filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    offset: u64,
    length: usize,
}

impl Note {
    const BYTES: usize = 32;
    const SIGN: [u8; 15] = *b"\xfehalter landing";

    /// Where it is written: never across a page, so that it is there or not.
    fn place(&self) -> u64 {
        let end = self.offset + self.length as u64;
        end.next_multiple_of(Self::BYTES as u64)
    }

    fn encode(&self, state: RoomState) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let parts = Self::SIGN
            .into_iter()
            .chain([state as u8])
            .chain(self.offset.to_le_bytes())
            .chain((self.length as u64).to_le_bytes());
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        bytes
    }

    /// The note at the end of a file.
    fn find(file: &File) -> io::Result<Option<(Self, RoomState)>> {
        let size = file.metadata()?.len();
        let Some(place) = size.checked_sub(Self::BYTES as u64) else {
            return Ok(None);
        };
        let mut found = [0; Self::BYTES];
        file.read_exact_at(&mut found, place)?;
        let number = |at: usize| {
            let bytes = found.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let note = Self {
            offset: number(16),
            length: usize::try_from(number(24)).unwrap_or(usize::MAX),
        };
        let is_sound = note.length <= MOST_BYTES && note.offset <= place && note.place() == place;
        Ok([RoomState::Growing, RoomState::Ready]
            .into_iter()
            .find(|state| is_sound && note.encode(*state) == found)
            .map(|state| (note, state)))
    }

    /// Makes a file longer, so that what was done can be told at any moment.
    fn make_room(&self, file: &File) -> io::Result<()> {
        let filler = FILLER.as_flattened().get(..self.length);
        let filler = filler.unwrap_or_default();
        let place = self.place();
        if self.offset / PAGE_BYTES == place / PAGE_BYTES {
            let gap = place - self.offset - self.length as u64;
            let gap = vec![0; usize::try_from(gap).unwrap_or(0)];
            let whole = [filler, &gap, &self.encode(RoomState::Ready)].concat();
            return file.write_all_at(&whole, self.offset);
        }
        file.write_all_at(&self.encode(RoomState::Growing), place)?;
        file.write_all_at(filler, self.offset)?;
        file.write_all_at(&self.encode(RoomState::Ready), place)
    }
}

/// A part of a file, mapped.
struct Window {
    start: *mut libc::c_void,
    length: usize,
    /// Where in it the part begins that was asked for.
    lead: usize,
}

impl Window {
    fn open(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        // SAFETY: takes a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = u64::try_from(page).unwrap_or(4096).max(1);
        let lead = usize::try_from(offset % page).unwrap_or(0);
        let begin = libc::off_t::try_from(offset - offset % page)
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let length = lead + length;
        // SAFETY: a new mapping of an open file, wherever there is room.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                begin,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start,
            length,
            lead,
        })
    }

    /// Reads once, without waiting for more than is there.
    fn read_from(&self, from: BorrowedFd<'_>) -> io::Result<Moved> {
        // SAFETY: the part lies within the mapping, which lives as long as
        // `self`. It is only handed to the system, for which a file that
        // became shorter meanwhile is an error and no fault.
        let count = unsafe {
            let part = self.start.cast::<u8>().add(self.lead);
            libc::read(from.as_raw_fd(), part.cast(), self.length - self.lead)
        };
        match u64::try_from(count) {
            Ok(0) => Ok(Moved::End),
            Ok(count) => Ok(Moved::Bytes(count)),
            Err(_) => {
                let error = io::Error::last_os_error();
                match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::AGAIN | Errno::INTR) => Ok(Moved::WouldBlock),
                    _ => Err(error),
                }
            }
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing points into it any more.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> File {
        let file = super::super::memory_file("").unwrap();
        file.write_all_at(content, 0).unwrap();
        file
    }

    fn content(file: &File) -> Vec<u8> {
        let mut content = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut content, 0).unwrap();
        content
    }

    #[test]
    fn what_lands_is_the_end_of_the_file() {
        use std::io::Write;
        let file = file(b"before ");
        let (from, mut writer) = io::pipe().unwrap();
        writer.write_all(b"after and more").unwrap();
        assert_eq!(land(&from, &file, 7, 5).unwrap(), Moved::Bytes(5));
        assert_eq!(content(&file), b"before after");
        assert_eq!(land(&from, &file, 12, 1 << 40).unwrap(), Moved::Bytes(9));
        assert_eq!(content(&file), b"before after and more");
        drop(writer);
        assert_eq!(land(&from, &file, 21, 1).unwrap(), Moved::End);
        assert_eq!(content(&file), b"before after and more");
    }

    #[test]
    fn a_file_left_in_the_middle_ends_where_its_bytes_do() {
        let filler = FILLER.as_flattened();
        for kept in [0, 1, 31, 32, 5000, MOST_BYTES + 1] {
            // Text, what looks like a part of the filler, and zeros.
            for byte in [b'x', MARK[31], 0] {
                let before = vec![byte; kept];
                for length in [1, 2, 33, MOST_BYTES] {
                    let note = Note {
                        offset: kept as u64,
                        length,
                    };
                    // Before the room was complete.
                    for filled in [0, length / 2, length] {
                        let left = file(&before);
                        let growing = note.encode(RoomState::Growing);
                        left.write_all_at(&growing, note.place()).unwrap();
                        left.write_all_at(&filler[..filled], kept as u64).unwrap();
                        settle(&left).unwrap();
                        assert_eq!(content(&left), before, "{kept} {length} {filled}");
                    }
                    // Before anything came.
                    let left = file(&before);
                    note.make_room(&left).unwrap();
                    settle(&left).unwrap();
                    assert_eq!(content(&left), before, "{kept} {length}");
                    // When all had come, whatever it ends in.
                    for end in [b'y', filler[length - 1], 0] {
                        let mut came = vec![b'y'; length];
                        *came.last_mut().unwrap() = end;
                        if came == filler[..length] {
                            continue;
                        }
                        let left = file(&before);
                        note.make_room(&left).unwrap();
                        left.write_all_at(&came, kept as u64).unwrap();
                        settle(&left).unwrap();
                        let whole = [before.as_slice(), &came].concat();
                        assert_eq!(content(&left), whole, "{kept} {length} {end}");
                    }
                }
                let whole = file(&before);
                settle(&whole).unwrap();
                assert_eq!(content(&whole), before);
            }
        }
    }

    #[test]
    fn what_came_in_part_is_kept_in_part() {
        let left = file(b"before");
        let note = Note {
            offset: 6,
            length: 100,
        };
        note.make_room(&left).unwrap();
        left.write_all_at(b" and after", 6).unwrap();
        settle(&left).unwrap();
        assert_eq!(content(&left), b"before and after");
    }
}
