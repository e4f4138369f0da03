//! `process`: looking at and ending what commands have left running.

use super::shell::ShellSession;
use super::support::{CHANGES, blocking};
use crate::context::ToolContext;
use crate::limits::PROCESS_LISTED;
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
use halter_exec::{Signal, SignalResult, kill_tree, list_descendants};
use halter_protocol::{ToolCapabilities, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Look at or end processes that your shell commands left running.
/// `list_descendants` shows everything below a process (below your shell if
/// `pid` is left out); `kill_tree` signals a process and everything below it.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ProcessInput {
    /// What to do.
    action: ProcessAction,
    /// The process. `kill_tree` needs it.
    #[schemars(range(min = 1))]
    pid: Option<i32>,
    /// The number of the signal that `kill_tree` sends: 9 kills, 15 asks to end.
    #[serde(default = "kill")]
    #[schemars(range(min = 1, max = 64))]
    signal: i32,
}

fn kill() -> i32 {
    9
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ProcessAction {
    KillTree,
    ListDescendants,
}

pub(crate) struct ProcessTool;

#[async_trait]
impl TypedTool for ProcessTool {
    type Input = ProcessInput;
    const NAME: &'static str = "process";

    fn capabilities(&self) -> ToolCapabilities {
        CHANGES
    }

    fn is_polling(&self, input: &Value) -> bool {
        input.get("action").and_then(Value::as_str) == Some("list_descendants")
    }

    async fn run(&self, context: ToolContext, input: ProcessInput) -> anyhow::Result<ToolResult> {
        match input.action {
            ProcessAction::KillTree => {
                let Some(pid) = input.pid else {
                    bail!("`kill_tree` needs `pid`: call `list_descendants` to see what runs");
                };
                let signal = Signal::new(input.signal)?;
                blocking(move || kill_all(&context, pid, signal)).await
            }
            ProcessAction::ListDescendants => blocking(move || list(&context, input.pid)).await,
        }
    }
}

fn kill_all(context: &ToolContext, pid: i32, signal: Signal) -> anyhow::Result<ToolResult> {
    context.policy.check_process_signal(pid)?;
    let outcomes = kill_tree(pid, signal)?;
    let per_pid: Vec<Value> = outcomes
        .iter()
        .map(|outcome| match &outcome.result {
            SignalResult::Signalled => json!({"pid": outcome.pid, "result": "signalled"}),
            SignalResult::AlreadyGone => json!({"pid": outcome.pid, "result": "already_gone"}),
            SignalResult::Refused { reason } => {
                json!({"pid": outcome.pid, "result": "refused", "reason": reason})
            }
            _ => json!({"pid": outcome.pid, "result": "unknown"}),
        })
        .collect();
    let killed = outcomes
        .iter()
        .filter(|outcome| outcome.result == SignalResult::Signalled)
        .count();
    Ok(ToolResult::json(json!({
        "pid": pid,
        "signal": signal.number(),
        "killed": killed,
        "per_pid": per_pid,
    })))
}

fn list(context: &ToolContext, pid: Option<i32>) -> anyhow::Result<ToolResult> {
    let pid = match pid {
        Some(pid) => {
            context.policy.check_process_signal(pid)?;
            Some(pid)
        }
        None => context
            .tool_sessions
            .get::<ShellSession>()
            .and_then(|session| session.pid()),
    };
    let found = match pid {
        Some(pid) => list_descendants(pid)?,
        None => Vec::new(),
    };
    let rows = found.iter().map(|process| {
        json!({
            "pid": process.pid,
            "ppid": process.ppid,
            "state": process.state.to_string(),
            "command": process.command,
        })
    });
    Ok(ToolResult::json(listing(pid, rows)))
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
