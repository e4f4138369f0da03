//! A command from the moment it was asked for until it is forgotten.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::exec::{Exec, ExecEnd, ExecId, ExecWhat};
use crate::protocol::WireError;
use crate::session::{Moment, Session};

/// Where a command is.
#[derive(Debug, Clone)]
pub(super) enum JobState {
    /// It waits for its turn.
    Waiting,
    /// It runs.
    Running(Exec),
    /// It has ended, or could not be started after all.
    Ended {
        exec: Exec,
        end: Result<ExecEnd, WireError>,
        at: Moment,
    },
    /// It was never started.
    Refused(WireError),
}

impl JobState {
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Ended { .. } | Self::Refused(_))
    }
}

/// One command that a client asked for.
#[derive(Debug)]
pub(super) struct Job {
    pub id: ExecId,
    pub session: Arc<Session>,
    pub what: ExecWhat,
    pub shown: Arc<str>,
    /// Whether it outlives its client's connection and is kept for a while
    /// after its end.
    pub detached: bool,
    pub asked: Moment,
    pub pty: bool,
    state: watch::Sender<JobState>,
    /// Set to take it out of its session's queue.
    pub withdrawn: CancellationToken,
}

impl Job {
    pub(super) fn new(
        id: ExecId,
        session: Arc<Session>,
        what: ExecWhat,
        detached: bool,
        pty: bool,
        asked: Moment,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            session,
            shown: shown(&what),
            what,
            detached,
            asked,
            pty,
            state: watch::Sender::new(JobState::Waiting),
            withdrawn: CancellationToken::new(),
        })
    }

    pub(super) fn set(&self, state: JobState) {
        self.state.send_replace(state);
    }

    pub(super) fn state(&self) -> JobState {
        self.state.borrow().clone()
    }

    /// Its state once that is as wanted.
    async fn reached(&self, wanted: impl FnMut(&JobState) -> bool) -> JobState {
        let mut receiver = self.state.subscribe();
        match receiver.wait_for(wanted).await {
            Ok(state) => state.clone(),
            // The sender is part of this very job.
            Err(_) => self.state(),
        }
    }

    /// Its state once it is no longer waiting.
    pub(super) async fn started(&self) -> JobState {
        self.reached(|state| !matches!(state, JobState::Waiting))
            .await
    }

    /// Its state once it is over.
    pub(super) async fn over(&self) -> JobState {
        self.reached(JobState::is_over).await
    }

    /// What runs it, if it was started.
    pub(super) fn exec(&self) -> Option<Exec> {
        match self.state() {
            JobState::Running(exec) | JobState::Ended { exec, .. } => Some(exec),
            JobState::Waiting | JobState::Refused(_) => None,
        }
    }

    /// Ends it, wherever it is; returns when it is over.
    pub(super) async fn stop(&self, signal: Option<halter_exec::Signal>) {
        self.withdrawn.cancel();
        if let JobState::Running(exec) = self.started().await {
            exec.cancel(signal).await;
        }
        self.over().await;
    }
}

/// A command as a person would type it.
fn shown(what: &ExecWhat) -> Arc<str> {
    match what {
        ExecWhat::Command(text) | ExecWhat::Fresh(text) => text.as_str().into(),
        ExecWhat::Argv(words) => words.join(" ").into(),
    }
}
