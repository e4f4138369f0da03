//! Bytes that come to lie in a file without having been in memory of this
//! program's own.
//!
//! The file is first made longer by a filler, then mapped and read into: what
//! the system has taken out of a pipe is part of the file by then, and stays
//! so if this program is killed. Whoever opens the file after that cuts the
//! filler off.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr;

use rustix::io::Errno;

use crate::sys::Moved;

/// Bytes that land at a time.
const MOST_BYTES: usize = 64 * 1024;

/// No text has any of these. All of it ends a file that is being filled.
const MARK: [u8; 32] = [
    0xfb, 0xf9, 0xff, 0xfa, 0xfe, 0xf8, 0xfd, 0xfc, 0xf8, 0xfe, 0xfa, 0xfb, 0xff, 0xf9, 0xfc, 0xfd,
    0xff, 0xfb, 0xf8, 0xfc, 0xfd, 0xfa, 0xf9, 0xfe, 0xfc, 0xff, 0xfb, 0xfd, 0xf9, 0xf8, 0xfe, 0xfa,
];

/// The mark again and again.
static FILLER: [[u8; MARK.len()]; MOST_BYTES / MARK.len() + 1] =
    [MARK; MOST_BYTES / MARK.len() + 1];

/// Moves up to `limit` bytes, of which at least one waits or the end does.
/// The file ends behind them.
pub(super) fn land(from: impl AsFd, to: impl AsFd, offset: u64, limit: u64) -> io::Result<Moved> {
    let most = usize::try_from(limit).unwrap_or(MOST_BYTES).min(MOST_BYTES);
    let file = File::from(to.as_fd().try_clone_to_owned()?);
    let filler = FILLER.as_flattened().get(MOST_BYTES - most..);
    let landed = file
        .write_all_at(filler.unwrap_or_default(), offset)
        .and_then(|()| Window::open(to.as_fd(), offset, most))
        .and_then(|window| window.read_from(from.as_fd()));
    let count = match landed {
        Ok(Moved::Bytes(count)) => count,
        _ => 0,
    };
    file.set_len(offset + count)?;
    landed
}

/// Cuts off what was to be overwritten when a program was killed.
pub(crate) fn settle(file: &File) -> io::Result<()> {
    let size = file.metadata()?.len();
    let mut end = [0; MARK.len()];
    let Some(place) = size.checked_sub(end.len() as u64) else {
        return Ok(());
    };
    file.read_exact_at(&mut end, place)?;
    if end != MARK {
        return Ok(());
    }
    let filler = FILLER.as_flattened();
    let length = size.min(filler.len() as u64);
    let mut tail = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut tail, size - length)?;
    let found = tail.iter().rev().zip(filler.iter().rev());
    let filled = found.take_while(|(byte, filler)| byte == filler).count();
    file.set_len(size - filled as u64)
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
        for kept in [0, 1, 31, 32, 5000, MOST_BYTES + 1] {
            let bytes = vec![b'x'; kept];
            for room in [0, 1, 33, MOST_BYTES] {
                let left = file(&[&bytes, &FILLER.as_flattened()[MOST_BYTES - room..]].concat());
                settle(&left).unwrap();
                assert_eq!(content(&left), bytes, "{kept} {room}");
            }
            let whole = file(&bytes);
            settle(&whole).unwrap();
            assert_eq!(content(&whole), bytes);
        }
    }
}
