//! Subagents: child sessions that a model hands work to, as requests, answers
//! and events name them.

use crate::budget::Spending;
use crate::encoding::escaped_path;
use crate::event::TurnError;
use crate::ids::{AgentId, ModelId, SessionId};
use crate::memory::Task;
use crate::message::Message;
use crate::open_enum::open_enum;
use crate::session::ContextMark;
use crate::transcript::Transcript;
use crate::turn::ResourceUse;
use crate::usage::Usage;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

open_enum! {
    /// How far a subagent has come.
    pub enum SubagentState {
        /// It works, or a child of its own does.
        Running = "running",
        /// It has reported.
        Completed = "completed",
        /// It could not finish; what it had is in the report all the same.
        Failed = "failed",
        /// It was stopped.
        Cancelled = "cancelled",
        /// It was closed and takes no more input.
        Closed = "closed",
    }
}

impl SubagentState {
    /// True if it does nothing more unless it is given more to do.
    pub fn is_terminal(&self) -> bool {
        *self != Self::Running
    }
}

/// A subagent as its parent knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubagentStatus {
    /// Names it among the children of its parent.
    pub agent_id: AgentId,
    /// Its session.
    pub session_id: SessionId,
    /// Its type; absent: `general`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// What it was last asked to do, shortened.
    pub task: String,
    /// How far it has come.
    pub state: SubagentState,
    /// What it said last: its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
    /// What it has used so far, its own children included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it could not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
    /// The git worktree it works in, if it has one of its own.
    #[serde(
        default,
        with = "escaped_path::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub worktree: Option<PathBuf>,
}

/// What a session that is a subagent knows of its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubagentPlace {
    /// Names it among the children of its parent.
    pub agent_id: AgentId,
    /// Its type; absent: `general`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// How many sessions are above it.
    pub depth: u32,
    /// The session that no other started.
    pub root_session_id: SessionId,
    /// The git worktree that was made for it.
    #[serde(
        default,
        with = "escaped_path::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub worktree: Option<PathBuf>,
    /// False if a session above it has nobody asked: neither has it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub may_ask: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// The subagent that a request for approval comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestOrigin {
    /// Its session.
    pub session_id: SessionId,
    /// Names it among the children of its parent.
    pub agent_id: AgentId,
    /// Its type; absent: `general`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
}

/// What a subagent starts with of what its parent knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkedContext {
    /// The parent.
    pub parent_session_id: SessionId,
    /// The messages the parent's model sees, summaries among them, without a
    /// last answer whose calls have no result.
    pub messages: Transcript,
    /// Where the parent's last compaction left them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_mark: Option<ContextMark>,
    /// The parent's tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Arc<Task>>,
    /// The hash of each file as the parent last read or wrote it, by its
    /// escaped path.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub file_views: IndexMap<Arc<str>, Arc<str>>,
}

impl ForkedContext {
    /// The context as consumers of a stream see it: without opaque provider
    /// data.
    pub fn without_opaque(&self) -> Self {
        let mut messages = Transcript::default();
        for message in self.messages.iter() {
            match message.as_assistant() {
                Some(answer) if answer.has_opaque() => {
                    messages.push(Message::Assistant(answer.without_opaque()));
                }
                _ => messages.push(message.clone()),
            }
        }
        Self {
            messages,
            ..self.clone()
        }
    }
}

/// Whether a parent's event stream carries the events of its subagents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubagentEventForwarding {
    /// No.
    #[default]
    Off,
    /// All of them, with the subagent's session id.
    All,
}

impl SubagentEventForwarding {
    /// True for the default.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// Work for a new subagent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnSubagentRequest {
    /// The task.
    pub message: String,
    /// The type; absent: `general`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// Whether it starts with what the parent knows.
    #[serde(default)]
    pub fork_context: bool,
    /// A registered model id; absent: that of the type, or the role `subagent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelId>,
    /// Whether whoever starts it waits for its report, so that the report need
    /// not be told otherwise.
    #[serde(default)]
    pub wait: bool,
    /// What its first turn uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<ResourceUse>,
}

/// More work for a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SendSubagentInputRequest {
    /// The subagent.
    pub target: AgentId,
    /// What it is told.
    pub message: String,
}

/// Waits for the first of several subagents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSubagentRequest {
    /// The subagents.
    pub targets: Vec<AgentId>,
    /// How long to wait, in milliseconds; absent: as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSubagentResponse {
    /// The first that is in a terminal state; absent if time ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SubagentStatus>,
    /// True if time ran out.
    pub timed_out: bool,
    /// All of them.
    pub target_statuses: Vec<SubagentStatus>,
}

/// Ends a subagent for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloseSubagentRequest {
    /// The subagent.
    pub target: AgentId,
}

/// What a subagent was when it was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CloseSubagentResponse {
    /// How it was before.
    pub previous_status: SubagentStatus,
}

/// A subagent's end as its parent takes it in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubagentReport {
    /// The subagent as it is now.
    pub subagent: SubagentStatus,
    /// What it has spent since its last report.
    pub spent: Spending,
    /// True if somebody has the report already, say by waiting for it.
    pub told: bool,
    /// True if an idle parent shall go on with it.
    pub wakes: bool,
}
