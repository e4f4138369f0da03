//! Units that are made ahead, so that a command need not wait for the holder
//! to make its own and to say which numbers they have there.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::{Notify, futures::Notified};

use super::message::{Unit, UnitKind};
use crate::lock::lock;
use crate::sys;

/// A unit with the parts of it that are ours.
#[derive(Debug)]
pub struct GivenUnit {
    /// Its name, kind, and numbers in the holder.
    pub unit: Unit,
    /// Our copies; `None` for parts we have not.
    pub parts: Vec<Option<OwnedFd>>,
}

impl GivenUnit {
    /// Takes one of our copies.
    pub fn take(&mut self, part: usize) -> Option<OwnedFd> {
        self.parts.get_mut(part)?.take()
    }

    /// Where a process of the holder opens a part, given the number by which it
    /// finds the [owner](super::HolderLink::descriptor_owner) of all parts;
    /// empty where the system has no names for descriptors, and other names
    /// are used.
    #[must_use]
    pub fn path(&self, owner: i32, part: usize) -> PathBuf {
        let number = self.unit.numbers.get(part).copied().unwrap_or(-1);
        sys::descriptor_path(owner, number).unwrap_or_default()
    }

    /// The units of a slot with copies of all that is open.
    pub(super) fn with_all_parts(units: Vec<Unit>, fds: Vec<OwnedFd>) -> Vec<Self> {
        let mut fds = fds.into_iter();
        let with_parts = |unit: Unit| {
            let open = unit.numbers.iter().map(|number| *number >= 0);
            let parts = open.map(|open| if open { fds.next() } else { None });
            GivenUnit {
                parts: parts.collect(),
                unit,
            }
        };
        units.into_iter().map(with_parts).collect()
    }
}

/// The units that wait for a command.
#[derive(Debug, Default)]
pub(super) struct PreparedUnits {
    spare: Mutex<HashMap<UnitKind, Spare>>,
    filled: Notify,
}

/// The units of one kind.
#[derive(Debug, Default)]
struct Spare {
    units: VecDeque<GivenUnit>,
    ordered: bool,
    /// Whether the last order brought nothing.
    exhausted: bool,
}

/// How many units of a kind are ordered at a time, and below how many. Every
/// session has its own, so there are few: the outputs of one command.
fn order_of(kind: UnitKind) -> (u64, u64) {
    match kind {
        UnitKind::Output => (2, 2),
        UnitKind::Input => (1, 0),
        UnitKind::File => (4, 0),
        UnitKind::Terminal => (0, 0),
    }
}

impl PreparedUnits {
    fn spare(&self) -> MutexGuard<'_, HashMap<UnitKind, Spare>> {
        lock(&self.spare)
    }

    /// Ends when something has come, or will not come any more.
    pub(super) fn filled(&self) -> Notified<'_> {
        self.filled.notified()
    }

    /// Nothing will come any more.
    pub(super) fn wake(&self) {
        self.filled.notify_waiters();
    }

    pub(super) fn take(&self, kind: UnitKind) -> Option<GivenUnit> {
        self.spare().entry(kind).or_default().units.pop_front()
    }

    /// Whether the last order brought nothing.
    pub(super) fn is_exhausted(&self, kind: UnitKind) -> bool {
        self.spare().entry(kind).or_default().exhausted
    }

    /// How many to order now, if there are few or one is wanted; they are on
    /// their way then.
    pub(super) fn to_order(&self, kind: UnitKind, wanted: bool) -> Option<u64> {
        let (batch, low) = order_of(kind);
        let mut spare = self.spare();
        let spare = spare.entry(kind).or_default();
        let few = !spare.ordered && (wanted || (spare.units.len() as u64) < low);
        spare.ordered |= few;
        few.then_some(batch)
    }

    /// Takes in what was ordered.
    pub(super) fn add(&self, kind: UnitKind, units: Vec<Unit>, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        let mut spare = self.spare();
        let prepared = spare.entry(kind).or_default();
        prepared.ordered = false;
        prepared.exhausted = units.is_empty();
        for unit in units {
            let mut parts: Vec<Option<OwnedFd>> = unit.numbers.iter().map(|_| None).collect();
            for part in kind.shared_parts() {
                if let Some(place) = parts.get_mut(*part) {
                    *place = fds.next();
                }
            }
            prepared.units.push_back(GivenUnit { unit, parts });
        }
        drop(spare);
        self.wake();
    }
}
