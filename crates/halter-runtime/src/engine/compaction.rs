//! How a context is made smaller: before the model is asked, when its service
//! says that it is too long, or because somebody wants it.
//!
//! While a compaction is under way no message joins the transcript, in a turn
//! or outside of one, so that what it keeps is found where it was.

use super::recording::Then;
use super::turn::{Ending, Phase, hook_stopped};
use super::{Effect, EffectId, Engine, SystemNote};
use crate::context::summary_in;
use halter_hooks::{HookEventName, HookPoint, HookVerdict, SessionStartSource};
use halter_protocol::{
    CacheBreakReason, CompactionReason, ContextCompaction, ProviderError, SessionEventPayload,
    TurnError, WindowPart,
};
use halter_providers::check_pairing;
use std::sync::Arc;

/// A compaction under way.
#[derive(Debug)]
pub(super) struct Compacting {
    reason: CompactionReason,
    stage: CompactionStage,
}

#[derive(Debug)]
enum CompactionStage {
    PreHooks {
        id: EffectId,
        instructions: Option<String>,
    },
    Working(EffectId),
    PostHooks {
        id: EffectId,
        compaction: Arc<ContextCompaction>,
    },
    /// Hooks of a session's start hear that its context is a new one.
    StartHooks {
        id: EffectId,
        compaction: Arc<ContextCompaction>,
    },
}

/// Somebody wants the context smaller.
#[derive(Debug)]
pub(super) struct CompactionWish {
    pub instructions: Option<String>,
}

impl Engine {
    /// True if a compaction may be asked for.
    pub fn accepts_compaction(&self) -> bool {
        self.shutdown.is_none() && !self.closed
    }

    pub(super) fn wish_compaction(&mut self, instructions: Option<String>) {
        self.repair_if_needed();
        let under_way = self.compaction.as_ref();
        if under_way.is_none_or(|it| it.reason != CompactionReason::Requested) {
            self.compaction_wish = Some(CompactionWish { instructions });
        }
    }

    /// Asks whether the context fits, before the model is asked.
    pub(super) fn plan_context(&mut self) {
        if let Some(wish) = self.compaction_wish.take() {
            return self.begin_compaction(CompactionReason::Requested, wish.instructions);
        }
        let id = self.next_effect();
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Planning(id);
            let model = turn.model.clone();
            self.effects.push(Effect::PlanContext { id, model });
        }
    }

    pub(super) fn context_planned(&mut self, id: EffectId, too_large: bool) {
        let phase = self.turn.as_ref().map(|turn| &turn.phase);
        if !matches!(phase, Some(Phase::Planning(awaited)) if *awaited == id) {
            return;
        }
        match too_large {
            true => self.begin_compaction(CompactionReason::Threshold, None),
            false => self.call_model(),
        }
    }

    /// The service refused the conversation as too long: it is compacted and
    /// sent once more.
    pub(super) fn overflowed(&mut self, error: &ProviderError) {
        self.release_call();
        let Some(turn) = &mut self.turn else { return };
        // The refused call does not count.
        turn.model_calls = turn.model_calls.saturating_sub(1);
        let mut told = TurnError::new("context_overflow", error.message.clone());
        told.hint.clone_from(&error.hint);
        turn.overflow = Some(told);
        self.begin_compaction(CompactionReason::Overflow, None);
    }

    pub(super) fn begin_compaction(
        &mut self,
        reason: CompactionReason,
        instructions: Option<String>,
    ) {
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Compacting;
            turn.compacted = true;
        }
        let stage = match self.has_hooks(HookEventName::PreCompact) {
            true => CompactionStage::PreHooks {
                id: self.run_hooks(HookPoint::PreCompact {
                    reason: reason.clone(),
                    instructions: instructions.clone(),
                }),
                instructions,
            },
            false => CompactionStage::Working(self.compact(&reason, instructions)),
        };
        self.compaction = Some(Compacting { reason, stage });
    }

    fn compact(&mut self, reason: &CompactionReason, instructions: Option<String>) -> EffectId {
        let id = self.next_effect();
        self.effects
            .push(Effect::Publish(SessionEventPayload::CompactionStarted {
                reason: reason.clone(),
            }));
        let turn = self.turn.as_ref();
        let own = &self.facts.blueprint.default_model;
        let model = turn.map(|turn| &turn.model).or(self.last_model.as_ref());
        self.effects.push(Effect::Compact {
            id,
            turn_id: turn.map(|turn| turn.id.clone()),
            model: model.unwrap_or(own).clone(),
            reason: reason.clone(),
            instructions,
            message_id: self.mint_message(),
        });
        id
    }

    /// The hooks of a compaction have run; false if these are others.
    pub(super) fn compaction_hooks_finished(
        &mut self,
        id: EffectId,
        verdict: &HookVerdict,
    ) -> bool {
        let Some(Compacting { reason, stage }) = &mut self.compaction else {
            return false;
        };
        let mut starts = false;
        let (before, after) = match stage {
            CompactionStage::PreHooks {
                id: awaited,
                instructions,
            } if *awaited == id => (Some(instructions.take()), None),
            CompactionStage::PostHooks {
                id: awaited,
                compaction,
            } if *awaited == id => (None, Some(compaction.clone())),
            CompactionStage::StartHooks {
                id: awaited,
                compaction,
            } if *awaited == id => {
                starts = true;
                (None, Some(compaction.clone()))
            }
            _ => return false,
        };
        let reason = reason.clone();
        self.words.extend(verdict.words().map(SystemNote::from));
        if let Some(why) = &verdict.stop
            && self.turn.is_some()
        {
            self.end_requested(&reason, after, None);
            self.compaction = None;
            self.finish_turn(hook_stopped(why));
            return true;
        }
        match (before, &verdict.block) {
            (Some(_), Some(why)) => {
                let message = format!("a PreCompact hook kept the context as it is: {why}");
                self.record(SessionEventPayload::Warning { message });
                self.end_compaction(None);
            }
            (Some(instructions), None) => {
                let id = self.compact(&reason, instructions);
                let stage = CompactionStage::Working(id);
                self.compaction = Some(Compacting { reason, stage });
            }
            (None, _) => match after {
                Some(compaction) if !starts => self.start_hooks_or_end(reason, compaction),
                after => self.end_compaction(after),
            },
        }
        true
    }

    /// What hooks said at the session's start may have been cut: those that
    /// listen for it say it again.
    fn start_hooks_or_end(&mut self, reason: CompactionReason, compaction: Arc<ContextCompaction>) {
        if !self.has_hooks(HookEventName::SessionStart) {
            return self.end_compaction(Some(compaction));
        }
        let source = SessionStartSource::Compact;
        let id = self.run_hooks(HookPoint::SessionStart { source });
        let stage = CompactionStage::StartHooks { id, compaction };
        self.compaction = Some(Compacting { reason, stage });
    }

    pub(super) fn compacted(&mut self, id: EffectId, compaction: Option<Arc<ContextCompaction>>) {
        let Some(Compacting { reason, stage }) = &self.compaction else {
            return;
        };
        if !matches!(stage, CompactionStage::Working(awaited) if *awaited == id) {
            return;
        }
        let reason = reason.clone();
        let Some(compaction) = compaction.filter(|it| self.is_usable(it)) else {
            return self.end_compaction(None);
        };
        self.record(SessionEventPayload::ContextCompacted(compaction.clone()));
        self.record(SessionEventPayload::CacheBreak {
            reason: CacheBreakReason::ContextCompacted,
            snapshot_revision: None,
            tools_revision: None,
        });
        if !self.has_hooks(HookEventName::PostCompact) {
            return self.start_hooks_or_end(reason, compaction);
        }
        let new = compaction.window.iter().filter_map(|part| match part {
            WindowPart::Message { message } => Some(message),
            _ => None,
        });
        let summary = new.into_iter().find_map(|message| summary_in(message));
        let id = self.run_hooks(HookPoint::PostCompact {
            reason: reason.clone(),
            summary,
        });
        let stage = CompactionStage::PostHooks { id, compaction };
        self.compaction = Some(Compacting { reason, stage });
    }

    /// Whether a transcript may be sent. One in which calls and results do not
    /// pair would be refused by every model service.
    fn is_usable(&mut self, compaction: &ContextCompaction) -> bool {
        let after = compaction.apply(&self.state.messages);
        let problem = match check_pairing(&after) {
            Err(problem) => problem.to_string(),
            Ok(()) if after.is_empty() && !self.state.messages.is_empty() => {
                "nothing is left".to_owned()
            }
            Ok(()) => return true,
        };
        let message = format!("the context manager's compaction is not used: {problem}");
        self.record(SessionEventPayload::Warning { message });
        false
    }

    /// Goes on with what waited for the compaction.
    fn end_compaction(&mut self, compaction: Option<Arc<ContextCompaction>>) {
        let Some(Compacting { reason, .. }) = self.compaction.take() else {
            return;
        };
        let gained = compaction.is_some();
        self.end_requested(&reason, compaction, None);
        let Some(turn) = &mut self.turn else { return };
        if reason == CompactionReason::Overflow
            && !gained
            && let Some(error) = turn.overflow.take()
        {
            return self.finish_turn(Ending::failed(error));
        }
        if reason == CompactionReason::Threshold
            && !gained
            && !std::mem::replace(&mut turn.told_of_full_context, true)
        {
            let message = "the context is as large as it may get and nothing can be cut from it; \
                           go on in a new session, or use a model with a larger window";
            self.record(SessionEventPayload::Warning {
                message: message.to_owned(),
            });
        }
        self.go_on();
    }

    /// Tells whoever asked for a compaction how it ended, once it is committed.
    fn end_requested(
        &mut self,
        reason: &CompactionReason,
        compaction: Option<Arc<ContextCompaction>>,
        problem: Option<TurnError>,
    ) {
        if *reason == CompactionReason::Requested {
            self.after_commit(Then::CompactionOver {
                compaction,
                problem,
            });
        }
    }

    /// Gives up a compaction, also one that somebody only asked for.
    pub(super) fn abandon_compaction(&mut self, problem: &TurnError) {
        let mut asked = self.compaction_wish.take().is_some();
        if let Some(Compacting { reason, stage }) = self.compaction.take() {
            asked |= reason == CompactionReason::Requested;
            self.effects.push(match stage {
                CompactionStage::Working(id) => Effect::CancelModel { id },
                CompactionStage::PreHooks { id, .. }
                | CompactionStage::PostHooks { id, .. }
                | CompactionStage::StartHooks { id, .. } => Effect::CancelHooks { id },
            });
        }
        if asked {
            self.effects.push(Effect::CompactionOver {
                compaction: None,
                problem: Some(problem.clone()),
            });
        }
    }

    /// Starts a compaction that somebody asked for, outside of a turn. What
    /// was recorded must be committed: it is cut, too.
    pub(super) fn compact_if_wished(&mut self) {
        if !self.in_flight.is_empty() || !self.batch.payloads.is_empty() {
            return;
        }
        if let Some(wish) = self.compaction_wish.take() {
            self.begin_compaction(CompactionReason::Requested, wish.instructions);
        }
    }
}
