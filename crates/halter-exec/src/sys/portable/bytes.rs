//! Moving bytes by reading and writing them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::sys::Moved;
use crate::sys::readiness::{poll_one, waiting_in};

/// Bytes moved at a time: what a pipe takes in one piece.
const PIECE_BYTES: usize = 512;
const LARGE_PIECE_BYTES: usize = 16 * 1024;

/// Moves up to `limit` bytes, without waiting for any, to `offset` of `to`,
/// or to its end of a pipe where there is none.
pub(crate) fn splice(
    from: impl AsFd,
    to: impl AsFd,
    offset: Option<u64>,
    limit: u64,
) -> io::Result<Moved> {
    let waiting = match waiting_in(&from)? {
        Moved::Bytes(count) => count,
        other => return Ok(other),
    };
    match offset {
        // The end of a pipe may look like bytes of which there are none.
        Some(offset) => super::landing::land(from, to, offset, waiting.max(1).min(limit)),
        None => through_memory(from, to, limit),
    }
}

fn through_memory(from: impl AsFd, to: impl AsFd, limit: u64) -> io::Result<Moved> {
    let mut buffer = [0; LARGE_PIECE_BYTES];
    let most = usize::try_from(limit).unwrap_or(LARGE_PIECE_BYTES);
    let part = most.min(LARGE_PIECE_BYTES);
    let count = match rustix::io::read(&from, buffer.get_mut(..part).unwrap_or_default()) {
        Ok(0) => return Ok(Moved::End),
        Ok(count) => count,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Moved::WouldBlock),
        Err(error) => return Err(error.into()),
    };
    write_all(to, buffer.get(..count).unwrap_or_default())?;
    Ok(Moved::Bytes(count as u64))
}

fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&to, bytes))?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Gives back the space of a part of a file, keeping its size. Where that
/// cannot be done the space stays taken.
#[cfg(target_vendor = "apple")]
pub(crate) fn punch_hole(file: &File, offset: u64, length: u64) {
    use std::os::fd::AsRawFd;
    /// Holes are made of whole blocks.
    const BLOCK_BYTES: u64 = 4096;
    let start = offset.next_multiple_of(BLOCK_BYTES);
    let end = (offset + length) / BLOCK_BYTES * BLOCK_BYTES;
    let numbers = (
        libc::off_t::try_from(start),
        libc::off_t::try_from(end.saturating_sub(start)),
    );
    if let (Ok(fp_offset), Ok(fp_length @ 1..)) = numbers {
        let hole = libc::fpunchhole_t {
            fp_flags: 0,
            reserved: 0,
            fp_offset,
            fp_length,
        };
        // SAFETY: the descriptor is open, and the call only reads `hole`.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PUNCHHOLE, &hole) };
    }
}

/// Files keep the space they once took.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn punch_hole(_: &File, _: u64, _: u64) {}

/// An empty file without a name; it vanishes with its last handle.
pub(crate) fn memory_file(_: &str) -> io::Result<File> {
    let (file, path) = super::handover::new_file()?;
    super::handover::remove_name(&path);
    Ok(file)
}

/// Reads, waiting for the disk if need be.
pub(crate) fn read_cached(
    file: &File,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<Option<usize>> {
    file.read_at(buffer, offset).map(Some)
}

/// Moves bytes from where a file stands to a pipe or terminal that does not
/// block.
pub(crate) fn send_file(mut from: &File, to: impl AsFd, limit: u64) -> io::Result<Moved> {
    let place = from.stream_position()?;
    let mut buffer = [0; LARGE_PIECE_BYTES];
    let most = usize::try_from(limit).unwrap_or(LARGE_PIECE_BYTES);
    let part = most.min(LARGE_PIECE_BYTES);
    let count = from.read_at(buffer.get_mut(..part).unwrap_or_default(), place)?;
    let bytes = buffer.get(..count).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(Moved::End);
    }
    match rustix::io::retry_on_intr(|| rustix::io::write(&to, bytes)) {
        Ok(written) => {
            from.seek(SeekFrom::Start(place + written as u64))?;
            Ok(Moved::Bytes(written as u64))
        }
        Err(Errno::AGAIN) => Ok(Moved::WouldBlock),
        Err(error) => Err(error.into()),
    }
}

/// Both sides of a new terminal, ours first, closed on exec.
pub(crate) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = open(name, flags, Mode::empty())?;
    Ok((ours, theirs))
}

/// Moves what a terminal has to say into a pipe: never more than the pipe
/// takes in one piece.
pub(crate) fn splice_terminal(
    terminal: impl AsFd,
    pipe: impl AsFd,
    limit: u64,
) -> io::Result<Moved> {
    if !poll_one(&pipe, PollFlags::OUT, Duration::ZERO)?.contains(PollFlags::OUT) {
        return Ok(Moved::WouldBlock);
    }
    splice(terminal, pipe, None, limit.min(PIECE_BYTES as u64))
}
