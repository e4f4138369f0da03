//! A session whose context is made smaller in every way and for every reason.

use super::Recorded;
use super::scenarios::{harness, recorded, say, session};
use async_trait::async_trait;
use halter_protocol::{
    CompactionReason, CompactionTier, Message, ProviderErrorKind, ReplayMeta, ToolMessage,
    ToolResult, Transcript, Usage, UsageBuckets, UserMessage, UserPart,
};
use halter_runtime::context::Summary;
use halter_runtime::{Compaction, CompactionRequest, ContextManager, ContextPlan, ContextRequest};
use halter_testkit::{Harness, Reply, ScriptedTool};
use serde_json::json;
use std::sync::Arc;

/// Compacts once there is a tool's result.
struct Planned;

#[async_trait]
impl ContextManager for Planned {
    fn plan(&self, request: ContextRequest<'_>) -> ContextPlan {
        match request.state.messages.len() == 3 {
            true => ContextPlan::Compact,
            false => ContextPlan::Send,
        }
    }

    async fn compact(&self, request: CompactionRequest) -> Option<Compaction> {
        let messages = request.state.messages.iter();
        let (tier, messages): (_, Transcript) = match request.reason {
            CompactionReason::Threshold => (
                CompactionTier::Outputs,
                messages.map(without_output).collect(),
            ),
            CompactionReason::Overflow => {
                let summary = UserMessage {
                    id: request.message_id,
                    created_at: request.at,
                    parts: vec![UserPart::Text {
                        text: "What happened so far.".to_owned(),
                    }],
                };
                let last = messages.last().cloned();
                let summary = Arc::new(Message::User(summary));
                let kept = [summary].into_iter().chain(last);
                (CompactionTier::Summary, kept.collect())
            }
            _ => (CompactionTier::Custom, messages.skip(1).cloned().collect()),
        };
        let is_summary = tier == CompactionTier::Summary;
        Some(Compaction {
            outputs_cut: u64::from(tier == CompactionTier::Outputs),
            tier,
            messages,
            tokens_before: 90_000,
            tokens_after: 4_000,
            summary: is_summary.then(|| Summary {
                text: String::new(),
                usage: Usage::from(UsageBuckets {
                    uncached_input: 900,
                    output: 7,
                    ..UsageBuckets::default()
                }),
                answered_by: ReplayMeta {
                    provider_name: Some("fake".into()),
                    model: Some("fake-small".to_owned()),
                },
            }),
            summary_error: is_summary.then(|| "the model wrote nothing".to_owned()),
        })
    }
}

fn without_output(message: &Arc<Message>) -> Arc<Message> {
    match message.as_ref() {
        Message::Tool(tool) => Arc::new(Message::Tool(ToolMessage {
            content: ToolResult::text("[moved out]").into(),
            ..tool.clone()
        })),
        _ => message.clone(),
    }
}

pub async fn compaction() -> Recorded {
    let look = ScriptedTool::new("look").returns("a long way");
    let replies = [
        Reply::new().tool_call("look", json!({})),
        Reply::new().text("It is long."),
        Reply::error(ProviderErrorKind::ContextOverflow, "prompt is too long"),
        Reply::new().text("It is shorter."),
    ];
    let builder = Harness::scripted(replies).tool(look.build());
    let harness = harness(builder.services(|services| {
        services.context_manager = Arc::new(Planned);
    }));
    let session = session(&harness, "compaction").await;
    say(&harness, &session, 1, "Look far").await;
    say(&harness, &session, 2, "And further").await;
    let compacted = session.compact(None).await.unwrap().unwrap();
    assert_eq!(compacted.tier, CompactionTier::Custom);
    recorded(&harness, &session).await
}

/// Stands for a service that compacts conversations itself.
struct ByTheService;

#[async_trait]
impl ContextManager for ByTheService {
    fn plan(&self, _: ContextRequest<'_>) -> ContextPlan {
        ContextPlan::Send
    }

    async fn compact(&self, request: CompactionRequest) -> Option<Compaction> {
        let messages = request.state.messages.iter();
        Some(Compaction {
            tier: CompactionTier::Native,
            messages: messages.skip(1).cloned().collect(),
            outputs_cut: 0,
            tokens_before: 90_000,
            tokens_after: 4_000,
            summary: None,
            summary_error: None,
        })
    }
}

pub async fn native_compaction() -> Recorded {
    let builder = Harness::scripted(["It is long."]);
    let harness = harness(builder.services(|services| {
        services.context_manager = Arc::new(ByTheService);
    }));
    let session = session(&harness, "native_compaction").await;
    say(&harness, &session, 1, "Look far").await;
    session.compact(None).await.unwrap().unwrap();
    recorded(&harness, &session).await
}
