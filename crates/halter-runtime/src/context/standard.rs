//! The standard form: outputs first, then a summary.

use super::cut::Cut;
use super::reference::{shrunk_result, shrunk_user};
use super::size::{estimate, overhead, scale};
use super::{
    Compaction, CompactionRequest, ContextManager, ContextPlan, ContextRequest, ContextSize,
    Summary, native, size, summary,
};
use crate::limits::{LEAST_SUMMARISED_TOKENS, RETAINED_USER_BYTES, SHRINKABLE_OUTPUT_TOKENS};
use async_trait::async_trait;
use halter_protocol::{CompactionReason, CompactionTier, Message, SessionState, Transcript};
use halter_providers::tokens::{of_bytes, of_message};
use std::collections::HashSet;
use std::sync::Arc;

/// When a context is compacted, and how small it gets, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextSettings {
    /// A context this large is compacted; without it, at 80 % of the model's
    /// window. In any case there is room for an answer.
    pub threshold: Option<u64>,
    /// How large it should be afterwards; without it, half of that.
    pub target: Option<u64>,
}

/// Older tool outputs become references; where that is not enough, the model's
/// service compacts older messages, or else they become a summary. The newest turns, or at least the newest step,
/// stay as they are, and so does what the user wanted first.
#[derive(Debug, Clone, Copy, Default)]
pub struct StandardContext {
    settings: ContextSettings,
}

impl StandardContext {
    /// The standard form with these settings.
    pub fn new(settings: ContextSettings) -> Self {
        Self { settings }
    }
}

#[async_trait]
impl ContextManager for StandardContext {
    fn size(&self, request: ContextRequest<'_>) -> ContextSize {
        size(&request, &self.settings)
    }

    fn plan(&self, request: ContextRequest<'_>) -> ContextPlan {
        let size = size(&request, &self.settings);
        // A compaction that did not get below the limit is not repeated before
        // there is something more to cut.
        let mark = request.state.context_mark;
        let grown = mark.map_or(0, |mark| mark.tokens.saturating_add(size.limit / 10));
        match size.tokens >= size.limit.max(grown) {
            true => ContextPlan::Compact,
            false => ContextPlan::Send,
        }
    }

    async fn compact(&self, request: CompactionRequest) -> Option<Compaction> {
        let plan = RoomPlan::new(&request, &self.settings);
        if let Some(compaction) = shrink_outputs(&request, &plan) {
            return Some(compaction);
        }
        if let Some(compaction) = native::compact(&request, &plan).await {
            return Some(compaction);
        }
        summarize(&request, &plan).await
    }
}

/// How much there is and how much there may be. A service counts tokens of
/// everything; parts of it are estimated, and compared as such.
pub(super) struct RoomPlan {
    /// Tokens of the request, as counted.
    pub tokens: u64,
    /// Tokens of what is no message.
    overhead: u64,
    /// Estimated tokens of the messages.
    pub estimated: u64,
    /// What the messages should come to, estimated.
    target: u64,
    /// What they may come to, estimated.
    pub limit: u64,
    /// What stays as it is, estimated.
    pub keep: u64,
    /// What the model's service made of old messages is most of it.
    pub native_is_too_large: bool,
}

impl RoomPlan {
    fn new(request: &CompactionRequest, settings: &ContextSettings) -> Self {
        let context = request.context();
        let ContextSize { tokens, limit, .. } = size(&context, settings);
        let overhead = overhead(&context);
        let estimated = estimate(&request.state.messages);
        let tokens = match request.reason {
            CompactionReason::Overflow => tokens.max(limit),
            _ => tokens,
        };
        let target = settings.target.unwrap_or(limit / 2).min(limit);
        let target = match request.reason {
            CompactionReason::Threshold => target,
            _ => target.min(tokens / 2),
        };
        // What is wrong with the estimate lies in the messages.
        let counted = tokens.saturating_sub(overhead).max(estimated / 4);
        let messages_of = |tokens: u64| scale(estimated, tokens, counted);
        Self {
            native_is_too_large: native::is_too_large(request, limit),
            tokens,
            overhead,
            estimated,
            target: messages_of(target.saturating_sub(overhead)),
            limit: messages_of(limit.saturating_sub(overhead)),
            keep: messages_of(limit / 5).min(estimated / 2),
        }
    }

    /// Tokens of a request with these messages, as a service would count them.
    /// A service that counts far more than estimated counted something else.
    pub fn after(&self, messages: &Transcript) -> u64 {
        let counted = self.tokens.saturating_sub(self.overhead);
        let counted = counted.clamp(self.estimated / 4, self.estimated.saturating_mul(4));
        self.overhead + scale(estimate(messages), counted, self.estimated)
    }

    /// The compaction, if it gains a twentieth of the messages at least.
    pub fn gained(&self, compaction: Compaction) -> Option<Compaction> {
        let left = estimate(&compaction.messages);
        let gains = left.saturating_mul(20) <= self.estimated.saturating_mul(19);
        (gains || self.native_is_too_large).then_some(compaction)
    }
}

/// Turns older outputs into references, the oldest first, until the context is
/// as small as it should be. None if it does not get there.
fn shrink_outputs(request: &CompactionRequest, plan: &RoomPlan) -> Option<Compaction> {
    if plan.native_is_too_large {
        return None;
    }
    let Cut { old, tail } = Cut::new(&request.state.messages, plan.keep);
    let mut left = plan.estimated;
    let mut outputs_cut = 0;
    let mut messages = Transcript::default();
    for message in old {
        if left > plan.target
            && let Some((shrunk, saved)) = shrunk(&message)
        {
            left = left.saturating_sub(saved);
            outputs_cut += 1;
            messages.push(shrunk);
        } else {
            messages.push(message);
        }
    }
    tail.into_iter().for_each(|message| messages.push(message));
    if outputs_cut == 0 || left > plan.target {
        return None;
    }
    plan.gained(Compaction {
        tier: CompactionTier::Outputs,
        tokens_after: plan.after(&messages),
        messages,
        outputs_cut,
        tokens_before: plan.tokens,
        summary: None,
        summary_error: None,
    })
}

/// A long output as a reference, and what that saves.
fn shrunk(message: &Message) -> Option<(Message, u64)> {
    let Message::Tool(tool) = message else {
        return None;
    };
    let tokens = of_message(message);
    if tool.error.is_some() || tokens < SHRINKABLE_OUTPUT_TOKENS {
        return None;
    }
    let shrunk = shrunk_result(tool);
    let saved = tokens.saturating_sub(of_message(&shrunk));
    (saved > 0).then_some((shrunk, saved))
}

/// Lets a summary stand for older messages.
async fn summarize(request: &CompactionRequest, plan: &RoomPlan) -> Option<Compaction> {
    let Cut { old, mut tail } = Cut::new(&request.state.messages, plan.keep);
    let mut outputs_cut = 0;
    let mut head = retained(&old, &request.state, plan);
    // Even the newest step may be too much for the window.
    let tokens = |messages: &[Arc<Message>]| messages.iter().map(|it| of_message(it)).sum::<u64>();
    if tokens(&head) + tokens(&tail) > plan.limit {
        outputs_cut = shrink_tail(&mut tail);
    }
    // A summary that is longer than what it stands for is not worth its price.
    let spared = tokens(&old).saturating_sub(tokens(&head));
    let is_worth_it =
        plan.native_is_too_large || spared >= LEAST_SUMMARISED_TOKENS.max(plan.estimated / 20);
    if !is_worth_it && outputs_cut == 0 {
        return None;
    }
    let (mut written, mut summary_error) = (None, None);
    if !is_worth_it {
        head = old;
    } else {
        let summary = write(request, &old).await;
        let text = match summary {
            Ok(summary) if !summary.is_empty() => {
                let text = summary.text.clone();
                written = Some(summary);
                text
            }
            Ok(empty) => {
                written = Some(empty);
                summary_error = Some("the model wrote nothing".to_owned());
                summary::mechanical(&old)
            }
            Err(error) => {
                summary_error = Some(error);
                summary::mechanical(&old)
            }
        };
        head.push(Arc::new(summary::message(request, &old, &text)));
    }
    let messages: Transcript = head.into_iter().chain(tail).collect();
    let tokens_after = plan.after(&messages);
    plan.gained(Compaction {
        tier: match is_worth_it {
            true => CompactionTier::Summary,
            false => CompactionTier::Outputs,
        },
        messages,
        outputs_cut,
        tokens_before: plan.tokens,
        tokens_after,
        summary: written,
        summary_error,
    })
}

async fn write(request: &CompactionRequest, old: &[Arc<Message>]) -> Result<Summary, String> {
    let summarizer = &request.summarizer;
    let instructions = request.instructions.as_deref();
    let text = summary::request_text(old, instructions, summarizer.window());
    summarizer
        .summarize(summary::DEFAULT_COMPACTION_PROMPT, text)
        .await
        .map_err(|error| error.message)
}

/// What stays of old messages, in its order: instructions in force, and what
/// users said first and, as far as there is room, last. Long texts are
/// shortened.
fn retained(old: &[Arc<Message>], state: &SessionState, plan: &RoomPlan) -> Vec<Arc<Message>> {
    let said = |message: &Message| {
        matches!(message, Message::User(_)) && !summary::stands_for_others(message)
    };
    let mut room = (plan.keep / 4).max(of_bytes(RETAINED_USER_BYTES));
    let places = old.iter().enumerate();
    let users: Vec<usize> = places
        .filter(|(_, message)| said(message))
        .map(|(place, _)| place)
        .collect();
    let mut kept: HashSet<usize> = users.first().copied().into_iter().collect();
    for (index, place) in users.iter().rev().enumerate() {
        let tokens = old.get(*place).map_or(0, |it| of_message(&shortened(it)));
        if index > 0 && tokens > room {
            break;
        }
        room = room.saturating_sub(tokens);
        kept.insert(*place);
    }
    let stays = |(place, message): &(usize, &Arc<Message>)| {
        kept.contains(place) || in_force(message, state)
    };
    let staying = old.iter().enumerate().filter(stays);
    staying.map(|(_, message)| shortened(message)).collect()
}

/// True for instructions that hold, also that some are gone: the prompt may
/// still have them.
pub(super) fn in_force(message: &Message, state: &SessionState) -> bool {
    let mut told = state.instructions.values();
    told.any(|it| it.message_id == *message.id())
}

fn shortened(message: &Arc<Message>) -> Arc<Message> {
    match message.as_ref() {
        Message::User(user) if of_message(message) > of_bytes(RETAINED_USER_BYTES) => {
            Arc::new(Message::User(shrunk_user(user, RETAINED_USER_BYTES)))
        }
        _ => message.clone(),
    }
}

/// Makes references of the long outputs and texts of a tail. Returns how many.
fn shrink_tail(tail: &mut [Arc<Message>]) -> u64 {
    let mut count = 0;
    for message in tail {
        let smaller = match shrunk(message) {
            Some((shrunk, _)) => Arc::new(shrunk),
            None => shortened(message),
        };
        if !Arc::ptr_eq(&smaller, message) {
            *message = smaller;
            count += 1;
        }
    }
    count
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
pub(super) mod samples {
    use halter_protocol::{
        AssistantMessage, AssistantPart, Message, ReplayMeta, Timestamp, ToolMessage, ToolResult,
        UserMessage, UserPart,
    };
    use serde_json::json;
    use std::sync::Arc;

    pub fn user(text: &str) -> Arc<Message> {
        Arc::new(Message::User(UserMessage {
            id: format!("msg_user_{}", text.len()).into(),
            created_at: Timestamp::UNIX_EPOCH,
            parts: vec![UserPart::Text {
                text: text.to_owned(),
            }],
        }))
    }

    fn assistant(parts: Vec<AssistantPart>) -> Arc<Message> {
        Arc::new(Message::Assistant(AssistantMessage {
            id: "msg_assistant".into(),
            created_at: Timestamp::UNIX_EPOCH,
            parts,
            stop_reason: None,
            usage: None,
            replay_meta: ReplayMeta::default(),
        }))
    }

    pub fn said(text: &str) -> Arc<Message> {
        assistant(vec![AssistantPart::text(text)])
    }

    pub fn call(ids: &[&str]) -> Arc<Message> {
        let call = |id: &&str| AssistantPart::ToolCall {
            id: (**id).into(),
            name: "look".into(),
            arguments: json!({"at": id}),
            malformed_arguments: None,
            opaque: None,
        };
        assistant(ids.iter().map(call).collect())
    }

    /// A result of so many bytes.
    pub fn result(id: &str, bytes: usize) -> Arc<Message> {
        Arc::new(Message::Tool(ToolMessage {
            id: format!("msg_result_{id}").into(),
            call_id: id.into(),
            tool_name: "look".into(),
            content: ToolResult::text("x".repeat(bytes)).into(),
            error: None,
            created_at: Timestamp::UNIX_EPOCH,
            loaded: Vec::new(),
        }))
    }
}
