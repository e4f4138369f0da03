//! What an earlier daemon left with the holder, sorted by session.

use std::collections::HashMap;
use std::fs::File;

use crate::exec::ledger::JournalRecord;
use crate::exec::record::{ExecRecord, Grip, Place, Record, SessionRecord, ShellProcessRecord};
use crate::holder::{
    FoundSlot, GivenUnit, Key, ProcessState, Request, Start, UnitKind, read_journal,
};
use crate::session::SessionId;

/// The slots of one session.
#[derive(Default)]
pub(super) struct Estate {
    pub session: Option<(Key, SessionRecord)>,
    pub count: Option<(Key, u64)>,
    pub shell: Option<FoundShell>,
    pub processes: Vec<(FoundSlot, ShellProcessRecord)>,
    pub execs: Vec<(FoundSlot, ExecRecord)>,
    /// The number of commands that the shell's journal tells.
    pub noted_commands: u64,
}

/// The slot of a shell.
pub(super) struct FoundShell {
    pub slot: FoundSlot,
    pub sequence: u64,
    pub state: Vec<u8>,
    pub journal: Option<File>,
}

/// Sorts slots by session; the keys of those with a record that cannot be
/// read come back with them.
pub(super) fn by_session(slots: Vec<FoundSlot>) -> (HashMap<SessionId, Estate>, Vec<Key>) {
    let mut estates: HashMap<SessionId, Estate> = HashMap::new();
    let mut unreadable = Vec::new();
    for slot in slots {
        let key = slot.key;
        let record = match Record::decode(&slot.record) {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(%error, "a record of an earlier runtime cannot be read");
                unreadable.push(key);
                continue;
            }
        };
        let estate = estates.entry(record.session()).or_default();
        match record {
            Record::Session(record) => estate.session = Some((key, record)),
            Record::Count(record) => estate.count = Some((key, record.commands)),
            Record::Shell(record) => {
                estate.shell = Some(FoundShell {
                    slot,
                    sequence: record.sequence,
                    state: record.state,
                    journal: None,
                });
            }
            Record::ShellProcess(record) => estate.processes.push((slot, record)),
            Record::Exec(record) => estate.execs.push((slot, record)),
        }
    }
    (estates, unreadable)
}

impl Estate {
    /// Reads the journal of the shell: what it tells, if it is newer than the
    /// shell's own record, and the command that it tells of, with a slot of its
    /// own from now on. Returns what the holder is to be told.
    pub(super) fn read_journal(&mut self) -> Vec<Request> {
        let Some(shell) = &mut self.shell else {
            return Vec::new();
        };
        let units = &mut shell.slot.units;
        let found = units
            .iter()
            .position(|unit| unit.unit.kind == UnitKind::Journal);
        let file = found
            .and_then(|place| units.remove(place).take(0))
            .map(File::from);
        let newest = file.as_ref().and_then(read_journal);
        shell.journal = file;
        let newer = newest.filter(|entry| entry.sequence > shell.sequence);
        let Some(entry) = newer else {
            return Vec::new();
        };
        shell.sequence = entry.sequence;
        let record = match JournalRecord::decode(&entry.payload) {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(%error, "the journal of an earlier runtime cannot be read");
                return Vec::new();
            }
        };
        shell.state = record.state;
        self.noted_commands = record.commands;
        record
            .command
            .map_or_else(Vec::new, |command| self.take_in(command))
    }

    /// Takes a command of the journal for one with a slot.
    fn take_in(&mut self, command: Start) -> Vec<Request> {
        let has_slot = self.execs.iter().any(|(slot, _)| slot.key == command.key);
        let (Some(shell), false) = (&mut self.shell, has_slot) else {
            return Vec::new();
        };
        let from = shell.slot.key;
        let is_its = |unit: &mut GivenUnit| command.units.contains(&unit.unit.id);
        let units: Vec<GivenUnit> = shell.slot.units.extract_if(.., is_its).collect();
        let Ok(Record::Exec(record)) = Record::decode(&command.record) else {
            return Vec::new();
        };
        if units.len() != command.units.len() {
            return Vec::new();
        }
        let Start {
            key,
            record: bytes,
            units: names,
        } = command;
        let slot = FoundSlot {
            key,
            record: bytes.clone(),
            units,
            process: ProcessState::Absent,
            end: None,
        };
        self.execs.push((slot, record));
        vec![Request::Move {
            from,
            key,
            record: bytes,
            units: names,
            working: true,
        }]
    }

    /// The highest number that one of its groups has.
    pub(super) fn highest_group(&self) -> u64 {
        let processes = self.processes.iter().map(|(_, record)| &record.grip);
        let execs = self
            .execs
            .iter()
            .filter_map(|(_, record)| match &record.place {
                Place::Process(grip) => Some(grip),
                Place::Shell(_) => None,
            });
        let number = |grip: &Grip| match grip {
            Grip::Cgroup(name) => name.strip_prefix('t')?.parse().ok(),
            Grip::Marker(marker) => marker.rsplit('-').next()?.parse::<u64>().ok(),
        };
        processes.chain(execs).filter_map(number).max().unwrap_or(0)
    }

    /// All but the one of the session itself.
    pub(super) fn keys(&self) -> Vec<Key> {
        let processes = self.processes.iter().map(|(slot, _)| slot.key);
        let execs = self.execs.iter().map(|(slot, _)| slot.key);
        let shell = self.shell.iter().map(|shell| shell.slot.key);
        let count = self.count.iter().map(|(key, _)| *key);
        processes.chain(execs).chain(shell).chain(count).collect()
    }
}
