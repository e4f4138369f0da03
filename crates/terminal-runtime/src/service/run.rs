//! From a request for a command to its end: `exec.run` and `exec.stream`.

use std::sync::Arc;

use super::answer::{CallAnswer, Client, ResultOrder, ResultShape};
use super::execs::unreachable_state;
use super::job::{Admission, Job, JobState};
use super::order::{BESIDE, core_error, exec_id, pool_error};
use super::stream::StreamOrder;
use super::{Service, lock};
use crate::exec::{CoreError, Exec, ExecEnd, ExecOrder};
use crate::limits::MAX_BESIDE;
use crate::protocol::{ErrorCode, ExecParams, WireError};
use crate::session::{CommandTurn, Moment, Session};

impl Service {
    pub(super) async fn run(
        &self,
        params: ExecParams,
        client: &Client,
    ) -> Result<CallAnswer, WireError> {
        let job = self.submit(params)?;
        let state = tokio::select! {
            biased;
            state = job.over() => state,
            () = client.gone().cancelled() => {
                Box::pin(self.leave(&job)).await;
                return Ok(CallAnswer::Nobody);
            }
        };
        match state {
            JobState::Ended { end: Ok(_), .. } => Ok(CallAnswer::Result(ResultOrder {
                job,
                shape: ResultShape::Run,
            })),
            JobState::Ended {
                end: Err(error), ..
            }
            | JobState::Refused(error) => {
                self.forget_unless_kept(&job);
                Err(error)
            }
            JobState::Waiting | JobState::Running(_) => Err(unreachable_state()),
        }
    }

    pub(super) async fn stream(
        &self,
        params: ExecParams,
        client: &Client,
    ) -> Result<CallAnswer, WireError> {
        let may_queue = params.queue;
        let job = self.submit(params)?;
        // One that was answered is found again after a crash, so that its client
        // need not ask whether it has run. What waits for its turn may wait long.
        if job.admission != Admission::Queue {
            let state = tokio::select! {
                biased;
                state = job.started() => state,
                () = client.gone().cancelled() => {
                    Box::pin(self.leave(&job)).await;
                    return Ok(CallAnswer::Nobody);
                }
            };
            // A refusal is the answer itself, where that is known at once.
            if let (false, JobState::Refused(error)) = (may_queue, state) {
                return Err(error);
            }
        }
        Ok(CallAnswer::Stream(StreamOrder::new(
            job,
            self.fresh_number(),
            [0, 0],
            true,
        )))
    }

    /// A client that asked for a command is gone.
    pub(super) async fn leave(&self, job: &Arc<Job>) {
        if !job.detached {
            job.stop(None).await;
            self.forget_unless_kept(job);
        }
    }

    /// Accepts a command: it will run, is queued, or is the one that was
    /// accepted under the same name before. It runs in a task of its own: it
    /// does not depend on its client.
    fn submit(&self, params: ExecParams) -> Result<Arc<Job>, WireError> {
        let detached = params.exec_id.is_some();
        let queue = params.queue;
        if let Some(name) = params.exec_id.as_deref()
            && let Some(job) = self.accepted_before(name, &params)?
        {
            return Ok(job);
        }
        self.fail_if_draining()?;
        self.fail_without_descriptors()?;
        let session = self.find_session(&params.session_id)?;
        let order = self.order(params, &session)?;
        let beside = order.note == BESIDE;
        if beside {
            self.fail_with_enough_beside(&session)?;
        }
        let turn = match session.try_turn() {
            _ if beside => None,
            Ok(turn) => Some(turn),
            Err(crate::session::PoolError::Busy { .. }) if queue => None,
            Err(error) => return Err(pool_error(&error)),
        };
        let admission = match &turn {
            Some(_) => Admission::Turn,
            None if beside => Admission::Beside,
            None => Admission::Queue,
        };
        let job = Job::new(
            order.id.clone(),
            session,
            order.what.clone(),
            detached,
            order.pty.is_some(),
            admission,
            self.inner.clock.now(),
        );
        if let Some(existing) = self.enter(&job) {
            return Ok(existing);
        }
        let running = self.clone().run_job(Arc::clone(&job), order, turn);
        self.inner.tasks.spawn(running);
        Ok(job)
    }

    /// Refuses more commands beside a session's shell than it may have.
    fn fail_with_enough_beside(&self, session: &Session) -> Result<(), WireError> {
        let jobs = lock(&self.inner.jobs);
        let running = jobs
            .values()
            .filter(|job| job.runs_beside() && job.session.id == session.id);
        if running.count() < MAX_BESIDE {
            return Ok(());
        }
        Err(WireError::new(
            ErrorCode::SessionBusy,
            format!(
                "session {} runs {MAX_BESIDE} commands beside its shell already; wait for one, or \
                 cancel it",
                session.id
            ),
        ))
    }

    /// Enters a job under its name; the one that is there already, if one is.
    fn enter(&self, job: &Arc<Job>) -> Option<Arc<Job>> {
        let mut jobs = lock(&self.inner.jobs);
        let existing = jobs.get(&job.id).cloned();
        let existing = existing.filter(|found| !matches!(found.state(), JobState::Refused(_)));
        if existing.is_none() {
            jobs.insert(job.id.clone(), Arc::clone(job));
        }
        existing
    }

    /// The command of that name, if it is the same command.
    fn accepted_before(
        &self,
        name: &str,
        params: &ExecParams,
    ) -> Result<Option<Arc<Job>>, WireError> {
        let id = exec_id(name)?;
        let Some(job) = lock(&self.inner.jobs).get(&id).cloned() else {
            return Ok(None);
        };
        if matches!(job.state(), JobState::Refused(_)) {
            return Ok(None);
        }
        let session = self.find_session(&params.session_id)?;
        let order = self.order(params.clone(), &session)?;
        if job.session.id != session.id || job.what != order.what {
            return Err(WireError::invalid(format!(
                "exec_id `{id}` belongs to another command; choose another id"
            )));
        }
        Ok(Some(job))
    }

    /// Runs a job from its turn to its end.
    async fn run_job(self, job: Arc<Job>, order: ExecOrder, turn: Option<CommandTurn>) {
        match self.begin(&job, order, turn).await {
            Ok((exec, turn)) => {
                job.begin(Ok(exec.clone()));
                let end = exec.ended().await;
                self.over(&job, end, self.inner.clock.now(), turn);
            }
            Err(error) => job.begin(Err(error)),
        }
    }

    async fn begin(
        &self,
        job: &Arc<Job>,
        order: ExecOrder,
        turn: Option<CommandTurn>,
    ) -> Result<(Exec, Option<CommandTurn>), WireError> {
        let session = &job.session;
        if order.note == BESIDE {
            self.fail_if_draining()?;
            session.used(self.inner.clock.now());
            let started = self.inner.core.exec(&session.id, order).await;
            return match started {
                Ok(exec) => Ok((exec, None)),
                Err(error) => Err(core_error(&error)),
            };
        }
        let turn = match turn {
            Some(turn) => turn,
            None => Box::pin(turn_of(job)).await?,
        };
        self.fail_if_draining()?;
        let now = self.inner.clock.now();
        let max = self.inner.settings.session_max_commands;
        session
            .begin(&turn, job.id.clone(), Arc::clone(&job.shown), now, max)
            .map_err(|error| pool_error(&error))?;
        match self.inner.core.exec(&session.id, order).await {
            Ok(exec) => Ok((exec, Some(turn))),
            Err(error) => {
                session.finish(job.id.clone(), self.inner.clock.now());
                Err(core_error(&error))
            }
        }
    }

    /// A command has ended: its session goes on, if it was its turn.
    pub(super) fn over(
        &self,
        job: &Job,
        mut end: Result<ExecEnd, CoreError>,
        at: Moment,
        turn: Option<CommandTurn>,
    ) {
        if let Ok(end) = &mut end {
            end.limit = self.inner.core.limit_reached(&job.session.id, end);
        }
        if let Some(turn) = turn {
            if let Ok(end) = &end
                && let Some(directory) = &end.cwd
            {
                job.session.moved_to(&directory.to_string_lossy());
            }
            job.session.finish(job.id.clone(), at);
            drop(turn);
            tracing::debug!(exec = %job.id, session = %job.session.id, "command ended");
        }
        job.end(end.map_err(|error| core_error(&error)), at);
        if job.detached {
            Self::keep(job);
        }
    }

    pub(super) fn forget_unless_kept(&self, job: &Arc<Job>) {
        if !job.detached {
            self.forget(job);
        }
    }

    /// Keeps a job that somebody may ask for again.
    pub(super) fn keep(job: &Job) {
        if let Some(exec) = job.exec() {
            exec.keep();
        }
    }

    pub(super) fn forget(&self, job: &Arc<Job>) {
        lock(&self.inner.jobs).remove(&job.id);
        if let Some(exec) = job.exec() {
            exec.forget();
        }
    }
}

/// The turn of a job that has to wait for it.
async fn turn_of(job: &Job) -> Result<CommandTurn, WireError> {
    tokio::select! {
        turn = job.session.turn() => turn.map_err(|error| pool_error(&error)),
        () = job.withdrawn.cancelled() => Err(WireError::new(
            ErrorCode::CommandFailed,
            "the command was cancelled before it started",
        )
        .with_reason("cancelled")),
    }
}
