//! Events on their way into the log, and what waits for their commit.

use super::media::MediaLedger;
use super::repair::Interruption;
use super::{Effect, EffectId, Engine, PersonAnswer, SystemNote};
use halter_protocol::{
    ApprovalId, ContextCompaction, Message, PendingEvent, QuestionId, ResolvedBy,
    SessionEventPayload, SystemMessage, ToolCallId, TurnError, TurnId, fold,
};
use halter_session::Durability;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct InFlight {
    pub id: EffectId,
    pub payloads: Vec<SessionEventPayload>,
    pub then: Vec<Then>,
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub payloads: Vec<SessionEventPayload>,
    pub then: Vec<Then>,
    pub durable: bool,
}

/// What waits for a commit.
#[derive(Debug)]
pub(super) enum Then {
    RunTool(ToolCallId),
    Ask(ApprovalId),
    AskQuestions(QuestionId),
    Reply {
        answer: PersonAnswer,
        by: ResolvedBy,
    },
    SaveRule(String),
    CallModel,
    CompactionOver {
        compaction: Option<Arc<ContextCompaction>>,
        problem: Option<TurnError>,
    },
    TurnOver(TurnId),
    Closed,
}

impl Engine {
    /// Adds an event to the batch of this input.
    pub(super) fn record(&mut self, payload: SessionEventPayload) {
        self.batch.durable |= needs_durability(&payload);
        self.cut_announced |= matches!(payload, SessionEventPayload::CacheBreak { .. });
        self.record_buffered(payload);
    }

    /// Adds an event from which nothing follows that must survive a crash.
    pub(super) fn record_buffered(&mut self, payload: SessionEventPayload) {
        self.batch.payloads.push(payload);
    }

    pub(super) fn record_message(&mut self, message: Message) {
        self.record(SessionEventPayload::MessageItem {
            message: Arc::new(message),
        });
    }

    pub(super) fn record_system(&mut self, note: impl Into<SystemNote>) {
        let SystemNote {
            text,
            instructions,
            tools,
        } = note.into();
        let message = SystemMessage {
            id: self.mint_message(),
            created_at: self.at,
            text,
            environment: None,
            instructions,
            tools,
        };
        self.record_message(Message::System(message));
    }

    /// Does something once everything recorded so far is committed.
    pub(super) fn after_commit(&mut self, then: Then) {
        self.batch.then.push(then);
    }

    pub(super) fn flush(&mut self) {
        if self.batch.payloads.is_empty() && self.batch.then.is_empty() {
            return;
        }
        let id = self.next_effect();
        let Batch {
            payloads,
            then,
            durable,
        } = std::mem::take(&mut self.batch);
        let session_id = &self.facts.blueprint.session_id;
        let events = payloads
            .iter()
            .map(|payload| PendingEvent::new(session_id.clone(), self.at, payload.clone()))
            .collect();
        self.in_flight.push_back(InFlight { id, payloads, then });
        self.effects.push(Effect::Append {
            id,
            events,
            durability: if durable {
                Durability::Durable
            } else {
                Durability::Buffered
            },
        });
    }

    pub(super) fn committed(&mut self, id: EffectId) {
        if self.in_flight.front().is_none_or(|append| append.id != id) {
            return;
        }
        let Some(append) = self.in_flight.pop_front() else {
            return;
        };
        for payload in &append.payloads {
            if let SessionEventPayload::MessageItem { message } = payload {
                self.media.count_message(message);
            }
            fold::apply_event(&mut self.state, payload);
            if let SessionEventPayload::ContextCompacted(_)
            | SessionEventPayload::ContextForked(_) = payload
            {
                self.media = MediaLedger::of(&self.state);
            }
        }
        for then in append.then {
            match then {
                Then::RunTool(call_id) => self.run_tool(&call_id),
                Then::Ask(approval_id) => self.ask(&approval_id),
                Then::AskQuestions(question_id) => self.ask_questions(&question_id),
                Then::Reply { answer, by } => self.effects.push(Effect::Reply { answer, by }),
                Then::SaveRule(rule) => self.effects.push(Effect::SaveRule { rule }),
                Then::CallModel => self.call_model_if_due(),
                Then::CompactionOver {
                    compaction,
                    problem,
                } => self.effects.push(Effect::CompactionOver {
                    compaction,
                    problem,
                }),
                Then::TurnOver(turn_id) => self.turn_over(turn_id, None),
                Then::Closed => {
                    self.closed = true;
                    self.effects.push(Effect::Closed);
                }
            }
        }
    }

    /// The log cannot grow: everything under way ends without a record, and
    /// what the log lacks is repaired before the next turn.
    pub(super) fn store_failed(&mut self, id: EffectId, error: &TurnError) {
        if !self.in_flight.iter().any(|append| append.id == id) {
            return;
        }
        let lost = std::mem::take(&mut self.in_flight).into_iter();
        let lost = lost.flat_map(|append| append.then);
        let lost = lost.chain(std::mem::take(&mut self.batch).then);
        let live = self.live_turn().cloned();
        // Turns that ended before they had started, and whose end is lost.
        let ended: Vec<TurnId> = lost
            .filter_map(|then| match then {
                Then::TurnOver(turn_id) if Some(&turn_id) != live.as_ref() => Some(turn_id),
                _ => None,
            })
            .collect();
        self.interrupted_by = Some(Interruption::StoreFailed);
        self.words.clear();
        self.approved_rules.clone_from(&self.state.approved_rules);
        self.told_tools = super::told_tools(&self.state);
        self.abandon_compaction(error);
        for id in std::mem::take(&mut self.notification_hooks) {
            self.effects.push(Effect::CancelHooks { id });
        }
        self.release_call();
        for turn_id in ended {
            self.turn_over(turn_id, Some(error.clone()));
        }
        if let Some(turn) = self.turn.take() {
            let abandoned = turn.abandon();
            self.effects.extend(abandoned);
            self.turn_over(turn.id, Some(error.clone()));
        }
        while let Some(queued) = self.queue.pop_front() {
            self.turn_over(queued.turn.id, Some(error.clone()));
        }
        if self.shutdown.is_some() {
            self.closed = true;
            self.effects.push(Effect::Closed);
        }
    }

    pub(super) fn turn_over(&mut self, turn_id: TurnId, store_error: Option<TurnError>) {
        if self.turn.as_ref().is_some_and(|turn| turn.id == turn_id) {
            self.turn = None;
        }
        self.effects.push(Effect::TurnOver {
            turn_id,
            store_error,
        });
    }
}

/// Whether an event must survive a crash before anything follows from it. The
/// runs of hooks, warnings and refusals may share the next commit.
fn needs_durability(payload: &SessionEventPayload) -> bool {
    !matches!(
        payload,
        SessionEventPayload::HookStarted { .. }
            | SessionEventPayload::HookCompleted { .. }
            | SessionEventPayload::Warning { .. }
            | SessionEventPayload::NetworkRefused { .. }
    )
}
