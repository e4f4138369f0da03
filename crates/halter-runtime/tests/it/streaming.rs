//! Deltas and output arrive while they are being made.

use crate::support::{StreamingProvider, is_delta, is_kind};
use futures::StreamExt;
use halter_protocol::{SessionEventPayload, StreamEvent, ToolResult, Turn};
use halter_runtime::limits::MODEL_QUEUE_EVENTS;
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, Reply, ScriptedTool, collect, render, within,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// While the start of a call is being stored, a model that talks on is heard so
/// far and then waits.
#[tokio::test]
async fn invariant_08_a_model_waits_for_a_session_that_is_busy() {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = read.clone();
    let provider = StreamingProvider::new(move || {
        let call = [
            StreamEvent::MessageStart { id: "m".into() },
            StreamEvent::ToolCallStart {
                id: "b".into(),
                tool_call_id: "c".into(),
                name: "look".into(),
            },
            StreamEvent::ToolCallEnd {
                id: "b".into(),
                opaque: None,
            },
            StreamEvent::TextStart { id: "t".into() },
        ];
        let word = || StreamEvent::TextDelta {
            id: "t".into(),
            delta: "on and on".into(),
        };
        let counter = counter.clone();
        let words = futures::stream::repeat_with(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            word()
        });
        futures::stream::iter(call).chain(words).map(Ok).boxed()
    });
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing()
        .provider(Arc::new(provider))
        .store(store.clone())
        .tool(ScriptedTool::new("look").read_only().build())
        .start();
    let session = harness.session().await;
    let storing = Gate::new();
    // The session's start, the turn's start with the message, the call's start.
    store.hold_append(3, &storing);
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the start of the call", storing.reached()).await;
    for _ in 0..10 * MODEL_QUEUE_EVENTS {
        tokio::task::yield_now().await;
    }
    // The start of the text waits too, and one more word is on its way.
    assert_eq!(read.load(Ordering::SeqCst), MODEL_QUEUE_EVENTS - 1 + 1);
    storing.open();
    session.cancel().await.unwrap();
    collect(turn).await;
}
