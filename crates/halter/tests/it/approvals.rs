//! Calls that need approval, as an embedding program decides about them.

use crate::support::{bare, directory, outcomes, session_in};
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

/// Whether sessions here have a sandbox of name spaces.
pub(crate) fn has_sandbox() -> bool {
    let bounds = halter_tools::policy::SandboxBounds::default();
    let status =
        halter_tools::exec::probe_sandbox(&bounds, &halter_tools::exec::Environment::new());
    let found = status
        .rungs
        .iter()
        .any(|it| it.name == "namespaces" && it.supported);
    if !found {
        // Not through a macro, whose output a passing test would swallow.
        use std::io::Write as _;
        let mut errors = std::io::stderr();
        writeln!(errors, "skipped: needs name spaces").unwrap();
    }
    found
}

#[tokio::test]
async fn a_model_leaves_the_sandbox_by_a_persons_word_and_for_that_call_only() {
    if !has_sandbox() {
        return;
    }
    let place = directory(&[]);
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let write = |name: &str| {
        let path = elsewhere.path().join(name);
        // A target that the judge cannot read, so that only the kernel is in the way.
        format!(
            "python3 -c 'import sys; open(sys.argv[1][1:], \"w\")' @{}",
            path.display()
        )
    };
    let inside = |name: &str| Reply::new().tool_call("shell", json!({"command": write(name)}));
    let outside = |name: &str| {
        let input = json!({"command": write(name), "outside_sandbox": true});
        Reply::new().tool_call("shell", input)
    };
    let model = FakeProvider::scripted([
        inside("refused"),
        outside("approved"),
        outside("denied"),
        inside("still-refused"),
        "done".into(),
    ]);
    let mut config = HarnessConfig::default();
    config.policy.shell.allow = vec!["*".to_owned()];
    let harness = bare()
        .with_config(config)
        .with_provider(Arc::new(model))
        .with_approvals(Approvals::Attended)
        .build()
        .await
        .unwrap();
    let session = session_in(&harness, place.path()).await;
    let mut stream = session.submit_turn(Turn::user("write")).await.unwrap();
    let mut events = Vec::new();
    let mut asked = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.unwrap();
        if let SessionEventPayload::ApprovalRequested(request) = &event.payload {
            let choice = match asked.len() {
                0 => ApprovalChoice::Once,
                _ => ApprovalChoice::Deny,
            };
            asked.push(request.call.arguments["command"].clone());
            let id = &request.approval_id;
            session.resolve_approval(id, choice).await.unwrap();
        }
        events.push(event);
    }
    assert_eq!(asked, [write("approved"), write("denied")]);
    let texts: Vec<String> = outcomes(&events)
        .iter()
        .map(|outcome| match &outcome.result {
            Ok(result) => result.to_model_text(),
            Err(error) => error.message.clone(),
        })
        .collect();
    let [refused, approved, denied, still_refused] = &texts[..] else {
        panic!("{texts:?}");
    };
    assert!(
        refused.contains("\\\"outside_sandbox\\\": true"),
        "{refused}"
    );
    assert!(approved.contains("ran outside the sandbox"), "{approved}");
    assert!(denied.contains("denied"), "{denied}");
    assert!(
        still_refused.contains("sandbox (namespaces)"),
        "{still_refused}"
    );
    let mut made: Vec<_> = std::fs::read_dir(elsewhere.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    made.sort();
    assert_eq!(made, ["approved"]);
}
