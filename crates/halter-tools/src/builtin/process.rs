//! `process`: looking at and ending what commands have left running.

use super::support::CHANGES;
use crate::context::ToolContext;
use crate::exec::{KillOutcome, ProcessInfo, SignalResult};
use crate::limits::PROCESS_LISTED;
use crate::typed::TypedTool;
use anyhow::bail;
use async_trait::async_trait;
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
        let session = context.exec()?;
        match input.action {
            ProcessAction::KillTree => {
                let Some(pid) = input.pid else {
                    bail!("`kill_tree` needs `pid`: call `list_descendants` to see what runs");
                };
                let sent = session.signal_tree(pid, input.signal).await?;
                Ok(ToolResult::json(signalled(pid, input.signal, &sent)))
            }
            ProcessAction::ListDescendants => {
                let tree = session.processes(input.pid).await?;
                let rows = tree.descendants.iter().map(row);
                Ok(ToolResult::json(listing(tree.root, rows)))
            }
        }
    }
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
