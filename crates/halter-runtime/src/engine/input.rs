//! What the engine is told, and what it wants done.

use super::late::LateTool;
use crate::budget::{Granted, HarnessBudget, Shortage};
use halter_hooks::{HookEventName, HookPoint, HookVerdict};
use halter_protocol::{
    Action, ApprovalAnswer, ApprovalId, ApprovalRequest, CacheBreakReason, CallToJudge,
    CompactionReason, ContextCompaction, EnvironmentSnapshot, ForkedContext, HookRunSummary,
    InstructionFile, MediaLimits, MemoryChange, MessageId, ModelId, NotificationItem, PendingEvent,
    PolicyVerdict, ProviderError, QuestionId, QuestionRequest, QuestionResponse, ReplayMeta,
    ResolvedBy, ResourceUse, ResourcesLoaded, ResponseSchema, Revision, SessionBlueprint,
    SessionBudget, SessionEventPayload, Spending, StreamEvent, SubagentReport, SubagentStatus,
    ToldTool, ToolCall, ToolCallId, ToolError, ToolResult, ToolSpec, Transcript, Turn, TurnError,
    TurnId, UserMessage,
};
use halter_session::Durability;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What an engine knows of its session before anything happens in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionFacts {
    /// What was fixed when the session started.
    pub blueprint: Arc<SessionBlueprint>,
    /// The tools that may be called.
    pub tools: Arc<[ToolSpec]>,
    /// Those that joined late.
    #[serde(default)]
    pub late_tools: Arc<[LateTool]>,
    /// The events that hooks listen to.
    pub hooked: BTreeSet<HookEventName>,
    /// True if there is a place where permission rules are kept.
    pub saves_rules: bool,
    /// What sessions of the harness may spend.
    #[serde(default)]
    pub budget: HarnessBudget,
    /// What the ids of messages follow from; another one in every process that
    /// takes the session up.
    pub id_seed: u64,
}

/// Names an effect; an outcome for an effect that is no longer awaited is
/// ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId(pub u64);

/// Something that happened outside the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Somebody wants the context smaller.
    Compact {
        /// What they want kept.
        instructions: Option<String>,
    },
    /// Somebody gives the session another budget.
    SetBudget(SessionBudget),
    /// Something was spent outside of the turn's own calls, and the ledger
    /// knows it: a summary.
    Spent {
        /// What.
        charge: Spending,
    },
    /// The session shall end.
    Shutdown {
        /// Why.
        reason: String,
    },
    /// The session is new.
    Start {
        /// Things the user should know.
        warnings: Vec<String>,
        /// What it knows from its parent.
        forked: Option<Arc<ForkedContext>>,
    },
    /// A subagent is about to start, or is given more to do.
    SubagentStarts(Arc<SubagentStatus>),
    /// A subagent has reported, or was stopped.
    SubagentReports(Box<SubagentReport>),
    /// A subagent somewhere below waits for a person's approval.
    SubagentAsks(Arc<ApprovalRequest>),
    /// What a subagent asked is decided.
    SubagentAnswered {
        /// The request.
        approval_id: ApprovalId,
        /// What was chosen.
        answer: ApprovalAnswer,
        /// Who chose.
        by: ResolvedBy,
    },
    /// A process takes the session up again.
    Resume,
    /// The user should know something.
    Warn {
        /// What.
        message: String,
    },
    /// The network policy refused a connection of a running call.
    NetworkRefused {
        /// The call.
        call_id: ToolCallId,
        /// The host, with its port where that is known.
        host: String,
        /// The rule.
        rule: String,
        /// Why, and what to set.
        message: String,
    },
    /// Tools joined the session, changed or left it.
    LateTools {
        /// All that have joined late and are there.
        tools: Arc<[LateTool]>,
    },
    /// The answer to [`Effect::PrepareTurn`].
    Prepared {
        /// The effect.
        id: EffectId,
        /// What changed since the last turn, or why the turn cannot start.
        preparation: Result<Preparation, TurnError>,
    },
    /// The answer to [`Effect::PlanContext`].
    ContextPlanned {
        /// The effect.
        id: EffectId,
        /// True if the context is to be compacted first.
        too_large: bool,
    },
    /// The answer to [`Effect::Compact`].
    Compacted {
        /// The effect.
        id: EffectId,
        /// What the context is to be; none if nothing can be gained.
        compaction: Option<Arc<ContextCompaction>>,
    },
    /// The answer to [`Effect::ReserveModelCall`].
    ModelCallReserved {
        /// The effect.
        id: EffectId,
        /// What the call may use, or the limit it does not fit into.
        granted: Result<Granted, Shortage>,
    },
    /// The answer to [`Effect::ReserveToolCall`].
    ToolCallReserved {
        /// The effect.
        id: EffectId,
        /// The limit it does not fit into.
        granted: Result<(), Shortage>,
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
    /// The answer to [`Effect::CheckCall`].
    CallChecked {
        /// The effect.
        id: EffectId,
        /// What the tool says of the call, or why the call cannot be made.
        check: Result<CallFacts, ToolError>,
        /// What the session shall remember of a call that cannot be made: a
        /// tool that was loaded for it.
        remembered: Vec<MemoryChange>,
    },
    /// The answer to [`Effect::Judge`].
    Judged {
        /// The effect.
        id: EffectId,
        /// What the policy says, or why it cannot say anything.
        verdict: Result<PolicyVerdict, ToolError>,
        /// What the call would change, if a person has to decide.
        diff: Option<String>,
    },
    /// A running tool asks a person.
    ToolAsks {
        /// The effect that runs it.
        id: EffectId,
        /// What it asks. The engine says what may be chosen.
        request: PersonRequest,
    },
    /// Somebody answered a request of [`Effect::Ask`].
    Answered {
        /// What they said, and to what.
        answer: PersonAnswer,
        /// Who.
        by: ResolvedBy,
    },
    /// A tool returned.
    ToolFinished {
        /// The effect.
        id: EffectId,
        /// What it returned.
        result: Result<Arc<ToolResult>, ToolError>,
        /// What the session shall remember of it.
        remembered: Vec<MemoryChange>,
        /// What the model shall be told after the results: instruction files of
        /// places the call has reached.
        note: Option<SystemNote>,
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
        verdict: HookVerdict,
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// The environment, if it differs from what the model knows, and how to
    /// say so.
    pub environment: Option<(EnvironmentSnapshot, String)>,
    /// What to say of instruction files that have changed.
    pub instructions: Option<SystemNote>,
    /// Texts of resources that the user wants used.
    pub uses: Vec<SystemNote>,
    /// Texts that follow what the user said, in the same message.
    #[serde(default)]
    pub prompt: Vec<String>,
    /// Why the next request will not extend the cached prefix.
    pub cache_break: Option<CacheBreakReason>,
    /// What the session works with, if the log says something else.
    #[serde(default)]
    pub resources: Option<Arc<ResourcesLoaded>>,
    /// The resources in force, if they were replaced.
    pub snapshot_revision: Option<Revision>,
    /// The tools in force, if they are others than before.
    pub tools_revision: Option<Revision>,
    /// Their specs, then.
    pub tools: Option<Arc<[ToolSpec]>>,
    /// The tools that have joined late, if these are others than before.
    pub late_tools: Option<Arc<[LateTool]>>,
    /// The events that hooks listen to, if the hooks were replaced.
    pub hooked: Option<BTreeSet<HookEventName>>,
    /// Things the user should know.
    pub warnings: Vec<String>,
    /// Who will answer.
    pub answered_by: ReplayMeta,
    /// The images and documents that the model takes.
    pub media: MediaLimits,
}

/// Words of the harness that join the transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemNote {
    /// What the model reads.
    pub text: String,
    /// The instruction files it holds or withdraws.
    pub instructions: Vec<InstructionFile>,
    /// The late tools it tells of.
    #[serde(default)]
    pub tools: Vec<ToldTool>,
}

impl From<String> for SystemNote {
    fn from(text: String) -> Self {
        Self {
            text,
            instructions: Vec::new(),
            tools: Vec::new(),
        }
    }
}

/// Something that a person is asked. One is open at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PersonRequest {
    /// Whether a call may run, or a running one may do something.
    Approval(Arc<ApprovalRequest>),
    /// What a running call wants to know.
    Questions(Arc<QuestionRequest>),
}

impl PersonRequest {
    /// The approval that this asks for, if it is that one.
    pub(crate) fn approval(&self, id: &ApprovalId) -> Option<&ApprovalRequest> {
        match self {
            Self::Approval(request) if request.approval_id == *id => Some(request),
            _ => None,
        }
    }

    /// The questions, if they are those.
    pub(crate) fn questions(&self, id: &QuestionId) -> Option<&QuestionRequest> {
        match self {
            Self::Questions(request) if request.question_id == *id => Some(request),
            _ => None,
        }
    }

    /// This answer to an approval, and no answer to any question.
    pub(crate) fn answered_with(&self, answer: ApprovalAnswer) -> PersonAnswer {
        match self {
            Self::Approval(request) => PersonAnswer::Approval {
                approval_id: request.approval_id.clone(),
                answer,
            },
            Self::Questions(request) => PersonAnswer::Questions {
                question_id: request.question_id.clone(),
                responses: request.all_skipped(),
            },
        }
    }
}

/// What a person says to what they are asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PersonAnswer {
    /// Whether a call may run, or do something.
    Approval {
        /// The request.
        approval_id: ApprovalId,
        /// What they decided.
        answer: ApprovalAnswer,
    },
    /// What a running call wanted to know.
    Questions {
        /// The questions.
        question_id: QuestionId,
        /// An answer to each.
        responses: Vec<QuestionResponse>,
    },
}

/// What a tool says of a call before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallFacts {
    /// What it would touch.
    pub actions: Vec<Action>,
    /// Repeating this very call is how one waits.
    pub polling: bool,
}

/// Something the engine wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Look at the environment and resources before a turn.
    PrepareTurn {
        /// Names the effect.
        id: EffectId,
        /// The turn.
        turn_id: TurnId,
        /// The model it wants.
        model: ModelId,
        /// Resources the user wants used.
        uses: Vec<ResourceUse>,
    },
    /// Stop what prepares a turn.
    CancelPreparation {
        /// The effect to stop.
        id: EffectId,
    },
    /// Say whether what is committed fits into the model's context.
    PlanContext {
        /// Names the effect.
        id: EffectId,
        /// The model.
        model: ModelId,
    },
    /// Make the context smaller. Everything said is committed, and nothing is
    /// said meanwhile. [`Effect::CancelModel`] stops it.
    Compact {
        /// Names the effect.
        id: EffectId,
        /// The turn, if one is live.
        turn_id: Option<TurnId>,
        /// The model that is asked with what is left.
        model: ModelId,
        /// Why.
        reason: CompactionReason,
        /// What whoever asked for it wants kept.
        instructions: Option<String>,
        /// The id of a message that stands for others.
        message_id: MessageId,
    },
    /// A compaction that somebody asked for is over, and committed.
    CompactionOver {
        /// What it came to; none if nothing could be gained.
        compaction: Option<Arc<ContextCompaction>>,
        /// Why it was given up.
        problem: Option<TurnError>,
    },
    /// Reserve the worst case of a model call.
    ReserveModelCall {
        /// Names the effect, and the reservation.
        id: EffectId,
        /// The turn.
        turn_id: TurnId,
        /// The model.
        model: ModelId,
        /// What was spent and is not charged yet.
        unbilled: Spending,
    },
    /// Reserve a tool call.
    ReserveToolCall {
        /// Names the effect, and the reservation.
        id: EffectId,
        /// The turn.
        turn_id: TurnId,
        /// What was spent and is not charged yet.
        unbilled: Spending,
    },
    /// Charge what was spent.
    Charge {
        /// The effect that reserved it; what it reserved returns.
        reservation: Option<EffectId>,
        /// The turn, if one is live.
        turn_id: Option<TurnId>,
        /// What was spent; nothing, if a reservation was not used.
        charge: Spending,
    },
    /// The limits of the session are others.
    SetBudget(SessionBudget),
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
        /// The most that the answer may have, in tokens, if a budget allows no
        /// more.
        output_limit: Option<u32>,
    },
    /// Stop listening to the model.
    CancelModel {
        /// The effect to stop.
        id: EffectId,
    },
    /// Check a call's arguments against the schema of its tool.
    CheckCall {
        /// Names the effect.
        id: EffectId,
        /// The call.
        call: ToolCall,
    },
    /// Ask the policy about a call that fits its schema and no hook objects to.
    Judge {
        /// Names the effect.
        id: EffectId,
        /// The call.
        call: CallToJudge,
    },
    /// Ask a person; the request is committed.
    Ask {
        /// Names the effect.
        id: EffectId,
        /// The request.
        request: PersonRequest,
    },
    /// Hand a running tool the answer to what it asked; it is committed.
    Reply {
        /// The answer, and to what.
        answer: PersonAnswer,
        /// Who gave it.
        by: ResolvedBy,
    },
    /// Save a permission rule; the answer that holds for good is committed.
    SaveRule {
        /// The rule.
        rule: String,
    },
    /// Nobody needs an answer any more.
    Withdraw {
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
        /// The model of the turn, or of turns that name none.
        model: ModelId,
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
    /// A turn begins that nobody submitted: a subagent has reported.
    TurnOpened {
        /// The turn.
        turn_id: TurnId,
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
