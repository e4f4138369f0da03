//! Events to state: the only definition of what a session's state is.

use crate::approval::ApprovalRequest;
use crate::compaction::ContextCompaction;
use crate::event::SessionEventPayload;
use crate::hook::HookRunStatus;
use crate::ids::MessageId;
use crate::limits::{INSTRUCTION_FILES, SESSION_RULES, SUBAGENTS, TOLD_TOOLS};
use crate::message::{Message, ReplayMeta};
use crate::session::{
    ContextMark, InstructionFile, PendingToolCall, SessionState, ToldInstructions, ToolCallProgress,
};
use crate::subagent::{ForkedContext, SubagentStatus};
use crate::tool::{ToldTool, ToolCall};
use crate::usage::Usage;
use indexmap::IndexMap;
use std::sync::Arc;

/// Applies one committed event.
pub fn apply_event(state: &mut SessionState, payload: &SessionEventPayload) {
    match payload {
        SessionEventPayload::TurnStarted {
            turn_id,
            response_schema,
        } => {
            state.live_turn = Some(turn_id.clone());
            state.response_schema.clone_from(response_schema);
            state.live_turn_usage = Usage::default();
        }
        SessionEventPayload::MessageItem { message } => apply_message(state, message),
        SessionEventPayload::ToolExecutionStarted { call } => {
            set_progress(state, call, ToolCallProgress::Started);
        }
        SessionEventPayload::ToolExecutionCompleted { outcome } => {
            if !outcome.remembered.is_empty() {
                let memory = Arc::make_mut(&mut state.memory);
                outcome.remembered.iter().for_each(|it| memory.apply(it));
            }
            let progress = match outcome.result.clone() {
                Ok(result) => ToolCallProgress::Succeeded { result },
                Err(error) => ToolCallProgress::Failed { error },
            };
            set_progress(state, &outcome.call, progress);
            let loaded = outcome.loaded_tools();
            if let Some(pending) = state.pending_tool_calls.get_mut(&outcome.call.id) {
                pending.loaded = loaded;
            }
        }
        SessionEventPayload::ApprovalRequested(request) => {
            let id = request.approval_id.clone();
            state.open_approvals.insert(id, request.clone());
        }
        SessionEventPayload::ApprovalResolved {
            approval_id, rule, ..
        } => {
            state.open_approvals.shift_remove(approval_id);
            if let Some(rule) = rule {
                add_rule(&mut state.approved_rules, rule);
            }
        }
        SessionEventPayload::SubagentStarted { subagent } => {
            let known = state.subagents.contains_key(&subagent.agent_id);
            state.subagents_started += u64::from(!known);
            note_subagent(state, subagent);
        }
        SessionEventPayload::SubagentEnded { subagent, spent } => {
            state.spent = state.spent.plus(*spent);
            note_subagent(state, subagent);
        }
        SessionEventPayload::ContextForked(forked) => apply_fork(state, forked),
        SessionEventPayload::QuestionsAsked(request) => {
            let id = request.question_id.clone();
            state.open_questions.insert(id, request.clone());
        }
        SessionEventPayload::QuestionsAnswered { question_id, .. } => {
            state.open_questions.shift_remove(question_id);
        }
        SessionEventPayload::HookCompleted { run } if answered(&run.status) => {
            state.fired_hook_ids.insert(run.hook_id.clone());
        }
        SessionEventPayload::BudgetCharged { charge, .. } => {
            state.spent = state.spent.plus(*charge);
        }
        SessionEventPayload::BudgetChanged { budget } => state.budget = Some(*budget),
        SessionEventPayload::ResourcesLoaded(loaded) => state.resources = Some(loaded.clone()),
        SessionEventPayload::ContextCompacted(compaction) => apply_compaction(state, compaction),
        SessionEventPayload::CacheBreak {
            snapshot_revision,
            tools_revision,
            ..
        } => {
            let replace = |known: &mut Option<_>, new: &Option<_>| {
                if new.is_some() {
                    known.clone_from(new);
                }
            };
            replace(&mut state.snapshot_revision, snapshot_revision);
            replace(&mut state.tools_revision, tools_revision);
        }
        SessionEventPayload::TurnCompleted {
            usage, answered_by, ..
        }
        | SessionEventPayload::TurnFailed {
            usage, answered_by, ..
        } => {
            charge(state, usage, answered_by);
            state.live_turn = None;
            state.live_turn_usage = Usage::default();
            state.pending_tool_calls.clear();
            // Subagents may work on after the turn that started them.
            let of_subagent = |request: &ApprovalRequest| request.origin.is_some();
            state.open_approvals.retain(|_, it| of_subagent(it));
            state.open_questions.clear();
        }
        _ => {}
    }
}

/// Adds a permission rule that holds for the session. Above
/// [`SESSION_RULES`] the oldest is forgotten: it is asked about again.
pub fn add_rule(rules: &mut Vec<String>, rule: &str) {
    rules.retain(|known| known != rule);
    rules.push(rule.to_owned());
    let over = rules.len().saturating_sub(SESSION_RULES);
    rules.drain(..over);
}

/// The state after all of `events`.
pub fn fold_events<'a>(events: impl IntoIterator<Item = &'a SessionEventPayload>) -> SessionState {
    let mut state = SessionState::default();
    for event in events {
        apply_event(&mut state, event);
    }
    state
}

/// The transcript is what the model sees; what the summary used is charged to
/// its model and to no turn.
fn apply_compaction(state: &mut SessionState, compaction: &ContextCompaction) {
    state.messages = compaction.apply(&state.messages);
    if !state.memory.loaded_tools.is_empty() {
        Arc::make_mut(&mut state.memory).renew_loaded_tools();
    }
    state.context_mark = Some(ContextMark {
        messages: state.messages.len(),
        tokens: compaction.tokens_after,
    });
    if !compaction.usage.is_zero() {
        let usage = &compaction.usage;
        state.usage_so_far.saturating_accumulate(usage);
        let model = compaction.answered_by.label();
        let model = state.usage_by_model.entry(model).or_default();
        model.saturating_accumulate(usage);
    }
}

/// The session knows what its parent knew. What that used is the parent's.
fn apply_fork(state: &mut SessionState, forked: &ForkedContext) {
    state.messages = forked.messages.clone();
    state.context_mark = forked.context_mark;
    let memory = Arc::make_mut(&mut state.memory);
    memory.tasks.clone_from(&forked.tasks);
    memory.file_views.clone_from(&forked.file_views);
}

/// Notes how a subagent is now, and what it has used since it was last noted.
/// Above [`SUBAGENTS`] the oldest that does not run is forgotten: it can be
/// given no more to do.
fn note_subagent(state: &mut SessionState, now: &Arc<SubagentStatus>) {
    let used = now.usage.unwrap_or_default();
    let before = state.subagents.get(&now.agent_id);
    let before = before.and_then(|it| it.usage).unwrap_or_default();
    let since = used.saturating_sub(&before);
    state.subagent_usage.saturating_accumulate(&since);
    state.subagents.insert(now.agent_id.clone(), now.clone());
    if state.subagents.len() > SUBAGENTS {
        let mut all = state.subagents.values();
        if let Some(oldest) = all.position(|it| it.state.is_terminal()) {
            state.subagents.shift_remove_index(oldest);
        }
    }
}

/// Counts what a turn used: by model, and, of calls that left no message, what
/// the session does not know yet. Turns that do not say who answered are from
/// before there was such a count.
fn charge(state: &mut SessionState, usage: &Usage, answered_by: &ReplayMeta) {
    if answered_by.is_unknown() || usage.is_zero() {
        return;
    }
    let unseen = usage.saturating_sub(&state.live_turn_usage);
    state.usage_so_far.saturating_accumulate(&unseen);
    let model = state.usage_by_model.entry(answered_by.label()).or_default();
    model.saturating_accumulate(usage);
}

/// A hook that failed or was cancelled has not had its say: one that runs once
/// runs again.
fn answered(status: &HookRunStatus) -> bool {
    matches!(
        status,
        HookRunStatus::Completed | HookRunStatus::Blocked | HookRunStatus::Stopped
    )
}

fn apply_message(state: &mut SessionState, message: &Arc<Message>) {
    match message.as_ref() {
        Message::Assistant(assistant) => {
            if let Some(usage) = &assistant.usage {
                state.usage_so_far.saturating_accumulate(usage);
                if state.live_turn.is_some() {
                    state.live_turn_usage.saturating_accumulate(usage);
                }
            }
            let mut early = std::mem::take(&mut state.pending_tool_calls);
            state.pending_tool_calls = assistant
                .tool_calls()
                .map(|call| {
                    let pending = early.shift_remove(&call.id).unwrap_or(PendingToolCall {
                        call,
                        progress: ToolCallProgress::Requested,
                        loaded: Vec::new(),
                    });
                    (pending.call.id.clone(), pending)
                })
                .collect();
        }
        Message::System(system) => {
            if let Some(environment) = &system.environment {
                state.environment = Some(environment.clone());
            }
            for file in &system.instructions {
                note_instructions(&mut state.instructions, file, &system.id);
            }
            system.tools.iter().for_each(|tool| note_tool(state, tool));
        }
        Message::Tool(tool) => {
            state.pending_tool_calls.shift_remove(&tool.call_id);
        }
        _ => {}
    }
    state.messages.push(message.clone());
}

/// Notes what the model was told of a tool that joined late. Above
/// [`TOLD_TOOLS`] the oldest is forgotten: the model is told of it again.
fn note_tool(state: &mut SessionState, told: &ToldTool) {
    state.told_tools.shift_remove(&told.name);
    if told.summary.is_some() {
        if state.told_tools.len() >= TOLD_TOOLS {
            state.told_tools.shift_remove_index(0);
        }
        let kept = ToldTool {
            changed: None,
            ..told.clone()
        };
        state.told_tools.insert(told.name.clone(), kept);
    }
    if state.memory.loaded_tool(&told.name).is_some() {
        let memory = Arc::make_mut(&mut state.memory);
        let loaded = memory.loaded_tools.iter_mut();
        for tool in loaded.filter(|it| it.spec.name == told.name) {
            tool.gone = told.summary.is_none();
            if told.changed.is_some() {
                tool.changed.clone_from(&told.changed);
            }
        }
    }
}

/// Notes what the model was told of an instruction file. Above
/// [`INSTRUCTION_FILES`] the oldest is forgotten: the model is told of it again.
fn note_instructions(
    told: &mut IndexMap<String, ToldInstructions>,
    file: &InstructionFile,
    message_id: &MessageId,
) {
    told.shift_remove(&file.path);
    if told.len() >= INSTRUCTION_FILES {
        told.shift_remove_index(0);
    }
    let now = ToldInstructions {
        message_id: message_id.clone(),
        sha256: file.sha256.clone(),
    };
    told.insert(file.path.clone(), now);
}

/// A call that only reads may start while the model still speaks, so its
/// progress can be committed before the message that holds it.
fn set_progress(state: &mut SessionState, call: &ToolCall, progress: ToolCallProgress) {
    state.pending_tool_calls.insert(
        call.id.clone(),
        PendingToolCall {
            call: call.clone(),
            progress,
            loaded: Vec::new(),
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AssistantMessage, AssistantPart, SubagentState, ToolExecutionOutcome, ToolMessage,
        ToolResult, TurnId, UsageBuckets,
    };
    use jiff::Timestamp;
    use serde_json::json;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.into(),
            name: "read".into(),
            arguments: json!({}),
        }
    }

    fn assistant(calls: &[&str]) -> SessionEventPayload {
        let parts = calls
            .iter()
            .map(|id| AssistantPart::ToolCall {
                id: (*id).into(),
                name: "read".into(),
                arguments: json!({}),
                malformed_arguments: None,
                opaque: None,
            })
            .collect();
        SessionEventPayload::MessageItem {
            message: Arc::new(Message::Assistant(AssistantMessage {
                id: "msg_1".into(),
                created_at: Timestamp::UNIX_EPOCH,
                parts,
                stop_reason: None,
                usage: Some(Usage::from(UsageBuckets {
                    output: 3,
                    ..UsageBuckets::default()
                })),
                replay_meta: ReplayMeta::default(),
            })),
        }
    }

    fn result(id: &str) -> SessionEventPayload {
        SessionEventPayload::MessageItem {
            message: Arc::new(Message::Tool(ToolMessage {
                id: "msg_2".into(),
                call_id: id.into(),
                tool_name: "read".into(),
                content: ToolResult::Empty.into(),
                error: None,
                created_at: Timestamp::UNIX_EPOCH,
                loaded: Vec::new(),
            })),
        }
    }

    #[test]
    fn calls_wait_in_call_order_until_their_result_message() {
        let mut state = fold_events(&[
            SessionEventPayload::ToolExecutionStarted { call: call("b") },
            assistant(&["a", "b"]),
        ]);
        let order: Vec<_> = state
            .pending_tool_calls
            .values()
            .map(|pending| (pending.call.id.as_str(), &pending.progress))
            .collect();
        assert_eq!(
            order,
            [
                ("a", &ToolCallProgress::Requested),
                ("b", &ToolCallProgress::Started)
            ]
        );
        apply_event(&mut state, &result("a"));
        apply_event(&mut state, &result("b"));
        assert!(state.pending_tool_calls.is_empty());
        assert_eq!(state.messages.len(), 3);
        assert_eq!(state.usage_so_far.output_tokens, 3);
    }

    #[test]
    fn so_many_rules_hold_for_a_session_and_no_more() {
        let mut rules = Vec::new();
        for number in 0..=SESSION_RULES {
            add_rule(&mut rules, &format!("Bash(make {number})"));
        }
        assert_eq!(rules.len(), SESSION_RULES);
        assert_eq!(rules[0], "Bash(make 1)");
        add_rule(&mut rules, "Bash(make 1)");
        assert_eq!(rules.len(), SESSION_RULES);
        assert_eq!(rules.last().unwrap(), "Bash(make 1)");
    }

    fn subagent(number: usize, state: SubagentState, tokens: u64) -> Arc<SubagentStatus> {
        Arc::new(SubagentStatus {
            agent_id: format!("agent_{number}").into(),
            session_id: format!("ses_{number}").into(),
            agent_type: None,
            task: "look".to_owned(),
            state,
            last_message: None,
            usage: Some(Usage::from(UsageBuckets {
                output: tokens,
                ..UsageBuckets::default()
            })),
            error: None,
            worktree: None,
        })
    }

    #[test]
    fn so_many_subagents_are_remembered_and_what_they_used_is_counted_once() {
        let mut state = SessionState::default();
        let started = |number| SessionEventPayload::SubagentStarted {
            subagent: subagent(number, SubagentState::Running, 0),
        };
        let ended = |number, tokens| SessionEventPayload::SubagentEnded {
            subagent: subagent(number, SubagentState::Completed, tokens),
            spent: Default::default(),
        };
        for number in 0..=SUBAGENTS {
            apply_event(&mut state, &started(number));
        }
        // What runs is not forgotten.
        assert_eq!(state.subagents.len(), SUBAGENTS + 1);
        apply_event(&mut state, &ended(1, 3));
        assert_eq!(state.subagents.len(), SUBAGENTS);
        assert!(!state.subagents.contains_key("agent_1"));
        apply_event(&mut state, &ended(2, 3));
        apply_event(&mut state, &ended(2, 5));
        assert_eq!(state.subagent_usage.output_tokens, 8);
        assert_eq!(state.subagents_started, SUBAGENTS as u64 + 1);
    }

    #[test]
    fn so_many_instruction_files_are_kept_in_mind_and_no_more() {
        let mut told = IndexMap::new();
        let file = |number: usize, sha256: Option<&str>| InstructionFile {
            path: format!("/{number}/AGENTS.md"),
            sha256: sha256.map(str::to_owned),
        };
        for number in 0..=INSTRUCTION_FILES {
            note_instructions(&mut told, &file(number, Some("a")), &"msg_1".into());
        }
        assert_eq!(told.len(), INSTRUCTION_FILES);
        assert!(!told.contains_key("/0/AGENTS.md"));
        note_instructions(&mut told, &file(1, None), &"msg_2".into());
        assert_eq!(told.len(), INSTRUCTION_FILES);
        let newest = told.last().unwrap();
        assert_eq!(newest.0, "/1/AGENTS.md");
        assert_eq!(newest.1.message_id.as_str(), "msg_2");
        assert_eq!(newest.1.sha256, None);
    }

    /// A call that left no message counts, too, and each model on its own.
    #[test]
    fn a_turn_is_charged_to_its_model() {
        let turn_id = TurnId::from("turn_1");
        let mut state = fold_events(&[
            SessionEventPayload::TurnStarted {
                turn_id: turn_id.clone(),
                response_schema: None,
            },
            assistant(&[]),
        ]);
        assert_eq!(state.usage_so_far.output_tokens, 3);
        let answered_by = ReplayMeta {
            provider_name: Some("acme".into()),
            model: Some("large".to_owned()),
        };
        let usage = Usage::from(UsageBuckets {
            output: 10,
            ..UsageBuckets::default()
        });
        apply_event(
            &mut state,
            &SessionEventPayload::TurnCompleted {
                turn_id,
                usage,
                structured_output: None,
                answered_by,
            },
        );
        assert_eq!(state.usage_so_far.output_tokens, 10);
        assert_eq!(state.usage_by_model["acme/large"], usage);
    }

    #[test]
    fn an_early_start_without_its_message_ends_with_the_turn() {
        let turn_id = TurnId::from("turn_1");
        let state = fold_events(&[
            SessionEventPayload::TurnStarted {
                turn_id: turn_id.clone(),
                response_schema: None,
            },
            SessionEventPayload::ToolExecutionCompleted {
                outcome: ToolExecutionOutcome::new(call("a"), Ok(ToolResult::Empty.into())),
            },
            SessionEventPayload::TurnCompleted {
                turn_id,
                usage: Usage::default(),
                structured_output: None,
                answered_by: ReplayMeta::default(),
            },
        ]);
        assert_eq!(state, SessionState::default());
    }
}
