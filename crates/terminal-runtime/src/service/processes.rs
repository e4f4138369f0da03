//! `process.*`

use halter_exec::SignalResult;

use super::Service;
use super::order::{core_error, signal};
use crate::protocol::{
    CommandProcess, ListedProcess, ProcessListParams, ProcessListing, ProcessSignalParams,
    ProcessSignalled, SignalOutcome, SignalledProcess, WireError,
};

impl Service {
    pub(super) async fn list_processes(
        &self,
        params: &ProcessListParams,
    ) -> Result<ProcessListing, WireError> {
        let session = self.find_session(&params.session_id)?;
        let found = self.inner.core.processes(&session.id, params.root).await;
        let found = found.map_err(|error| core_error(&error))?;
        let commands = found
            .commands
            .into_iter()
            .map(|(exec, pid)| CommandProcess {
                exec_id: exec.to_string(),
                pid,
            });
        let processes = found.processes.into_iter().map(|process| ListedProcess {
            pid: process.pid,
            ppid: process.ppid,
            command: process.command,
            state: process.state,
            start_time: process.start_time,
        });
        Ok(ProcessListing {
            root: found.root,
            commands: commands.collect(),
            processes: processes.collect(),
        })
    }

    pub(super) async fn signal_process(
        &self,
        params: &ProcessSignalParams,
    ) -> Result<ProcessSignalled, WireError> {
        let signal = signal(&params.signal)?;
        let session = self.find_session(&params.session_id)?;
        let core = &self.inner.core;
        let outcomes = core.signal_process(&session.id, params.pid, signal).await;
        let outcomes = outcomes.map_err(|error| core_error(&error))?.into_iter();
        let outcomes = outcomes.map(|outcome| {
            let (result, reason) = match outcome.result {
                SignalResult::Signalled => (SignalOutcome::Signalled, None),
                SignalResult::AlreadyGone => (SignalOutcome::AlreadyGone, None),
                SignalResult::Refused { reason } => (SignalOutcome::Refused, Some(reason)),
            };
            SignalledProcess {
                pid: outcome.pid,
                result,
                reason,
            }
        });
        Ok(ProcessSignalled {
            outcomes: outcomes.collect(),
        })
    }
}
