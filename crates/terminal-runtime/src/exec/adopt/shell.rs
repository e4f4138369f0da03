//! Going on with the shell of a session.

use std::sync::Arc;

use halter_exec::{ShellDriver, ShellState};

use super::estate::FoundShell;
use crate::exec::core::Core;
use crate::exec::record::ShellProcessRecord;
use crate::exec::session::Session;
use crate::exec::shell::{HolderHost, HolderShell};
use crate::exec::trees::Past;
use crate::holder::{FoundSlot, Journal, ProcessState, Request, UnitKind};

impl Core {
    /// Seats the shell that was there.
    pub(super) fn adopt_shell(
        &self,
        session: &Arc<Session>,
        shell: FoundShell,
        processes: Vec<(FoundSlot, ShellProcessRecord)>,
    ) {
        let link = &self.inner.link;
        let FoundShell {
            slot,
            sequence,
            state,
            journal,
        } = shell;
        let mut host = self.inner.shell_host(session, slot.key);
        let had_command = !state.is_empty();
        let live = self.adopt_processes(session, &mut host, processes, had_command);
        self.drop_sets(&slot);
        host.ledger().open(sequence, journal.map(Journal::new));
        let files = host.files_of(slot.units);
        let (Some(files), Ok(state)) = (files, ShellState::decode(&state)) else {
            self.forget([slot.key]);
            return;
        };
        let config = session.shell_config(&self.inner.settings);
        host.ledger().remember(state.encode(), state.is_running());
        // From now on the record is newer than the journal.
        link.send(&host.ledger().flush());
        let driver = ShellDriver::adopt(host, config, state, files, live);
        if let Ok(mut seat) = session.shell.try_lock() {
            *seat = Some(driver);
        }
    }

    /// The process of a shell, if it has one that can go on. One that had not
    /// been prepared yet is done away with; it had no command.
    fn adopt_processes(
        &self,
        session: &Session,
        host: &mut HolderHost,
        processes: Vec<(FoundSlot, ShellProcessRecord)>,
        had_command: bool,
    ) -> Option<HolderShell> {
        let mut live = None;
        // Of several the last one is it: those before have ended, or were to.
        let is_its = |record: &ShellProcessRecord| record.shell == host.key() && !record.retired;
        let its = processes.iter().filter(|(_, record)| is_its(record));
        let newest = its.map(|(process, _)| process.key).max();
        for (process, record) in processes {
            let key = process.key;
            if record.retired {
                host.remember_retired(key);
            }
            let ready = had_command && Some(key) == newest;
            let ended = matches!(process.process, ProcessState::Exited { .. });
            if !ready && !record.retired && ended {
                // Another may be in its group by now: nothing is killed.
                let trees = &session.trees;
                trees.release(&session.spec, None, &record.grip, Past::Killed);
                self.forget([key]);
                continue;
            }
            match self.shell_process(session, host, process, record) {
                Some(found) if ready => live = Some(found),
                Some(found) => {
                    tokio::spawn(async move { found.do_away().await });
                }
                None => {}
            }
        }
        live
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
}

/// Waits for the end of a command that nobody is left to ask for: until then
/// the shell is taken.
pub(super) fn see_out_command(session: &Session) {
    let is_running = |driver: &ShellDriver<HolderHost>| driver.state().is_running();
    let taken = session.shell.try_lock();
    if !taken.is_ok_and(|seat| seat.as_ref().is_some_and(is_running)) {
        return;
    }
    let seat = Arc::clone(&session.shell);
    tokio::spawn(async move {
        if let Some(driver) = seat.lock().await.as_mut() {
            let _ = driver.ended().await;
        }
    });
}
