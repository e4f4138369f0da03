//! The background jobs of a session: what `shell` starts and `process` looks
//! at.

use super::refused::{ReportedHosts, add_sandbox_note};
use super::shell::signal_of;
use super::support::text_head;
use crate::context::ToolContext;
use crate::exec::{BackgroundCommand, BackgroundProgress, RunningCommand};
use crate::limits::{JOBS_KEPT, JOBS_RUNNING};
use crate::session::{ToolSessionClosed, ToolSessionState};
use anyhow::{anyhow, bail};
use halter_protocol::limits::JOB_COMMAND_BYTES;
use halter_protocol::{BackgroundJob, MemoryChange};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The jobs of a live session, oldest first. Their processes belong to the
/// place where commands run, which ends them with the session.
#[derive(Default)]
pub(super) struct Jobs(Mutex<Vec<Arc<Job>>>);

impl ToolSessionState for Jobs {}

/// A job that this process has started.
pub(super) struct Job {
    number: u64,
    command: String,
    pub(super) running: Arc<dyn RunningCommand>,
    /// Up to where its output was shown.
    shown: AtomicU64,
    reported: ReportedHosts,
}

/// A job that a call names.
pub(super) enum NamedJob {
    /// It was started in this process.
    Live(Arc<Job>),
    /// It was started before the session was resumed, or is long over: its
    /// output is gone.
    Past(Arc<BackgroundJob>),
}

impl Jobs {
    pub(super) fn of(context: &ToolContext) -> Result<Arc<Self>, ToolSessionClosed> {
        context.tool_sessions.get_or_insert_with(Self::default)
    }

    pub(super) fn all(&self) -> Vec<Arc<Job>> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.clone()
    }

    /// Starts a job, unless too many run. Says how it is called.
    pub(super) async fn start(
        &self,
        context: &ToolContext,
        command: BackgroundCommand,
    ) -> anyhow::Result<Value> {
        self.check_room()?;
        self.remember_ended(context);
        let shown = text_head(&command.text, JOB_COMMAND_BYTES).to_owned();
        let started = context.exec().await?.start(command).await?;
        let job = self.add(context, shown, started.command);
        context.remember(MemoryChange::Job {
            job: job.remembered(),
        });
        let mut answer = job.row(context);
        add_sandbox_note(&mut answer, started.sandbox_note);
        Ok(Value::Object(answer))
    }

    fn check_room(&self) -> anyhow::Result<()> {
        let running = self.all();
        let running: Vec<String> = running
            .iter()
            .filter(|job| job.is_running())
            .map(|job| job.id())
            .collect();
        if running.len() >= JOBS_RUNNING {
            bail!(
                "{JOBS_RUNNING} jobs run already, which is the most: end one by `process` with \
                 `kill` ({})",
                running.join(", ")
            );
        }
        Ok(())
    }

    fn add(
        &self,
        context: &ToolContext,
        command: String,
        running: Arc<dyn RunningCommand>,
    ) -> Arc<Job> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live = jobs.iter().map(|job| job.number);
        let past = context.memory.jobs.iter().map(|job| job.number);
        let job = Arc::new(Job {
            number: live.chain(past).max().unwrap_or(0) + 1,
            command,
            running,
            shown: AtomicU64::new(0),
            reported: ReportedHosts::default(),
        });
        jobs.push(Arc::clone(&job));
        if jobs.len() > JOBS_KEPT
            && let Some(oldest) = jobs.iter().position(|job| !job.is_running())
        {
            jobs.remove(oldest);
        }
        job
    }

    /// The job of this name.
    pub(super) fn find(&self, context: &ToolContext, id: Option<&str>) -> anyhow::Result<NamedJob> {
        let live = self.all();
        let past = || context.memory.jobs.iter();
        let known = || {
            let mut numbers: Vec<u64> = live.iter().map(|job| job.number).collect();
            numbers.extend(past().map(|job| job.number));
            numbers.sort_unstable();
            numbers.dedup();
            match numbers.is_empty() {
                true => "none was started yet; `shell` starts one with `background`".to_owned(),
                false => {
                    let ids: Vec<String> = numbers.into_iter().map(id_of).collect();
                    format!("there are {}", ids.join(", "))
                }
            }
        };
        let Some(id) = id else {
            bail!("`job_id` is missing: {}", known());
        };
        if let Some(job) = live.iter().find(|job| job.id() == id) {
            return Ok(NamedJob::Live(Arc::clone(job)));
        }
        match past().find(|job| id_of(job.number) == id) {
            Some(job) => Ok(NamedJob::Past(Arc::clone(job))),
            None => Err(anyhow!(
                "there is no job '{}': {}",
                crate::suggest::shortened(id),
                known()
            )),
        }
    }

    /// Has the session remember which jobs have ended since it last knew.
    pub(super) fn remember_ended(&self, context: &ToolContext) {
        for job in self.all() {
            let now = job.remembered();
            let known = context.memory.jobs.iter();
            let mut known = known.filter(|it| it.number == job.number);
            if known.any(|it| it.running) && !now.running {
                context.remember(MemoryChange::Job { job: now });
            }
        }
    }

    /// All jobs the session knows of.
    pub(super) fn list(&self, context: &ToolContext) -> Value {
        let live = self.all();
        let is_live = |number| live.iter().any(|job| job.number == number);
        let past = context.memory.jobs.iter();
        let past = past
            .filter(|job| !is_live(job.number))
            .map(|job| past_row(job));
        let rows = past.chain(live.iter().map(|job| Value::Object(job.row(context))));
        json!({"jobs": rows.collect::<Vec<_>>()})
    }
}

impl Job {
    fn id(&self) -> String {
        id_of(self.number)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.progress().end.is_none()
    }

    pub(super) fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    pub(super) fn set_shown(&self, offset: u64) {
        self.shown.store(offset, Ordering::Relaxed);
    }

    /// What is known of it now.
    pub(super) fn row(&self, context: &ToolContext) -> Map<String, Value> {
        let progress = self.running.progress();
        let mut row = Map::new();
        row.insert("job_id".into(), self.id().into());
        row.insert("command".into(), self.command.clone().into());
        if let Some(pid) = self.running.pid() {
            row.insert("pid".into(), pid.into());
        }
        add_state(&mut row, progress);
        row.insert("printed_bytes".into(), progress.printed.into());
        self.reported.tell(context, &*self.running, &mut row);
        row
    }

    fn remembered(&self) -> BackgroundJob {
        let end = self.running.progress().end;
        let status = end.and_then(|end| end.status);
        BackgroundJob {
            number: self.number,
            command: self.command.clone(),
            running: end.is_none(),
            exit_code: status.map(|status| status.shell_code()),
        }
    }
}

/// Whether a command runs, and how it ended.
pub(super) fn add_state(row: &mut Map<String, Value>, progress: BackgroundProgress) {
    let Some(end) = progress.end else {
        row.insert("state".into(), "running".into());
        return;
    };
    row.insert("state".into(), "ended".into());
    if let Some(status) = end.status {
        row.insert("exit_code".into(), status.shell_code().into());
        if let Some(signal) = signal_of(status) {
            row.insert("signal".into(), signal.into());
        }
    }
    if end.timed_out {
        row.insert("timed_out".into(), true.into());
    }
}

/// A job whose output is gone.
pub(super) fn past_row(job: &BackgroundJob) -> Value {
    let note = match job.running {
        true => {
            "it was ended when the session was left, before it was resumed; its output is gone. \
             `shell` starts it again, if it is still needed"
        }
        false => "its output is gone",
    };
    let mut row = json!({
        "job_id": id_of(job.number),
        "command": job.command,
        "state": "ended",
        "note": note,
    });
    if let (Some(code), Some(row)) = (job.exit_code, row.as_object_mut()) {
        row.insert("exit_code".into(), code.into());
    }
    row
}

fn id_of(number: u64) -> String {
    format!("job_{number}")
}
