//! A store that fails at every possible moment.

use crate::support::{assert_everything_ended, code};
use halter_protocol::{SessionEvent, Turn};
use halter_runtime::SessionHandle;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, HarnessBuilder, Reply, ScriptedTool, StoreFault,
    check_pairing, collect_until_error, render,
};
use serde_json::json;
use std::sync::Arc;

/// A model that uses two tools in its first turn and answers the second.
fn scene(store: Arc<FaultyStore>) -> HarnessBuilder {
    Harness::answering(|request| {
        let prompts = request
            .messages
            .iter()
            .filter(|message| matches!(message.as_ref(), halter_protocol::Message::User(_)));
        let last = request.messages.last().unwrap();
        match (prompts.count(), last.as_ref()) {
            (1, halter_protocol::Message::User(_)) => Reply::new()
                .text("I look and write.")
                .tool_call("look", json!({}))
                .tool_call("write", json!({})),
            _ => Reply::new().text("done"),
        }
    })
    .tool(ScriptedTool::new("look").read_only().build())
    .tool(ScriptedTool::new("write").mutating().build())
    .store(store)
}

async fn turn(session: &SessionHandle, text: &str) -> (Vec<SessionEvent>, Option<anyhow::Error>) {
    match session.submit_turn(Turn::user(text)).await {
        Ok(stream) => collect_until_error(stream).await,
        Err(error) => (Vec::new(), Some(error)),
    }
}

#[tokio::test]
async fn a_store_that_fails_once_at_any_moment_loses_no_session() {
    let counting = Arc::new(FaultyStore::in_memory());
    let harness = scene(counting.clone()).start();
    let session = harness.session().await;
    let started = counting.appends();
    turn(&session, "first").await;
    turn(&session, "second").await;
    let appends = counting.appends();
    assert!(appends >= 8, "the scene has moments to fail at");

    for fault in [StoreFault::DiskFull, StoreFault::Io] {
        for nth in started + 1..=appends {
            let store = Arc::new(FaultyStore::in_memory());
            let harness = scene(store.clone()).start();
            let session = harness.session().await;
            store.fail_append(nth, fault);
            let mut failures = 0;
            for text in ["first", "second", "third"] {
                let (events, error) = turn(&session, text).await;
                match error {
                    None => {
                        events.assert_gap_free();
                        let last = events.last().unwrap();
                        assert!(last.payload.ends_turn().is_some(), "append {nth}");
                    }
                    Some(error) => {
                        failures += 1;
                        let expected = match fault {
                            StoreFault::DiskFull => "store_disk_full",
                            _ => "store_io",
                        };
                        assert_eq!(code(&error), expected);
                        // What was seen before the failure is in the log.
                        let log = session.replay().await.unwrap();
                        for event in events
                            .iter()
                            .filter(|e| e.delivery == halter_protocol::Delivery::Lossless)
                        {
                            let place = usize::try_from(event.sequence()).unwrap() - 1;
                            assert_eq!(log[place].payload, event.payload, "append {nth}");
                        }
                    }
                }
            }
            assert_eq!(failures, 1, "append {nth} fails one turn, and is told");
            let log = session.replay().await.unwrap();
            log.assert_gap_free();
            assert_everything_ended(&log);
            let state = halter_protocol::fold::fold_events(log.iter().map(|e| &e.payload));
            check_pairing(&state.messages)
                .unwrap_or_else(|error| panic!("append {nth}: {error}\n{}", render(&log)));
        }
    }
}

#[tokio::test]
async fn a_mutating_tool_does_not_run_if_its_start_cannot_be_stored() {
    let store = Arc::new(FaultyStore::in_memory());
    let write = ScriptedTool::new("write").mutating().build();
    let replies = [Reply::new().tool_call("write", json!({})), "fine".into()];
    let harness = Harness::scripted(replies)
        .tool(write.clone())
        .store(store.clone())
        .start();
    let session = harness.session().await;
    // The prompt, then the answer with the start of its call.
    store.fail_append(store.appends() + 2, StoreFault::DiskFull);
    let (_, error) = turn(&session, "write").await;
    assert_eq!(code(&error.unwrap()), "store_disk_full");
    assert!(write.calls().is_empty());
}

#[tokio::test]
async fn running_tools_are_given_up_when_the_store_fails() {
    let store = Arc::new(FaultyStore::in_memory());
    let (never, gate) = (Gate::new(), Gate::new());
    let deaf = ScriptedTool::new("deaf")
        .parallel_safe()
        .waits_at(&never)
        .build();
    let quick = ScriptedTool::new("quick")
        .parallel_safe()
        .waits_at(&gate)
        .build();
    let reply = Reply::new()
        .tool_call("deaf", json!({}))
        .tool_call("quick", json!({}));
    let harness = Harness::scripted([reply, "fine".into()])
        .tools([deaf as _, quick as _])
        .store(store.clone())
        .start();
    let session = harness.session().await;
    let stream = session.submit_turn(Turn::user("go")).await.unwrap();
    never.reached().await;
    gate.reached().await;
    store.fail_appends(StoreFault::Io);
    gate.open();
    let (_, error) = collect_until_error(stream).await;
    assert_eq!(code(&error.unwrap()), "store_io");
    store.recover();
    let (events, error) = turn(&session, "again").await;
    assert!(error.is_none());
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let log = session.replay().await.unwrap();
    assert!(
        render(&log).contains("tool c1 error outcome_unknown"),
        "{}",
        render(&log)
    );
}

#[tokio::test]
async fn waiting_turns_are_told_that_the_store_failed() {
    let store = Arc::new(FaultyStore::in_memory());
    let gate = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&gate).text("one"), "two".into()])
        .store(store.clone())
        .start();
    let session = harness.session().await;
    let first = session.submit_turn(Turn::user("first")).await.unwrap();
    let second = session.submit_turn(Turn::user("second")).await.unwrap();
    gate.reached().await;
    store.fail_appends(StoreFault::DiskFull);
    gate.open();
    for stream in [first, second] {
        let (_, error) = collect_until_error(stream).await;
        assert_eq!(code(&error.unwrap()), "store_disk_full");
    }
    store.recover();
    assert!(turn(&session, "third").await.1.is_none());
}

#[tokio::test]
async fn a_notification_that_cannot_be_stored_is_not_reported_as_taken() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::scripted(["fine"]).store(store.clone()).start();
    let session = harness.session().await;
    store.fail_append(store.appends() + 1, StoreFault::DiskFull);
    let error = session.notify("idle", "hello").await.unwrap_err();
    assert_eq!(code(&error), "store_disk_full");
    session.notify("idle", "hello").await.unwrap();
    assert!(turn(&session, "go").await.1.is_none());
}

#[tokio::test]
async fn a_session_that_cannot_be_stored_does_not_start() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::scripted(["fine"]).store(store.clone()).start();
    store.fail_append(1, StoreFault::DiskFull);
    let init = halter_runtime::SessionInit::default().with_working_dir(harness.workspace().path());
    let error = harness.runtime().new_session(init).await.err().unwrap();
    assert_eq!(code(&error), "store_disk_full");
    assert!(error.to_string().contains("free some"));
}

#[tokio::test]
async fn a_shutdown_that_cannot_be_stored_still_ends_the_session_and_says_so() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::scripted(["fine", "back"])
        .store(store.clone())
        .start();
    let session = harness.session().await;
    turn(&session, "go").await;
    store.fail_append(store.appends() + 1, StoreFault::DiskFull);
    let error = session.shutdown("bye").await.unwrap_err();
    assert_eq!(code(&error), "store_disk_full");
    let refused = session.submit_turn(Turn::user("?")).await.err().unwrap();
    assert_eq!(code(&refused), "session_closed");
    let again = harness.resume(&session).await;
    assert!(turn(&again, "go").await.1.is_none());
}
