//! The helpers, used as tests use them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

use halter_protocol::Turn;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, Reply, ScriptedTool, StoreFault, collect_until_error,
    render,
};
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn a_stream_is_rendered_without_ids_and_times() {
    let look = ScriptedTool::new("look").returns("a cat").build();
    let replies = [
        Reply::new()
            .thinking("hm")
            .text("I look.")
            .tool_call("look", json!({"at": "mat"})),
        "A cat.".into(),
    ];
    let harness = Harness::scripted(replies).tool(look.clone()).start();
    let events = harness.ask("What is there?").await;
    events.assert_gap_free();
    assert_eq!(look.calls(), [json!({"at": "mat"})]);
    let expected = r#"
turn_started t1
message_item user "What is there?"
thinking_delta "hm"
delta_item "I look."
message_item assistant [thinking "hm", "I look.", c1 look {"at":"mat"}] tool_use
tool_execution_started c1 look {"at":"mat"}
tool_execution_completed c1 ok "a cat"
message_item tool c1 "a cat"
delta_item "A cat."
message_item assistant ["A cat."] end_turn
turn_completed t1"#;
    assert_eq!(render(&events), expected.trim_start());
}

#[tokio::test]
async fn a_faulty_store_fails_once_and_recovers() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing().store(store.clone()).start();
    let session = harness.session().await;
    store.fail_append(store.appends() + 1, StoreFault::DiskFull);
    let stream = session.submit_turn(Turn::user("one")).await.unwrap();
    let (_, error) = collect_until_error(stream).await;
    assert!(error.unwrap().to_string().contains("no space is left"));
    let events = harness.run(&session, "two").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn a_held_append_waits_for_its_gate() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing().store(store.clone()).start();
    let gate = Gate::new();
    store.hold_next_append(&gate);
    let session = tokio::spawn(async move { harness.ask("hi").await });
    gate.reached().await;
    assert!(!session.is_finished());
    gate.open();
    assert_eq!(
        session.await.unwrap().kinds().last(),
        Some(&"turn_completed")
    );
}

#[tokio::test]
async fn another_process_finds_the_session() {
    let first = Harness::scripted(["one"]).start();
    let session = first.session().await;
    first.run(&session, "hello").await;
    let second = first.another_process(["two"]).start();
    let resumed = second.resume(&session).await;
    let events = second.run(&resumed, "again").await;
    assert_eq!(events.streamed_text(), "two");
    assert_eq!(second.requests()[0].messages.len(), 3);
}
