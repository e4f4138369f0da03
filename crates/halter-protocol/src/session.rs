//! What a session is made of: its blueprint, fixed at the start, and its
//! state, which follows from the log.

use crate::approval::ApprovalRequest;
use crate::bounds::SessionBounds;
use crate::budget::{SessionBudget, Spending};
use crate::encoding::escaped_path;
use crate::ids::{
    AgentId, ApprovalId, MessageId, ModelId, QuestionId, Revision, SessionId, ToolCallId, ToolName,
    TurnId,
};
use crate::memory::SessionMemory;
use crate::prompt::PromptSegment;
use crate::question::QuestionRequest;
use crate::resource_changes::ResourcesLoaded;
use crate::response::ResponseSchema;
use crate::subagent::{SubagentEventForwarding, SubagentPlace, SubagentStatus};
use crate::tool::{ToldTool, ToolCall, ToolError, ToolResult};
use crate::transcript::Transcript;
use crate::usage::Usage;
use indexmap::IndexMap;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// What is fixed when a session starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionBlueprint {
    /// The session.
    pub session_id: SessionId,
    /// The session that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// When it started.
    pub created_at: Timestamp,
    /// The directory it works in, absolute.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub working_dir: PathBuf,
    /// The registered model of its turns.
    pub default_model: ModelId,
    /// The guidance part of its system prompt.
    pub system_prompt: Vec<PromptSegment>,
    /// The environment as found at the start.
    pub environment: EnvironmentSnapshot,
    /// The instruction files that the system prompt holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionFile>,
    /// The resources it started with.
    pub snapshot_revision: Revision,
    /// The tools it started with, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_revision: Option<Revision>,
    /// How many model calls one turn may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// What it may use of what its harness has.
    #[serde(default, skip_serializing_if = "SessionBounds::is_unbounded")]
    pub bounds: SessionBounds,
    /// What it may spend, beside what its harness says.
    #[serde(default, skip_serializing_if = "SessionBudget::is_unlimited")]
    pub budget: SessionBudget,
    /// The registered model of its subagents, if not the role `subagent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_model: Option<ModelId>,
    /// Whether its event stream carries the events of its subagents.
    #[serde(default, skip_serializing_if = "SubagentEventForwarding::is_off")]
    pub subagent_event_forwarding: SubagentEventForwarding,
    /// Its place among other sessions, if it is a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<SubagentPlace>,
}

/// The environment of a session as found when it started. Never updated: what
/// changes later is told in a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvironmentSnapshot {
    /// The operating system and machine, such as `linux x86_64`.
    pub platform: String,
    /// The local date, `YYYY-MM-DD`.
    pub date: String,
    /// The git checkout the directory lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSnapshot>,
}

/// A git checkout at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GitSnapshot {
    /// The branch, or a commit if none is checked out.
    pub head: String,
    /// The top of the checkout.
    #[serde(with = "escaped_path")]
    #[schemars(with = "String")]
    pub root: PathBuf,
}

/// An instruction file, such as `AGENTS.md`, as a model was told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionFile {
    /// Its path, escaped.
    pub path: String,
    /// The hash of the text the model was given. None: the model was told that
    /// the file is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What a model was last told of an instruction file since its session
/// started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToldInstructions {
    /// The message that holds the text, as long as it is in force: this message
    /// must stay among those a model sees.
    pub message_id: MessageId,
    /// The hash of the text. None: the file is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What follows from the log. Equal to the fold of all committed events, after
/// every append and after reopening.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionState {
    /// The messages a model sees.
    pub messages: Transcript,
    /// Where the last compaction left them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_mark: Option<ContextMark>,
    /// Calls of the last assistant message that have no result message yet,
    /// in call order.
    #[serde(default)]
    pub pending_tool_calls: IndexMap<ToolCallId, PendingToolCall>,
    /// The turn that has started and not ended.
    #[serde(default)]
    pub live_turn: Option<TurnId>,
    /// What the answers of that turn used so far.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub live_turn_usage: Usage,
    /// What the last answer of the newest turn must look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<ResponseSchema>,
    /// The environment the model was last told of, if it has changed since the
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentSnapshot>,
    /// The instruction files the model was told of since the start, by path,
    /// oldest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub instructions: IndexMap<String, ToldInstructions>,
    /// The resources in force, if they were replaced since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_revision: Option<Revision>,
    /// The resources it last worked with, where that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Arc<ResourcesLoaded>>,
    /// The tools in force, if they have changed since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_revision: Option<Revision>,
    /// What all turns used.
    #[serde(default)]
    pub usage_so_far: Usage,
    /// What ended turns used, by provider and model.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub usage_by_model: IndexMap<String, Usage>,
    /// Its subagents, oldest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub subagents: IndexMap<AgentId, Arc<SubagentStatus>>,
    /// How many subagents it has started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub subagents_started: u64,
    /// What all its subagents used, and theirs.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub subagent_usage: Usage,
    /// What was charged to budgets.
    #[serde(default, skip_serializing_if = "Spending::is_zero")]
    pub spent: Spending,
    /// The budget, if it was changed since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<SessionBudget>,
    /// Approvals that were requested and not resolved, oldest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub open_approvals: IndexMap<ApprovalId, Arc<ApprovalRequest>>,
    /// Questions that were asked and not answered, oldest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub open_questions: IndexMap<QuestionId, Arc<QuestionRequest>>,
    /// Permission rules that a person approved for the session, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_rules: Vec<String>,
    /// The tools that joined the session late, as the model was last told of
    /// them, oldest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub told_tools: IndexMap<ToolName, ToldTool>,
    /// What the session remembers for its tools.
    #[serde(default, skip_serializing_if = "is_forgetful")]
    pub memory: Arc<SessionMemory>,
    /// Hooks that have run to an end, for those that run once.
    #[serde(default)]
    pub fired_hook_ids: BTreeSet<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_forgetful(memory: &Arc<SessionMemory>) -> bool {
    memory.is_empty()
}

/// The transcript as a compaction left it. What answers before say of their
/// tokens tells of messages that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextMark {
    /// How many messages it had.
    pub messages: usize,
    /// Tokens of a request with them, estimated.
    pub tokens: u64,
}

/// A call between the model's wish and the result the model sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingToolCall {
    /// The call.
    pub call: ToolCall,
    /// How far it has come.
    pub progress: ToolCallProgress,
    /// The tools that it loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<ToolName>,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolCallProgress {
    /// The model asked for it.
    Requested,
    /// Its start is committed.
    Started,
    /// It returned.
    Succeeded {
        /// What it returned.
        result: Arc<ToolResult>,
    },
    /// It has no result.
    Failed {
        /// Why.
        error: ToolError,
    },
}
