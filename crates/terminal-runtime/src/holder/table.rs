//! What the holder holds: slots with records, units and processes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use halter_exec::system::out_of_the_way;
use halter_exec::{LaunchFailure, LaunchStep, Launcher, PidFd, Signal};

use super::message::{Birth, Exit, Key, ProcessState, Role, Source, Start, UnitKind};
use super::units::HeldUnit;

/// One thing the daemon wants kept.
#[derive(Debug)]
pub(super) struct Slot {
    pub record: Vec<u8>,
    pub units: Vec<HeldUnit>,
    pub process: ProcessState,
    /// Whether this is work that is not over.
    working: bool,
    /// Lines that did not fit into the process's input yet.
    unsent: Vec<u8>,
}

impl Slot {
    fn new(record: Vec<u8>, units: Vec<HeldUnit>) -> Self {
        Self {
            record,
            units,
            process: ProcessState::Absent,
            working: false,
            unsent: Vec::new(),
        }
    }

    /// Whether there is work here that is not over: of its own, or of which
    /// its journal tells, as long as the streams of that are here.
    fn is_working(&self) -> bool {
        let has_streams = || self.units.iter().any(|unit| unit.kind == UnitKind::Output);
        let noted = || self.units.iter().any(HeldUnit::tells_of_work);
        self.working || (has_streams() && noted())
    }

    /// Writes as much as fits of what is to be said to the process.
    fn tell(&mut self) {
        let Some(input) = self.units.first().and_then(|unit| unit.part(0)) else {
            self.unsent.clear();
            return;
        };
        while !self.unsent.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(input, &self.unsent)) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => return,
                // Nobody reads any more: the process's end says the rest.
                Err(_) => self.unsent.clear(),
            }
        }
    }
}

/// All slots and all units that are in none.
#[derive(Debug)]
pub(super) struct Table {
    pub slots: HashMap<Key, Slot>,
    units: HashMap<u64, HeldUnit>,
    next_unit: u64,
    keys_by_pid: HashMap<i32, Key>,
    null: OwnedFd,
    pub launcher: Launcher,
    /// The slots whose processes are still to be told something.
    untold: Vec<Key>,
}

impl Table {
    pub(super) fn new(launcher: Launcher) -> io::Result<Self> {
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        Ok(Self {
            slots: HashMap::new(),
            units: HashMap::new(),
            next_unit: 0,
            keys_by_pid: HashMap::new(),
            null: out_of_the_way(null.into()),
            launcher,
            untold: Vec::new(),
        })
    }

    /// Makes a unit and keeps it until a slot asks for it.
    pub(super) fn make(&mut self, kind: UnitKind) -> io::Result<u64> {
        let id = self.next_unit;
        self.next_unit += 1;
        self.units.insert(id, HeldUnit::make(id, kind)?);
        Ok(id)
    }

    pub(super) fn unit(&self, id: u64) -> Option<&HeldUnit> {
        self.units.get(&id)
    }

    pub(super) fn give(&mut self, id: u64, kind: UnitKind, parts: Vec<OwnedFd>) {
        if let Some(unit) = HeldUnit::given(id, kind, parts) {
            self.units.insert(id, unit);
        }
    }

    fn take_units(&mut self, ids: &[u64]) -> Vec<HeldUnit> {
        ids.iter().filter_map(|id| self.units.remove(id)).collect()
    }

    pub(super) fn put(&mut self, key: Key, record: Vec<u8>, units: &[u64]) {
        let units = self.take_units(units);
        match self.slots.get_mut(&key) {
            Some(slot) => {
                slot.record = record;
                slot.units.extend(units);
            }
            None => drop(self.slots.insert(key, Slot::new(record, units))),
        }
    }

    /// Has a slot keep units that nobody is given.
    pub(super) fn keep(&mut self, key: Key, units: &[u64]) {
        let mut units = self.take_units(units);
        if let Some(slot) = self.slots.get_mut(&key) {
            for unit in &mut units {
                unit.close_process_part();
            }
            slot.units.extend(units);
        }
    }

    /// Moves units from one slot to another.
    pub(super) fn move_units(
        &mut self,
        from: Key,
        key: Key,
        record: Vec<u8>,
        units: &[u64],
        working: bool,
    ) {
        let is_moved = |unit: &mut HeldUnit| units.contains(&unit.id);
        let moved: Vec<HeldUnit> = match self.slots.get_mut(&from) {
            Some(slot) => slot.units.extract_if(.., is_moved).collect(),
            None => Vec::new(),
        };
        let empty = || Slot::new(Vec::new(), Vec::new());
        let slot = self.slots.entry(key).or_insert_with(empty);
        slot.record = record;
        slot.units.extend(moved);
        slot.working = working;
    }

    /// Starts a process in a new slot; the slot keeps the failure otherwise.
    pub(super) fn spawn(&mut self, birth: Birth) -> Result<(), LaunchFailure> {
        let units = self.take_units(&birth.units);
        let mut slot = Slot::new(birth.record, units);
        let launched = reopen(&mut slot.units)
            .and_then(|()| self.launch(&slot.units, &birth.slots, &birth.plan));
        for unit in &mut slot.units {
            unit.close_process_part();
        }
        let result = match launched {
            Ok(pid) => {
                slot.process = ProcessState::Running { pid };
                slot.working = birth.role == Role::Command;
                self.keys_by_pid.insert(pid, birth.key);
                Ok(())
            }
            Err(failure) => {
                slot.process = ProcessState::Failed(failure);
                Err(failure)
            }
        };
        self.slots.insert(birth.key, slot);
        result
    }

    fn launch(
        &mut self,
        units: &[HeldUnit],
        sources: &[Source],
        plan: &[u8],
    ) -> Result<i32, LaunchFailure> {
        let unusable = || LaunchFailure {
            step: LaunchStep::Input,
            errno: rustix::io::Errno::INVAL.raw_os_error(),
            entry: 0,
        };
        let mut slots: Vec<BorrowedFd<'_>> = Vec::with_capacity(sources.len());
        for source in sources {
            slots.push(match source {
                Source::Null => self.null.as_fd(),
                Source::Part { unit, part } => units
                    .get(usize::from(*unit))
                    .and_then(|unit| unit.part(usize::from(*part)))
                    .ok_or_else(unusable)?,
            });
        }
        self.launcher.launch_encoded(plan, &slots)
    }

    /// Says something to a slot's process, and keeps the command that this
    /// starts.
    pub(super) fn tell(&mut self, key: Key, lines: &[u8], start: Option<Start>) {
        if let Some(start) = start {
            let units = self.take_units(&start.units);
            let mut slot = Slot::new(start.record, units);
            slot.working = true;
            self.slots.insert(start.key, slot);
        }
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.unsent.extend_from_slice(lines);
            slot.tell();
            if !slot.unsent.is_empty() && !self.untold.contains(&key) {
                self.untold.push(key);
            }
        }
    }

    /// Tries again what did not fit.
    pub(super) fn tell_rest(&mut self) {
        let slots = &mut self.slots;
        self.untold.retain(|key| {
            let slot = slots.get_mut(key);
            slot.is_some_and(|slot| {
                slot.tell();
                !slot.unsent.is_empty()
            })
        });
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.untold.is_empty()
    }

    pub(super) fn settle(&mut self, key: Key) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.working = false;
            for unit in &mut slot.units {
                unit.close_process_part();
            }
            slot.units
                .retain(|unit| !matches!(unit.kind, UnitKind::File | UnitKind::Input));
        }
    }

    pub(super) fn close_input(&mut self, key: Key) {
        if let Some(slot) = self.slots.get_mut(&key) {
            for unit in &mut slot.units {
                if unit.kind == UnitKind::Input {
                    // A shell may be about to open the other end by its name.
                    unit.close_written_part();
                }
            }
        }
    }

    pub(super) fn forget(&mut self, key: Key) {
        self.slots.remove(&key);
    }

    /// Drops a slot but for its outputs, which are spare from now on.
    pub(super) fn recycle(&mut self, key: Key, written: bool) {
        let units = self.slots.remove(&key).map(|slot| slot.units);
        for mut unit in units.into_iter().flatten() {
            unit.close_process_part();
            let is_output = unit.kind == UnitKind::Output;
            if is_output && (!written || unit.empty().is_ok()) {
                self.units.insert(unit.id, unit);
            }
        }
    }

    pub(super) fn drop_units(&mut self, ids: &[u64]) {
        for id in ids {
            self.units.remove(id);
        }
    }

    /// Drops what was made ahead for a daemon that is gone.
    pub(super) fn drop_spare_units(&mut self) {
        self.units.clear();
    }

    pub(super) fn signal(&self, key: Key, number: i32) {
        let process = self.slots.get(&key).map(|slot| &slot.process);
        // The number is the process's own until it is collected here.
        if let Some(ProcessState::Running { pid }) = process
            && let (Ok(handle), Ok(signal)) = (PidFd::open(*pid), Signal::new(number))
        {
            // One that has ended meanwhile needs no signal.
            let _ = handle.send(signal);
        }
    }

    /// Notes the end of a process; the slot it belongs to, if it still has
    /// one.
    pub(super) fn exited(&mut self, pid: i32, exit: Exit) -> Option<Key> {
        let key = self.keys_by_pid.remove(&pid)?;
        let slot = self.slots.get_mut(&key)?;
        slot.process = ProcessState::Exited { pid, exit };
        slot.working = false;
        Some(key)
    }

    /// The processes that run.
    pub(super) fn running(&self) -> impl Iterator<Item = i32> {
        self.keys_by_pid.keys().copied()
    }

    /// Whether something is at work.
    pub(super) fn is_working(&self) -> bool {
        self.slots.values().any(Slot::is_working)
    }
}

/// Gives outputs that an earlier process had an end to write to.
fn reopen(units: &mut [HeldUnit]) -> Result<(), LaunchFailure> {
    for (entry, unit) in units.iter_mut().enumerate() {
        unit.reopen_process_part().map_err(|error| LaunchFailure {
            step: LaunchStep::Descriptors,
            errno: error.raw_os_error().unwrap_or_default(),
            entry: u32::try_from(entry).unwrap_or(u32::MAX),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::Journal;

    #[test]
    fn a_journal_tells_of_work_as_long_as_its_streams_are_there() {
        let mut table = Table::new(Launcher::new()).unwrap();
        let journal = table.make(UnitKind::Journal).unwrap();
        let streams = [UnitKind::Output, UnitKind::Output].map(|kind| table.make(kind).unwrap());
        let file = table.unit(journal).and_then(|unit| unit.part(0)).unwrap();
        let mut writer = Journal::new(file.try_clone_to_owned().unwrap().into());
        table.put(1, b"shell".to_vec(), &[journal]);
        assert!(writer.write(1, true, b"a command"));
        assert!(!table.is_working());
        table.keep(1, &streams);
        assert!(table.is_working());
        assert!(writer.write(2, false, b"none"));
        assert!(!table.is_working());
        assert!(writer.write(3, true, b"another"));
        assert!(table.is_working());
        // The command has a slot from now on, and this one is idle.
        table.move_units(1, 2, b"command".to_vec(), &streams, true);
        assert!(table.is_working());
        table.settle(2);
        assert!(!table.is_working());
        let slot = table.slots.get(&2).unwrap();
        assert_eq!(
            (slot.units.len(), slot.record.as_slice()),
            (2, &b"command"[..])
        );
        // Nobody keeps an end to write to.
        assert!(slot.units.iter().all(|unit| unit.part(1).is_none()));
        table.forget(2);
        assert_eq!(table.slots.get(&1).map(|slot| slot.units.len()), Some(1));
    }

    #[test]
    #[cfg(all(target_os = "linux", not(halter_portable)))]
    fn outputs_are_spare_again_without_a_byte_and_are_opened_for_the_next() {
        use std::fs::File;
        use std::io::Read;

        // The size of the file, and whether somebody can write to the pipe.
        let looks = |unit: &HeldUnit| {
            let file = unit.part(2).unwrap().try_clone_to_owned().unwrap();
            let size = File::from(file).metadata().unwrap().len();
            (size, unit.part(1).is_some())
        };
        let mut table = Table::new(Launcher::new()).unwrap();
        let outputs = [UnitKind::Output, UnitKind::Output].map(|kind| table.make(kind).unwrap());
        let input = table.make(UnitKind::Input).unwrap();
        let [first, second] = outputs;
        table.put(1, Vec::new(), &[first, second, input]);
        let file = |slot: &Slot| {
            let file = slot.units.first().and_then(|unit| unit.part(2));
            File::from(file.unwrap().try_clone_to_owned().unwrap())
        };
        file(table.slots.get(&1).unwrap()).set_len(7).unwrap();
        table.recycle(1, true);
        assert!(table.slots.is_empty() && table.unit(input).is_none());
        for id in outputs {
            assert_eq!(looks(table.unit(id).unwrap()), (0, false));
        }
        // What is empty is not emptied, and what is not there not recycled.
        table.put(2, Vec::new(), &outputs);
        file(table.slots.get(&2).unwrap()).set_len(7).unwrap();
        table.recycle(2, false);
        table.recycle(2, false);
        assert_eq!(looks(table.unit(first).unwrap()), (7, false));

        let mut units = table.take_units(&outputs);
        reopen(&mut units).unwrap();
        let [unit, _] = units.as_mut_slice() else {
            panic!("there are two");
        };
        let part = |unit: &HeldUnit, index: usize| {
            let part = unit.part(index).unwrap();
            File::from(part.try_clone_to_owned().unwrap())
        };
        let flags = rustix::fs::fcntl_getfl(part(unit, 1)).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        rustix::io::write(part(unit, 1), b"next").unwrap();
        unit.close_process_part();
        let mut found = String::new();
        part(unit, 0).read_to_string(&mut found).unwrap();
        assert_eq!(found, "next");
    }
}
