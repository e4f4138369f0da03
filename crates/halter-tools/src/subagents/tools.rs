//! `send_input`, `wait_agent` and `close_agent`: what follows a `spawn_agent`.

use super::no_subagents;
use crate::availability::HarnessFacts;
use crate::context::{ToolContext, cancelled};
use crate::limits::{SUBAGENT_TARGETS, SUBAGENT_TASK_CHARS, SUBAGENT_WAIT_MS};
use crate::typed::TypedTool;
use async_trait::async_trait;
use halter_protocol::{
    Action, CloseSubagentRequest, SendSubagentInputRequest, ToolCapabilities, ToolConcurrency,
    ToolResult, WaitSubagentRequest,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The name of the tool that gives a subagent more to do.
pub const SEND_INPUT: &str = "send_input";

/// The name of the tool that waits for a subagent.
pub const WAIT_AGENT: &str = "wait_agent";

/// The name of the tool that ends a subagent.
pub const CLOSE_AGENT: &str = "close_agent";

/// Give a subagent more to do: one that works hears it as soon as it can, one
/// that has reported goes on with what it knows.
#[derive(Deserialize, JsonSchema)]
pub(super) struct SendInput {
    /// The subagent, by its `agent_id`.
    target: String,
    /// What it is told.
    #[schemars(length(min = 1, max = SUBAGENT_TASK_CHARS))]
    message: String,
}

pub(super) struct SendInputTool;

/// Nothing changes by these calls themselves.
fn harmless() -> Vec<Action> {
    vec![Action::Other { mutating: false }]
}

#[async_trait]
impl TypedTool for SendInputTool {
    type Input = SendInput;
    const NAME: &'static str = SEND_INPUT;
    const SUMMARY: Option<&'static str> = Some("to a subagent");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            mutating: true,
            ..ToolCapabilities::default()
        }
    }

    fn actions(&self, _input: &Value) -> Vec<Action> {
        harmless()
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        no_subagents(harness)
    }

    async fn run(&self, context: ToolContext, input: SendInput) -> anyhow::Result<ToolResult> {
        let request = SendSubagentInputRequest {
            target: input.target.into(),
            message: input.message,
        };
        let status = context.subagents()?.send_input(request).await?;
        Ok(ToolResult::json(serde_json::to_value(status)?))
    }
}

/// Wait until the first of these subagents has reported or was stopped, and get
/// its report. You need not wait: reports reach you anyway.
#[derive(Deserialize, JsonSchema)]
pub(super) struct WaitAgent {
    /// The subagents, by their `agent_id`.
    #[schemars(length(min = 1, max = SUBAGENT_TARGETS))]
    targets: Vec<String>,
    /// How long to wait, in milliseconds; without it, as long as it takes.
    #[schemars(range(min = 0, max = SUBAGENT_WAIT_MS))]
    timeout_ms: Option<u64>,
}

pub(super) struct WaitAgentTool;

#[async_trait]
impl TypedTool for WaitAgentTool {
    type Input = WaitAgent;
    const NAME: &'static str = WAIT_AGENT;
    const SUMMARY: Option<&'static str> = Some("for a report");
    const RARE: bool = true;

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            cancellable: true,
            long_running: true,
            ..ToolCapabilities::default()
        }
    }

    fn actions(&self, _input: &Value) -> Vec<Action> {
        harmless()
    }

    fn is_polling(&self, _input: &Value) -> bool {
        true
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        no_subagents(harness)
    }

    async fn run(&self, context: ToolContext, input: WaitAgent) -> anyhow::Result<ToolResult> {
        let control = context.subagents()?;
        let request = WaitSubagentRequest {
            targets: input.targets.into_iter().map(Into::into).collect(),
            timeout_ms: input.timeout_ms,
        };
        let waited = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(cancelled().into()),
            waited = control.wait(request) => waited?,
        };
        Ok(ToolResult::json(serde_json::to_value(waited)?))
    }
}

/// End a subagent for good, with everything it started. Close those you do not
/// need any more.
#[derive(Deserialize, JsonSchema)]
pub(super) struct CloseAgent {
    /// The subagent, by its `agent_id`.
    target: String,
}

pub(super) struct CloseAgentTool;

#[async_trait]
impl TypedTool for CloseAgentTool {
    type Input = CloseAgent;
    const NAME: &'static str = CLOSE_AGENT;
    const SUMMARY: Option<&'static str> = Some("end a subagent");
    const RARE: bool = true;

    fn capabilities(&self) -> ToolCapabilities {
        ToolCapabilities {
            mutating: true,
            ..ToolCapabilities::default()
        }
    }

    fn actions(&self, _input: &Value) -> Vec<Action> {
        harmless()
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        no_subagents(harness)
    }

    async fn run(&self, context: ToolContext, input: CloseAgent) -> anyhow::Result<ToolResult> {
        let request = CloseSubagentRequest {
            target: input.target.into(),
        };
        let closed = context.subagents()?.close(request).await?;
        Ok(ToolResult::json(serde_json::to_value(closed)?))
    }
}
