//! Makes a session usable again whose last process ended in the middle.
//!
//! What the log lacks is written, not imagined: a result for every call of
//! the last answer, and a terminal event for the turn.

use super::Engine;
use super::step::tool_message;
use halter_protocol::{
    Message, PendingToolCall, SessionEventPayload, ToolCallProgress, ToolError, ToolErrorCode,
    ToolExecutionOutcome, TurnError,
};
use std::collections::HashSet;

impl Engine {
    /// Another process wrote the log: repair it and say that it is resumed.
    pub(super) fn resume(&mut self) {
        self.start_source = Some("resume");
        self.needs_repair = true;
        self.repair_if_needed();
        self.record(SessionEventPayload::SessionResumed);
    }

    /// Records what an interrupted turn left open.
    pub(super) fn repair_if_needed(&mut self) {
        if !std::mem::take(&mut self.needs_repair) {
            return;
        }
        let in_transcript = self.calls_of_last_answer();
        let pending: Vec<PendingToolCall> = self
            .state
            .pending_tool_calls
            .values()
            .filter(|pending| in_transcript.contains(pending.call.id.as_str()))
            .cloned()
            .collect();
        for call in pending {
            self.repair_call(call);
        }
        if let Some(turn_id) = self.state.live_turn.clone() {
            self.record(SessionEventPayload::TurnFailed {
                turn_id,
                error: TurnError::new(
                    "interrupted",
                    "the process that ran this turn ended before the turn did",
                )
                .with_hint("submit the turn again"),
                cancelled: false,
                retryable: true,
                usage: self.state.live_turn_usage,
            });
        }
    }

    fn calls_of_last_answer(&self) -> HashSet<String> {
        self.state
            .messages
            .iter_newest_first()
            .find_map(|message| message.as_assistant())
            .map(|answer| answer.tool_calls().map(|call| call.id.0).collect())
            .unwrap_or_default()
    }

    fn repair_call(&mut self, pending: PendingToolCall) {
        let (result, known) = match pending.progress {
            ToolCallProgress::Succeeded { result } => (Ok(result), true),
            ToolCallProgress::Failed { error } => (Err(error), true),
            ToolCallProgress::Requested => (Err(never_started()), false),
            _ => (Err(outcome_unknown()), false),
        };
        if !known {
            let outcome = ToolExecutionOutcome {
                call: pending.call.clone(),
                result: result.clone(),
            };
            self.record(SessionEventPayload::ToolExecutionCompleted { outcome });
        }
        let message = tool_message(self.mint_message(), self.at, pending.call, result);
        self.record_message(Message::Tool(message));
    }
}

fn never_started() -> ToolError {
    ToolError::new(
        ToolErrorCode::Cancelled,
        "not run: the process ended before the call could start",
    )
}

fn outcome_unknown() -> ToolError {
    ToolError::new(
        ToolErrorCode::OutcomeUnknown,
        "the process ended while this call ran: it may or may not have taken effect. Check before doing it again.",
    )
}
