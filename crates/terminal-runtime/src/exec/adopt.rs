//! Taking over what an earlier daemon has left with the holder.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halter_exec::{
    Cgroup, InputSpool, InputTarget, Sandbox, ShellDriver, ShellState, Spool, Terminal,
};

use super::core::Core;
use super::handle::Exec;
use super::lock;
use super::order::AdoptedSession;
use super::output::{Flow, Flows};
use super::record::{ExecRecord, Grip, Place, Record, SessionRecord, ShellProcessRecord};
use super::session::Session;
use super::shell::{HolderHost, HolderShell};
use super::start::{Streams, spool_path};
use super::trees::Past;
use crate::holder::{
    EndWatch, FoundSlot, GivenUnit, Key, ProcessEnd, ProcessState, Request, Source, UnitKind,
};
use crate::session::SessionId;

/// The slots of one session.
#[derive(Default)]
struct Estate {
    session: Option<(Key, SessionRecord)>,
    count: Option<(Key, u64)>,
    shell: Option<(FoundSlot, Vec<u8>)>,
    processes: Vec<(FoundSlot, ShellProcessRecord)>,
    execs: Vec<(FoundSlot, ExecRecord)>,
}

impl Estate {
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
        let shell = self.shell.iter().map(|(slot, _)| slot.key);
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
                    estate.shell = Some((slot, record.state));
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
        let (count_key, commands) = estate.count.unwrap_or_else(|| (link.new_key(), 0));
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
        let shell = estate.shell.take();
        self.adopt_shell(&session, shell, estate.processes);
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
        shell: Option<(FoundSlot, Vec<u8>)>,
        processes: Vec<(FoundSlot, ShellProcessRecord)>,
    ) {
        let link = &self.inner.link;
        let Some((slot, state)) = shell else { return };
        let mut host = self.inner.shell_host(session, slot.key);
        let mut live = None;
        for (process, record) in processes {
            if record.retired {
                host.remember_retired(process.key);
            }
            let ready = !state.is_empty() && !record.retired;
            match self.shell_process(session, &host, process, record) {
                Some(found) if ready => live = Some(found),
                Some(found) => {
                    tokio::spawn(async move { found.do_away().await });
                }
                None => {}
            }
        }
        let files = host.files_of(slot.units);
        let (Some(files), Ok(state)) = (files, ShellState::decode(&state)) else {
            link.send(&[Request::Forget { key: slot.key }]);
            return;
        };
        let config = session.shell_config(&self.inner.settings);
        let driver = ShellDriver::adopt(host, config, state, files, live);
        if let Ok(mut seat) = session.shell.try_lock() {
            *seat = Some(driver);
        }
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
        let (exec, mut flows, wishes) = self.new_exec(session, key, record, streams);
        if let ProcessState::Running { pid } | ProcessState::Exited { pid, .. } = slot.process {
            exec.inner.pid.store(pid, Ordering::Relaxed);
        }
        if let Some(end) = ended {
            flows.drain();
            exec.inner.stdout.finish();
            if let Some(stderr) = &exec.inner.stderr {
                stderr.finish();
            }
            exec.inner.end.send_replace(Some(Ok(end)));
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
                    outputs.push((read, head));
                }
                UnitKind::File => log = unit.take(0),
                UnitKind::Input => pipe = unit.take(0),
                UnitKind::Terminal => terminal = unit.take(0).map(Terminal::from),
            }
        }
        let mut outputs = outputs.into_iter();
        let quota = self.inner.settings.spool_quota_bytes;
        let mut spool = |stream: &str| -> io::Result<Option<(std::os::fd::OwnedFd, Spool)>> {
            let Some((pipe, head)) = outputs.next() else {
                return Ok(None);
            };
            let path = spool_path(&self.inner.spool_dir, key, stream);
            Ok(Some((pipe, Spool::new(File::from(head), path, quota)?)))
        };
        let (out_pipe, stdout) = spool("out")?.ok_or_else(missing)?;
        let second = spool("err")?;
        let (flow, target) = match &terminal {
            Some(terminal) => (
                Flow::of_terminal(terminal, out_pipe, stdout.clone())?,
                Some(InputTarget::Terminal(terminal.try_clone()?)),
            ),
            None => (
                Flow::of_pipe(out_pipe, stdout.clone()),
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
            Some((pipe, spool)) => (Some(Flow::of_pipe(pipe, spool.clone())), Some(spool)),
            None => (None, None),
        };
        Ok(Streams {
            units: Vec::new(),
            slots: [Source::Null; 3],
            paths: Default::default(),
            flows: Flows {
                stdout: flow,
                stderr: stderr_flow,
            },
            stdout,
            stderr,
            input,
            terminal,
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
