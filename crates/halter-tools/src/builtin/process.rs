//! `process`: looking at, talking to and ending what commands have left
//! running.

mod output;

use super::jobs::{Job, Jobs, NamedJob, past_row};
use super::support::CHANGES;
use crate::context::{ToolContext, cancelled};
use crate::exec::{KillOutcome, ProcessInfo, SignalResult};
use crate::limits::{JOB_POLL_WAIT, JOB_SETTLE_TIME, PROCESS_LISTED};
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_protocol::{Action, ToolCapabilities, ToolResult};
use output::Shown;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Background jobs of `shell`, and processes that commands left running.
/// `list` shows all jobs. `poll` waits (up to 30 s) for new output or the end
/// of a job and shows what is new; `read` shows output from `offset` on.
/// `write` sends `input` to a job, and ends its input if that is left out.
/// `kill` ends a job with all it started. `list_descendants` shows everything
/// below `pid` (of the session if left out); `kill_tree` signals `pid` and
/// everything below it.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ProcessInput {
    /// What to do.
    action: ProcessAction,
    /// The job.
    job_id: Option<String>,
    /// The byte of the output to begin at; what is new if left out.
    offset: Option<u64>,
    /// Text for `write`, with its line ends.
    input: Option<String>,
    /// The process. `kill_tree` needs it.
    #[schemars(range(min = 1))]
    pid: Option<i32>,
    /// The number of the signal to send: 9 kills, 15 asks to end. Left out:
    /// `kill_tree` kills, `kill` asks first.
    #[schemars(range(min = 1, max = 64))]
    signal: Option<i32>,
}

/// The signal of `kill_tree` if none is named.
const KILL: i32 = 9;

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ProcessAction {
    List,
    Poll,
    Read,
    Write,
    Kill,
    KillTree,
    ListDescendants,
}

pub(crate) struct ProcessTool;

#[async_trait]
impl TypedTool for ProcessTool {
    type Input = ProcessInput;
    const NAME: &'static str = "process";
    const SUMMARY: Option<&'static str> = Some("background jobs and process trees");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn actions(&self, input: &Value) -> Vec<Action> {
        let mutating = !only_looks(input);
        vec![Action::Other { mutating }]
    }

    fn is_polling(&self, input: &Value) -> bool {
        only_looks(input)
    }

    async fn run(&self, context: ToolContext, input: ProcessInput) -> anyhow::Result<ToolResult> {
        let value = match input.action {
            ProcessAction::KillTree => kill_tree(&context, &input).await?,
            ProcessAction::ListDescendants => {
                let tree = context.exec().await?.processes(input.pid).await?;
                listing(tree.root, tree.descendants.iter().map(row))
            }
            _ => {
                let jobs = Jobs::of(&context)?;
                let answer = of_jobs(&context, &jobs, &input).await;
                jobs.remember_ended(&context);
                answer?
            }
        };
        Ok(ToolResult::json(value))
    }
}

fn only_looks(input: &Value) -> bool {
    let looking = ["list", "poll", "read", "list_descendants"];
    let action = input.get("action").and_then(Value::as_str);
    action.is_some_and(|action| looking.contains(&action))
}

async fn kill_tree(context: &ToolContext, input: &ProcessInput) -> anyhow::Result<Value> {
    let Some(pid) = input.pid else {
        bail!("`kill_tree` needs `pid`: call `list_descendants` to see what runs");
    };
    let signal = input.signal.unwrap_or(KILL);
    let sent = context.exec().await?.signal_tree(pid, signal).await?;
    Ok(signalled(pid, signal, &sent))
}

/// What concerns jobs.
async fn of_jobs(
    context: &ToolContext,
    jobs: &Jobs,
    input: &ProcessInput,
) -> anyhow::Result<Value> {
    if matches!(input.action, ProcessAction::List) {
        return Ok(jobs.list(context));
    }
    let job = match jobs.find(context, input.job_id.as_deref())? {
        NamedJob::Live(job) => job,
        NamedJob::Past(job) => match input.action {
            ProcessAction::Write => {
                bail!("the job has ended and takes no more input; `shell` starts another")
            }
            _ => return Ok(past_row(&job)),
        },
    };
    let from = input.offset.unwrap_or_else(|| job.shown());
    match input.action {
        ProcessAction::Poll => {
            wait(context, &job, from).await?;
            output::answer(context, &job, from, Shown::Newest).await
        }
        ProcessAction::Read => output::answer(context, &job, from, Shown::Next).await,
        ProcessAction::Write => write(context, &job, input.input.as_deref()).await,
        _ => kill(context, &job, input.signal).await,
    }
}

/// Waits until a job prints something new and then pauses, or ends, or for as
/// long as one call may.
async fn wait(context: &ToolContext, job: &Arc<Job>, from: u64) -> anyhow::Result<()> {
    let news = async {
        let mut progress = job.running.printed_more_than(from).await;
        while progress.end.is_none() {
            let more = job.running.printed_more_than(progress.printed);
            match tokio::time::timeout(JOB_SETTLE_TIME, more).await {
                Ok(later) => progress = later,
                Err(_) => return,
            }
        }
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(cancelled().into()),
        // Late is no error: the answer says how far the job has come.
        _ = tokio::time::timeout(JOB_POLL_WAIT, news) => Ok(()),
    }
}

async fn write(context: &ToolContext, job: &Job, input: Option<&str>) -> anyhow::Result<Value> {
    match input {
        Some(text) => job.running.write(text.as_bytes()).await?,
        None => job.running.end_input().await,
    }
    let mut answer = job.row(context);
    answer.insert("written_bytes".into(), input.map_or(0, str::len).into());
    Ok(Value::Object(answer))
}

async fn kill(context: &ToolContext, job: &Job, signal: Option<i32>) -> anyhow::Result<Value> {
    match signal {
        Some(signal) if job.is_running() => job.running.signal(signal).await?,
        Some(_) => {}
        None => tokio::select! {
            biased;
            () = job.running.stop() => {}
            () = context.cancel.cancelled() => bail!(cancelled()),
        },
    }
    Ok(Value::Object(job.row(context)))
}

fn signalled(pid: i32, signal: i32, sent: &[KillOutcome]) -> Value {
    let per_pid: Vec<Value> = sent
        .iter()
        .map(|outcome| match &outcome.result {
            SignalResult::Signalled => json!({"pid": outcome.pid, "result": "signalled"}),
            SignalResult::AlreadyGone => json!({"pid": outcome.pid, "result": "already_gone"}),
            SignalResult::Refused { reason } => {
                json!({"pid": outcome.pid, "result": "refused", "reason": reason})
            }
        })
        .collect();
    let killed = sent
        .iter()
        .filter(|outcome| outcome.result == SignalResult::Signalled)
        .count();
    json!({"pid": pid, "signal": signal, "killed": killed, "per_pid": per_pid})
}

fn row(process: &ProcessInfo) -> Value {
    json!({
        "pid": process.pid,
        "ppid": process.ppid,
        "state": process.state.to_string(),
        "command": process.command,
    })
}

fn listing(pid: Option<i32>, rows: impl ExactSizeIterator<Item = Value>) -> Value {
    json!({
        "pid": pid,
        "truncated": rows.len() > PROCESS_LISTED,
        "descendants": rows.take(PROCESS_LISTED).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_processes_are_listed_and_no_more() {
        for (running, truncated) in [(PROCESS_LISTED, false), (PROCESS_LISTED + 1, true)] {
            let listing = listing(Some(1), (0..running).map(Value::from));
            let listed = listing["descendants"].as_array().map(Vec::len);
            assert_eq!(listed, Some(PROCESS_LISTED), "{running}");
            assert_eq!(listing["truncated"], truncated, "{running}");
        }
    }
}
