//! Descriptors of a child, without a copy of every other one.
//!
//! A process that is made the usual way copies the whole table of its
//! parent's descriptors, only to close nearly all of them: thousands, in a
//! program that holds the streams of many others. A child made here shares
//! the table until it copies the beginning of it, where it finds what it is
//! to have. It changes nothing before that. Where this program has no use for
//! its own standard streams, the child finds its own in their place, and
//! copies nothing else.

use std::ffi::{c_int, c_uint};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::launch::MAX_TARGET_FD;
use crate::sys::ChildPlan;
use crate::system::out_of_the_way;

/// How many places are reserved. A child that is given more descriptors
/// copies everything.
const PLACES: usize = 8;

/// The first descriptor that is no standard stream.
pub(super) const OWN_STREAMS: c_int = 3;

/// Which descriptors of ours become which of the child's.
#[derive(Debug)]
pub(super) struct Arranged {
    pub pairs: Vec<[c_int; 2]>,
    /// The first descriptor that the child does not copy; -1 if it has copied
    /// all of them from the beginning.
    pub copy_below: c_int,
    /// The flags of the call that copies.
    pub copy_flags: c_uint,
}

impl Arranged {
    /// For a child that copies everything.
    pub(super) fn copied(plan: &ChildPlan<'_>) -> Self {
        let pair =
            |(source, target): &(std::os::fd::BorrowedFd<'_>, c_int)| [source.as_raw_fd(), *target];
        Self {
            pairs: plan.fds.iter().map(pair).collect(),
            copy_below: -1,
            copy_flags: 0,
        }
    }
}

/// Low numbers that are kept for what children are given.
#[derive(Debug)]
pub(super) struct Places {
    /// What is in a place that is free.
    null: OwnedFd,
    /// Where our standard streams are places these are rarely needed, and
    /// reserved each time: every child would copy them.
    places: Vec<OwnedFd>,
    /// How many of them are not.
    taken: usize,
    /// Whether our standard streams are places, too.
    streams: bool,
    /// Whether they are a child's now.
    streams_taken: bool,
    pub copy_flags: c_uint,
}

impl Places {
    /// Takes the lowest numbers that are free now and not a child's own, and
    /// the standard streams if they are to be `streams` of children.
    pub(super) fn reserve(streams: bool) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let mut places = Self {
            null: out_of_the_way(null.into()),
            places: Vec::new(),
            taken: 0,
            streams,
            streams_taken: false,
            copy_flags: libc::CLOSE_RANGE_UNSHARE,
        };
        if !streams {
            places.reserve_numbers()?;
        }
        Ok(places)
    }

    fn reserve_numbers(&mut self) -> io::Result<()> {
        let place = |_| fcntl_dupfd_cloexec(&self.null, MAX_TARGET_FD + 1);
        self.places = (0..PLACES).map(place).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Puts what a child is to have into places. If that cannot be done, the
    /// child copies everything.
    pub(super) fn fill(&mut self, plan: &ChildPlan<'_>) -> Arranged {
        self.try_fill(plan)
            .unwrap_or_else(|_| Arranged::copied(plan))
    }

    fn try_fill(&mut self, plan: &ChildPlan<'_>) -> io::Result<Arranged> {
        if self.streams
            && let [(input, 0), (output, 1), (error, 2)] = plan.fds.as_slice()
        {
            self.streams_taken = true;
            dup2_stdin(input)?;
            dup2_stdout(output)?;
            dup2_stderr(error)?;
            return Ok(Arranged {
                pairs: Vec::new(),
                copy_below: OWN_STREAMS,
                copy_flags: self.copy_flags,
            });
        }
        if self.places.is_empty() {
            self.reserve_numbers()?;
        }
        let highest = self.places.iter().map(AsRawFd::as_raw_fd).max();
        let highest = highest.ok_or(io::ErrorKind::NotFound)?;
        let mut pairs = Vec::with_capacity(plan.fds.len());
        for (source, target) in &plan.fds {
            let mut number = source.as_raw_fd();
            if number > highest {
                let place = self.places.get_mut(self.taken);
                let place = place.ok_or(io::ErrorKind::StorageFull)?;
                dup3(source, place, DupFlags::CLOEXEC)?;
                self.taken += 1;
                number = place.as_raw_fd();
            }
            pairs.push([number, *target]);
        }
        Ok(Arranged {
            pairs,
            copy_below: highest + 1,
            copy_flags: self.copy_flags,
        })
    }

    /// Frees the places: the child has what was in them.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.streams_taken) {
            let _ = dup2_stdin(&self.null);
            let _ = dup2_stdout(&self.null);
            let _ = dup2_stderr(&self.null);
        }
        if self.streams {
            self.places.clear();
        }
        for place in self.places.iter_mut().take(self.taken) {
            // A number that is open can always be made another's.
            let _ = dup3(&self.null, place, DupFlags::CLOEXEC);
        }
        self.taken = 0;
    }
}
