//! Going on with one command.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::exec::command::Exec;
use crate::exec::core::Core;
use crate::exec::record::{ExecRecord, Place, TreeId};
use crate::exec::session::Session;
use crate::exec::session::trees::TreeEnd;
use crate::holder::{ExitWatch, FoundSlot, ProcessEnd, ProcessState};

impl Core {
    /// Follows a command that runs to its end, and keeps the result of one
    /// that has ended; `None` if nobody will ask for that.
    pub(super) fn adopt_exec(
        &self,
        session: &Arc<Session>,
        slot: FoundSlot,
        mut record: ExecRecord,
    ) -> io::Result<Option<Exec>> {
        let key = slot.key;
        end_if_exited(session, &slot.process, &mut record);
        let streams = self.found_streams((session.id, key), slot.units, &record)?;
        let ended = record.end.clone();
        let forgotten = record.forgotten;
        let place = record.place.clone();
        let (exec, mut flows) = self.new_exec(session, key, record, streams);
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
            self.inner.register(&exec);
            return Ok(Some(exec));
        }
        self.inner.register(&exec);
        match place {
            Place::Process(tree) => {
                let end = slot
                    .end
                    .unwrap_or_else(|| ExitWatch::ended(ProcessEnd::Lost));
                tokio::spawn(exec.clone().run_process(flows, end, tree));
            }
            Place::Shell(_) => {
                let shell = Arc::clone(&session.shell);
                let adopted = exec.clone();
                tokio::spawn(async move {
                    let shell = shell.lock_owned().await;
                    adopted.run_in_shell(flows, shell).await;
                });
            }
        }
        Ok(Some(exec))
    }
}

/// Notes the end of a command whose process has ended. One that was being
/// stopped has more to it than that.
fn end_if_exited(session: &Session, process: &ProcessState, record: &mut ExecRecord) {
    let (ProcessState::Exited { pid, exit }, Place::Process(tree)) = (process, &record.place)
    else {
        return;
    };
    if record.end.is_some() || record.stop.is_some() {
        return;
    }
    // Another command may be in its control group by now, which goes with the
    // session.
    if matches!(tree, TreeId::Marker(_)) {
        session.trees.release(Some(*pid), tree, TreeEnd::ByItself);
    }
    record.end = Some(record.end_by(*exit));
}
