//! Subagents: the trait by which tools start and follow child sessions, and
//! the tools for models.
//!
//! The tools are ordinary ones: they are listed, judged and run like any other.
//! What a child may do is decided by whoever implements [`SubagentControl`],
//! never here.

pub(crate) mod spawn;
mod tools;

pub use spawn::SPAWN_AGENT;
pub use tools::{CLOSE_AGENT, SEND_INPUT, WAIT_AGENT};

use crate::availability::HarnessFacts;
use crate::tool::Tool;
use crate::typed::typed;
use async_trait::async_trait;
use halter_protocol::{
    AgentId, CloseSubagentResponse, SpawnSubagentRequest, SubagentStatus, WaitSubagentRequest,
    WaitSubagentResponse,
};
use halter_protocol::{CloseSubagentRequest, SendSubagentInputRequest};
use std::sync::Arc;
use tools::{CloseAgent, SendInput, SubagentTool, WaitAgent};

/// Starts and follows the subagents of one session.
#[async_trait]
pub trait SubagentControl: Send + Sync {
    /// Starts a subagent and returns at once.
    ///
    /// # Errors
    /// If there is no such type or model, a limit is reached, or the child would
    /// have more than its parent.
    async fn spawn(&self, request: SpawnSubagentRequest) -> anyhow::Result<SubagentStatus>;

    /// Gives a subagent more to do: one that works hears it as soon as it can,
    /// one that has reported goes on.
    ///
    /// # Errors
    /// If there is no such subagent of this session, or it is closed.
    async fn send_input(&self, request: SendSubagentInputRequest)
    -> anyhow::Result<SubagentStatus>;

    /// Waits until one of the subagents is in a terminal state. Its report
    /// counts as told.
    ///
    /// # Errors
    /// If there is no such subagent of this session.
    async fn wait(&self, request: WaitSubagentRequest) -> anyhow::Result<WaitSubagentResponse>;

    /// Ends a subagent for good, with everything it started.
    ///
    /// # Errors
    /// If there is no such subagent of this session.
    async fn close(&self, request: CloseSubagentRequest) -> anyhow::Result<CloseSubagentResponse>;

    /// Stops what a subagent does, because nobody waits for it any more.
    async fn cancel(&self, target: &AgentId, reason: &str);
}

/// A type of subagent, as a model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTypeLine {
    /// The name.
    pub name: String,
    /// When to use it, in one line.
    pub description: String,
}

/// Why the tools are of no use where subagents are turned off.
fn no_subagents(harness: &HarnessFacts<'_>) -> Option<String> {
    let off = harness.policy.max_subagent_depth == 0;
    off.then(|| "policy.max_subagent_depth is 0".to_owned())
}

/// The tools that start and follow subagents, for these types.
pub fn subagent_tools(types: &[AgentTypeLine]) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(spawn::SpawnAgentTool::new(types.to_vec())),
        typed(SubagentTool::<SendInput>::new()),
        typed(SubagentTool::<WaitAgent>::new()),
        typed(SubagentTool::<CloseAgent>::new()),
    ]
}
