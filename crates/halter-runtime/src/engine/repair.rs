//! Makes a session usable again whose last turn was broken off: by the end of
//! its process, or by a store that failed.
//!
//! What the log lacks is written, not imagined: a result for every call of
//! the last answer, and a terminal event for the turn.

use super::Engine;
use super::step::tool_message;
use halter_hooks::SessionStartSource;
use halter_protocol::{
    ApprovalChoice, ApprovalId, Message, PendingToolCall, ReplayMeta, ResolvedBy,
    SessionEventPayload, ToolCallProgress, ToolError, ToolErrorCode, ToolExecutionOutcome,
    ToolMessage, TurnError,
};
use std::collections::HashSet;

/// Why the log lacks the end of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Interruption {
    /// The process that ran it ended.
    ProcessEnded,
    /// Its events could not be stored.
    StoreFailed,
}

impl Interruption {
    fn turn_error(self) -> TurnError {
        let (code, message) = match self {
            Self::ProcessEnded => (
                "interrupted",
                "the process that ran this turn ended before the turn did",
            ),
            Self::StoreFailed => (
                "store_failed",
                "the session's store failed while this turn ran",
            ),
        };
        TurnError::new(code, message).with_hint("submit the turn again")
    }

    fn cause(self) -> &'static str {
        match self {
            Self::ProcessEnded => "the process ended",
            Self::StoreFailed => "the session's store failed",
        }
    }
}

impl Engine {
    /// Another process wrote the log: repair it and say that it is resumed.
    pub(super) fn resume(&mut self) {
        self.start_source = Some(SessionStartSource::Resume);
        self.subagent_start_due = false;
        self.interrupted_by = Some(Interruption::ProcessEnded);
        self.repair_if_needed();
        self.repair_subagents();
        self.record(SessionEventPayload::SessionResumed);
    }

    /// Records what an interrupted turn left open.
    pub(super) fn repair_if_needed(&mut self) {
        let Some(interruption) = self.interrupted_by.take() else {
            return;
        };
        let in_transcript = self.calls_of_last_answer();
        let pending: Vec<PendingToolCall> = self
            .state
            .pending_tool_calls
            .values()
            .filter(|pending| in_transcript.contains(pending.call.id.as_str()))
            .cloned()
            .collect();
        for call in pending {
            self.repair_call(call, interruption);
        }
        let open: Vec<ApprovalId> = self.state.open_approvals.keys().cloned().collect();
        for approval_id in open {
            self.record(SessionEventPayload::ApprovalResolved {
                approval_id,
                choice: ApprovalChoice::Deny,
                by: ResolvedBy::Interrupted,
                reason: Some(format!("{} before it was answered", interruption.cause())),
                rule: None,
            });
        }
        let open: Vec<_> = self.state.open_questions.values().cloned().collect();
        for request in open {
            self.record(SessionEventPayload::QuestionsAnswered {
                question_id: request.question_id.clone(),
                responses: request.all_skipped(),
                by: ResolvedBy::Interrupted,
            });
        }
        if let Some(turn_id) = self.state.live_turn.clone() {
            self.record(SessionEventPayload::TurnFailed {
                turn_id,
                error: interruption.turn_error(),
                cancelled: false,
                retryable: true,
                usage: self.state.live_turn_usage,
                answered_by: self.last_answered_by(),
            });
        }
    }

    /// Who gave the last answer; only of interest where something was used.
    fn last_answered_by(&self) -> ReplayMeta {
        let mut messages = self.state.messages.iter_newest_first();
        let last = messages.find_map(|message| message.as_assistant());
        let used = !self.state.live_turn_usage.is_zero();
        last.filter(|_| used)
            .map(|answer| answer.replay_meta.clone())
            .unwrap_or_default()
    }

    fn calls_of_last_answer(&self) -> HashSet<String> {
        self.state
            .messages
            .iter_newest_first()
            .find_map(|message| message.as_assistant())
            .map(|answer| answer.tool_calls().map(|call| call.id.0).collect())
            .unwrap_or_default()
    }

    fn repair_call(&mut self, pending: PendingToolCall, interruption: Interruption) {
        let (result, known) = match pending.progress {
            ToolCallProgress::Succeeded { result } => (Ok(result), true),
            ToolCallProgress::Failed { error } => (Err(error), true),
            ToolCallProgress::Requested => (Err(never_started(interruption)), false),
            _ => (Err(outcome_unknown(interruption)), false),
        };
        if !known {
            let outcome = ToolExecutionOutcome::new(pending.call.clone(), result.clone());
            self.record(SessionEventPayload::ToolExecutionCompleted { outcome });
        }
        let message = ToolMessage {
            loaded: pending.loaded,
            ..tool_message(self.mint_message(), self.at, pending.call, result)
        };
        self.record_message(Message::Tool(message));
    }
}

fn never_started(interruption: Interruption) -> ToolError {
    let cause = interruption.cause();
    ToolError::new(
        ToolErrorCode::Cancelled,
        format!("not run: {cause} before the call could start"),
    )
}

fn outcome_unknown(interruption: Interruption) -> ToolError {
    let cause = interruption.cause();
    ToolError::new(
        ToolErrorCode::OutcomeUnknown,
        format!(
            "{cause} while this call ran: it may or may not have taken effect. Check before doing it again."
        ),
    )
}
