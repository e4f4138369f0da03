//! The points of a session's life at which hooks run, with what happens there.

use crate::event::HookEventName;
use halter_protocol::{
    CompactionReason, NotificationItem, Objection, SessionId, ToolCall, ToolError, ToolResult,
    UserMessage,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is about to happen, or has happened, when hooks run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum HookPoint {
    /// The first turn of a session in a process, or a context that was made
    /// smaller.
    SessionStart {
        /// How the session came to run.
        source: SessionStartSource,
    },
    /// The session shuts down.
    SessionEnd {
        /// Why.
        reason: String,
    },
    /// A user prompt is about to join the transcript.
    UserPromptSubmit {
        /// The prompt.
        message: UserMessage,
    },
    /// A tool is about to run.
    PreToolUse {
        /// The call.
        call: ToolCall,
    },
    /// A person is about to be asked about a call.
    PermissionRequest {
        /// The call.
        call: ToolCall,
        /// The rule that asks, and why.
        objection: Objection,
    },
    /// The policy or a person refused a call.
    PermissionDenied {
        /// The call.
        call: ToolCall,
        /// Why.
        reason: String,
    },
    /// A tool returned.
    PostToolUse {
        /// The call.
        call: ToolCall,
        /// What it returned.
        result: Arc<ToolResult>,
        /// How long it ran.
        #[serde(default)]
        duration_ms: u64,
    },
    /// A tool failed.
    PostToolUseFailure {
        /// The call.
        call: ToolCall,
        /// Why.
        error: ToolError,
        /// How long it ran.
        #[serde(default)]
        duration_ms: u64,
    },
    /// Somebody notified the session.
    Notification(NotificationItem),
    /// The context is about to be made smaller.
    PreCompact {
        /// Why.
        reason: CompactionReason,
        /// What whoever asked for it wants kept.
        instructions: Option<String>,
    },
    /// The context was made smaller.
    PostCompact {
        /// Why.
        reason: CompactionReason,
        /// What stands for the messages that were cut, if any were.
        summary: Option<String>,
    },
    /// The model has nothing more to do.
    Stop {
        /// True if the turn already goes on because a Stop hook blocked its
        /// end, so that a hook can avoid asking for ever.
        active: bool,
        /// What the model said last.
        last_assistant_message: String,
    },
    /// A subagent starts.
    SubagentStart {
        /// Its session.
        agent_id: SessionId,
        /// The agent it is; `default` if it has no name.
        agent_type: String,
        /// The session that started it.
        parent_session_id: SessionId,
    },
    /// A subagent has nothing more to do.
    SubagentStop {
        /// Its session.
        agent_id: SessionId,
        /// The agent it is; `default` if it has no name.
        agent_type: String,
        /// True if it already goes on because such a hook blocked its end.
        active: bool,
        /// What it said last.
        last_assistant_message: String,
    },
}

impl HookPoint {
    /// The event whose hooks run.
    pub fn event(&self) -> HookEventName {
        match self {
            Self::SessionStart { .. } => HookEventName::SessionStart,
            Self::SessionEnd { .. } => HookEventName::SessionEnd,
            Self::UserPromptSubmit { .. } => HookEventName::UserPromptSubmit,
            Self::PreToolUse { .. } => HookEventName::PreToolUse,
            Self::PermissionRequest { .. } => HookEventName::PermissionRequest,
            Self::PermissionDenied { .. } => HookEventName::PermissionDenied,
            Self::PostToolUse { .. } => HookEventName::PostToolUse,
            Self::PostToolUseFailure { .. } => HookEventName::PostToolUseFailure,
            Self::Notification(_) => HookEventName::Notification,
            Self::PreCompact { .. } => HookEventName::PreCompact,
            Self::PostCompact { .. } => HookEventName::PostCompact,
            Self::Stop { .. } => HookEventName::Stop,
            Self::SubagentStart { .. } => HookEventName::SubagentStart,
            Self::SubagentStop { .. } => HookEventName::SubagentStop,
        }
    }
}

/// How a session came to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionStartSource {
    /// It is new.
    Startup,
    /// It was read back from a store.
    Resume,
    /// Its context was made smaller, so what was said at its start may be gone.
    Compact,
}

impl SessionStartSource {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Resume, Self::Compact];

    /// The value as payloads and matchers see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Compact => "compact",
        }
    }
}
