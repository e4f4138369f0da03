//! One answer of the model and the tool calls in it.
//!
//! A call may start when it may run beside every call before it that is not
//! done. While the model still speaks, only calls that read and run side by
//! side may start. Before a call runs, its arguments are checked, hooks and
//! policy have their say, and a person is asked if one of them wants it.
//! Results join the transcript together, in call order, when all calls are
//! done.

mod abort;
mod answering;
mod approval;
mod calls;
mod questions;

pub(super) use calls::tool_message;

use super::answer::Answer;
use super::budget::CallGrant;
use super::traits::ToolTraits;
use super::turn::Ending;
use super::{Effect, EffectId, Engine, PersonRequest};
use crate::limits::PARALLEL_TOOL_CALLS;
use halter_protocol::{
    Action, ApprovalRequest, HookOpinion, MemoryChange, Timestamp, ToolCall, ToolError, ToolName,
    ToolResult,
};
use std::sync::Arc;

/// An answer being streamed and worked off.
#[derive(Debug)]
pub(in crate::engine) struct Step {
    /// The model call, while it streams.
    stream: Option<EffectId>,
    /// What was reserved for it.
    grant: Option<CallGrant>,
    answer: Answer,
    calls: Vec<CallSlot>,
    /// What running calls ask, in order.
    questions: Vec<ToolQuestions>,
    /// How the turn ends once the calls are settled; none if it goes on.
    ending: Option<Ending>,
    grace: Option<EffectId>,
}

/// What a running call asks a person.
#[derive(Debug)]
struct ToolQuestions {
    tool: EffectId,
    request: PersonRequest,
    progress: AskProgress,
}

/// A call between the model's wish and its result.
#[derive(Debug)]
struct CallSlot {
    call: ToolCall,
    malformed: Option<String>,
    traits: ToolTraits,
    /// What its tool says it would touch.
    actions: Vec<Action>,
    /// Repeating this very call is how one waits.
    polling: bool,
    /// What hooks say to it.
    hook: HookOpinion,
    /// What the session shall remember of it.
    remembered: Vec<MemoryChange>,
    /// The tools it loaded.
    loaded: Vec<ToolName>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Waiting,
    /// Its arguments are being checked, maybe again because hooks rewrote
    /// them.
    Checking {
        id: EffectId,
        rewritten: bool,
    },
    PreHooks(EffectId),
    /// The policy decides.
    Judging {
        id: EffectId,
        /// How many approved rules it was told of.
        rules: usize,
    },
    /// Hooks hear that a person will be asked.
    RequestHooks {
        id: EffectId,
        request: Arc<ApprovalRequest>,
    },
    /// A person decides.
    Asking {
        request: Arc<ApprovalRequest>,
        progress: AskProgress,
    },
    /// Room in the budgets is reserved.
    Reserving(EffectId),
    /// Its start is being committed.
    Starting,
    Running {
        id: EffectId,
        deadline: Option<EffectId>,
        overdue: bool,
        started_at: Timestamp,
    },
    PostHooks {
        id: EffectId,
        result: Result<Arc<ToolResult>, ToolError>,
    },
    Done(Result<Arc<ToolResult>, ToolError>),
}

/// How far a request has come. One is open at a time, in call order, and
/// none while the model still speaks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum AskProgress {
    /// Hooks hear of it; only of what a running call asks.
    Hooks(EffectId),
    Waiting,
    /// It is being committed.
    Recorded,
    Open(EffectId),
}

impl Step {
    pub fn new(stream: EffectId, grant: Option<CallGrant>) -> Self {
        Self {
            stream: Some(stream),
            grant,
            answer: Answer::default(),
            calls: Vec::new(),
            questions: Vec::new(),
            ending: None,
            grace: None,
        }
    }

    /// True if the turn ends with this step, whatever its calls return.
    pub fn is_failing(&self) -> bool {
        self.ending.is_some()
    }

    /// Everything that runs, to be given up without waiting.
    pub fn abandon(&self) -> Vec<Effect> {
        let stream = self.stream.map(|id| Effect::CancelModel { id });
        let calls = self.calls.iter().filter_map(|slot| match &slot.stage {
            Stage::PreHooks(id) | Stage::RequestHooks { id, .. } | Stage::PostHooks { id, .. } => {
                Some(Effect::CancelHooks { id: *id })
            }
            Stage::Running { id, .. } => Some(Effect::AbandonTool { id: *id }),
            Stage::Asking {
                progress: AskProgress::Open(id),
                ..
            } => Some(Effect::Withdraw { id: *id }),
            _ => None,
        });
        let questions = self
            .questions
            .iter()
            .filter_map(|asked| match asked.progress {
                AskProgress::Open(id) => Some(Effect::Withdraw { id }),
                AskProgress::Hooks(id) => Some(Effect::CancelHooks { id }),
                _ => None,
            });
        stream.into_iter().chain(questions).chain(calls).collect()
    }

    /// What was reserved for the model call, and what was seen of its answer, in
    /// tokens.
    pub fn take_grant(&mut self) -> Option<(CallGrant, u64)> {
        let grant = self.grant.take()?;
        Some((grant, self.answer.tokens()))
    }

    fn settled(&self) -> bool {
        self.stream.is_none() && self.calls.iter().all(|slot| slot.is_done())
    }

    fn running(&self) -> usize {
        let busy = |slot: &&CallSlot| !matches!(slot.stage, Stage::Waiting | Stage::Done(_));
        self.calls.iter().filter(busy).count()
    }

    /// The first call that waits and need not.
    fn next_startable(&self) -> Option<usize> {
        if self.is_failing() || self.running() >= PARALLEL_TOOL_CALLS {
            return None;
        }
        let early = self.stream.is_some();
        let may_start = |(index, slot): &(usize, &CallSlot)| {
            let mut before = self.calls.iter().take(*index);
            matches!(slot.stage, Stage::Waiting)
                && (!early || slot.traits.may_start_early())
                && before.all(|it| it.is_done() || it.traits.runs_beside(&slot.traits))
        };
        let mut calls = self.calls.iter().enumerate();
        calls.find(may_start).map(|(index, _)| index)
    }
}

impl CallSlot {
    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }
}

impl Engine {
    fn step(&mut self) -> Option<&mut Step> {
        self.turn.as_mut().and_then(|turn| turn.step_mut())
    }

    fn slot(&mut self, index: usize) -> Option<&mut CallSlot> {
        self.step().and_then(|step| step.calls.get_mut(index))
    }

    fn set_stage(&mut self, index: usize, stage: Stage) {
        if let Some(slot) = self.slot(index) {
            slot.stage = stage;
        }
    }

    fn arm_timer(&mut self, after: std::time::Duration) -> EffectId {
        let id = self.next_effect();
        self.effects.push(Effect::ArmTimer { id, after });
        id
    }
}
