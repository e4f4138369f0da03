//! Any event, for property tests.

use halter_protocol::{
    Action, ApprovalChoice, ApprovalRequest, AskedBy, AssistantMessage, AssistantPart,
    BackgroundJob, Budget, BudgetLeft, BudgetResource, BudgetScope, CacheBreakReason,
    CompactionReason, CompactionTier, ContentPart, ContextCompaction, DeltaItem,
    EnvironmentSnapshot, ForkedContext, GitSnapshot, HookEntryKind, HookHandlerType, HookRunEntry,
    HookRunStatus, HookRunSummary, InstructionFile, MemoryChange, Message, NotificationItem,
    Objection, OpaquePart, ReplayMeta, ResolvedBy, ResourceChange, ResourceChangeKind,
    ResourceKind, ResourcesLoaded, ResponseSchema, SessionBudget, SessionEvent,
    SessionEventPayload, Spending, StopReason, SubagentState, SubagentStatus, SystemMessage, Task,
    TaskStatus, Timestamp, ToolCall, ToolError, ToolErrorCode, ToolExecutionOutcome, ToolMessage,
    ToolResult, Transcript, TurnError, Usage, UsageBuckets, UserMessage, WindowPart,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

fn text() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        Just(String::new()),
        "[a-z]{1,8}",
        any::<String>(),
        Just("\u{0}\u{7f}\u{2028}\"\\\n𝄞".to_owned()),
    ]
}

fn at() -> impl Strategy<Value = Timestamp> {
    (0i64..4_000_000_000, 0i32..1_000_000_000)
        .prop_map(|(second, nanosecond)| Timestamp::new(second, nanosecond).unwrap())
}

/// Any path a system can have, also one that is not text.
fn path() -> impl Strategy<Value = PathBuf> {
    vec(1u8.., 0..20).prop_map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
}

/// Any JSON value whose numbers are whole: others do not print as they were.
pub fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text(), inner), 0..4).prop_map(Value::from_iter),
        ]
    })
}

/// A schema; null is none.
fn json_schema() -> impl Strategy<Value = Value> {
    json_value().prop_filter("null", |value| !value.is_null())
}

fn usage() -> impl Strategy<Value = Usage> {
    let count = || prop_oneof![0u64..1000, any::<u64>()];
    (count(), count(), count(), count(), count()).prop_map(
        |(uncached_input, cache_read, cache_write, output, reasoning)| {
            Usage::from(UsageBuckets {
                uncached_input,
                cache_read,
                cache_write,
                output,
                reasoning,
            })
        },
    )
}

fn call() -> impl Strategy<Value = ToolCall> {
    (text(), text(), json_value()).prop_map(|(id, name, arguments)| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
    })
}

fn tool_result() -> impl Strategy<Value = ToolResult> {
    prop_oneof![
        Just(ToolResult::Empty),
        text().prop_map(ToolResult::text),
        json_value().prop_map(ToolResult::json),
        vec(content_part(), 0..3).prop_map(ToolResult::parts),
    ]
}

fn tool_error() -> impl Strategy<Value = ToolError> {
    (text(), text())
        .prop_map(|(code, message)| ToolError::new(ToolErrorCode::from(code.as_str()), message))
}

fn opaque() -> impl Strategy<Value = Option<OpaquePart>> {
    of((text(), text()).prop_map(|(wire, data)| OpaquePart {
        wire,
        data: data.into(),
    }))
}

fn content_part() -> impl Strategy<Value = ContentPart> {
    let bytes = || vec(any::<u8>(), 0..40).prop_map(Arc::from);
    prop_oneof![
        text().prop_map(|text| ContentPart::Text { text }),
        (text(), bytes()).prop_map(|(media_type, data)| ContentPart::Image { media_type, data }),
        (text(), bytes()).prop_map(|(media_type, data)| ContentPart::Document { media_type, data }),
    ]
}

fn assistant_part() -> impl Strategy<Value = AssistantPart> {
    prop_oneof![
        (text(), opaque()).prop_map(|(text, opaque)| AssistantPart::Text { text, opaque }),
        (text(), opaque()).prop_map(|(text, opaque)| AssistantPart::Thinking { text, opaque }),
        (call(), of(text()), opaque()).prop_map(|(call, malformed_arguments, opaque)| {
            AssistantPart::ToolCall {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
                malformed_arguments,
                opaque,
            }
        }),
    ]
}

fn environment() -> impl Strategy<Value = EnvironmentSnapshot> {
    let git = (text(), path()).prop_map(|(head, root)| GitSnapshot { head, root });
    (text(), text(), of(git)).prop_map(|(platform, date, git)| EnvironmentSnapshot {
        platform,
        date,
        git,
    })
}

fn assistant() -> impl Strategy<Value = AssistantMessage> {
    (
        (text(), at(), vec(assistant_part(), 0..4)),
        (of(text()), of(usage()), of(text()), of(text())),
    )
        .prop_map(
            |((id, created_at, parts), (stop, usage, provider, model))| AssistantMessage {
                id: id.into(),
                created_at,
                parts,
                stop_reason: stop.map(|stop| StopReason::from(stop.as_str())),
                usage,
                replay_meta: ReplayMeta {
                    provider_name: provider.map(Into::into),
                    model,
                },
            },
        )
}

fn instruction_file() -> impl Strategy<Value = InstructionFile> {
    (text(), of(text())).prop_map(|(path, sha256)| InstructionFile { path, sha256 })
}

/// Any message.
pub fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (
            text(),
            at(),
            text(),
            of(environment()),
            vec(instruction_file(), 0..3)
        )
            .prop_map(|(id, created_at, text, environment, instructions)| {
                Message::System(SystemMessage {
                    id: id.into(),
                    created_at,
                    text,
                    environment,
                    instructions,
                    tools: Vec::new(),
                })
            }),
        (text(), at(), vec(content_part(), 0..4)).prop_map(|(id, created_at, parts)| {
            Message::User(UserMessage {
                id: id.into(),
                created_at,
                parts,
            })
        }),
        assistant().prop_map(Message::Assistant),
        (call(), tool_result(), of(tool_error()), at()).prop_map(
            |(call, content, error, created_at)| Message::Tool(ToolMessage {
                id: "msg_1".into(),
                call_id: call.id,
                tool_name: call.name,
                content: content.into(),
                error,
                created_at,
                loaded: Vec::new(),
            })
        ),
    ]
}

fn hook_run() -> impl Strategy<Value = HookRunSummary> {
    let entry = (text(), text()).prop_map(|(kind, text)| HookRunEntry {
        kind: HookEntryKind::from(kind.as_str()),
        text,
    });
    (
        (text(), text(), text(), text(), text()),
        (
            of(text()),
            at(),
            of(at()),
            of(any::<u64>()),
            vec(entry, 0..3),
        ),
    )
        .prop_map(|((run, hook_id, event_name, handler, status), rest)| {
            let (status_message, started_at, completed_at, duration_ms, entries) = rest;
            HookRunSummary {
                run_id: run.into(),
                hook_id,
                event_name,
                handler_type: HookHandlerType::from(handler.as_str()),
                plugin_id: "a-plugin".into(),
                status: HookRunStatus::from(status.as_str()),
                status_message,
                started_at,
                completed_at,
                duration_ms,
                entries,
            }
        })
}

fn outcome() -> impl Strategy<Value = ToolExecutionOutcome> {
    let result = prop_oneof![tool_result().prop_map(Ok), tool_error().prop_map(Err)];
    (call(), result, vec(memory_change(), 0..3)).prop_map(|(call, result, remembered)| {
        ToolExecutionOutcome {
            call,
            result: result.map(Into::into),
            remembered,
        }
    })
}

fn memory_change() -> impl Strategy<Value = MemoryChange> {
    prop_oneof![
        (any::<u64>(), text(), of(text()), any::<bool>()).prop_map(
            |(id, subject, description, done)| MemoryChange::Task {
                task: Task {
                    id,
                    subject,
                    description,
                    status: match done {
                        true => TaskStatus::Completed,
                        false => TaskStatus::Pending,
                    },
                },
            }
        ),
        (text(), text()).prop_map(|(path, sha256)| MemoryChange::FileSeen { path, sha256 }),
        (
            any::<u64>(),
            text(),
            any::<bool>(),
            proptest::option::of(any::<i32>())
        )
            .prop_map(|(number, command, running, exit_code)| MemoryChange::Job {
                job: BackgroundJob {
                    number,
                    command,
                    running,
                    exit_code,
                },
            }),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (text(), proptest::option::of(path()))
            .prop_map(|(command, directory)| Action::Run { command, directory }),
        path().prop_map(|path| Action::Read { path }),
        path().prop_map(|path| Action::Write { path }),
        text().prop_map(|host| Action::Reach { host }),
        Just(Action::LeaveSandbox),
        Just(Action::Ask),
        any::<bool>().prop_map(|mutating| Action::Other { mutating }),
    ]
}

fn objection() -> impl Strategy<Value = Objection> {
    let known = (text(), text(), of(text()), of(text()));
    (known, vec(text(), 0..3), of(text())).prop_map(
        |((rule, message, fragment, remedy), parts, always)| Objection {
            rule,
            message,
            fragment,
            remedy,
            parts,
            always,
        },
    )
}

fn approval() -> impl Strategy<Value = ApprovalRequest> {
    let about = (text(), call(), vec(action(), 0..3), of(text()));
    (about, text(), objection(), vec(choice(), 0..3)).prop_map(
        |((id, call, actions, diff), asked_by, objection, choices)| ApprovalRequest {
            approval_id: id.into(),
            call,
            actions,
            diff,
            asked_by: AskedBy::from(asked_by.as_str()),
            objection,
            choices,
            origin: None,
        },
    )
}

fn subagent() -> impl Strategy<Value = SubagentStatus> {
    let named = (text(), text(), of(text()), text(), text());
    (named, of(text()), of(usage()), of(path())).prop_map(
        |((agent_id, session_id, agent_type, task, state), last_message, usage, worktree)| {
            SubagentStatus {
                agent_id: agent_id.into(),
                session_id: session_id.into(),
                agent_type,
                task,
                state: SubagentState::from(state.as_str()),
                last_message,
                usage,
                error: None,
                worktree,
            }
        },
    )
}

fn choice() -> impl Strategy<Value = ApprovalChoice> {
    text().prop_map(|choice| ApprovalChoice::from(choice.as_str()))
}

fn spending() -> impl Strategy<Value = Spending> {
    (
        any::<u32>(),
        any::<u32>(),
        any::<u8>(),
        any::<u8>(),
        any::<u32>(),
    )
        .prop_map(
            |(tokens, cost, model_calls, tool_calls, wall_ms)| Spending {
                tokens: tokens.into(),
                cost: cost.into(),
                model_calls: model_calls.into(),
                tool_calls: tool_calls.into(),
                wall_ms: wall_ms.into(),
            },
        )
}

fn budget() -> impl Strategy<Value = Budget> {
    (of(any::<u64>()), of(any::<u64>()), of(any::<u64>())).prop_map(|(tokens, cost, tool_calls)| {
        Budget {
            tokens,
            cost,
            model_calls: tokens,
            tool_calls,
            wall_ms: cost,
        }
    })
}

fn limit() -> impl Strategy<Value = BudgetLeft> {
    (text(), text(), any::<u64>(), any::<u64>()).prop_map(|(scope, resource, spent, limit)| {
        BudgetLeft {
            scope: BudgetScope::from(scope.as_str()),
            resource: BudgetResource::from(resource.as_str()),
            spent,
            limit,
        }
    })
}

/// Any payload of a kind this version knows.
fn compaction() -> impl Strategy<Value = ContextCompaction> {
    let part = prop_oneof![
        (0usize..9, 0usize..9).prop_map(|(first, count)| WindowPart::Kept { first, count }),
        message().prop_map(|message| WindowPart::Message {
            message: Arc::new(message)
        }),
    ];
    let counts = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (text(), text(), counts, vec(part, 0..4), usage(), of(text())).prop_map(
        |(tier, reason, counts, window, usage, summary_error)| ContextCompaction {
            tier: CompactionTier::from(tier.as_str()),
            reason: CompactionReason::from(reason.as_str()),
            messages_cut: counts.0,
            outputs_cut: counts.1,
            tokens_before: counts.2,
            tokens_after: counts.3,
            window,
            usage,
            answered_by: ReplayMeta::default(),
            summary_error,
        },
    )
}

pub fn payload() -> impl Strategy<Value = SessionEventPayload> {
    use SessionEventPayload as P;
    let delta = || text().prop_map(|text| DeltaItem { text });
    let turn = || text().prop_map(halter_protocol::TurnId);
    prop_oneof![
        (of(text()), path(), text()).prop_map(|(parent, working_dir, model)| P::SessionStarted {
            parent_session_id: parent.map(Into::into),
            working_dir,
            model: model.into(),
        }),
        Just(P::SessionResumed),
        text().prop_map(|message| P::Warning { message }),
        (text(), text(), text(), text()).prop_map(|(call, host, rule, message)| {
            P::NetworkRefused {
                call_id: call.into(),
                host,
                rule,
                message,
            }
        }),
        subagent().prop_map(|subagent| P::SubagentStarted {
            subagent: Arc::new(subagent)
        }),
        (subagent(), spending()).prop_map(|(subagent, spent)| P::SubagentEnded {
            subagent: Arc::new(subagent),
            spent
        }),
        (text(), vec(message(), 0..3)).prop_map(|(from, messages)| {
            let mut transcript = Transcript::default();
            messages.into_iter().for_each(|it| transcript.push(it));
            P::ContextForked(Arc::new(ForkedContext {
                parent_session_id: from.into(),
                messages: transcript,
                context_mark: None,
                tasks: Vec::new(),
                file_views: Default::default(),
            }))
        }),
        (turn(), of(json_schema())).prop_map(|(turn_id, schema)| P::TurnStarted {
            turn_id,
            response_schema: schema.map(ResponseSchema::new),
        }),
        message().prop_map(|message| P::MessageItem {
            message: Arc::new(message)
        }),
        delta().prop_map(|delta| P::DeltaItem { delta }),
        delta().prop_map(|delta| P::ThinkingDelta { delta }),
        call().prop_map(|call| P::ToolExecutionStarted { call }),
        (text(), text(), text()).prop_map(|(call_id, tool_name, chunk)| P::ToolOutput {
            call_id: call_id.into(),
            tool_name: tool_name.into(),
            chunk,
        }),
        outcome().prop_map(|outcome| P::ToolExecutionCompleted { outcome }),
        approval().prop_map(|request| P::ApprovalRequested(Arc::new(request))),
        (text(), choice(), text(), of(text()), of(text())).prop_map(
            |(id, choice, by, reason, rule)| P::ApprovalResolved {
                approval_id: id.into(),
                choice,
                by: ResolvedBy::from(by.as_str()),
                reason,
                rule,
            }
        ),
        hook_run().prop_map(|run| P::HookStarted { run }),
        hook_run().prop_map(|run| P::HookCompleted { run }),
        (text(), text()).prop_map(|(notification_type, message)| P::Notification {
            notification: NotificationItem {
                notification_type,
                message,
            },
        }),
        (turn(), text()).prop_map(|(turn_id, reason)| P::TurnInterrupted { turn_id, reason }),
        (spending(), proptest::collection::vec(limit(), 0..3))
            .prop_map(|(charge, limits)| P::BudgetCharged { charge, limits }),
        limit().prop_map(P::BudgetWarning),
        limit().prop_map(P::BudgetExceeded),
        (budget(), budget()).prop_map(|(session, turn)| P::BudgetChanged {
            budget: SessionBudget { session, turn },
        }),
        text().prop_map(|reason| P::CompactionStarted {
            reason: CompactionReason::from(reason.as_str()),
        }),
        (text(), of(text()), proptest::collection::vec(text(), 0..3)).prop_map(
            |(revision, snapshot, names)| P::ResourcesLoaded(Arc::new(ResourcesLoaded {
                revision: revision.into(),
                snapshot: snapshot.map(Into::into),
                changes: names
                    .into_iter()
                    .map(|name| ResourceChange {
                        kind: ResourceKind::Command,
                        change: ResourceChangeKind::from(name.as_str()),
                        name,
                    })
                    .collect(),
            }))
        ),
        compaction().prop_map(|compaction| P::ContextCompacted(Arc::new(compaction))),
        (text(), of(text()), of(text())).prop_map(|(reason, resources, tools)| P::CacheBreak {
            reason: CacheBreakReason::from(reason.as_str()),
            snapshot_revision: resources.map(Into::into),
            tools_revision: tools.map(Into::into),
        }),
        (turn(), usage(), of(json_value())).prop_map(|(turn_id, usage, output)| {
            P::TurnCompleted {
                turn_id,
                usage,
                structured_output: output,
                answered_by: ReplayMeta::default(),
            }
        }),
        (
            turn(),
            (text(), text(), of(text())),
            any::<bool>(),
            any::<bool>(),
            usage()
        )
            .prop_map(
                |(turn_id, (code, message, hint), cancelled, retryable, usage)| P::TurnFailed {
                    turn_id,
                    error: TurnError {
                        code,
                        message,
                        hint,
                    },
                    cancelled,
                    retryable,
                    usage,
                    answered_by: ReplayMeta::default(),
                }
            ),
        any::<u64>().prop_map(|dropped_events| P::Lagged { dropped_events }),
        text().prop_map(|reason| P::SessionShutdownComplete { reason }),
    ]
}

/// Any event of a kind this version knows.
pub fn event() -> impl Strategy<Value = SessionEvent> {
    (text(), any::<u64>(), at(), payload(), any::<bool>()).prop_map(
        |(session, sequence, at, payload, first)| {
            let event = SessionEvent::new_committed(session.into(), sequence, at, payload);
            match first {
                true => event.first_of_stream(),
                false => event,
            }
        },
    )
}

/// The JSON of an event of a kind nobody knows.
pub fn unknown_event() -> impl Strategy<Value = Value> {
    (text(), vec((text(), json_value()), 0..4)).prop_map(|(kind, fields)| {
        let mut payload: serde_json::Map<String, Value> = fields.into_iter().collect();
        payload.insert("kind".to_owned(), format!("later_{kind}").into());
        json!({
            "session_id": "ses_1",
            "sequence": 1,
            "delivery": "lossless",
            "at": "2026-01-02T03:04:05Z",
            "payload": payload,
        })
    })
}
