//! A session that hands work to others, in every way that can end, and one that
//! it was handed to.

use super::Recorded;
use super::scenarios::{harness, read, say, turn};
use async_trait::async_trait;
use futures::StreamExt;
use halter::prelude::*;
use halter_protocol::{
    ApprovalChoice, Budget, CompactionTier, MemoryChange, Message, ProviderErrorKind, SessionId,
    Task, TaskStatus, ToolResult, UsageBuckets, UserPart,
};
use halter_providers::ProviderRequest;
use halter_runtime::{
    Approvals, Compaction, CompactionRequest, ContextManager, ContextPlan, ContextRequest,
};
use halter_testkit::{Gate, Harness, Reply, ScriptedTool};
use serde_json::{Value, json};
use std::sync::Arc;

fn last(request: &ProviderRequest) -> String {
    match request.messages.last().map(AsRef::as_ref) {
        Some(Message::User(user)) => user.plain_text(),
        Some(Message::Tool(tool)) => tool.to_model_text(),
        Some(Message::System(system)) => system.text.clone(),
        _ => String::new(),
    }
}

fn spawn(input: Value) -> Reply {
    Reply::new().tool_call("spawn_agent", input)
}

fn answer(request: &ProviderRequest, gate: &Gate) -> Reply {
    let reply = match last(request).as_str() {
        "note it" => Reply::new().tool_call("note", json!({})),
        "look" => Reply::from("A cat is here."),
        "break" => Reply::error(ProviderErrorKind::Fatal, "the service broke"),
        "wait" => Reply::new().gate(gate).text("never"),
        "send" => Reply::new().tool_call("send", json!({})),
        "explore" => spawn(json!({
            "message": "look", "agent_type": "explore", "fork_context": true, "wait": true,
        })),
        "fail" => spawn(json!({"message": "break", "wait": true})),
        "hang" => spawn(json!({"message": "wait"})),
        "close" => Reply::new().tool_call("close_agent", json!({"target": "agent_1"})),
        "ask" => spawn(json!({"message": "send", "agent_type": "general", "wait": true})),
        _ => Reply::from("done"),
    };
    reply.usage(UsageBuckets {
        uncached_input: 100,
        output: 10,
        ..UsageBuckets::default()
    })
}

/// Leaves out the first turn when it is asked to.
struct Cutting;

#[async_trait]
impl ContextManager for Cutting {
    fn plan(&self, _: ContextRequest<'_>) -> ContextPlan {
        ContextPlan::Send
    }

    async fn compact(&self, request: CompactionRequest) -> Option<Compaction> {
        Some(Compaction {
            tier: CompactionTier::Custom,
            messages: request.state.messages.iter().skip(4).cloned().collect(),
            outputs_cut: 0,
            tokens_before: 90_000,
            tokens_after: 4_000,
            summary: None,
            summary_error: None,
        })
    }
}

/// Remembers a task and a file.
fn note() -> Arc<ScriptedTool> {
    ScriptedTool::new("note")
        .runs(|context, _| async move {
            context.remember(MemoryChange::Task {
                task: Task {
                    id: 1,
                    subject: "look around".into(),
                    description: None,
                    status: TaskStatus::Pending,
                },
            });
            context.remember(MemoryChange::FileSeen {
                path: "/project/notes.txt".into(),
                sha256: "0".repeat(64),
            });
            Ok(ToolResult::Empty)
        })
        .build()
}

/// The parent, and the id of the child that knows what it knew.
async fn delegating() -> (Harness, HalterSession, SessionId) {
    let gate = Gate::new();
    let builder = Harness::answering(move |request| answer(request, &gate))
        .subagents()
        .tool(note())
        .tool(ScriptedTool::new("send").requires_approval().build())
        .services(|services| {
            services.approvals = Approvals::Attended;
            services.context_manager = Arc::new(Cutting);
        });
    let harness = harness(builder);
    let init = SessionInit {
        session_id: Some(SessionId::from("ses_subagents")),
        ..SessionInit::default().with_budget(Budget {
            tokens: Some(1_000_000),
            ..Budget::default()
        })
    };
    let session = harness.session_with(init).await;
    say(&harness, &session, 1, "note it").await;
    say(&harness, &session, 10, "remember this").await;
    session.compact(None).await.unwrap().unwrap();
    say(&harness, &session, 2, "explore").await;
    let events = session.replay().await.unwrap();
    let child = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::SubagentStarted { subagent } => Some(subagent.session_id.clone()),
        _ => None,
    });
    (harness, session, child.unwrap())
}

/// A child that reports, one that fails, one that asks at the root, one that is
/// closed, one that is cancelled, and one that a crash interrupts.
pub async fn subagents() -> Recorded {
    let (harness, session, _) = delegating().await;
    say(&harness, &session, 3, "fail").await;
    let parts = vec![UserPart::Text {
        text: "ask".to_owned(),
    }];
    let events = session.submit_turn(turn(&harness, 4, parts)).await;
    let mut events = events.unwrap();
    while let Some(event) = events.next().await {
        if let SessionEventPayload::ApprovalRequested(request) = event.unwrap().payload {
            let once = ApprovalChoice::Once;
            session
                .resolve_approval(&request.approval_id, once)
                .await
                .unwrap();
        }
    }
    say(&harness, &session, 5, "close").await;
    say(&harness, &session, 6, "hang").await;
    session.cancel().await.unwrap();
    session.settled().await;
    session.shutdown("recorded").await.unwrap();
    Recorded {
        events: read(session.subscribe()).await,
        directory: harness.workspace().path().to_owned(),
    }
}

/// The child that starts with what its parent knows.
pub async fn forked_child() -> Recorded {
    let (harness, parent, id) = delegating().await;
    let child = harness.runtime().resume(&id).await.unwrap().unwrap();
    parent.shutdown("recorded").await.unwrap();
    Recorded {
        events: read(child.subscribe()).await,
        directory: harness.workspace().path().to_owned(),
    }
}
