//! Bytes moved by the kernel from a pipe to where they are kept. They are
//! either still in the pipe or in the file, whenever this program dies.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::SpliceFlags;

use crate::sys::Moved;

/// Moves up to `limit` bytes, without waiting for any, to `offset` of `to`,
/// or to its end of a pipe where there is none. One of the two must be a pipe.
pub(crate) fn splice(
    from: impl AsFd,
    to: impl AsFd,
    mut offset: Option<u64>,
    limit: u64,
) -> io::Result<Moved> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    loop {
        let moved = rustix::pipe::splice(&from, None, &to, offset.as_mut(), limit, flags);
        return match moved {
            Ok(0) => Ok(Moved::End),
            Ok(count) => Ok(Moved::Bytes(count as u64)),
            Err(Errno::AGAIN) => Ok(Moved::WouldBlock),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

/// A file that bytes were moved to ends behind them at any time.
pub(crate) fn settle(_: &File) -> io::Result<()> {
    Ok(())
}

/// Gives back the space of a part of a file, keeping its size. Where that
/// cannot be done the space stays taken.
pub(crate) fn punch_hole(file: &File, offset: u64, length: u64) {
    if length == 0 {
        return;
    }
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    if let Err(error) = fallocate(file, flags, offset, length) {
        tracing::debug!(%error, "dropped output takes space");
    }
}

/// An empty file in memory, closed on exec; it vanishes with its last handle.
pub(crate) fn memory_file(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

/// Reads what is in memory already; `None` if the disk would have to be waited
/// for.
pub(crate) fn read_cached(
    file: &File,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<Option<usize>> {
    let mut buffers = [io::IoSliceMut::new(buffer)];
    match rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        // Not every file system can tell; those in memory cannot, and need
        // not.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => {
            use std::os::unix::fs::FileExt;
            file.read_at(buffer, offset).map(Some)
        }
        Err(error) => Err(error.into()),
    }
}

/// Moves bytes from where a file stands to a pipe or terminal that does not
/// block. Where the file stands afterwards is exactly what was taken, for
/// every handle to it.
pub(crate) fn send_file(from: &File, to: impl AsFd, limit: u64) -> io::Result<Moved> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    loop {
        return match rustix::fs::sendfile(&to, from, None, limit) {
            Ok(0) => Ok(Moved::End),
            Ok(count) => Ok(Moved::Bytes(count as u64)),
            Err(Errno::AGAIN) => Ok(Moved::WouldBlock),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}
