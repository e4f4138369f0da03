//! What is committed, when, and that the log is the truth.

use crate::support::{both_stores, is_kind};
use futures::{FutureExt, StreamExt};
use halter_protocol::{
    Delivery, Message, SessionEventPayload, SessionState, ToolResult, Turn,
    fold::{apply_event, fold_events},
};
use halter_providers::ProviderRequest;
use halter_session::{DurabilityPolicy, SessionLog, read_events};
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, Reply, ScriptedTool, TempWorkspace, collect,
};
use serde_json::json;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn invariant_02_the_start_of_a_mutating_tool_is_stored_before_it_runs() {
    let workspace = TempWorkspace::new();
    for (name, store) in both_stores(&workspace).await {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (shared, from) = (seen.clone(), store.clone());
        let tool = ScriptedTool::new("write")
            .mutating()
            .runs(move |context, _| {
                let (seen, store) = (shared.clone(), from.clone());
                async move {
                    let id = &context.session_id;
                    let events = read_events(store.as_ref(), id, 0, 1000).await?;
                    let mine = events.into_iter().any(|event| {
                        matches!(&event.payload, SessionEventPayload::ToolExecutionStarted { call }
                            if call.id == context.call_id)
                    });
                    seen.lock().unwrap().push(mine);
                    Ok(ToolResult::Empty)
                }
            })
            .build();
        let reply = Reply::new()
            .tool_call("write", json!({"n": 1}))
            .tool_call("write", json!({"n": 2}));
        let harness = Harness::scripted([reply, "done".into()])
            .tool(tool)
            .store(store)
            .start();
        harness.ask("write twice").await;
        assert_eq!(*seen.lock().unwrap(), [true, true], "{name}");
    }
}

#[tokio::test]
async fn invariant_02_a_lossless_event_is_published_only_after_commit() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing().store(store.clone()).start();
    let session = harness.session().await;
    let gate = Gate::new();
    store.hold_next_append(&gate);
    let mut subscriber = session.subscribe_after(session.head());
    let mut turn = session.submit_turn(Turn::user("hi")).await.unwrap();

    gate.reached().await;
    assert!(subscriber.next().now_or_never().is_none());
    assert!(turn.next().now_or_never().is_none());
    assert_eq!(session.replay().await.unwrap().len(), 1);

    gate.open();
    let events = collect(turn).await;
    assert_eq!(events.kinds()[0], "turn_started");
    assert!(subscriber.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn invariant_02_whatever_a_consumer_sees_is_already_in_the_store() {
    let workspace = TempWorkspace::new();
    for (name, store) in both_stores(&workspace).await {
        let replies = [
            Reply::new().text("a").tool_call("look", json!({})),
            "b".into(),
        ];
        let look = ScriptedTool::new("look").read_only().build();
        let harness = Harness::scripted(replies)
            .tool(look)
            .store(store.clone())
            .start();
        let session = harness.session().await;
        let mut turn = session.submit_turn(Turn::user("hi")).await.unwrap();
        while let Some(event) = turn.next().await {
            let event = event.unwrap();
            if event.delivery == Delivery::Lossless {
                let head = store.open(session.session_id()).await.unwrap().head;
                assert!(head >= event.sequence(), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn the_model_is_asked_only_about_what_is_committed() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing().store(store.clone()).start();
    let session = harness.session().await;
    let gate = Gate::new();
    store.hold_next_append(&gate);
    let turn = session.submit_turn(Turn::user("hi")).await.unwrap();
    gate.reached().await;
    assert_eq!(harness.provider().request_count(), 0);
    gate.open();
    collect(turn).await;
    assert_eq!(harness.provider().request_count(), 1);
}

/// Two hundred turns with tools, failures and steers, so that checkpoints are
/// written too.
fn talkative(request: &ProviderRequest) -> Reply {
    let last = request.messages.last().unwrap();
    let round = request.messages.len();
    match last.as_ref() {
        Message::User(_) if round.is_multiple_of(3) => Reply::new()
            .thinking("hm")
            .tool_call("look", json!({"round": round}))
            .tool_call("nobody", json!({})),
        Message::User(_) if round.is_multiple_of(5) => Reply::cut_after("I was about"),
        _ => Reply::new().text(format!("answer {round}")),
    }
}

#[tokio::test]
async fn invariant_01_the_state_is_the_fold_of_the_log_after_every_turn_and_reopening() {
    let workspace = Arc::new(TempWorkspace::new());
    for (name, store) in both_stores(&workspace).await {
        let look = ScriptedTool::new("look").read_only().build();
        let harness = Harness::answering(talkative)
            .tool(look)
            .store(store.clone())
            .workspace(workspace.clone())
            .start();
        let session = harness.session().await;
        let id = session.session_id();
        let (mut folded, mut head) = (SessionState::default(), 0);
        for round in 0..120 {
            for event in read_events(store.as_ref(), id, head, 1000).await.unwrap() {
                apply_event(&mut folded, &event.payload);
                head = event.sequence();
            }
            let asked = harness.provider().request_count();
            harness.run(&session, &format!("round {round}")).await;
            // What the model is told is what the log says, and the new prompt.
            let told = harness.requests().swap_remove(asked).messages;
            assert_eq!(told.len(), folded.messages.len() + 1, "{name}");
            let mut known = told.iter().zip(folded.messages.iter());
            assert!(known.all(|(told, log)| told == log), "{name}");
        }
        let events = session.replay().await.unwrap();
        events.assert_gap_free();
        assert!(events.len() > 512, "enough for two checkpoints");
        let opened = store.open(id).await.unwrap();
        assert!(opened.checkpoint.is_some(), "{name}");
        let log = SessionLog::open(store.clone(), id, DurabilityPolicy::default())
            .await
            .unwrap();
        let folded = fold_events(events.iter().map(|event| &event.payload));
        assert_eq!(*log.state(), folded, "{name}");
    }
}

#[tokio::test]
async fn a_subscriber_and_the_log_agree() {
    let harness = Harness::answering(talkative)
        .tool(ScriptedTool::new("look").read_only().build())
        .start();
    let session = harness.session().await;
    let mut subscriber = session.subscribe();
    for round in 0..20 {
        harness.run(&session, &format!("round {round}")).await;
    }
    let log = session.replay().await.unwrap();
    let last = log.last().unwrap().sequence();
    let mut head = 0;
    let seen = collect_until(&mut subscriber, |payload| {
        head += u64::from(payload.delivery() == Delivery::Lossless);
        head == last
    })
    .await;
    seen.assert_gap_free();
    let lossless: Vec<_> = seen
        .into_iter()
        .filter(|event| event.delivery == Delivery::Lossless)
        .collect();
    assert_eq!(lossless, log);
}

#[tokio::test]
async fn a_best_effort_event_repeats_the_last_committed_sequence_and_is_not_stored() {
    let harness = Harness::scripted(["hello"]).start();
    let session = harness.session().await;
    let events = harness.run(&session, "hi").await;
    let delta = events.position("delta_item");
    assert_eq!(events[delta].sequence(), events[delta - 1].sequence());
    assert!(
        session
            .replay()
            .await
            .unwrap()
            .of_kind("delta_item")
            .is_empty()
    );
}

#[tokio::test]
async fn the_prompt_is_stored_before_the_answer_ends() {
    let gate = Gate::new();
    let reply = Reply::new().text("a").gate(&gate);
    let harness = Harness::scripted([reply]).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("keep this")).await.unwrap();
    collect_until(&mut turn, is_kind("delta_item")).await;
    let stored = session.replay().await.unwrap();
    assert_eq!(
        stored.lossless_kinds(),
        ["session_started", "turn_started", "message_item"]
    );
    gate.open();
    collect(turn).await;
}
