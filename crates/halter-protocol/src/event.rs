//! The event stream: what a session did, in order.
//!
//! An event is an envelope (`session_id`, `sequence`, `delivery`, `at`) around
//! a payload tagged by `kind`. Lossless events are committed to the log before
//! anyone sees them and their sequence numbers have no gaps. Best-effort events
//! (deltas, tool output, `compaction_started`, `lagged`) are never stored and repeat the last
//! committed sequence. The first event of any stream also has
//! `schema_version`. Kinds this version does not know are kept as they are.

use crate::approval::{ApprovalChoice, ApprovalRequest, ResolvedBy};
use crate::budget::{BudgetLeft, SessionBudget, Spending};
use crate::compaction::{CompactionReason, ContextCompaction};
use crate::encoding::escaped_path;
use crate::hook::HookRunSummary;
use crate::ids::{
    ApprovalId, ModelId, QuestionId, Revision, SessionId, ToolCallId, ToolName, TurnId,
};
use crate::message::{Message, ReplayMeta};
use crate::open_enum::open_enum;
use crate::question::{QuestionRequest, QuestionResponse};
use crate::resource_changes::ResourcesLoaded;
use crate::response::ResponseSchema;
use crate::subagent::{ForkedContext, SubagentStatus};
use crate::tool::{ToolCall, ToolExecutionOutcome};
use crate::usage::Usage;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::PathBuf;
use std::sync::Arc;

/// The version of the event contract this crate writes.
pub const SCHEMA_VERSION: u32 = 1;

open_enum! {
    /// Whether an event can be missed.
    pub enum Delivery {
        /// Committed, numbered without gaps, delivered to every subscriber.
        Lossless = "lossless",
        /// Published at once, never stored; a slow subscriber may miss it.
        BestEffort = "best_effort",
    }
}

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEvent {
    /// The version of the contract; present on the first event of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u32>,
    /// The session it belongs to.
    pub session_id: SessionId,
    sequence: u64,
    /// Whether it can be missed.
    pub delivery: Delivery,
    /// When it happened, wall-clock.
    pub at: Timestamp,
    /// What happened.
    pub payload: SessionEventPayload,
}

impl SessionEvent {
    /// An event with its place in the log; for best-effort events, the place
    /// of the last committed one.
    pub fn new_committed(
        session_id: SessionId,
        sequence: u64,
        at: Timestamp,
        payload: SessionEventPayload,
    ) -> Self {
        Self {
            schema_version: None,
            session_id,
            sequence,
            delivery: payload.delivery(),
            at,
            payload,
        }
    }

    /// Its place in the log, from 1.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Marks the event as the first of a stream.
    pub fn first_of_stream(mut self) -> Self {
        self.schema_version = Some(SCHEMA_VERSION);
        self
    }

    /// The event as stream consumers see it: without opaque provider data, and
    /// without the whole of what the session has loaded.
    pub fn without_opaque(mut self) -> Self {
        match &self.payload {
            SessionEventPayload::MessageItem { message } => {
                if let Message::Assistant(assistant) = message.as_ref()
                    && assistant.has_opaque()
                {
                    let message = Arc::new(Message::Assistant(assistant.without_opaque()));
                    self.payload = SessionEventPayload::MessageItem { message };
                }
            }
            SessionEventPayload::ContextForked(forked) => {
                let shown = Arc::new(forked.without_opaque());
                self.payload = SessionEventPayload::ContextForked(shown);
            }
            SessionEventPayload::ResourcesLoaded(loaded) => {
                let shown = Arc::new(loaded.without_snapshot());
                self.payload = SessionEventPayload::ResourcesLoaded(shown);
            }
            SessionEventPayload::ContextCompacted(compaction) => {
                let shown = Arc::new(compaction.without_opaque());
                self.payload = SessionEventPayload::ContextCompacted(shown);
            }
            _ => {}
        }
        self
    }
}

/// An event that has no place in the log yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingEvent {
    /// The session it belongs to.
    pub session_id: SessionId,
    /// When it happened, wall-clock.
    pub at: Timestamp,
    /// What happened.
    pub payload: SessionEventPayload,
}

impl PendingEvent {
    /// An event yet to be committed.
    pub fn new(session_id: SessionId, at: Timestamp, payload: SessionEventPayload) -> Self {
        Self {
            session_id,
            at,
            payload,
        }
    }

    /// The event at its place in the log.
    pub fn into_committed(self, sequence: u64) -> SessionEvent {
        SessionEvent::new_committed(self.session_id, sequence, self.at, self.payload)
    }
}

/// What happened.
///
/// | kind | delivery |
/// |---|---|
/// | `delta_item`, `thinking_delta`, `tool_output`, `compaction_started`, `lagged` | best effort |
/// | every other | lossless |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", remote = "Self")]
#[non_exhaustive]
pub enum SessionEventPayload {
    /// The session exists.
    SessionStarted {
        /// The session that started it, for child sessions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_session_id: Option<SessionId>,
        /// The directory it works in.
        #[serde(with = "escaped_path")]
        #[schemars(with = "String")]
        working_dir: PathBuf,
        /// The registered model it uses.
        model: ModelId,
    },
    /// A process took the session up again.
    SessionResumed,
    /// Something the user should know.
    Warning {
        /// What it is and what to do.
        message: String,
    },
    /// A turn left the queue.
    TurnStarted {
        /// The turn.
        turn_id: TurnId,
        /// What its last answer must look like, if a user asks for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_schema: Option<ResponseSchema>,
    },
    /// A message joined the transcript.
    MessageItem {
        /// The message.
        message: Arc<Message>,
    },
    /// The model's text grows.
    DeltaItem {
        /// The new text.
        delta: DeltaItem,
    },
    /// The model's visible reasoning grows.
    ThinkingDelta {
        /// The new text.
        delta: DeltaItem,
    },
    /// A tool is about to run.
    ToolExecutionStarted {
        /// The call.
        call: ToolCall,
    },
    /// A running tool wrote something.
    ToolOutput {
        /// The call.
        call_id: ToolCallId,
        /// The tool.
        tool_name: ToolName,
        /// The new output.
        chunk: String,
    },
    /// A call ended.
    ToolExecutionCompleted {
        /// The call and how it ended.
        outcome: ToolExecutionOutcome,
    },
    /// The network policy refused a connection of a running call.
    NetworkRefused {
        /// The call.
        call_id: ToolCallId,
        /// The host, with its port where that is known.
        host: String,
        /// The rule; stable, for programs to match on.
        rule: String,
        /// Why, and what to set.
        message: String,
    },
    /// A call runs only if a person says so.
    ApprovalRequested(Arc<ApprovalRequest>),
    /// It is decided, once.
    ApprovalResolved {
        /// The request.
        approval_id: ApprovalId,
        /// How.
        choice: ApprovalChoice,
        /// By whom.
        by: ResolvedBy,
        /// Why, as far as somebody said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The permission rule that holds from now on, with `session` and
        /// `always`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// A subagent starts to work, or is given more to do.
    SubagentStarted {
        /// The subagent.
        subagent: Arc<SubagentStatus>,
    },
    /// A subagent has reported, or was stopped.
    SubagentEnded {
        /// The subagent, with its report.
        subagent: Arc<SubagentStatus>,
        /// What it has spent since its last report.
        #[serde(default, skip_serializing_if = "Spending::is_zero")]
        spent: Spending,
    },
    /// The session starts with what its parent knows.
    ContextForked(Arc<ForkedContext>),
    /// A running call asks a person.
    QuestionsAsked(Arc<QuestionRequest>),
    /// The questions are answered or skipped, once.
    QuestionsAnswered {
        /// The questions.
        question_id: QuestionId,
        /// An answer to each, in order.
        responses: Vec<QuestionResponse>,
        /// By whom.
        by: ResolvedBy,
    },
    /// A hook runs.
    HookStarted {
        /// The run.
        run: HookRunSummary,
    },
    /// A hook ended.
    HookCompleted {
        /// The run.
        run: HookRunSummary,
    },
    /// Somebody notified the session.
    Notification {
        /// The notification.
        notification: NotificationItem,
    },
    /// A cancel reached the live turn; its terminal event follows.
    TurnInterrupted {
        /// The turn.
        turn_id: TurnId,
        /// Who asked and why.
        reason: String,
    },
    /// Something was spent. Only where something has a limit.
    BudgetCharged {
        /// What.
        charge: Spending,
        /// How the limits of the turn and the session stand now.
        limits: Vec<BudgetLeft>,
    },
    /// Four fifths of a limit are spent; the model is told, too.
    BudgetWarning(BudgetLeft),
    /// A call was refused because of a limit; the turn ends.
    BudgetExceeded(BudgetLeft),
    /// The session has another budget from here on.
    BudgetChanged {
        /// The budget.
        budget: SessionBudget,
    },
    /// The context is about to be made smaller, which may take a while.
    CompactionStarted {
        /// Why.
        reason: CompactionReason,
    },
    /// Tools joined the session, changed or left it while it runs. They are
    /// deferred: the model is told of them before it is next asked.
    ToolsChanged {
        /// Those that joined.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<ToolName>,
        /// Those with another definition.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<ToolName>,
        /// Those that left.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<ToolName>,
    },
    /// The session works with these resources from here on.
    ResourcesLoaded(Arc<ResourcesLoaded>),
    /// The model sees less of the session from here on.
    ContextCompacted(Arc<ContextCompaction>),
    /// The next request does not extend the cached prefix of the last one.
    CacheBreak {
        /// Why.
        reason: CacheBreakReason,
        /// The resources in force from here on, if they were replaced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot_revision: Option<Revision>,
        /// The tools in force from here on, if they are others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools_revision: Option<Revision>,
    },
    /// A turn ended well.
    TurnCompleted {
        /// The turn.
        turn_id: TurnId,
        /// What its model calls used.
        usage: Usage,
        /// The answer as a value that fits the schema the turn asked for.
        #[serde(
            default,
            deserialize_with = "present",
            skip_serializing_if = "Option::is_none"
        )]
        structured_output: Option<Value>,
        /// Who answered: what was used is charged to that model.
        #[serde(default, skip_serializing_if = "ReplayMeta::is_unknown")]
        answered_by: ReplayMeta,
    },
    /// A turn ended otherwise.
    TurnFailed {
        /// The turn.
        turn_id: TurnId,
        /// Why.
        error: TurnError,
        /// True if somebody cancelled it.
        #[serde(default)]
        cancelled: bool,
        /// True if submitting it again may succeed.
        #[serde(default)]
        retryable: bool,
        /// What its model calls used before it failed.
        #[serde(default)]
        usage: Usage,
        /// Who answered: what was used is charged to that model.
        #[serde(default, skip_serializing_if = "ReplayMeta::is_unknown")]
        answered_by: ReplayMeta,
    },
    /// This subscriber was too slow for some best-effort events.
    Lagged {
        /// How many it missed.
        dropped_events: u64,
    },
    /// The session was shut down; nothing follows in this process.
    SessionShutdownComplete {
        /// The reason given.
        reason: String,
    },
    /// A kind, or a shape of a kind, this version does not know.
    #[serde(skip)]
    #[schemars(skip)]
    Unknown(UnknownPayload),
}

impl SessionEventPayload {
    /// The `kind` as it is spelled on the wire.
    pub fn kind(&self) -> &str {
        match self {
            Self::SessionStarted { .. } => "session_started",
            Self::SessionResumed => "session_resumed",
            Self::Warning { .. } => "warning",
            Self::TurnStarted { .. } => "turn_started",
            Self::MessageItem { .. } => "message_item",
            Self::DeltaItem { .. } => "delta_item",
            Self::ThinkingDelta { .. } => "thinking_delta",
            Self::ToolExecutionStarted { .. } => "tool_execution_started",
            Self::ToolOutput { .. } => "tool_output",
            Self::ToolExecutionCompleted { .. } => "tool_execution_completed",
            Self::ApprovalRequested(_) => "approval_requested",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::SubagentStarted { .. } => "subagent_started",
            Self::SubagentEnded { .. } => "subagent_ended",
            Self::ContextForked(_) => "context_forked",
            Self::QuestionsAsked(_) => "questions_asked",
            Self::QuestionsAnswered { .. } => "questions_answered",
            Self::HookStarted { .. } => "hook_started",
            Self::HookCompleted { .. } => "hook_completed",
            Self::Notification { .. } => "notification",
            Self::NetworkRefused { .. } => "network_refused",
            Self::TurnInterrupted { .. } => "turn_interrupted",
            Self::BudgetCharged { .. } => "budget_charged",
            Self::BudgetWarning(_) => "budget_warning",
            Self::BudgetExceeded(_) => "budget_exceeded",
            Self::BudgetChanged { .. } => "budget_changed",
            Self::CompactionStarted { .. } => "compaction_started",
            Self::ToolsChanged { .. } => "tools_changed",
            Self::ResourcesLoaded(_) => "resources_loaded",
            Self::ContextCompacted(_) => "context_compacted",
            Self::CacheBreak { .. } => "cache_break",
            Self::TurnCompleted { .. } => "turn_completed",
            Self::TurnFailed { .. } => "turn_failed",
            Self::Lagged { .. } => "lagged",
            Self::SessionShutdownComplete { .. } => "session_shutdown_complete",
            Self::Unknown(unknown) => &unknown.kind,
        }
    }

    /// Whether events of this kind can be missed.
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::DeltaItem { .. }
            | Self::ThinkingDelta { .. }
            | Self::ToolOutput { .. }
            | Self::CompactionStarted { .. }
            | Self::Lagged { .. } => Delivery::BestEffort,
            _ => Delivery::Lossless,
        }
    }

    /// The turn this event ends, if it is a terminal one.
    pub fn ends_turn(&self) -> Option<&TurnId> {
        match self {
            Self::TurnCompleted { turn_id, .. } | Self::TurnFailed { turn_id, .. } => Some(turn_id),
            _ => None,
        }
    }
}

impl Serialize for SessionEventPayload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(unknown) => unknown.raw.serialize(serializer),
            known => Self::serialize(known, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SessionEventPayload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tagged {
            kind: String,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let mut known = serde_json::Deserializer::from_str(raw.get());
        match Self::deserialize(&mut known) {
            Ok(payload) => Ok(payload),
            Err(_) => {
                let Tagged { kind } =
                    serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
                Ok(Self::Unknown(UnknownPayload { kind, raw }))
            }
        }
    }
}

/// A value that is there, `null` included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// New text of a streamed block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeltaItem {
    /// The text.
    pub text: String,
}

/// Something said to a session from outside a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationItem {
    /// What kind of notification, in the sender's words.
    pub notification_type: String,
    /// What it says.
    pub message: String,
}

open_enum! {
    /// Why a request does not extend the cached prefix of the one before.
    pub enum CacheBreakReason {
        /// Skills were replaced.
        ResourcesReplaced = "resources_replaced",
        /// The turn uses another model.
        ModelChanged = "model_changed",
        /// Other tools are on offer than before.
        ToolsReplaced = "tools_replaced",
        /// The turn asks for an answer of another form.
        ResponseSchemaChanged = "response_schema_changed",
        /// The model sees less of the session than before.
        ContextCompacted = "context_compacted",
    }
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct TurnError {
    /// Stable, for programs to match on.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl TurnError {
    /// An error without a hint.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do next.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A payload kept as it was written.
#[derive(Debug, Clone)]
pub struct UnknownPayload {
    kind: String,
    raw: Box<RawValue>,
}

impl UnknownPayload {
    /// Its `kind`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The whole payload as JSON text, byte for byte.
    pub fn raw(&self) -> &str {
        self.raw.get()
    }
}

impl PartialEq for UnknownPayload {
    fn eq(&self, other: &Self) -> bool {
        self.raw.get() == other.raw.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SessionEvent {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_unknown_kind_is_kept_byte_for_byte() {
        let text = r#"{"session_id":"ses_1","sequence":4,"delivery":"lossless","at":"2026-01-02T03:04:05Z","payload":{"kind":"mind_read","thoughts":[1.10,  "x"]}}"#;
        let event = parse(text);
        assert_eq!(event.payload.kind(), "mind_read");
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }

    #[test]
    fn a_known_kind_of_an_unknown_shape_is_kept() {
        let text = r#"{"session_id":"ses_1","sequence":4,"delivery":"lossless","at":"2026-01-02T03:04:05Z","payload":{"kind":"message_item","message":{"role":"oracle","text":"hm"}}}"#;
        let event = parse(text);
        assert!(
            matches!(&event.payload, SessionEventPayload::Unknown(u) if u.kind() == "message_item")
        );
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }

    #[test]
    fn a_payload_without_kind_is_an_error() {
        let text = r#"{"session_id":"s","sequence":4,"delivery":"lossless","at":"2026-01-02T03:04:05Z","payload":{}}"#;
        assert!(serde_json::from_str::<SessionEvent>(text).is_err());
    }

    #[test]
    fn known_events_survive_a_value() {
        let event = SessionEvent::new_committed(
            "ses_1".into(),
            2,
            Timestamp::UNIX_EPOCH,
            SessionEventPayload::TurnStarted {
                turn_id: "turn_1".into(),
                response_schema: None,
            },
        );
        let value = serde_json::to_value(&event).unwrap();
        assert_eq!(value["payload"]["kind"], "turn_started");
        assert_eq!(
            serde_json::from_value::<SessionEvent>(value).unwrap(),
            event
        );
    }

    #[test]
    fn a_turn_error_can_be_thrown() {
        fn fail(error: TurnError) -> Result<(), Box<dyn std::error::Error>> {
            Err(error.into())
        }
        let error = fail(TurnError::new("provider_failed", "no answer")).unwrap_err();
        assert_eq!(error.to_string(), "no answer");
    }
}
