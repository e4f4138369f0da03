//! Calls that need approval, as an embedding program decides about them.

use crate::support::{directory, session_in};
use futures::StreamExt;
use halter::prelude::*;
use halter::providers::{FakeProvider, Reply};
use halter::{ApprovalHandler, Approvals, ConfigRules};
use halter_protocol::{ApprovalAnswer, ApprovalChoice, ApprovalRequest};
use serde_json::json;
use std::sync::Arc;

/// A model that runs a program outside of the built-in list, twice.
fn model() -> Arc<FakeProvider> {
    let call = || Reply::new().tool_call("shell", json!({"command": "touch made.txt"}));
    Arc::new(FakeProvider::scripted([call(), call(), "done".into()]))
}

async fn harness(adjust: impl FnOnce(HalterBuilder) -> HalterBuilder) -> Halter {
    let builder = HalterBuilder::new()
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_provider(model());
    adjust(builder).build().await.unwrap()
}

#[tokio::test]
async fn a_program_reads_the_events_and_resolves_them() {
    let place = directory(&[]);
    let rules = place.path().join("rules/halter.toml");
    let store = Arc::new(ConfigRules::new(&rules));
    let harness = harness(|builder| {
        builder
            .with_approvals(Approvals::Attended)
            .with_rule_store(store)
    })
    .await;
    let session = session_in(&harness, place.path()).await;
    let mut events = session.submit_turn(Turn::user("make it")).await.unwrap();
    let mut asked = 0;
    while let Some(event) = events.next().await {
        if let SessionEventPayload::ApprovalRequested(request) = event.unwrap().payload {
            asked += 1;
            let id = &request.approval_id;
            session
                .resolve_approval(id, ApprovalChoice::Always)
                .await
                .unwrap();
        }
    }
    // The rule covers the second call, and is kept.
    assert_eq!(asked, 1);
    assert!(place.path().join("made.txt").exists());
    let saved = std::fs::read_to_string(rules).unwrap();
    assert!(saved.contains("Bash(touch"), "{saved}");
}

struct Never;

#[async_trait::async_trait]
impl ApprovalHandler for Never {
    async fn decide(&self, _: &SessionId, request: &ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::deny(format!("{} is not for you", request.call.name))
    }
}

#[tokio::test]
async fn a_handler_decides() {
    let place = directory(&[]);
    let harness = harness(|builder| builder.with_approval_handler(Arc::new(Never))).await;
    let session = session_in(&harness, place.path()).await;
    let events = session.submit_turn(Turn::user("make it")).await.unwrap();
    let events: Vec<_> = events.map(|event| event.unwrap()).collect().await;
    let told = serde_json::to_string(&events).unwrap();
    assert!(
        told.contains("not run: denied: shell is not for you"),
        "{told}"
    );
    assert!(!place.path().join("made.txt").exists());
}
