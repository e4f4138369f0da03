//! What a store promises.

use super::OpenStore;
use super::fixtures::{all_events, at, blueprint, create, lines, open_log, pending};
use crate::limits::{MAX_BATCH_EVENTS, MAX_READ_BYTES, MAX_READ_EVENTS};
use crate::{
    AppendBatch, Blob, Checkpoint, Durability, EventRecord, PageRequest, SessionRecord,
    SessionSummary, WriterToken,
};
use halter_protocol::SessionId;

/// A created session has no events, and its id cannot be created again.
pub async fn a_new_session_is_empty_and_its_id_taken(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    assert_eq!(
        token,
        WriterToken {
            session_id: "ses_1".into(),
            epoch: 1
        }
    );
    let opened = store.open(&"ses_1".into()).await.unwrap();
    assert_eq!(opened.record, SessionRecord::new(blueprint("ses_1")));
    assert_eq!((opened.head, opened.checkpoint), (0, None));
    let again = store.create(SessionRecord::new(blueprint("ses_1"))).await;
    assert_eq!(again.unwrap_err().code(), "session_exists");
    let nameless = store.create(SessionRecord::new(blueprint(""))).await;
    assert_eq!(nameless.unwrap_err().code(), "session_invalid_batch");
}

/// Events are numbered 1, 2, 3, … and nothing else is accepted.
pub async fn sequences_have_no_gaps(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    let append = async |head, batch| {
        let outcome = store.append(&token, head, batch, Durability::Durable).await;
        outcome.map_err(|error| error.code())
    };
    assert_eq!(append(0, lines([1, 2])).await, Ok(2));
    assert_eq!(append(2, lines([3])).await, Ok(3));
    for gap in [vec![5], vec![3], vec![4, 6]] {
        assert_eq!(append(3, lines(gap)).await, Err("session_invalid_batch"));
    }
    let events = store.read(&"ses_1".into(), 0, 10).await.unwrap();
    assert_eq!(events, lines([1, 2, 3]).events);
}

/// Whoever acquires a session last writes; everybody before conflicts.
pub async fn an_old_token_conflicts(open: impl OpenStore) {
    let store = open().await;
    let first = create(store.as_ref(), "ses_1").await;
    let second = store.acquire(&"ses_1".into()).await.unwrap();
    assert!(second.epoch > first.epoch);
    let stale = store
        .append(&first, 0, lines([1]), Durability::Durable)
        .await;
    let error = stale.unwrap_err();
    assert!(error.is_conflict());
    assert_eq!(error.code(), "session_stale_writer");
    let fresh = store
        .append(&second, 0, lines([1]), Durability::Durable)
        .await;
    assert_eq!(fresh.unwrap(), 1);
}

/// An append based on an old head conflicts and says what the head is.
pub async fn an_old_head_conflicts(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    let append = async |head, batch| store.append(&token, head, batch, Durability::Durable).await;
    append(0, lines([1, 2])).await.unwrap();
    for (expected, batch) in [(0, lines([1])), (1, lines([2])), (3, lines([4]))] {
        let conflict = append(expected, batch).await.unwrap_err();
        let conflict = conflict.into_conflict().unwrap();
        assert_eq!(conflict.session_id, SessionId::from("ses_1"));
        assert_eq!(conflict.expected_head_sequence, expected);
        assert_eq!(conflict.actual_head_sequence, 2);
    }
    assert_eq!(store.read(&"ses_1".into(), 0, 10).await.unwrap().len(), 2);
}

/// A batch is stored whole or not at all.
pub async fn a_refused_append_changes_nothing(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    let before = store.list(PageRequest::default()).await.unwrap();
    let blob = Blob::new("kept by nobody");
    let mut batch = lines([1, 3]);
    batch.blobs = vec![blob.clone()];
    batch.title = Some("title".into());
    batch.updated_at = Some(at(5));
    let refused = store.append(&token, 0, batch, Durability::Durable).await;
    assert_eq!(refused.unwrap_err().code(), "session_invalid_batch");
    assert_eq!(store.list(PageRequest::default()).await.unwrap(), before);
    assert_eq!(store.read(&"ses_1".into(), 0, 10).await.unwrap(), []);
    assert_eq!(store.blob(&blob.hash).await.unwrap(), None);
}

/// Of writers that race for the same place one wins, and every win is kept.
pub async fn contending_writers_lose_nothing(open: impl OpenStore) {
    const RIVALS: u64 = 10;
    const ROUNDS: u64 = 10;
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    for round in 0..ROUNDS {
        let rivals = (0..RIVALS).map(|_| {
            let (store, token) = (store.clone(), token.clone());
            tokio::spawn(async move {
                let batch = lines([round + 1]);
                store
                    .append(&token, round, batch, Durability::Durable)
                    .await
            })
        });
        let mut wins = 0;
        for rival in rivals.collect::<Vec<_>>() {
            match rival.await.unwrap() {
                Ok(head) => {
                    assert_eq!(head, round + 1);
                    wins += 1;
                }
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
        assert_eq!(wins, 1);
    }
    let events = store.read(&"ses_1".into(), 0, 100).await.unwrap();
    assert_eq!(events, lines(1..=ROUNDS).events);
}

/// Reads start after a sequence, stop at their limits, and end at the head.
pub async fn reads_page_through_the_log(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    let id = SessionId::from("ses_1");
    let count = MAX_READ_EVENTS as u64 + 5;
    let head = store
        .append(&token, 0, lines(1..=count), Durability::Durable)
        .await;
    assert_eq!(head.unwrap(), count);
    assert_eq!(store.read(&id, 0, 3).await.unwrap(), lines(1..=3).events);
    assert_eq!(store.read(&id, 3, 2).await.unwrap(), lines(4..=5).events);
    assert_eq!(store.read(&id, 0, 0).await.unwrap(), []);
    assert_eq!(store.read(&id, count, 10).await.unwrap(), []);
    assert_eq!(store.read(&id, u64::MAX, 10).await.unwrap(), []);
    assert_eq!(
        store.read(&id, 0, usize::MAX).await.unwrap().len(),
        MAX_READ_EVENTS
    );

    let mut batch = lines(count + 1..=count + 3);
    for event in &mut batch.events {
        event.json = "x".repeat(MAX_READ_BYTES / 2 + 1).into();
    }
    let large = batch.events.clone();
    let appended = store
        .append(&token, count, batch, Durability::Durable)
        .await;
    appended.unwrap();
    let page = store.read(&id, count, 10).await.unwrap();
    assert_eq!(page, large[..1]);
}

/// Listings show each session once, the one updated last first.
pub async fn listings_page_through_all_sessions(open: impl OpenStore) {
    let store = open().await;
    let mut expected = Vec::new();
    for number in 0..7i64 {
        let mut start = blueprint(&format!("ses_{number}"));
        start.parent_session_id = (number > 0).then(|| "ses_0".into());
        start.working_dir = format!("/work/{number}").into();
        let record = SessionRecord::new(start.clone());
        let token = store.create(record).await.unwrap();
        let mut batch = lines(1..=number as u64);
        // Two share a time, one is older than all and has no events.
        let second = if number == 3 { 2 } else { number };
        batch.updated_at = (number > 0).then(|| at(second));
        store
            .append(&token, 0, batch, Durability::Durable)
            .await
            .unwrap();
        expected.push(SessionSummary {
            session_id: start.session_id,
            parent_session_id: start.parent_session_id,
            created_at: start.created_at,
            updated_at: at(second),
            head: number as u64,
            working_dir: start.working_dir,
            title: None,
        });
    }
    expected.sort_by_key(|it| std::cmp::Reverse((it.updated_at, it.session_id.clone())));
    for limit in [1, 2, 3, 7, 100] {
        let mut listed = Vec::new();
        let mut request = PageRequest::first(limit);
        loop {
            let page = store.list(request).await.unwrap();
            assert!(page.sessions.len() <= limit && page.unreadable.is_empty());
            listed.extend(page.sessions);
            match page.next {
                Some(next) => request = PageRequest::after(next, limit),
                None => break,
            }
        }
        assert_eq!(listed, expected, "pages of {limit}");
    }
}

/// Deleting takes the session and what only it refers to.
pub async fn deleting_removes_everything_unshared(open: impl OpenStore) {
    let store = open().await;
    let (shared, own) = (Blob::new("shared"), Blob::new("own"));
    for (id, blobs) in [
        ("ses_1", vec![shared.clone(), own.clone()]),
        ("ses_2", vec![shared.clone()]),
    ] {
        let token = create(store.as_ref(), id).await;
        let mut batch = lines([1]);
        batch.blobs = blobs;
        batch.checkpoint = Some(Checkpoint {
            sequence: 1,
            json: "{}".into(),
        });
        store
            .append(&token, 0, batch, Durability::Durable)
            .await
            .unwrap();
    }
    let token = store.acquire(&"ses_1".into()).await.unwrap();
    assert!(store.delete(&"ses_1".into()).await.unwrap());
    assert!(!store.delete(&"ses_1".into()).await.unwrap());
    assert_eq!(store.blob(&own.hash).await.unwrap(), None);
    assert_eq!(store.blob(&shared.hash).await.unwrap().unwrap(), "shared");
    let late = store
        .append(&token, 1, lines([2]), Durability::Durable)
        .await;
    assert_eq!(late.unwrap_err().code(), "session_not_found");
    let listed = store.list(PageRequest::default()).await.unwrap();
    assert_eq!(listed.sessions.len(), 1);
    create(store.as_ref(), "ses_1").await;
    let reborn = store.open(&"ses_1".into()).await.unwrap();
    assert_eq!((reborn.head, reborn.checkpoint), (0, None));
    assert!(store.delete(&"ses_2".into()).await.unwrap());
    assert_eq!(store.blob(&shared.hash).await.unwrap(), None);
}

/// Kinds and fields nobody here knows survive as they were written.
pub async fn lines_are_kept_byte_for_byte(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    let written = [
        r#"{"session_id":"ses_1","sequence":1,"delivery":"lossless","at":"2026-01-02T03:04:05Z","payload":{"kind":"mind_read","thoughts":[1.10,  "x"]},"mood":"ok"}"#,
        r#"{"session_id":"ses_1", "sequence":2,"delivery":"lossless","at":"2026-01-02T03:04:05.000Z","payload":{"kind":"turn_started","turn_id":"turn_1","weather":{"a":1e3}}}"#,
        "{\"session_id\":\"ses_1\",\"sequence\":3,\"delivery\":\"lossless\",\"at\":\"2026-01-02T03:04:05Z\",\"payload\":{\"kind\":\"warning\",\"message\":\"\\u0000 nul \u{1F980}\"}}",
    ];
    let batch = AppendBatch {
        events: written
            .iter()
            .zip(1..)
            .map(|(line, sequence)| EventRecord {
                sequence,
                json: (*line).into(),
            })
            .collect(),
        ..AppendBatch::default()
    };
    store
        .append(&token, 0, batch, Durability::Durable)
        .await
        .unwrap();
    store.close().await.unwrap();
    let store = open().await;
    let stored = store.read(&"ses_1".into(), 0, 10).await.unwrap();
    let kept: Vec<&str> = stored.iter().map(|event| event.json.as_ref()).collect();
    assert_eq!(kept, written);

    let events = all_events(store.as_ref(), "ses_1").await;
    assert_eq!(events[0].payload.kind(), "mind_read");
    let mut log = open_log(&store, "ses_1").await.unwrap();
    assert_eq!(log.state().live_turn, Some("turn_1".into()));
    let forwarded = pending("ses_1", 1, events[0].payload.clone());
    log.append(vec![forwarded], Durability::Durable)
        .await
        .unwrap();
    let stored = store.read(&"ses_1".into(), 3, 1).await.unwrap();
    assert!(
        stored[0]
            .json
            .contains(r#"{"kind":"mind_read","thoughts":[1.10,  "x"]}"#)
    );
}

/// Asking for a session that does not exist names it.
pub async fn unknown_sessions_are_named(open: impl OpenStore) {
    let store = open().await;
    let id = SessionId::from("ses_none");
    let token = WriterToken {
        session_id: id.clone(),
        epoch: 1,
    };
    let errors = [
        store.acquire(&id).await.unwrap_err(),
        store.open(&id).await.unwrap_err(),
        store.read(&id, 0, 1).await.unwrap_err(),
        store
            .append(&token, 0, lines([1]), Durability::Durable)
            .await
            .unwrap_err(),
        open_log(&store, "ses_none").await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), "session_not_found");
        assert!(error.to_string().contains("ses_none"), "{error}");
    }
    assert!(!store.delete(&id).await.unwrap());
}

/// A takeover through another open store counts: what two processes do.
pub async fn a_takeover_by_another_open_store_is_noticed(open: impl OpenStore) {
    let (first, second) = (open().await, open().await);
    let old = create(first.as_ref(), "ses_1").await;
    let level = Durability::Durable;
    first.append(&old, 0, lines([1]), level).await.unwrap();
    let new = second.acquire(&"ses_1".into()).await.unwrap();
    assert!(new.epoch > old.epoch);
    let refused = first.append(&old, 1, lines([2]), level).await;
    assert_eq!(refused.unwrap_err().code(), "session_stale_writer");
    assert_eq!(second.append(&new, 1, lines([2]), level).await.unwrap(), 2);
    let seen = first.read(&"ses_1".into(), 0, 10).await.unwrap();
    assert_eq!(seen, lines(1..=2).events);
}

/// A session whose stored form is damaged is named as such and hides no other.
/// `damage` spoils what is stored of a session besides its events; only for
/// stores whose form can be spoilt.
pub async fn an_unreadable_session_hides_no_other(
    open: impl OpenStore,
    damage: impl AsyncFn(&str),
) {
    let store = open().await;
    for id in ["ses_1", "ses_2", "ses_3"] {
        let token = create(store.as_ref(), id).await;
        let batch = lines([1]);
        store
            .append(&token, 0, batch, Durability::Durable)
            .await
            .unwrap();
    }
    store.close().await.unwrap();
    damage("ses_2").await;
    let store = open().await;
    let page = store.list(PageRequest::default()).await.unwrap();
    let mut readable: Vec<_> = page
        .sessions
        .iter()
        .map(|it| it.session_id.as_str())
        .collect();
    readable.sort_unstable();
    assert_eq!(readable, ["ses_1", "ses_3"]);
    let unreadable: Vec<_> = page
        .unreadable
        .iter()
        .map(|it| it.session_id.as_str())
        .collect();
    assert_eq!(unreadable, ["ses_2"]);
    assert!(page.unreadable.iter().all(|it| !it.reason.is_empty()));
}

/// The largest batch is stored, a larger one refused.
pub async fn batches_hold_at_their_edge(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    let most = MAX_BATCH_EVENTS as u64;
    let append = async |count| {
        let batch = lines(1..=count);
        store.append(&token, 0, batch, Durability::Durable).await
    };
    let refused = append(most + 1).await.unwrap_err();
    assert_eq!(refused.code(), "session_invalid_batch");
    assert_eq!(append(most).await.unwrap(), most);
}

/// Whatever the durability, an append is visible in order when it returns.
pub async fn every_durability_is_visible_at_once(open: impl OpenStore) {
    let store = open().await;
    let token = create(store.as_ref(), "ses_1").await;
    let levels = [
        Durability::Buffered,
        Durability::PowerSafe,
        Durability::Buffered,
        Durability::Durable,
    ];
    for (head, level) in (0..).zip(levels) {
        let appended = store.append(&token, head, lines([head + 1]), level).await;
        assert_eq!(appended.unwrap(), head + 1);
        let read = store.read(&"ses_1".into(), 0, 10).await.unwrap();
        assert_eq!(read, lines(1..=head + 1).events);
    }
}
