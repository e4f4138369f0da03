//! Subscribers: slow, late and many.

use crate::support::{code, is_kind};
use futures::{FutureExt, StreamExt};
use halter_protocol::{Delivery, SCHEMA_VERSION, SessionEvent, SessionEventPayload, Turn};
use halter_runtime::limits::{CATCH_UP_PAGE, HUB_EVENTS, SESSION_INBOX};
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, Reply, StoreFault, collect, collect_until_error, within,
};
use std::sync::Arc;

fn chatter(words: usize) -> Reply {
    (0..words).fold(Reply::new(), |reply, _| reply.text("word "))
}

/// Lossless events, best-effort events received, best-effort events missed.
fn counted(events: &[SessionEvent]) -> (Vec<u64>, usize, u64) {
    let lossless = events.iter().filter(|e| e.delivery == Delivery::Lossless);
    let missed = events.iter().map(|event| match event.payload {
        SessionEventPayload::Lagged { dropped_events } => dropped_events,
        _ => 0,
    });
    (
        lossless.map(SessionEvent::sequence).collect(),
        events.of_kind("delta_item").len(),
        missed.sum(),
    )
}

#[tokio::test]
async fn a_slow_consumer_is_told_how_much_it_missed_and_misses_nothing_that_counts() {
    let words = HUB_EVENTS * 3;
    let harness = Harness::scripted([chatter(words), "short".into()]).start();
    let session = harness.session().await;
    let slow = session.subscribe();
    let turn = session.submit_turn(Turn::user("talk")).await.unwrap();
    // The turn is not held up by the consumer that does not read.
    let mut quick = session.subscribe();
    collect_until(&mut quick, is_kind("turn_completed")).await;
    session.shutdown("done").await.unwrap();

    let seen = collect(slow).await;
    let (lossless, received, missed) = counted(&seen);
    assert_eq!(lossless, (1..=session.head()).collect::<Vec<_>>());
    assert!(missed > 0 && received > 0);
    assert_eq!(received as u64 + missed, words as u64);

    let events = collect(turn).await;
    let (lossless, received, missed) = counted(&events);
    assert_eq!(lossless.len(), 4);
    assert_eq!(received as u64 + missed, words as u64);
}

#[tokio::test]
async fn invariant_08_a_consumer_may_fall_behind_by_so_many_events_and_no_more() {
    // Beside the deltas: turn_started and two messages, turn_completed, and the
    // end of the session.
    for (words, missed) in [(HUB_EVENTS - 5, 0), (HUB_EVENTS - 4, 1)] {
        let harness = Harness::scripted([chatter(words)]).start();
        let session = harness.session().await;
        let slow = session.subscribe_after(session.head());
        let mut quick = session.subscribe();
        session.submit_turn(Turn::user("talk")).await.unwrap();
        collect_until(&mut quick, is_kind("turn_completed")).await;
        session.shutdown("done").await.unwrap();
        let (lossless, received, lagged) = counted(&collect(slow).await);
        assert_eq!(lossless, [2, 3, 4, 5, 6]);
        // One event makes room for the next: the first lossless ones went
        // first, and are read from the log.
        assert!(lagged <= missed, "{lagged} of {words}");
        assert_eq!(received as u64 + lagged, words as u64);
    }
}

#[tokio::test]
async fn a_consumer_that_comes_back_goes_on_where_it_was() {
    let harness = Harness::scripted(["one", "two"]).start();
    let session = harness.session().await;
    let mut first = session.subscribe();
    harness.run(&session, "a").await;
    let seen = collect_until(&mut first, is_kind("turn_completed")).await;
    drop(first);
    harness.run(&session, "b").await;
    let last = seen.last().unwrap().sequence();
    let mut again = session.subscribe_after(last);
    let rest = collect_until(&mut again, is_kind("turn_completed")).await;
    rest.assert_gap_free();
    assert_eq!(rest[0].sequence(), last + 1);
    assert_eq!(rest[0].payload.kind(), "turn_started");
}

#[tokio::test]
async fn a_consumer_that_is_ahead_waits_for_what_it_does_not_have() {
    let harness = Harness::scripted(["one"]).start();
    let session = harness.session().await;
    let ahead = session.head() + 2;
    let mut stream = session.subscribe_after(ahead);
    harness.run(&session, "a").await;
    let seen = collect_until(&mut stream, is_kind("turn_completed")).await;
    let lossless: Vec<_> = seen
        .iter()
        .filter(|event| event.delivery == Delivery::Lossless)
        .map(SessionEvent::sequence)
        .collect();
    assert_eq!(lossless, [ahead + 1, ahead + 2]);
}

#[tokio::test]
async fn many_subscribers_see_the_same() {
    let harness = Harness::scripted(["one", "two"]).start();
    let session = harness.session().await;
    let streams: Vec<_> = (0..50).map(|_| session.subscribe()).collect();
    harness.run(&session, "a").await;
    harness.run(&session, "b").await;
    session.shutdown("done").await.unwrap();
    let log = session.replay().await.unwrap();
    for stream in streams {
        let seen = collect(stream).await;
        seen.assert_gap_free();
        let (lossless, deltas, missed) = counted(&seen);
        assert_eq!(lossless.len(), log.len());
        assert_eq!((deltas, missed), (2, 0));
    }
}

#[tokio::test]
async fn a_turn_stream_ends_after_its_terminal_event() {
    let harness = Harness::scripted(["one"]).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("a")).await.unwrap();
    collect_until(&mut turn, is_kind("turn_completed")).await;
    assert!(within("the end", turn.next()).await.is_none());
    assert!(within("the end", turn.next()).await.is_none());
}

#[tokio::test]
async fn a_turn_stream_holds_its_own_turn_only() {
    let gate = Gate::new();
    let replies = [
        Reply::new().gate(&gate).text("one"),
        "two".into(),
        "three".into(),
    ];
    let harness = Harness::scripted(replies).start();
    let session = harness.session().await;
    let mut streams = Vec::new();
    for text in ["a", "b", "c"] {
        streams.push(session.submit_turn(Turn::user(text)).await.unwrap());
    }
    gate.open();
    for (stream, text) in streams.into_iter().zip(["one", "two", "three"]) {
        let turn_id = stream.turn_id().clone();
        let events = collect(stream).await;
        events.assert_gap_free();
        assert_eq!(events.streamed_text(), text);
        assert_eq!(events.last().unwrap().payload.ends_turn(), Some(&turn_id));
    }
}

#[tokio::test]
async fn a_session_stream_carries_everything_shutdown_included() {
    let harness = Harness::scripted(["one"]).start();
    let session = harness.session().await;
    let all = session.subscribe();
    harness.run(&session, "a").await;
    session.notify("idle", "hello").await.unwrap();
    session.shutdown("enough").await.unwrap();
    let events = collect(all).await;
    assert_eq!(
        events.lossless_kinds(),
        [
            "session_started",
            "turn_started",
            "message_item",
            "message_item",
            "turn_completed",
            "notification",
            "session_shutdown_complete",
        ]
    );
    let late = collect(session.subscribe()).await;
    assert_eq!(late.lossless_kinds(), events.lossless_kinds());
}

#[tokio::test]
async fn the_first_event_of_every_stream_names_the_schema() {
    let harness = Harness::scripted(["one"]).start();
    let session = harness.session().await;
    let live = session.subscribe();
    let tail = session.subscribe_after(session.head());
    let turn = harness.run(&session, "a").await;
    session.shutdown("enough").await.unwrap();
    let middle = session.subscribe_after(3);
    for events in [
        turn,
        collect(live).await,
        collect(tail).await,
        collect(middle).await,
        session.replay().await.unwrap(),
    ] {
        events.assert_gap_free();
        assert_eq!(events[0].schema_version, Some(SCHEMA_VERSION));
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_ends_a_catch_up_with_an_error() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::scripted(["one"]).store(store.clone()).start();
    let session = harness.session().await;
    harness.run(&session, "a").await;
    store.fail_reads(StoreFault::Io);
    let (events, error) = collect_until_error(session.subscribe().take(1)).await;
    assert!(events.is_empty());
    assert_eq!(code(&error.unwrap()), "store_io");
    store.recover();
    let mut again = session.subscribe();
    collect_until(&mut again, is_kind("turn_completed")).await;
}

#[tokio::test]
async fn invariant_08_a_late_subscriber_catches_up_page_by_page() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    for number in 0..2 * CATCH_UP_PAGE {
        session.notify("count", number.to_string()).await.unwrap();
    }
    session.shutdown("done").await.unwrap();
    let events = collect(session.subscribe()).await;
    events.assert_gap_free();
    assert_eq!(events.len(), 2 * CATCH_UP_PAGE + 2);
    assert_eq!(session.replay().await.unwrap(), events);
}

#[tokio::test]
async fn invariant_08_so_many_commands_wait_for_a_session_and_no_more() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing().store(store.clone()).start();
    let session = harness.session().await;
    let gate = Gate::new();
    store.hold_next_append(&gate);
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the append", gate.reached()).await;
    let mut waiting: Vec<_> = (0..SESSION_INBOX)
        .map(|number| Box::pin(session.notify("count", number.to_string())))
        .collect();
    for command in &mut waiting {
        assert!(command.now_or_never().is_none());
    }
    let error = session.notify("one", "too many").await.unwrap_err();
    assert_eq!(code(&error), "session_busy");
    gate.open();
    for command in waiting {
        command.await.unwrap();
    }
    collect(turn).await;
    let log = session.replay().await.unwrap();
    assert_eq!(log.of_kind("notification").len(), SESSION_INBOX);
}
