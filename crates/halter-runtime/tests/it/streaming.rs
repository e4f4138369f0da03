//! Deltas and output arrive while they are being made.

use crate::support::{StreamingProvider, is_delta, is_kind};
use futures::StreamExt;
use halter_protocol::{SessionEventPayload, StreamEvent, ToolResult, Turn};
use halter_runtime::limits::{MODEL_QUEUE_EVENTS, WAITING_APPENDS};
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, Reply, ScriptedTool, collect, render, within,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn invariant_02_the_first_delta_arrives_while_the_model_still_talks() {
    let gate = Gate::new();
    let reply = Reply::new().text("first").gate(&gate).text(" second");
    let harness = Harness::scripted([reply]).start();
    let session = harness.session().await;
    let mut stream = session.submit_turn(Turn::user("hi")).await.unwrap();

    let mut events = collect_until(&mut stream, is_delta).await;
    assert!(!gate.is_open());
    assert_eq!(events.streamed_text(), "first");

    gate.open();
    events.extend(collect(stream).await);
    events.assert_gap_free();
    assert_eq!(events.streamed_text(), "first second");
}

#[tokio::test]
async fn tool_output_arrives_while_the_tool_still_runs() {
    let gate = Gate::new();
    let held = gate.clone();
    let build = ScriptedTool::new("build")
        .runs(move |context, _| {
            let gate = held.clone();
            async move {
                context.emit_output("build", "half way\n");
                gate.pass().await;
                Ok(ToolResult::text("built"))
            }
        })
        .build();
    let replies = [Reply::new().tool_call("build", json!({})), "done".into()];
    let harness = Harness::scripted(replies).tool(build).start();
    let session = harness.session().await;
    let mut stream = session.submit_turn(Turn::user("build")).await.unwrap();

    let events = collect_until(&mut stream, is_kind("tool_output")).await;
    assert!(!gate.is_open());
    let last = render(&events);
    assert!(last.ends_with(r#"tool_output c1 "half way\n""#), "{last}");

    gate.open();
    let rest = collect(stream).await;
    assert_eq!(rest.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn long_output_is_cut_into_bounded_pieces() {
    use halter_runtime::limits::TOOL_OUTPUT_CHUNK_BYTES;
    let whole = "é".repeat(TOOL_OUTPUT_CHUNK_BYTES);
    let text = whole.clone();
    let shout = ScriptedTool::new("shout")
        .runs(move |context, _| {
            context.emit_output("shout", text.clone());
            async { Ok(ToolResult::Empty) }
        })
        .build();
    let replies = [Reply::new().tool_call("shout", json!({})), "done".into()];
    let events = Harness::scripted(replies)
        .tool(shout)
        .start()
        .ask("!")
        .await;
    let chunks: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.payload {
            SessionEventPayload::ToolOutput { chunk, .. } => Some(chunk.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(chunks.len(), 2);
    assert!(chunks.iter().all(|c| c.len() == TOOL_OUTPUT_CHUNK_BYTES));
    assert_eq!(chunks.concat(), whole);
}

#[tokio::test]
async fn thinking_has_a_delta_kind_of_its_own() {
    let reply = Reply::new()
        .thinking("let me ")
        .thinking("see")
        .text("four");
    let events = Harness::scripted([reply]).start().ask("2+2?").await;
    let expected = r#"
turn_started t1
message_item user "2+2?"
thinking_delta "let me "
thinking_delta "see"
delta_item "four"
message_item assistant [thinking "let me see", "four"] end_turn
turn_completed t1"#;
    assert_eq!(render(&events), expected.trim_start());
}

#[tokio::test]
async fn an_answer_of_very_many_deltas_is_no_trouble() {
    let reply = (0..20_000).fold(Reply::new(), |reply, _| reply.text("ab "));
    let harness = Harness::scripted([reply]).start();
    let events = harness.ask("talk").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let answer = events.messages().pop().unwrap().as_assistant().unwrap();
    assert_eq!(answer.plain_text().len(), 60_000);
}

#[tokio::test]
async fn a_provider_warning_is_an_event_and_does_not_stop_the_answer() {
    let reply = Reply::new().warning("the cache is cold").text("fine");
    let events = Harness::scripted([reply]).start().ask("hi").await;
    assert!(render(&events).contains("warning the cache is cold\n"));
    assert_eq!(events.streamed_text(), "fine");
}

/// While an append is under way, a model that says more to be stored is heard
/// so far and then waits.
#[tokio::test]
async fn invariant_08_a_model_waits_for_a_store_that_is_busy() {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = read.clone();
    let provider = StreamingProvider::new(move || {
        let counter = counter.clone();
        let warnings = futures::stream::repeat_with(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            StreamEvent::ProviderWarning {
                message: "on and on".into(),
            }
        });
        warnings.map(Ok).boxed()
    });
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing()
        .provider(Arc::new(provider))
        .store(store.clone())
        .start();
    let session = harness.session().await;
    let storing = Gate::new();
    // The session's start, the turn's start with the message, a warning.
    store.hold_append(3, &storing);
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the first warning", storing.reached()).await;
    for _ in 0..10 * MODEL_QUEUE_EVENTS {
        tokio::task::yield_now().await;
    }
    // One is being stored and one more is on its way.
    let most = 1 + WAITING_APPENDS + MODEL_QUEUE_EVENTS + 1;
    assert_eq!(read.load(Ordering::SeqCst), most);
    session.cancel().await.unwrap();
    storing.open();
    collect(turn).await;
}

/// Two seconds for every append: deltas and a cancel take no time at all.
#[tokio::test(start_paused = true)]
async fn a_slow_store_holds_back_neither_deltas_nor_a_cancel() {
    const SLOW: Duration = Duration::from_secs(2);
    let (called, never) = (Gate::new(), Gate::new());
    let reply = Reply::new()
        .tool_call("look", json!({}))
        .gate(&called)
        .text("on and on")
        .gate(&never);
    let store = Arc::new(FaultyStore::in_memory());
    store.slow_down(SLOW);
    let look = ScriptedTool::new("look").read_only().build();
    let harness = Harness::scripted([reply])
        .store(store)
        .tool(look.clone())
        .start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the call", called.reached()).await;

    // The start of the call is being stored.
    let now = Instant::now();
    called.open();
    let said = collect_until(&mut turn, is_delta).await;
    assert_eq!(said.streamed_text(), "on and on");
    assert!(session.cancel().await.unwrap());
    assert_eq!(now.elapsed(), Duration::ZERO);
    assert!(look.calls().is_empty(), "its start is not committed");

    let rest = collect(turn).await;
    assert_eq!(rest.kinds().last(), Some(&"turn_failed"));
    assert!(
        now.elapsed() >= SLOW,
        "what is lossless comes once it is stored"
    );
    session.replay().await.unwrap().assert_gap_free();
}
