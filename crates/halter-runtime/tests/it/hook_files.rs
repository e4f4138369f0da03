//! Hook files in a session: what runs beside a turn, and how it ends.

use crate::support::assert_everything_ended;
use halter_protocol::SessionEventPayload::{HookCompleted, TurnCompleted};
use halter_protocol::{HookHandlerType, HookRunStatus, HookRunSummary, SessionEvent};
use halter_runtime::limits::BESIDE_GRACE;
use halter_testkit::Harness;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn file(event: &str, handler: Value) -> Value {
    json!({"hooks": {event: [{"hooks": [handler]}]}})
}

fn completed(events: &[SessionEvent]) -> Vec<&HookRunSummary> {
    let runs = events.iter().filter_map(|event| match &event.payload {
        HookCompleted { run } => Some(run),
        _ => None,
    });
    runs.collect()
}

#[tokio::test]
async fn a_prompt_that_a_file_blocks_reaches_no_model() {
    let guard = json!({"type": "command", "command": "echo not today >&2; exit 2"});
    let harness = Harness::scripted(["done"])
        .hook_file(&file("UserPromptSubmit", guard))
        .start();
    let session = harness.session().await;
    harness.run(&session, "go").await;
    assert!(harness.requests().is_empty());
    let log = session.replay().await.unwrap();
    assert_everything_ended(&log);
    let runs = completed(&log);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].status, HookRunStatus::Blocked);
    assert_eq!(runs[0].handler_type, HookHandlerType::Command);
    assert_eq!(runs[0].entries[0].text, "not today");
}

#[tokio::test]
async fn one_that_runs_beside_does_not_hold_the_turn_and_ends_with_the_session() {
    let beside = json!({"type": "command", "command": "cat > /dev/null; until [ -e go ]; do sleep 0.01; done",
        "async": true});
    let harness = Harness::scripted(["done"])
        .hook_file(&file("UserPromptSubmit", beside))
        .start();
    let session = harness.session().await;
    // The turn ends while the hook still waits.
    let events = harness.run(&session, "go").await;
    assert!(
        events
            .iter()
            .any(|event| matches!(event.payload, TurnCompleted { .. }))
    );
    assert!(completed(&events).is_empty());
    std::fs::write(harness.workspace().path().join("go"), "").unwrap();
    session.shutdown("enough").await.unwrap();
    let log = session.replay().await.unwrap();
    assert_everything_ended(&log);
    assert_eq!(completed(&log)[0].status, HookRunStatus::Completed);
}

#[tokio::test]
async fn one_that_runs_beside_for_ever_is_ended_with_the_session() {
    let beside = json!({"type": "command", "command": "exec sleep 600", "async": true});
    let harness = Harness::scripted(["done"])
        .hook_file(&file("UserPromptSubmit", beside))
        .start();
    let session = harness.session().await;
    harness.run(&session, "go").await;
    let started = Instant::now();
    session.shutdown("enough").await.unwrap();
    let took = started.elapsed();
    assert!(took >= BESIDE_GRACE, "{took:?}");
    // Far less than it sleeps.
    assert!(took < Duration::from_secs(300), "{took:?}");
    let log = session.replay().await.unwrap();
    assert_everything_ended(&log);
    assert_eq!(completed(&log)[0].status, HookRunStatus::Cancelled);
}

#[tokio::test]
async fn hooks_of_files_read_the_conversation_and_nothing_of_it_stays() {
    let copy = json!({"type": "command", "command":
        "path=$(sed 's/.*\"transcript_path\":\"\\([^\"]*\\)\".*/\\1/'); cp \"$path\" seen; echo \"$path\" > place"});
    let look = halter_testkit::Reply::new().tool_call("look", json!({"at": "it"}));
    let harness = Harness::scripted([look, "All done.".into(), "Once more.".into()])
        .tool(
            halter_testkit::ScriptedTool::new("look")
                .returns("a cat")
                .build(),
        )
        .hook_file(&file("Stop", copy))
        .start();
    let session = harness.session().await;
    harness.run(&session, "go").await;
    harness.run(&session, "again").await;
    let workspace = harness.workspace().path();
    let seen = std::fs::read_to_string(workspace.join("seen")).unwrap();
    let lines: Vec<Value> = seen
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let said = |at: usize| {
        (
            lines[at]["type"].as_str().unwrap(),
            &lines[at]["message"]["content"],
        )
    };
    assert_eq!(said(0), ("user", &json!("go")));
    assert_eq!(said(1).1[0]["name"], "look");
    assert_eq!(said(2).1[0]["content"], "a cat");
    assert_eq!(
        said(3),
        ("assistant", &json!([{"type": "text", "text": "All done."}]))
    );
    assert_eq!(said(4), ("user", &json!("again")));
    // The last answer is in the payload and not yet committed.
    assert_eq!(lines.len(), 5, "each message once: {seen}");
    let place = std::fs::read_to_string(workspace.join("place")).unwrap();
    assert!(std::path::Path::new(place.trim()).exists());
    session.shutdown("enough").await.unwrap();
    drop(session);
    harness.runtime().shutdown(Duration::from_secs(5)).await;
    assert!(!std::path::Path::new(place.trim()).exists(), "{place}");
}
