//! Hook runs as the event stream shows them.

use crate::ids::{HookRunId, PluginId};
use crate::open_enum::open_enum;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One run of one hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRunSummary {
    /// Names the run; the started and the completed event share it.
    pub run_id: HookRunId,
    /// Names the hook; the same in every run and every process.
    pub hook_id: String,
    /// The lifecycle event, such as `PreToolUse`.
    pub event_name: String,
    /// What kind of handler ran.
    pub handler_type: HookHandlerType,
    /// Who registered the hook.
    pub plugin_id: PluginId,
    /// How far the run has come.
    pub status: HookRunStatus,
    /// What the hook wants shown while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What it said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<HookRunEntry>,
}

/// Something a hook said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRunEntry {
    /// What it is for.
    pub kind: HookEntryKind,
    /// The words.
    pub text: String,
}

open_enum! {
    /// What a hook's words are for.
    pub enum HookEntryKind {
        /// A message for the transcript.
        Feedback = "feedback",
        /// Context for the model.
        Context = "context",
        /// Why it blocked or stopped.
        Stop = "stop",
        /// Why it failed.
        Error = "error",
    }
}

open_enum! {
    /// How far a hook run has come.
    pub enum HookRunStatus {
        /// It runs.
        Running = "running",
        /// It ended and let things go on.
        Completed = "completed",
        /// It failed or ran out of time.
        Failed = "failed",
        /// It blocked what it was asked about.
        Blocked = "blocked",
        /// It stopped the turn.
        Stopped = "stopped",
        /// The turn was cancelled while it ran.
        Cancelled = "cancelled",
    }
}

open_enum! {
    /// What kind of handler a hook has.
    pub enum HookHandlerType {
        /// A closure shared by all sessions.
        Callback = "callback",
        /// A closure made afresh for each session.
        Function = "function",
        /// A command of a hook file.
        Command = "command",
        /// A request of a hook file to a server.
        Http = "http",
        /// A question of a hook file to a model.
        Prompt = "prompt",
        /// A task of a hook file for a model with tools.
        Agent = "agent",
    }
}
