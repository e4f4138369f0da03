//! Core services of an embedder's own.

use halter_protocol::{
    CompactionTier, Message, Objection, PolicyVerdict, SessionEvent, SessionEventPayload,
    Timestamp, ToolErrorCode, Transcript,
};
use halter_runtime::hub::{EventHub, EventStream, HubFactory, HubSession, StandardHubs};
use halter_runtime::{Compaction, CompactionRequest, ContextManager, ContextPlan, ContextRequest};
use halter_session::StoreError;
use halter_testkit::{EventsExt, Harness, JudgedBy, Reply, ScriptedTool};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// Sends the last turn only.
struct LastTurn;

#[async_trait::async_trait]
impl ContextManager for LastTurn {
    fn plan(&self, request: ContextRequest<'_>) -> ContextPlan {
        assert_eq!(request.model.id.as_str(), "default");
        match request.state.messages.len() > 1 {
            true => ContextPlan::Compact,
            false => ContextPlan::Send,
        }
    }

    async fn compact(&self, request: CompactionRequest) -> Option<Compaction> {
        let mut messages: Vec<_> = request.state.messages.iter().cloned().collect();
        let last = messages
            .iter()
            .rposition(|it| matches!(it.as_ref(), Message::User(_)));
        messages.drain(..last.unwrap());
        let mut kept = Transcript::default();
        messages.into_iter().for_each(|message| kept.push(message));
        Some(Compaction {
            tier: CompactionTier::Custom,
            messages: kept,
            outputs_cut: 0,
            tokens_before: 2,
            tokens_after: 1,
            summary: None,
            summary_error: None,
        })
    }
}

#[tokio::test]
async fn a_context_manager_of_ones_own_decides_what_requests_hold() {
    let harness = Harness::scripted(["one", "two"])
        .services(|services| services.context_manager = Arc::new(LastTurn))
        .start();
    let session = harness.session().await;
    harness.run(&session, "first").await;
    harness.run(&session, "second").await;
    let sizes: Vec<usize> = harness
        .requests()
        .iter()
        .map(|it| it.messages.len())
        .collect();
    assert_eq!(sizes, [1, 1]);
    let log = session.replay().await.unwrap();
    assert_eq!(log.messages().len(), 4, "the log has everything");
}

/// The standard hub, with a copy of everything that passes.
struct Tapped {
    hub: Arc<dyn EventHub>,
    seen: Arc<Mutex<Vec<String>>>,
}

struct Taps(Arc<Mutex<Vec<String>>>);

impl HubFactory for Taps {
    fn open(&self, session: HubSession) -> Arc<dyn EventHub> {
        Arc::new(Tapped {
            hub: StandardHubs.open(session),
            seen: self.0.clone(),
        })
    }
}

impl EventHub for Tapped {
    fn publish(&self, event: Arc<SessionEvent>) {
        let kind = event.payload.kind().to_owned();
        self.seen.lock().unwrap().push(kind);
        self.hub.publish(event);
    }

    fn publish_best_effort(&self, at: Timestamp, payload: SessionEventPayload) {
        self.seen.lock().unwrap().push(payload.kind().to_owned());
        self.hub.publish_best_effort(at, payload);
    }

    fn head(&self) -> u64 {
        self.hub.head()
    }

    fn subscribe(&self, after: u64) -> EventStream {
        self.hub.subscribe(after)
    }

    fn close(&self, end_lost: Option<StoreError>) {
        self.hub.close(end_lost);
    }
}

#[tokio::test]
async fn a_hub_of_ones_own_carries_every_event() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let taps = Taps(seen.clone());
    let harness = Harness::scripted(["hello"])
        .services(|services| services.hubs = Arc::new(taps))
        .start();
    let events = harness.ask("hi").await;
    assert_eq!(events.streamed_text(), "hello");
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "session_started",
            "turn_started",
            "message_item",
            "delta_item",
            "message_item",
            "turn_completed"
        ]
    );
}

#[tokio::test]
async fn a_policy_of_ones_own_judges_every_call() {
    let policy = JudgedBy::new(|judged| match judged.call.arguments.get("force") {
        Some(_) => PolicyVerdict::Deny(Objection::new("no_force", "not with force")),
        None => PolicyVerdict::Allow,
    });
    let push = ScriptedTool::new("push").build();
    let reply = Reply::new()
        .tool_call("push", json!({"force": true}))
        .tool_call("push", json!({}));
    let harness = Harness::scripted([reply, "done".into()])
        .tool(push.clone())
        .services(|services| services.policies = Arc::new(policy))
        .start();
    let events = harness.ask("push").await;
    let outcomes = events.outcomes();
    let denied = outcomes[0].result.as_ref().unwrap_err();
    assert_eq!(denied.code, ToolErrorCode::PolicyDenied);
    assert_eq!(denied.message, "not with force");
    assert!(outcomes[1].result.is_ok());
    assert_eq!(push.calls(), [json!({})]);
}
