//! Going on with the shell of a session.

use std::sync::Arc;

use halter_exec::host::ShellDriver;

use super::forget;
use super::found::FoundShell;
use crate::exec::core::Core;
use crate::exec::record::ShellProcessRecord;
use crate::exec::session::Session;
use crate::exec::session::trees::TreeEnd;
use crate::exec::shell::{HolderHost, HolderShell};
use crate::holder::{FoundSlot, ProcessState};

impl Core {
    /// Goes on with the shell that was there.
    pub(super) fn adopt_shell(
        &self,
        session: &Arc<Session>,
        shell: FoundShell,
        processes: Vec<(FoundSlot, ShellProcessRecord)>,
    ) {
        let FoundShell { slot, state } = shell;
        let host = self.inner.shell_host(session, slot.key);
        let live = adopt_processes(session, &host, processes, state.is_some());
        let files = host.files_of(slot.units);
        let (Some(files), Some(state)) = (files, state) else {
            forget(&session.link, [slot.key]);
            return;
        };
        let config = session.shell_config(&self.inner.settings);
        let driver = ShellDriver::adopt(host, config, state, files, live);
        if let Ok(mut shell) = session.shell.try_lock() {
            *shell = Some(driver);
        }
    }
}

/// The process of a shell, if it has one that can go on. One that had not
/// been prepared yet is done away with; it had no command.
fn adopt_processes(
    session: &Session,
    host: &HolderHost,
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
        let ready = had_command && Some(key) == newest;
        let ended = matches!(process.process, ProcessState::Exited { .. });
        if !ready && !record.retired && ended {
            // Another may be in its group by now: nothing is killed.
            session.trees.release(None, &record.tree, TreeEnd::Killed);
            forget(&session.link, [key]);
            continue;
        }
        match shell_process(session, host, process, record) {
            Some(found) if ready => live = Some(found),
            Some(found) => {
                tokio::spawn(async move { found.kill().await });
            }
            None => {}
        }
    }
    live
}

fn shell_process(
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
        session
            .trees
            .release(Some(pid), &record.tree, TreeEnd::Killed);
        return None;
    }
    host.process_of(slot.key, slot.units, pid, record.tree, slot.end?)
}

/// Waits for the end of a command that nobody is left to ask for: until then
/// the shell is taken. A session that is closed does not wait for it.
pub(super) fn wait_for_command(session: &Session) {
    let is_running = |driver: &ShellDriver<HolderHost>| driver.state().is_running();
    let taken = session.shell.try_lock();
    if !taken.is_ok_and(|shell| shell.as_ref().is_some_and(is_running)) {
        return;
    }
    let (shell, closed) = (Arc::clone(&session.shell), session.closed.clone());
    tokio::spawn(async move {
        if let Some(driver) = shell.lock().await.as_mut() {
            tokio::select! {
                _ = driver.ended() => {}
                () = closed.cancelled() => {}
            }
        }
    });
}
