//! Taking over what an earlier daemon has left with the holder.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halter_exec::{
    Cgroup, InputSpool, InputTarget, Sandbox, ShellDriver, ShellState, Spool, Terminal,
};

use super::core::Core;
use super::handle::Exec;
use super::ledger::JournalRecord;
use super::lock;
use super::order::AdoptedSession;
use super::output::{Flow, Flows};
use super::record::{ExecRecord, Grip, Place, Record, SessionRecord, ShellProcessRecord};
use super::session::Session;
use super::shell::{HolderHost, HolderShell};
use super::start::{Streams, spool_path};
use super::trees::Past;
use crate::holder::{
    EndWatch, FoundSlot, GivenUnit, Journal, Key, ProcessEnd, ProcessState, Request, Source, Start,
    UnitKind, read_journal,
};
use crate::session::SessionId;

/// The slots of one session.
#[derive(Default)]
struct Estate {
    session: Option<(Key, SessionRecord)>,
    count: Option<(Key, u64)>,
    shell: Option<FoundShell>,
    processes: Vec<(FoundSlot, ShellProcessRecord)>,
    execs: Vec<(FoundSlot, ExecRecord)>,
    /// The number of commands that the shell's journal tells.
    noted_commands: u64,
}

/// The slot of a shell.
struct FoundShell {
    slot: FoundSlot,
    sequence: u64,
    state: Vec<u8>,
    journal: Option<File>,
}

impl Estate {
    /// Reads the journal of the shell: what it tells, if it is newer than the
    /// shell's own record, and the command that it tells of, with a slot of its
    /// own from now on. Returns what the holder is to be told.
    fn read_journal(&mut self) -> Vec<Request> {
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
    fn highest_group(&self) -> u64 {
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

    fn keys(&self) -> Vec<Key> {
        let processes = self.processes.iter().map(|(slot, _)| slot.key);
        let execs = self.execs.iter().map(|(slot, _)| slot.key);
        let shell = self.shell.iter().map(|shell| shell.slot.key);
        let count = self.count.iter().map(|(key, _)| *key);
        processes.chain(execs).chain(shell).chain(count).collect()
    }
}

impl Core {
    /// Goes on with all sessions that were open and all commands that are not
    /// forgotten.
    pub(super) async fn adopt(&self, slots: Vec<FoundSlot>) -> Vec<AdoptedSession> {
        let mut estates: HashMap<SessionId, Estate> = HashMap::new();
        for slot in slots {
            let key = slot.key;
            match Record::decode(&slot.record) {
                Ok(Record::Session(record)) => {
                    let estate = estates.entry(record.id).or_default();
                    estate.session = Some((key, record));
                }
                Ok(Record::Count(record)) => {
                    let estate = estates.entry(record.session).or_default();
                    estate.count = Some((key, record.commands));
                }
                Ok(Record::Shell(record)) => {
                    let estate = estates.entry(record.session).or_default();
                    estate.shell = Some(FoundShell {
                        slot,
                        sequence: record.sequence,
                        state: record.state,
                        journal: None,
                    });
                }
                Ok(Record::ShellProcess(record)) => {
                    let estate = estates.entry(record.session).or_default();
                    estate.processes.push((slot, record));
                }
                Ok(Record::Exec(record)) => {
                    let estate = estates.entry(record.session).or_default();
                    estate.execs.push((slot, record));
                }
                Err(error) => {
                    tracing::warn!(%error, "a record of an earlier runtime cannot be read");
                    self.inner.link.send(&[Request::Forget { key }]);
                }
            }
        }
        // Before any name is given: those in journals are taken.
        for estate in estates.values_mut() {
            let moves = estate.read_journal();
            for key in estate.keys() {
                self.inner.link.reserve(key);
            }
            if !moves.is_empty() {
                self.inner.link.send(&moves);
            }
        }
        let mut adopted = Vec::new();
        for estate in estates.into_values() {
            adopted.extend(self.adopt_session(estate).await);
        }
        self.keep_results(&adopted);
        adopted
    }

    /// Keeps the results of ended commands, as long as others of their age.
    fn keep_results(&self, adopted: &[AdoptedSession]) {
        let mut ended: Vec<(u64, &Exec)> = adopted
            .iter()
            .flat_map(|session| &session.execs)
            .filter_map(|exec| {
                let record = lock(&exec.inner.record);
                let end = record.end.as_ref()?;
                let took = u64::try_from(end.duration.as_micros()).unwrap_or(u64::MAX);
                Some((record.started_us.saturating_add(took), exec))
            })
            .collect();
        ended.sort_by_key(|(at, _)| *at);
        for (_, exec) in ended {
            self.inner.ended(exec);
        }
    }

    async fn adopt_session(&self, mut estate: Estate) -> Option<AdoptedSession> {
        let link = &self.inner.link;
        let Some((key, record)) = estate.session.take() else {
            // The session was closed; this was on its way out.
            let forget: Vec<Request> = estate
                .keys()
                .into_iter()
                .map(|key| Request::Forget { key })
                .collect();
            link.send(&forget);
            return None;
        };
        let trees = self.trees(record.id, estate.highest_group());
        let (count_key, counted) = estate.count.unwrap_or_else(|| (link.new_key(), 0));
        let commands = counted.max(estate.noted_commands);
        let keys = (key, count_key);
        let spec = record.spec.clone();
        let grounds = self.grounds();
        let session = Arc::new(Session::new(&grounds, record.id, keys, spec, trees));
        session.commands.store(commands, Ordering::Relaxed);
        if commands > 0
            && let Err(error) = session.ready(&self.inner.settings).await
        {
            tracing::error!(%error, session = %session.id, "a session's container is lost");
        }
        lock(&self.inner.sessions).insert(record.id, Arc::clone(&session));
        let given =
            |record: &ExecRecord| record.end.is_none() && matches!(record.place, Place::Shell(_));
        let has_command = estate.execs.iter().any(|(_, record)| given(record));
        if let Some(shell) = estate.shell.take() {
            self.adopt_shell(&session, shell, estate.processes, has_command);
        }
        let mut execs = Vec::new();
        for (slot, record) in estate.execs {
            let key = slot.key;
            match self.adopt_exec(&session, slot, record) {
                Ok(exec) => execs.extend(exec),
                Err(error) => {
                    tracing::error!(%error, "a command of an earlier runtime is lost");
                    link.send(&[Request::Forget { key }]);
                }
            }
        }
        Some(AdoptedSession {
            id: record.id,
            spec: record.spec,
            commands,
            execs,
        })
    }

    /// Seats the shell that was there. One that had not been prepared yet is
    /// done away with; it had no command.
    fn adopt_shell(
        &self,
        session: &Arc<Session>,
        shell: FoundShell,
        processes: Vec<(FoundSlot, ShellProcessRecord)>,
        has_command: bool,
    ) {
        let link = &self.inner.link;
        let FoundShell {
            slot,
            sequence,
            state,
            journal,
        } = shell;
        let mut host = self.inner.shell_host(session, slot.key);
        let mut live = None;
        // Of several the last one is it: those before have ended, or were to.
        let is_its = |record: &ShellProcessRecord| record.shell == slot.key && !record.retired;
        let its = processes.iter().filter(|(_, record)| is_its(record));
        let newest = its.map(|(process, _)| process.key).max();
        for (process, record) in processes {
            let key = process.key;
            if record.retired {
                host.remember_retired(key);
            }
            let ready = !state.is_empty() && Some(key) == newest;
            let ended = matches!(process.process, ProcessState::Exited { .. });
            if !ready && !record.retired && ended {
                // Another may be in its group by now: nothing is killed.
                let trees = &session.trees;
                trees.release(&session.spec, None, &record.grip, Past::Killed);
                link.send(&[Request::Forget { key }]);
                continue;
            }
            match self.shell_process(session, &host, process, record) {
                Some(found) if ready => live = Some(found),
                Some(found) => {
                    tokio::spawn(async move { found.do_away().await });
                }
                None => {}
            }
        }
        self.drop_sets(&slot);
        host.ledger().open(sequence, journal.map(Journal::new));
        let files = host.files_of(slot.units);
        let (Some(files), Ok(state)) = (files, ShellState::decode(&state)) else {
            link.send(&[Request::Forget { key: slot.key }]);
            return;
        };
        let config = session.shell_config(&self.inner.settings);
        let running = state.is_running();
        host.ledger().remember(state.encode(), running);
        // From now on the record is newer than the journal.
        link.send(&host.ledger().flush());
        let driver = ShellDriver::adopt(host, config, state, files, live);
        if let Ok(mut seat) = session.shell.try_lock() {
            *seat = Some(driver);
        }
        if running && !has_command {
            // Nobody is left to ask how it ends, but the shell is taken.
            let seat = Arc::clone(&session.shell);
            tokio::spawn(async move {
                if let Some(driver) = seat.lock().await.as_mut() {
                    let _ = driver.ended().await;
                }
            });
        }
    }

    /// Has the holder drop the streams of a shell that no command has.
    fn drop_sets(&self, slot: &FoundSlot) {
        let link = &self.inner.link;
        let sets = slot
            .units
            .iter()
            .filter(|unit| unit.unit.kind == UnitKind::Output);
        let units: Vec<u64> = sets.map(|unit| unit.unit.id).collect();
        if units.is_empty() {
            return;
        }
        let key = link.new_key();
        let moved = Request::Move {
            from: slot.key,
            key,
            record: Vec::new(),
            units,
            working: false,
        };
        link.send(&[moved, Request::Forget { key }]);
    }

    fn shell_process(
        &self,
        session: &Session,
        host: &HolderHost,
        slot: FoundSlot,
        record: ShellProcessRecord,
    ) -> Option<HolderShell> {
        let pid = match slot.process {
            ProcessState::Running { pid } | ProcessState::Exited { pid, .. } => pid,
            _ => return None,
        };
        if record.retired {
            let trees = &session.trees;
            trees.release(&session.spec, Some(pid), &record.grip, Past::Killed);
            return None;
        }
        host.process_of(slot.key, slot.units, pid, record.grip, slot.end?)
    }

    fn adopt_exec(
        &self,
        session: &Arc<Session>,
        slot: FoundSlot,
        record: ExecRecord,
    ) -> io::Result<Option<Exec>> {
        let key = slot.key;
        let mut record = record;
        end_if_exited(session, &slot.process, &mut record);
        let streams = self.found_streams(key, slot.units, &record)?;
        let ended = record.end.clone();
        let forgotten = record.forgotten;
        let place = record.place.clone();
        let (exec, mut flows, wishes) = self.new_exec(session, key, record, streams, true);
        if let ProcessState::Running { pid } | ProcessState::Exited { pid, .. } = slot.process {
            exec.inner.pid.store(pid, Ordering::Relaxed);
        }
        if let Some(end) = ended {
            flows.drain();
            exec.inner.stdout.finish();
            if let Some(stderr) = &exec.inner.stderr {
                stderr.finish();
            }
            let _ = exec.inner.end.set(Ok(end));
            tokio::spawn(exec.clone().follow(flows));
            if forgotten {
                exec.remove();
                return Ok(None);
            }
            self.inner.introduce(&exec);
            return Ok(Some(exec));
        }
        self.inner.introduce(&exec);
        match place {
            Place::Process(grip) => {
                let end = slot
                    .end
                    .unwrap_or_else(|| EndWatch::ended(ProcessEnd::Lost));
                tokio::spawn(exec.clone().drive_process(flows, end, grip, wishes));
            }
            Place::Shell(_) => {
                let seat = Arc::clone(&session.shell);
                let driven = exec.clone();
                tokio::spawn(async move {
                    let seat = seat.lock_owned().await;
                    driven.drive_shell(flows, seat, wishes).await;
                });
            }
        }
        Ok(Some(exec))
    }

    /// The streams of a command, from the units it was given.
    fn found_streams(
        &self,
        key: Key,
        units: Vec<GivenUnit>,
        record: &ExecRecord,
    ) -> io::Result<Streams> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let mut outputs = Vec::new();
        let mut log = None;
        let mut pipe = None;
        let mut terminal = None;
        for mut unit in units {
            match unit.unit.kind {
                UnitKind::Output => {
                    let parts = (unit.take(0), unit.take(2));
                    let (Some(read), Some(head)) = parts else {
                        return Err(missing());
                    };
                    let other_ends = unit.unit.numbers.get(1).is_some_and(|number| *number >= 0);
                    outputs.push((read, head, other_ends));
                }
                UnitKind::Journal => {}
                UnitKind::File => log = unit.take(0),
                UnitKind::Input => pipe = unit.take(0),
                UnitKind::Terminal => terminal = unit.take(0).map(Terminal::from),
            }
        }
        let mut outputs = outputs.into_iter();
        let quota = self.inner.settings.spool_quota_bytes;
        let mut spool = |stream: &str| -> io::Result<Option<(OwnedFd, Spool, bool)>> {
            let Some((pipe, head, other_ends)) = outputs.next() else {
                return Ok(None);
            };
            let path = spool_path(&self.inner.spool_dir, key, stream);
            let spool = Spool::new(File::from(head), path, quota)?;
            Ok(Some((pipe, spool, other_ends)))
        };
        // A shell may be about to open a pipe that nobody keeps open for it.
        let may_open = record.end.is_none() && matches!(record.place, Place::Shell(_));
        let flow = |pipe: OwnedFd, spool: &Spool, other_ends: bool| {
            if other_ends || !may_open {
                Flow::of_pipe(pipe, spool.clone())
            } else {
                Flow::lent(pipe, spool.clone())
            }
        };
        let (out_pipe, stdout, out_ends) = spool("out")?.ok_or_else(missing)?;
        let second = spool("err")?;
        let (stdout_flow, target) = match &terminal {
            Some(terminal) => (
                Flow::of_terminal(terminal, out_pipe, stdout.clone())?,
                Some(InputTarget::Terminal(terminal.try_clone()?)),
            ),
            None => (
                flow(out_pipe, &stdout, out_ends),
                pipe.map(InputTarget::Pipe),
            ),
        };
        let input = match (log, target) {
            (Some(log), Some(target)) if record.end.is_none() => {
                let input = InputSpool::new(log.into(), target)?;
                if record.input_ended {
                    input.end();
                }
                Some(input)
            }
            _ => None,
        };
        let (stderr_flow, stderr) = match second {
            Some((pipe, spool, ends)) => (Some(flow(pipe, &spool, ends)), Some(spool)),
            None => (None, None),
        };
        Ok(Streams {
            units: Vec::new(),
            slots: [Source::Null; 3],
            paths: Default::default(),
            flows: Flows {
                stdout: stdout_flow,
                stderr: stderr_flow,
            },
            stdout,
            stderr,
            input,
            terminal,
            loan: None,
        })
    }

    /// Removes what no session has any more: groups, shared files and spools.
    pub(super) fn tidy(&self) {
        let sessions: HashSet<String> = lock(&self.inner.sessions)
            .keys()
            .map(|id| format!("{}{id}", self.inner.prefix))
            .collect();
        let keep = |name: &str| sessions.contains(name);
        for left in Sandbox::sweep(&self.inner.prefix, keep) {
            tracing::warn!(group = %left.display(), "an old group cannot be removed");
        }
        if let Ok(own) = Cgroup::own() {
            let _ = Cgroup::sweep(&own, &self.inner.prefix, keep);
        }
        let shared = std::fs::read_dir(self.inner.settings.state_dir.join("shared"));
        for entry in shared.into_iter().flatten().flatten() {
            if !keep(&entry.file_name().to_string_lossy()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let keys: HashSet<String> = lock(&self.inner.execs)
            .known
            .values()
            .map(|exec| exec.inner.key.to_string())
            .collect();
        let Ok(entries) = std::fs::read_dir(&self.inner.spool_dir) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let key = name.split('.').next().unwrap_or_default();
            if !keys.contains(key) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Notes the end of a command whose process has ended. One that was being
/// stopped has more to it than that.
fn end_if_exited(session: &Session, process: &ProcessState, record: &mut ExecRecord) {
    let (ProcessState::Exited { pid, exit }, Place::Process(grip)) = (process, &record.place)
    else {
        return;
    };
    if record.end.is_some() || record.stop.is_some() {
        return;
    }
    // Another command may be in its control group by now, which goes with the
    // session.
    if matches!(grip, Grip::Marker(_)) {
        let trees = &session.trees;
        trees.release(&session.spec, Some(*pid), grip, Past::Peaceful);
    }
    record.end = Some(record.end_by(*exit));
}
