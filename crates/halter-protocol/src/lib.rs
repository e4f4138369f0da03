//! The vocabulary every Halter crate shares: ids, messages, events, tool
//! specs, calls and results, usage, prompts, and the pure [`fold`] that turns a
//! log of events into a session's state.
//!
//! This crate is data. It performs no I/O, reads no clock of its own except in
//! the convenience constructors that say so, and depends on no other Halter
//! crate. What crosses a process boundary is spelled here once, so a consumer
//! of `halter run --streaming-json` and an embedder of the runtime read the
//! same types.
//!
//! | module | holds |
//! |---|---|
//! | [`event`] | the envelope of the event stream and its payloads |
//! | [`capability`] | what models take and providers do |
//! | [`compaction`] | how a session's context was made smaller |
//! | [`content`] | text, images and documents in messages and results |
//! | [`media`] | what images and documents are by their bytes |
//! | [`limits`] | what they may have at most |
//! | [`message`] | system, user, assistant and tool messages |
//! | [`transcript`] | the shared, append-only list of messages |
//! | [`action`] | what a call would touch, and what a policy says to it |
//! | [`subagent`] | child sessions as requests, answers and events name them |
//! | [`approval`] | what a person is asked about a call, and decides |
//! | [`memory`] | tasks, and files as the model last saw them |
//! | [`tool`] | tool specs, calls, results and errors |
//! | [`response`] | schemas of structured answers |
//! | [`stream`] | what a model provider emits while it answers |
//! | [`budget`] | what may be spent, and what was |
//! | [`bounds`] | what a session may use of what its harness has |
//! | [`session`] | blueprint and folded state of a session |
//! | [`fold`] | events to state |
//! | [`permission`] | permission modes, and rules as people write them |
//! | [`question`] | what tools ask a person, and the answers |
//! | [`prompt`] | prompt segments and the assembled system prompt |
//! | [`public_tools`] | tools as agent, rule and hook files of other harnesses name them |
//! | [`resource`] | the snapshot of all resources, and how they are found by name |
//! | [`resource_changes`] | what of a session's resources is new since it last worked |
//! | [`definition`] | skills, agents, commands and output styles |
//! | [`hash`] | the hash that names content |
//! | [`schema`] | the JSON Schema of the event stream |

pub mod action;
pub mod approval;
pub mod bounds;
pub mod budget;
pub mod capability;
pub mod compaction;
pub mod content;
pub mod definition;
pub mod encoding;
pub mod event;
pub mod fold;
pub mod hash;
pub mod hook;
pub mod ids;
pub mod limits;
pub mod media;
pub mod memory;
pub mod message;
pub mod model;
mod open_enum;
pub mod permission;
pub mod prompt;
pub mod public_tools;
pub mod question;
pub mod resource;
pub mod resource_changes;
pub mod response;
pub mod schema;
pub mod session;
pub mod stream;
pub mod subagent;
pub mod tool;
pub mod transcript;
pub mod turn;
pub mod usage;

pub use action::{Action, CallToJudge, HookOpinion, Objection, PolicyVerdict, ServedDefinition};
pub use approval::{ApprovalAnswer, ApprovalChoice, ApprovalRequest, AskedBy, ResolvedBy};
pub use bounds::SessionBounds;
pub use budget::{Budget, BudgetLeft, BudgetResource, BudgetScope, SessionBudget, Spending};
pub use capability::{MediaLimits, ProviderCapabilities};
pub use compaction::{CompactionReason, CompactionTier, ContextCompaction, WindowPart};
pub use content::ContentPart;
pub use definition::{AgentDef, AgentIsolation, CommandDef, OutputStyleDef, SkillDef, SkillFork};
pub use event::{
    CacheBreakReason, Delivery, DeltaItem, NotificationItem, PendingEvent, SCHEMA_VERSION,
    SessionEvent, SessionEventPayload, TurnError, UnknownPayload,
};
pub use hash::ContentHash;
pub use hook::{HookEntryKind, HookHandlerType, HookRunEntry, HookRunStatus, HookRunSummary};
pub use ids::{
    AgentId, AgentName, ApprovalId, BlockId, HookRunId, IdSource, MessageId, ModelId, PluginId,
    PromptSegmentId, ProviderName, QuestionId, Revision, SeededIds, SessionId, SkillId, SkillName,
    SystemIds, ToolAlias, ToolCallId, ToolName, TurnId,
};
pub use jiff::Timestamp;
pub use media::{MediaFormat, MediaProblem};
pub use memory::{BackgroundJob, LoadedTool, MemoryChange, SessionMemory, Task, TaskStatus};
pub use message::{
    AssistantMessage, AssistantPart, Message, OpaquePart, ReplayMeta, StopReason, SystemMessage,
    ToolMessage, UserMessage, UserPart,
};
pub use model::{ModelRole, ProviderKind, ReasoningEffort, ResolvedModel};
pub use permission::{
    PermissionMode, PermissionRule, RuleEffect, RuleError, RuleSource, RuleSubject,
};
pub use prompt::{AssembledPrompt, PromptSegment, PromptSegmentKind};
pub use question::{Question, QuestionOption, QuestionRequest, QuestionResponse};
pub use resource::{
    PluginManifest, ResourceKind, ResourceOrigin, ResourceSnapshot, UnresolvedName,
};
pub use resource_changes::{ResourceChange, ResourceChangeKind, ResourcesLoaded};
pub use response::{FINAL_TOOL, ResponseSchema};
pub use session::{
    ContextMark, EnvironmentSnapshot, GitSnapshot, InstructionFile, PendingToolCall,
    SessionBlueprint, SessionState, ToldInstructions, ToolCallProgress,
};
pub use stream::{ProviderError, ProviderErrorKind, StreamEvent};
pub use subagent::{
    CloseSubagentRequest, CloseSubagentResponse, ForkedContext, RequestOrigin,
    SendSubagentInputRequest, SpawnSubagentRequest, SubagentEventForwarding, SubagentPlace,
    SubagentReport, SubagentState, SubagentStatus, WaitSubagentRequest, WaitSubagentResponse,
};
pub use tool::{
    CALL_TOOL, TOOL_SEARCH, ToldTool, ToolCall, ToolCapabilities, ToolConcurrency, ToolError,
    ToolErrorCode, ToolExecutionOutcome, ToolResult, ToolSpec,
};
pub use transcript::Transcript;
pub use turn::{ResourceUse, Turn};
pub use usage::{Cost, Prices, Usage, UsageBuckets};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
