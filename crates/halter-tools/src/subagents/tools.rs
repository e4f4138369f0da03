//! `send_input`, `wait_agent` and `close_agent`: what follows a `spawn_agent`.

use super::{SubagentControl, no_subagents};
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
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;

/// The name of the tool that gives a subagent more to do.
pub const SEND_INPUT: &str = "send_input";

/// The name of the tool that waits for a subagent.
pub const WAIT_AGENT: &str = "wait_agent";

/// The name of the tool that ends a subagent.
pub const CLOSE_AGENT: &str = "close_agent";

/// What one of these tools has a subagent do.
#[async_trait]
pub(super) trait SubagentCall: Send + Sync + 'static {
    type Input: DeserializeOwned + JsonSchema + Send;
    const NAME: &'static str;
    const SUMMARY: &'static str;
    const CONCURRENCY: ToolConcurrency = ToolConcurrency::Exclusive;
    const CAPABILITIES: ToolCapabilities = ToolCapabilities {
        mutating: true,
        requires_approval: false,
        cancellable: false,
        long_running: false,
    };
    /// Repeating the call is how one waits.
    const POLLS: bool = false;

    async fn call(control: &dyn SubagentControl, input: Self::Input) -> anyhow::Result<Value>;
}

pub(super) struct SubagentTool<C>(PhantomData<fn() -> C>);

impl<C> SubagentTool<C> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

#[async_trait]
impl<C: SubagentCall> TypedTool for SubagentTool<C> {
    type Input = C::Input;
    const NAME: &'static str = C::NAME;
    const SUMMARY: Option<&'static str> = Some(C::SUMMARY);
    const RARE: bool = true;

    fn concurrency(&self) -> ToolConcurrency {
        C::CONCURRENCY
    }

    fn capabilities(&self) -> ToolCapabilities {
        C::CAPABILITIES
    }

    /// Nothing changes by these calls themselves.
    fn actions(&self, _input: &Value) -> Vec<Action> {
        vec![Action::Other { mutating: false }]
    }

    fn is_polling(&self, _input: &Value) -> bool {
        C::POLLS
    }

    fn unavailable(&self, harness: &HarnessFacts<'_>) -> Option<String> {
        no_subagents(harness)
    }

    async fn run(&self, context: ToolContext, input: C::Input) -> anyhow::Result<ToolResult> {
        let control = context.subagents()?;
        let cancelled_first = async {
            match C::CAPABILITIES.cancellable {
                true => context.cancel.cancelled().await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancelled_first => Err(cancelled().into()),
            answer = C::call(&*control, input) => Ok(ToolResult::json(answer?)),
        }
    }
}

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

#[async_trait]
impl SubagentCall for SendInput {
    type Input = Self;
    const NAME: &'static str = SEND_INPUT;
    const SUMMARY: &'static str = "message a subagent";

    async fn call(control: &dyn SubagentControl, input: Self) -> anyhow::Result<Value> {
        let request = SendSubagentInputRequest {
            target: input.target.into(),
            message: input.message,
        };
        Ok(serde_json::to_value(control.send_input(request).await?)?)
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

#[async_trait]
impl SubagentCall for WaitAgent {
    type Input = Self;
    const NAME: &'static str = WAIT_AGENT;
    const SUMMARY: &'static str = "wait for a report";
    const CONCURRENCY: ToolConcurrency = ToolConcurrency::ReadOnly;
    const CAPABILITIES: ToolCapabilities = ToolCapabilities {
        mutating: false,
        requires_approval: false,
        cancellable: true,
        long_running: true,
    };
    const POLLS: bool = true;

    async fn call(control: &dyn SubagentControl, input: Self) -> anyhow::Result<Value> {
        let request = WaitSubagentRequest {
            targets: input.targets.into_iter().map(Into::into).collect(),
            timeout_ms: input.timeout_ms,
        };
        Ok(serde_json::to_value(control.wait(request).await?)?)
    }
}

/// End a subagent for good, with everything it started. Close those you do not
/// need any more.
#[derive(Deserialize, JsonSchema)]
pub(super) struct CloseAgent {
    /// The subagent, by its `agent_id`.
    target: String,
}

#[async_trait]
impl SubagentCall for CloseAgent {
    type Input = Self;
    const NAME: &'static str = CLOSE_AGENT;
    const SUMMARY: &'static str = "end a subagent";

    async fn call(control: &dyn SubagentControl, input: Self) -> anyhow::Result<Value> {
        let request = CloseSubagentRequest {
            target: input.target.into(),
        };
        Ok(serde_json::to_value(control.close(request).await?)?)
    }
}
