//! What the engine is told, and what it wants done.

use halter_protocol::{
    CacheBreakReason, EnvironmentSnapshot, HookRunSummary, ModelId, NotificationItem, PendingEvent,
    ProviderError, ReplayMeta, ResponseSchema, Revision, SessionEventPayload, StreamEvent,
    ToolCall, ToolError, ToolResult, Transcript, Turn, TurnError, TurnId, UserMessage,
};
use halter_session::Durability;
use serde_json::Value;
use std::time::Duration;

/// Names an effect; an outcome for an effect that is no longer awaited is
/// ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

/// Something that happened outside the engine.
#[derive(Debug)]
pub enum Input {
    /// A user submits a turn; it runs now or waits its turn.
    Submit(Turn),
    /// A user adds to the live turn.
    Steer(UserMessage),
    /// Somebody cancels the live turn, or the one named.
    Cancel {
        /// The turn, if not just any live one.
        turn_id: Option<TurnId>,
        /// Who and why.
        reason: String,
    },
    /// Somebody notifies the session.
    Notify(NotificationItem),
    /// The session shall end.
    Shutdown {
        /// Why.
        reason: String,
    },
    /// A process takes the session up again.
    Resume,
    /// The answer to [`Effect::PrepareTurn`].
    Prepared {
        /// The effect.
        id: EffectId,
        /// What changed since the last turn, or why the turn cannot start.
        preparation: Result<Preparation, TurnError>,
    },
    /// The model said something.
    Model {
        /// The effect.
        id: EffectId,
        /// What it said.
        event: StreamEvent,
    },
    /// The model's stream ended.
    ModelEnded {
        /// The effect.
        id: EffectId,
        /// Why, if not by itself.
        error: Option<ProviderError>,
    },
    /// A tool returned.
    ToolFinished {
        /// The effect.
        id: EffectId,
        /// What it returned.
        result: Result<ToolResult, ToolError>,
    },
    /// A hook started or ended.
    HookProgress {
        /// The run.
        run: HookRunSummary,
        /// True for its end.
        ended: bool,
    },
    /// All hooks of a point have run.
    HooksFinished {
        /// The effect.
        id: EffectId,
        /// What they want.
        outcome: HookOutcome,
    },
    /// An append is committed.
    Committed {
        /// The effect.
        id: EffectId,
    },
    /// An append failed; later appends in flight fail too.
    StoreFailed {
        /// The effect.
        id: EffectId,
        /// Why.
        error: TurnError,
    },
    /// A timer went off.
    Timer {
        /// The effect.
        id: EffectId,
    },
}

/// What a driver found when it prepared a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preparation {
    /// The environment, if it differs from what the model knows, and how to
    /// say so.
    pub environment: Option<(EnvironmentSnapshot, String)>,
    /// Why the next request will not extend the cached prefix.
    pub cache_break: Option<CacheBreakReason>,
    /// The resources in force, if they were replaced.
    pub snapshot_revision: Option<Revision>,
    /// The tools in force, if they are others than before.
    pub tools_revision: Option<Revision>,
    /// Things the user should know.
    pub warnings: Vec<String>,
    /// Who will answer.
    pub answered_by: ReplayMeta,
}

/// What the hooks of a point want together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    /// Do not do what was asked about.
    pub block: Option<String>,
    /// End the turn.
    pub stop: Option<String>,
    /// Use this input instead.
    pub updated_input: Option<Value>,
    /// Use this output instead.
    pub updated_output: Option<ToolResult>,
    /// Words for the transcript.
    pub messages: Vec<String>,
}

/// Something the engine wants done.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Look at the environment and resources before a turn.
    PrepareTurn {
        /// Names the effect.
        id: EffectId,
        /// The turn.
        turn_id: TurnId,
        /// The model it wants.
        model: ModelId,
    },
    /// Ask the model.
    CallModel {
        /// Names the effect.
        id: EffectId,
        /// The turn.
        turn_id: TurnId,
        /// The model.
        model: ModelId,
        /// Everything said so far.
        messages: Transcript,
        /// What the last answer of the turn must look like.
        response_schema: Option<ResponseSchema>,
    },
    /// Stop listening to the model.
    CancelModel {
        /// The effect to stop.
        id: EffectId,
    },
    /// Run a tool; its start is committed.
    RunTool {
        /// Names the effect.
        id: EffectId,
        /// The call.
        call: ToolCall,
    },
    /// Cancel a running tool's token.
    CancelTool {
        /// The effect to stop.
        id: EffectId,
    },
    /// Give up on a running tool.
    AbandonTool {
        /// The effect to give up.
        id: EffectId,
    },
    /// Run the hooks of a point.
    RunHooks {
        /// Names the effect.
        id: EffectId,
        /// The point.
        point: HookPoint,
        /// The turn, if one is live.
        turn_id: Option<TurnId>,
    },
    /// Cancel running hooks.
    CancelHooks {
        /// The effect to stop.
        id: EffectId,
    },
    /// Commit events, in the order of these effects, then show them.
    Append {
        /// Names the effect.
        id: EffectId,
        /// The events.
        events: Vec<PendingEvent>,
        /// What they must survive before [`Input::Committed`].
        durability: Durability,
    },
    /// Show a best-effort event at once.
    Publish(SessionEventPayload),
    /// Say [`Input::Timer`] later.
    ArmTimer {
        /// Names the effect.
        id: EffectId,
        /// How much later.
        after: Duration,
    },
    /// A turn is over and its terminal event committed, or, with an error, the
    /// store failed and no terminal event could be.
    TurnOver {
        /// The turn.
        turn_id: TurnId,
        /// Why no terminal event could be committed.
        store_error: Option<TurnError>,
    },
    /// The session has shut down.
    Closed,
}

/// A point of the lifecycle at which hooks run.
#[derive(Debug, Clone, PartialEq)]
pub enum HookPoint {
    /// The first turn of a session in a process.
    SessionStart {
        /// `startup` or `resume`.
        source: &'static str,
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
    /// A tool returned.
    PostToolUse {
        /// The call.
        call: ToolCall,
        /// What it returned.
        result: ToolResult,
    },
    /// A tool failed.
    PostToolUseFailure {
        /// The call.
        call: ToolCall,
        /// Why.
        error: ToolError,
    },
    /// Somebody notified the session.
    Notification(NotificationItem),
    /// The model has nothing more to do.
    Stop {
        /// True if the turn already goes on because of a Stop hook.
        active: bool,
        /// What it said last.
        last_assistant_message: String,
    },
}

impl HookPoint {
    /// The point without its details.
    pub fn kind(&self) -> HookPointKind {
        match self {
            Self::SessionStart { .. } => HookPointKind::SessionStart,
            Self::SessionEnd { .. } => HookPointKind::SessionEnd,
            Self::UserPromptSubmit { .. } => HookPointKind::UserPromptSubmit,
            Self::PreToolUse { .. } => HookPointKind::PreToolUse,
            Self::PostToolUse { .. } => HookPointKind::PostToolUse,
            Self::PostToolUseFailure { .. } => HookPointKind::PostToolUseFailure,
            Self::Notification(_) => HookPointKind::Notification,
            Self::Stop { .. } => HookPointKind::Stop,
        }
    }
}

/// The points of the lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookPointKind {
    /// See [`HookPoint::SessionStart`].
    SessionStart,
    /// See [`HookPoint::SessionEnd`].
    SessionEnd,
    /// See [`HookPoint::UserPromptSubmit`].
    UserPromptSubmit,
    /// See [`HookPoint::PreToolUse`].
    PreToolUse,
    /// See [`HookPoint::PostToolUse`].
    PostToolUse,
    /// See [`HookPoint::PostToolUseFailure`].
    PostToolUseFailure,
    /// See [`HookPoint::Notification`].
    Notification,
    /// See [`HookPoint::Stop`].
    Stop,
}
