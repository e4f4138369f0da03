//! What the holder holds: slots with records, units and processes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use halter_exec::Signal;
use halter_exec::host::{LaunchFailure, LaunchPlan, LaunchStep, PidFd, Sandbox, launch};
use rustix::process::{Pid, kill_process_group};

use super::message::{
    Exit, Key, NewCommand, NewProcess, ProcessState, Role, SignalTarget, Source, UnitKind,
};
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

    /// Writes as much as fits of the lines the process is to read.
    fn write_lines(&mut self) {
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
    /// The slots with lines that did not fit.
    unsent: Vec<Key>,
    /// The name spaces that processes are born in, if not the holder's.
    pub sandbox: Option<Sandbox>,
}

impl Table {
    pub(super) fn new() -> io::Result<Self> {
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        Ok(Self {
            slots: HashMap::new(),
            units: HashMap::new(),
            next_unit: 0,
            keys_by_pid: HashMap::new(),
            null: null.into(),
            unsent: Vec::new(),
            sandbox: None,
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

    pub(super) fn add_unit(&mut self, id: u64, kind: UnitKind, parts: Vec<OwnedFd>) {
        if let Some(unit) = HeldUnit::given(id, kind, parts) {
            self.units.insert(id, unit);
        }
    }

    fn take_units(&mut self, ids: &[u64]) -> Vec<HeldUnit> {
        ids.iter().filter_map(|id| self.units.remove(id)).collect()
    }

    pub(super) fn store(&mut self, key: Key, record: Vec<u8>, units: &[u64]) {
        let units = self.take_units(units);
        match self.slots.get_mut(&key) {
            Some(slot) => {
                slot.record = record;
                slot.units.extend(units);
            }
            None => drop(self.slots.insert(key, Slot::new(record, units))),
        }
    }

    /// Starts a process in a new slot; the slot keeps the failure otherwise.
    pub(super) fn spawn(&mut self, new: NewProcess) -> Result<(), LaunchFailure> {
        let units = self.take_units(&new.units);
        let mut slot = Slot::new(new.record, units);
        let launched = self.launch(&slot.units, &new.slots, &new.plan);
        for unit in &mut slot.units {
            unit.close_process_part();
        }
        let result = match launched {
            Ok(pid) => {
                slot.process = ProcessState::Running { pid };
                slot.working = new.role == Role::Command;
                self.keys_by_pid.insert(pid, new.key);
                Ok(())
            }
            Err(failure) => {
                slot.process = ProcessState::Failed(failure);
                Err(failure)
            }
        };
        self.slots.insert(new.key, slot);
        result
    }

    fn launch(
        &self,
        units: &[HeldUnit],
        sources: &[Source],
        plan: &LaunchPlan,
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
        // The handle is not kept: a descriptor for each process is more than
        // this process, which collects all of them by number, needs.
        let launched = match &self.sandbox {
            Some(sandbox) => sandbox.launch_planned(plan, &slots),
            None => launch(plan, &slots),
        };
        launched.map(|launched| launched.pid)
    }

    /// Writes lines to a slot's process, and keeps the command that this
    /// starts.
    pub(super) fn write_lines(&mut self, key: Key, lines: &[u8], command: Option<NewCommand>) {
        if let Some(command) = command {
            let units = self.take_units(&command.units);
            let mut slot = Slot::new(command.record, units);
            slot.working = true;
            self.slots.insert(command.key, slot);
        }
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.unsent.extend_from_slice(lines);
            slot.write_lines();
            if !slot.unsent.is_empty() && !self.unsent.contains(&key) {
                self.unsent.push(key);
            }
        }
    }

    /// Tries again what did not fit.
    pub(super) fn write_rest(&mut self) {
        let slots = &mut self.slots;
        self.unsent.retain(|key| {
            let slot = slots.get_mut(key);
            slot.is_some_and(|slot| {
                slot.write_lines();
                !slot.unsent.is_empty()
            })
        });
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
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

    pub(super) fn close_streams(&mut self, key: Key) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.units.clear();
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

    pub(super) fn remove(&mut self, key: Key) {
        self.slots.remove(&key);
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

    /// Signals a process or its group, unless it has been collected: until
    /// then its number is its own, and so is that of the group it leads.
    pub(super) fn signal(&self, key: Key, number: i32, target: SignalTarget) {
        let process = self.slots.get(&key).map(|slot| &slot.process);
        let Some(ProcessState::Running { pid }) = process else {
            return;
        };
        // One that has ended meanwhile needs no signal.
        match target {
            SignalTarget::Process => {
                if let (Ok(handle), Ok(signal)) = (PidFd::open(*pid), Signal::new(number)) {
                    let _ = handle.send(signal);
                }
            }
            SignalTarget::Group => {
                let signal = rustix::process::Signal::from_named_raw(number);
                if let (Some(leader), Some(signal)) = (Pid::from_raw(*pid), signal) {
                    let _ = kill_process_group(leader, signal);
                }
            }
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
        self.slots.values().any(|slot| slot.working)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has been collected leaves its number to others.
    #[test]
    fn what_was_collected_is_not_signalled_any_more() {
        let mut table = Table::new().unwrap();
        let mut unrelated = std::process::Command::new("sleep")
            .arg("300")
            .spawn()
            .unwrap();
        let pid = i32::try_from(unrelated.id()).unwrap();
        let running = Slot {
            process: ProcessState::Running { pid },
            ..Slot::new(Vec::new(), Vec::new())
        };
        table.slots.insert(1, running);
        table.keys_by_pid.insert(pid, 1);
        let exit = Exit {
            code: Some(0),
            signal: None,
            user_us: 0,
            system_us: 0,
            max_resident_bytes: 0,
            at_us: 0,
        };
        assert_eq!(table.exited(pid, exit), Some(1));
        for target in [SignalTarget::Process, SignalTarget::Group] {
            table.signal(1, Signal::KILL.number(), target);
        }
        assert_eq!(unrelated.try_wait().unwrap(), None);
        unrelated.kill().unwrap();
        unrelated.wait().unwrap();
    }
}
