//! A command from the moment it was asked for until it is forgotten.

use std::sync::Arc;

use tokio::sync::SetOnce;
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

/// How a command gets to run in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Its turn was free, and is its own.
    Turn,
    /// Others had the session when it was asked for.
    Queue,
    /// Beside the session's other commands.
    Beside,
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
    pub admission: Admission,
    /// What runs it, or why nothing does.
    begun: SetOnce<Result<Exec, WireError>>,
    /// How it ended, and when.
    ended: SetOnce<(Result<ExecEnd, WireError>, Moment)>,
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
        admission: Admission,
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
            admission,
            begun: SetOnce::new(),
            ended: SetOnce::new(),
            withdrawn: CancellationToken::new(),
        })
    }

    /// It runs, or never will.
    pub(super) fn begin(&self, begun: Result<Exec, WireError>) {
        // It begins once.
        let _ = self.begun.set(begun);
    }

    /// It has ended, or could not be started after all.
    pub(super) fn end(&self, end: Result<ExecEnd, WireError>, at: Moment) {
        // It ends once.
        let _ = self.ended.set((end, at));
    }

    pub(super) fn state(&self) -> JobState {
        match (self.begun.get(), self.ended.get()) {
            (None, _) => JobState::Waiting,
            (Some(Err(error)), _) => JobState::Refused(error.clone()),
            (Some(Ok(exec)), None) => JobState::Running(exec.clone()),
            (Some(Ok(exec)), Some((end, at))) => JobState::Ended {
                exec: exec.clone(),
                end: end.clone(),
                at: *at,
            },
        }
    }

    /// Whether it is not over and runs beside the session's other commands.
    pub(super) fn runs_beside(&self) -> bool {
        self.admission == Admission::Beside && !self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.begun.get(), Some(Err(_))) || self.ended.initialized()
    }

    /// Its state once it is no longer waiting.
    pub(super) async fn started(&self) -> JobState {
        self.begun.wait().await;
        self.state()
    }

    /// Its state once it is over.
    pub(super) async fn over(&self) -> JobState {
        if self.begun.wait().await.is_ok() {
            self.ended.wait().await;
        }
        self.state()
    }

    /// What runs it, if it was started.
    pub(super) fn exec(&self) -> Option<Exec> {
        self.begun.get()?.as_ref().ok().cloned()
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
        ExecWhat::Command(text) | ExecWhat::Fresh(text) => Arc::clone(text),
        ExecWhat::Argv(words) => match &**words {
            [word] => word.as_str().into(),
            words => words.join(" ").into(),
        },
    }
}
