//! Cancels, shutdowns and crashes of a tree of sessions.

use super::{ended, last_word, spawn, spawn_and_wait, states, task};
use crate::support::{assert_everything_ended, replayed};
use futures::StreamExt;
use halter_protocol::{SessionEventPayload, SubagentState, Turn};
use halter_providers::Reply;
use halter_runtime::SessionHandle;
use halter_testkit::{EventsExt, Gate, Harness, within};
use serde_json::json;

/// Waits until so many requests were made.
async fn started(session: &SessionHandle, count: usize) {
    let mut events = session.subscribe();
    let mut seen = 0;
    while seen < count {
        let event = within("an event", events.next()).await.unwrap().unwrap();
        seen += usize::from(matches!(
            event.payload,
            SessionEventPayload::SubagentStarted { .. }
        ));
    }
}

/// A parent whose child has a child that never answers.
fn three_deep(gate: &Gate) -> Harness {
    let held = gate.clone();
    Harness::answering(move |request| match task(request).as_str() {
        "deepest" => Reply::new().gate(&held).text("never"),
        "deep" if last_word(request) == "deep" => spawn_and_wait("deepest"),
        "go" if last_word(request) == "go" => spawn(json!({"message": "deep"})),
        _ => Reply::from(last_word(request)),
    })
    .subagents()
    .start()
}

async fn deepest_asked(harness: &Harness) {
    halter_testkit::eventually("the deepest is asked", || {
        harness.requests().iter().any(|it| task(it) == "deepest")
    })
    .await;
}

#[tokio::test]
async fn cancelling_a_parent_cancels_the_tree() {
    let gate = Gate::new();
    let harness = three_deep(&gate);
    let session = harness.session().await;
    harness.run(&session, "go").await;
    deepest_asked(&harness).await;
    session.cancel().await.unwrap();
    within("the session settles", session.settled()).await;
    let events = replayed(&session).await;
    assert_eq!(states(&events), [SubagentState::Cancelled]);
    // Nobody goes on because of what was cancelled.
    assert_eq!(events.of_kind("turn_started").len(), 1);
    let child = ended(&events).remove(0).session_id;
    let child = harness.runtime().resume(&child).await.unwrap().unwrap();
    let below = replayed(&child).await;
    assert_eq!(states(&below), [SubagentState::Cancelled]);
    assert_everything_ended(&below);
}

#[tokio::test]
async fn a_session_that_ends_ends_what_is_below_it() {
    let gate = Gate::new();
    let harness = three_deep(&gate);
    let session = harness.session().await;
    harness.run(&session, "go").await;
    started(&session, 1).await;
    within("the shutdown", session.shutdown("enough"))
        .await
        .unwrap();
    let events = replayed(&session).await;
    assert_eq!(states(&events), [SubagentState::Cancelled]);
    assert_eq!(*events.kinds().last().unwrap(), "session_shutdown_complete");
    let child = ended(&events).remove(0).session_id;
    let stored = halter_session::read_events(harness.store().as_ref(), &child, 0, 1_000).await;
    assert_eq!(
        *stored.unwrap().kinds().last().unwrap(),
        "session_shutdown_complete"
    );
}

#[tokio::test]
async fn a_child_that_a_crash_interrupted_is_reported_and_can_go_on() {
    let gate = Gate::new();
    let harness = three_deep(&gate);
    let session = harness.session().await;
    harness.run(&session, "go").await;
    // What is left behind writes nothing more: all of it waits for the deepest.
    deepest_asked(&harness).await;
    let next = Harness::answering(|request| match task(request).as_str() {
        "deep" => Reply::from("I went on."),
        _ => match last_word(request) {
            word if word.contains("I went on.") => Reply::from("so it did"),
            word if word.contains("<subagent_report") => Reply::new().tool_call(
                "send_input",
                json!({"target": "agent_1", "message": "go on"}),
            ),
            _ => Reply::new().tool_call("wait_agent", json!({"targets": ["agent_1"]})),
        },
    })
    .subagents()
    .store(harness.store().clone())
    .start();
    let resumed = next.resume(&session).await;
    let events = next.run(&resumed, "what became of it?").await;
    let all = replayed(&resumed).await;
    let reports = ended(&all);
    assert_eq!(reports[0].state, SubagentState::Failed);
    assert_eq!(reports[0].error.as_ref().unwrap().code, "interrupted");
    let first = &next.requests()[0];
    assert!(format!("{:?}", first.messages).contains("ended before it had reported"));
    assert_eq!(reports[1].state, SubagentState::Completed);
    assert_eq!(reports[1].last_message.as_deref(), Some("I went on."));
    assert_eq!(events.streamed_text(), "so it did");
}

#[tokio::test]
async fn a_wait_ends_when_its_time_is_over() {
    let gate = Gate::new();
    let held = gate.clone();
    let harness = Harness::answering(move |request| match task(request).as_str() {
        "work" => Reply::new().gate(&held).text("never"),
        _ if last_word(request) == "go" => spawn(json!({"message": "work"})),
        _ if last_word(request).contains("\"running\"")
            && !last_word(request).contains("timed_out") =>
        {
            Reply::new().tool_call(
                "wait_agent",
                json!({"targets": ["agent_1"], "timeout_ms": 1}),
            )
        }
        _ => Reply::from(last_word(request)),
    })
    .subagents()
    .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let events = halter_testkit::collect(turn).await;
    assert!(
        events.streamed_text().contains("\"timed_out\":true"),
        "{}",
        events.streamed_text()
    );
    within("the shutdown", session.shutdown("enough"))
        .await
        .unwrap();
}
