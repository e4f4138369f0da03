//! The model's answer, while it streams and when it ends.

use super::super::answer::Progress;
use super::super::traits::ToolTraits;
use super::super::turn::{Ending, LiveTurn};
use super::super::{Effect, EffectId, Engine};
use super::{CallSlot, Stage};
use crate::limits::EMPTY_ANSWER_RETRIES;
use halter_protocol::{
    AssistantMessage, AssistantPart, DeltaItem, HookOpinion, Message, ProviderError,
    ProviderErrorKind, SessionEventPayload, StopReason, StreamEvent, ToolCall, TurnError,
};

impl Engine {
    pub(in crate::engine) fn model_said(&mut self, id: EffectId, event: StreamEvent) {
        let Some(step) = self.step() else { return };
        if step.stream != Some(id) {
            return;
        }
        match step.answer.take(event) {
            Progress::Quiet => {}
            Progress::Text(text) => {
                let delta = DeltaItem { text };
                self.effects
                    .push(Effect::Publish(SessionEventPayload::DeltaItem { delta }));
            }
            Progress::Thinking(text) => {
                let delta = DeltaItem { text };
                self.effects
                    .push(Effect::Publish(SessionEventPayload::ThinkingDelta {
                        delta,
                    }));
            }
            Progress::Warning(message) => self.record(SessionEventPayload::Warning { message }),
            Progress::Call(part) => {
                self.admit_call(part);
                self.start_calls();
            }
            Progress::Ended => self.answer_complete(),
        }
    }

    fn admit_call(&mut self, part: AssistantPart) {
        let AssistantPart::ToolCall {
            id,
            name,
            arguments,
            malformed_arguments,
            ..
        } = part
        else {
            return;
        };
        let late = self.facts.late_tools.iter();
        let mut late = late.filter(|tool| tool.spec.name == name);
        let traits = ToolTraits::of(&self.facts.tools, name.as_str())
            .or_else(|| late.next().map(|tool| ToolTraits::from(tool.spec.as_ref())));
        if let Some(step) = self.step() {
            step.calls.push(CallSlot {
                call: ToolCall {
                    id,
                    name,
                    arguments,
                },
                malformed: malformed_arguments,
                traits: traits.unwrap_or(ToolTraits::UNKNOWN),
                actions: Vec::new(),
                polling: false,
                hook: HookOpinion::Nothing,
                remembered: Vec::new(),
                loaded: Vec::new(),
                stage: Stage::Waiting,
            });
        }
    }

    pub(in crate::engine) fn model_ended(&mut self, id: EffectId, error: Option<ProviderError>) {
        if self.step().is_none_or(|step| step.stream != Some(id)) {
            return;
        }
        let error = error.unwrap_or_else(|| {
            ProviderError::new(
                "the model's answer was cut off before it was complete",
                ProviderErrorKind::Transient,
            )
        });
        if error.kind == ProviderErrorKind::ContextOverflow && self.may_send_less() {
            return self.overflowed(&error);
        }
        if let Some(step) = self.step()
            && step.answer.is_empty()
            && let Some(grant) = &mut step.grant
        {
            grant.came_to_nothing = true;
        }
        let refused_again = error.kind == ProviderErrorKind::ContextOverflow
            && self
                .turn
                .as_ref()
                .is_some_and(|turn| turn.overflow.is_some());
        let retryable = error.retryable();
        self.abort_step(Ending::Failed {
            error: match refused_again {
                true => too_long_even_so(&error),
                false => provider_failure(&error),
            },
            cancelled: error.is_cancelled(),
            retryable,
        });
    }

    /// True if nothing has come of the call and the context was not compacted
    /// because of a refusal before.
    fn may_send_less(&mut self) -> bool {
        let again = |turn: &LiveTurn| turn.overflow.is_some();
        !self.turn.as_ref().is_some_and(again)
            && self
                .step()
                .is_some_and(|step| step.calls.is_empty() && step.answer.is_empty())
    }

    fn answer_complete(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.compacted = false;
            turn.overflow = None;
        }
        let Some(step) = self.step() else { return };
        step.stream = None;
        let reason = step.answer.stop_reason().cloned();
        let has_calls = !step.calls.is_empty();
        let parts = self.record_answer(reason.clone());
        if let Some(ending) = reason.as_ref().and_then(cut_short) {
            return self.abort_step(ending);
        }
        if has_calls {
            self.open_request();
            self.start_calls();
            return self.finish_step_if_settled();
        }
        let text: String = parts.iter().filter_map(shown_text).collect();
        let is_structured = self
            .turn
            .as_ref()
            .is_some_and(|turn| turn.contract.is_some());
        match reason {
            Some(StopReason::MaxTokens) => {
                let error = TurnError::new(
                    "output_limit_reached",
                    "the model reached its output limit before its answer was complete",
                )
                .with_hint("raise max_output_tokens of the model, or ask it to go on");
                self.finish_turn(Ending::failed(error));
            }
            Some(StopReason::Pause) => self.go_on_after_pause(),
            _ if text.trim().is_empty() => self.empty_answer(),
            _ if is_structured => self.structured_text(&text),
            _ => self.stop_or_go_on(text),
        }
    }

    /// Records what the model said and returns its parts. An answer without
    /// parts leaves no message: no provider would take it back.
    pub(super) fn record_answer(&mut self, stop_reason: Option<StopReason>) -> Vec<AssistantPart> {
        let Some(turn) = &mut self.turn else {
            return Vec::new();
        };
        let replay_meta = turn.answered_by.clone();
        let Some(step) = turn.step_mut() else {
            return Vec::new();
        };
        let grant = step.take_grant();
        let is_cut_off = stop_reason == Some(StopReason::Interrupted);
        let answer = std::mem::take(&mut step.answer);
        let usage = answer.usage();
        if let Some(usage) = &usage {
            turn.usage.saturating_accumulate(usage);
        }
        let parts = answer.into_parts();
        self.check_cache(usage.as_ref());
        if !parts.is_empty() {
            let message = AssistantMessage {
                id: self.mint_message(),
                created_at: self.at,
                parts: parts.clone(),
                stop_reason,
                usage,
                replay_meta,
            };
            self.record_message(Message::Assistant(message));
        }
        // What a complete answer used is what its service says, if it does.
        let seen = |tokens: u64| match (&usage, is_cut_off) {
            (Some(usage), false) if usage.context_tokens() > 0 => 0,
            _ => tokens,
        };
        let grant = grant.map(|(call, tokens)| (call, seen(tokens)));
        self.charge_call(grant, usage);
        parts
    }

    fn empty_answer(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if turn.empty_answers >= EMPTY_ANSWER_RETRIES {
            let error = TurnError::new("empty_answer", "the model answered with nothing, twice")
                .with_hint("submit the turn again, or use another model");
            return self.finish_turn(Ending::Failed {
                error,
                cancelled: false,
                retryable: true,
            });
        }
        turn.empty_answers += 1;
        self.record_system(
            "Your last answer was empty. Answer the user, or call a tool.".to_owned(),
        );
        self.go_on();
    }
}

/// How a turn ends whose answer ended for a reason that leaves nothing to go
/// on with: its calls do not run, and what was said is not taken for all.
fn cut_short(reason: &StopReason) -> Option<Ending> {
    let (code, message, hint) = match reason {
        StopReason::Refusal => (
            "model_refused",
            "the model declined to answer",
            "rephrase the request, or use another model",
        ),
        StopReason::ContextWindowExceeded => (
            "context_overflow",
            "the model's context window was full before its answer was complete",
            "submit the turn again: the context is compacted first",
        ),
        StopReason::Interrupted => (
            "answer_cut_off",
            "the service ended the answer before it was complete",
            "submit the turn again",
        ),
        _ => return None,
    };
    Some(Ending::Failed {
        error: TurnError::new(code, message).with_hint(hint),
        cancelled: false,
        retryable: *reason == StopReason::Interrupted,
    })
}

fn shown_text(part: &AssistantPart) -> Option<&str> {
    match part {
        AssistantPart::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// The service refused what a compaction has left.
fn too_long_even_so(error: &ProviderError) -> TurnError {
    let message = format!(
        "the conversation is too long for the model, even after it was compacted: {}",
        error.message
    );
    TurnError::new("context_overflow", message)
        .with_hint("use a model with a larger window, or start a new session")
}

fn provider_failure(error: &ProviderError) -> TurnError {
    let code = match &error.kind {
        ProviderErrorKind::RateLimited => "provider_rate_limited",
        ProviderErrorKind::Authentication => "provider_authentication",
        ProviderErrorKind::Transient => "provider_unavailable",
        ProviderErrorKind::ContextOverflow => "context_overflow",
        ProviderErrorKind::Cancelled => "cancelled",
        _ => "provider_failed",
    };
    let mut told = TurnError::new(code, error.message.clone());
    told.hint.clone_from(&error.hint);
    told
}
