//! Groups of descriptors as the holder keeps them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use halter_exec::host::Spool;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::message::{Unit, UnitKind};

/// The part that a process is given.
const PROCESS_PART: usize = 1;

/// One group. A part that is closed is `None`.
#[derive(Debug)]
pub(super) struct HeldUnit {
    pub id: u64,
    pub kind: UnitKind,
    parts: Vec<Option<OwnedFd>>,
}

impl HeldUnit {
    /// A new group of a kind that the holder can make.
    pub(super) fn make(id: u64, kind: UnitKind) -> io::Result<Self> {
        let file = || Spool::memory_file().map(OwnedFd::from);
        let parts = match kind {
            UnitKind::Output => {
                let (read, write) = pipe()?;
                set_nonblocking(&read)?;
                vec![read, write, file()?]
            }
            UnitKind::Input => {
                let (read, write) = pipe()?;
                set_nonblocking(&write)?;
                vec![write, read]
            }
            UnitKind::File => vec![file()?],
            UnitKind::Terminal => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Self::of(id, kind, parts))
    }

    /// A group of parts made by another; `None` if they are too few or many.
    pub(super) fn given(id: u64, kind: UnitKind, parts: Vec<OwnedFd>) -> Option<Self> {
        (parts.len() == kind.parts()).then(|| Self::of(id, kind, parts))
    }

    fn of(id: u64, kind: UnitKind, parts: Vec<OwnedFd>) -> Self {
        let parts = parts.into_iter().map(Some).collect();
        Self { id, kind, parts }
    }

    pub(super) fn part(&self, index: usize) -> Option<BorrowedFd<'_>> {
        Some(self.parts.get(index)?.as_ref()?.as_fd())
    }

    /// Closes what only the process needs.
    pub(super) fn close_process_part(&mut self) {
        if let Some(part) = self.parts.get_mut(PROCESS_PART) {
            *part = None;
        }
    }

    /// Closes the end that is written to.
    pub(super) fn close_written_part(&mut self) {
        if let Some(part) = self.parts.first_mut() {
            *part = None;
        }
    }

    /// The group as it is named in a message.
    pub(super) fn describe(&self) -> Unit {
        let number = |part: &Option<OwnedFd>| part.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        Unit {
            id: self.id,
            kind: self.kind,
            numbers: self.parts.iter().map(number).collect(),
        }
    }

    /// All parts that are open.
    pub(super) fn open_parts(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.parts.iter().flatten().map(AsFd::as_fd)
    }

    /// The parts a daemon gets with a new unit.
    pub(super) fn shared_parts(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let shared = self.kind.shared_parts().iter();
        shared.filter_map(|index| self.part(*index))
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((read.into(), write.into()))
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = fcntl_getfl(fd)?;
    Ok(fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}
