//! What a log promises on top of any store.

use super::OpenStore;
use super::fixtures::{all_events, at, blueprint, lines, new_log, open_log, pending, turn, user};
use crate::limits::{MAX_INLINE_STRING_BYTES, MIN_CHECKPOINT_EVENTS};
use crate::{
    AppendBatch, BlobHash, Checkpoint, Durability, PageRequest, SessionLog, SessionRecord,
    read_events,
};
use halter_protocol::fold::fold_events;
use halter_protocol::{
    ContentPart, Message, PromptSegment, PromptSegmentKind, ResourcesLoaded, SessionEventPayload,
    ToolResult, UserMessage,
};
use serde_json::json;
use std::sync::Arc;

async fn assert_state_is_the_fold(log: &SessionLog) {
    let id = log.session_id().as_str();
    let events = all_events(log.store().as_ref(), id).await;
    assert_eq!(events.len() as u64, log.head());
    let folded = fold_events(events.iter().map(|event| &event.payload));
    assert_eq!(&folded, log.state());
}

/// The state a writer sees is the fold of what is stored, at every moment.
pub async fn state_is_the_fold_after_every_append_and_reopening(open: impl OpenStore) {
    let store = open().await;
    let mut log = new_log(&store, "ses_1").await;
    for number in 0..8 {
        let size = MAX_INLINE_STRING_BYTES * (number % 3);
        let output = ToolResult::text("o".repeat(size + number));
        for payload in turn(number, output) {
            let event = pending("ses_1", 1, payload);
            log.append(vec![event], Durability::Durable).await.unwrap();
            assert_state_is_the_fold(&log).await;
        }
    }
    let (state, head) = (log.state().clone(), log.head());
    drop(log);
    store.close().await.unwrap();
    let log = open_log(&open().await, "ses_1").await.unwrap();
    assert_eq!((log.state(), log.head()), (&state, head));
    assert_state_is_the_fold(&log).await;
}

/// A long session has a checkpoint, no more events follow it than it covers,
/// and opening gives the same state.
pub async fn checkpoints_shorten_the_fold_and_change_nothing(open: impl OpenStore) {
    let store = open().await;
    let mut log = new_log(&store, "ses_1").await;
    for number in 0..150 {
        let large = ToolResult::text(number.to_string().repeat(MAX_INLINE_STRING_BYTES));
        let output = if number % 50 == 1 {
            large
        } else {
            ToolResult::text("small")
        };
        let events = turn(number, output)
            .into_iter()
            .map(|payload| pending("ses_1", 1, payload))
            .collect();
        log.append(events, Durability::Durable).await.unwrap();
    }
    let opened = store.open(&"ses_1".into()).await.unwrap();
    let checkpoint = opened.checkpoint.expect("a long session has a checkpoint");
    let uncovered = log.head() - checkpoint.sequence;
    let due = checkpoint.sequence.max(MIN_CHECKPOINT_EVENTS);
    assert!(uncovered <= due + 7, "{uncovered} of {}", log.head());
    assert!(checkpoint.json.len() < 200_000, "{}", checkpoint.json.len());
    let reopened = open_log(&open().await, "ses_1").await.unwrap();
    assert_eq!(reopened.state(), log.state());
    assert_state_is_the_fold(&reopened).await;
}

/// A checkpoint that makes no sense costs time, nothing else.
pub async fn a_useless_checkpoint_is_ignored(open: impl OpenStore) {
    let store = open().await;
    for (number, json) in [
        "",
        "{}",
        "[1]",
        r#"{"version":999,"state":{},"messages":[]}"#,
        r#"{"version":1,"state":{},"messages":[{"role":"oracle"}]}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("ses_{number}");
        let mut log = new_log(&store, &id).await;
        let event = pending(&id, 1, user("hello"));
        log.append(vec![event], Durability::Durable).await.unwrap();
        let token = store.acquire(&id.as_str().into()).await.unwrap();
        let batch = AppendBatch {
            checkpoint: Some(Checkpoint {
                sequence: 1,
                json: json.into(),
            }),
            ..AppendBatch::default()
        };
        let stored = store.append(&token, 1, batch, Durability::Durable).await;
        assert_eq!(stored.unwrap(), 1);
        let reopened = open_log(&store, &id).await.unwrap();
        assert_eq!(reopened.state(), log.state());
    }
}

/// After a conflict a log refuses everything, and its state is as before.
pub async fn a_log_that_lost_its_session_says_so(open: impl OpenStore) {
    let store = open().await;
    let mut loser = new_log(&store, "ses_1").await;
    let mut winner = open_log(&store, "ses_1").await.unwrap();
    let hello = || vec![pending("ses_1", 1, user("hello"))];
    winner.append(hello(), Durability::Durable).await.unwrap();
    let lost = loser.append(hello(), Durability::Durable).await;
    assert!(lost.unwrap_err().is_conflict());
    let later = loser.append(hello(), Durability::Durable).await;
    assert_eq!(later.unwrap_err().code(), "session_poisoned");
    assert_eq!(loser.head(), 0);
    assert!(loser.state().messages.is_empty());
    winner.append(hello(), Durability::Durable).await.unwrap();
    assert_state_is_the_fold(&winner).await;
}

/// Listings call a session by what its user said first.
pub async fn a_title_is_the_first_user_text(open: impl OpenStore) {
    let store = open().await;
    let mut log = new_log(&store, "ses_1").await;
    for text in ["fix the bug", "and the next"] {
        let event = pending("ses_1", 9, user(text));
        log.append(vec![event], Durability::Durable).await.unwrap();
        log = open_log(&store, "ses_1").await.unwrap();
    }
    let page = store.list(PageRequest::default()).await.unwrap();
    assert_eq!(page.sessions[0].title.as_deref(), Some("fix the bug"));
    assert_eq!(page.sessions[0].updated_at, at(9));
}

/// A large tool result lies in one blob, however often it is mentioned.
pub async fn large_texts_are_stored_once(open: impl OpenStore) {
    let store = open().await;
    let text = "large ".repeat(MAX_INLINE_STRING_BYTES);
    for id in ["ses_1", "ses_2"] {
        let mut log = new_log(&store, id).await;
        let result = ToolResult::json(json!({"stdout": text, "exit_code": 0}));
        let events = turn(1, result)
            .into_iter()
            .map(|payload| pending(id, 1, payload))
            .collect();
        let committed = log.append(events, Durability::Durable).await.unwrap();
        let stored = store.read(&id.into(), 0, 100).await.unwrap();
        let bytes: usize = stored.iter().map(|event| event.json.len()).sum();
        assert!(bytes < 10_000, "{bytes} bytes of lines");
        let read = read_events(store.as_ref(), &id.into(), 0, 100)
            .await
            .unwrap();
        assert!(read.iter().eq(committed.iter().map(Arc::as_ref)));
    }
    let blob = store.blob(&BlobHash::of(text.as_bytes())).await.unwrap();
    assert_eq!(blob.unwrap(), text);
    assert_eq!(store.blob(&BlobHash::of(b"other")).await.unwrap(), None);
}

/// An image lies in one blob, however many events and sessions show it, and
/// comes back to the byte, also from a checkpoint.
pub async fn images_are_stored_once(open: impl OpenStore) {
    let store = open().await;
    let image = ContentPart::image("image/png", vec![0x89; MAX_INLINE_STRING_BYTES]);
    for id in ["ses_1", "ses_2"] {
        let mut log = new_log(&store, id).await;
        let mut message = UserMessage::text("look").with_part(image.clone());
        message.created_at = at(0);
        let asked = SessionEventPayload::MessageItem {
            message: Arc::new(Message::User(message)),
        };
        let mut lines = 0;
        // Enough turns for a checkpoint.
        for number in 0..MIN_CHECKPOINT_EVENTS as usize / 7 + 1 {
            let result = ToolResult::parts([ContentPart::text("seen"), image.clone()]);
            let mut events = turn(number, result);
            events[1] = asked.clone();
            let events = events.into_iter();
            let events = events.map(|payload| pending(id, 1, payload)).collect();
            lines += log.append(events, Durability::Durable).await.unwrap().len();
        }
        let stored = store.read(&id.into(), 0, lines).await.unwrap();
        assert_eq!(stored.len(), lines);
        assert!(stored.iter().all(|event| event.json.len() < 1_000));
        let reopened = open_log(&open().await, id).await.unwrap();
        assert_eq!(reopened.state(), log.state());
        assert_state_is_the_fold(&reopened).await;
    }
    let json = serde_json::to_value(&image).unwrap();
    let base64 = json["data"].as_str().unwrap();
    let blob = store.blob(&BlobHash::of(base64.as_bytes())).await.unwrap();
    assert_eq!(blob.unwrap(), base64);
}

/// What sessions have loaded lies in one blob for all of them, is known again
/// after reopening, also from a checkpoint, and goes with the last of them.
pub async fn resources_are_stored_once(open: impl OpenStore) {
    let store = open().await;
    let snapshot = format!(
        "{{\"revision\":\"r\",\"x\":\"{}\"}}",
        "s".repeat(MAX_INLINE_STRING_BYTES)
    );
    let loaded = SessionEventPayload::ResourcesLoaded(Arc::new(ResourcesLoaded {
        revision: "r".into(),
        snapshot: Some(snapshot.as_str().into()),
        changes: Vec::new(),
    }));
    for id in ["ses_1", "ses_2"] {
        let mut log = new_log(&store, id).await;
        let first = vec![pending(id, 1, loaded.clone())];
        log.append(first, Durability::Durable).await.unwrap();
        // Enough turns for a checkpoint.
        for number in 0..MIN_CHECKPOINT_EVENTS as usize / 4 {
            let events = turn(number, ToolResult::text("done")).into_iter();
            let events = events.map(|payload| pending(id, 1, payload)).collect();
            log.append(events, Durability::Durable).await.unwrap();
        }
        let stored = store.read(&id.into(), 0, 1).await.unwrap();
        assert!(stored[0].json.len() < 1_000, "{}", stored[0].json);
        let opened = store.open(&id.into()).await.unwrap();
        let checkpoint = opened.checkpoint.unwrap();
        assert!(!checkpoint.json.contains("ssss"), "only referred to");
        let reopened = open_log(&open().await, id).await.unwrap();
        let known = reopened.state().resources.clone().unwrap();
        assert_eq!(known.snapshot.as_deref(), Some(snapshot.as_str()));
        assert_state_is_the_fold(&reopened).await;
    }
    let hash = BlobHash::of(snapshot.as_bytes());
    assert!(store.delete(&"ses_1".into()).await.unwrap());
    assert_eq!(store.blob(&hash).await.unwrap().unwrap(), snapshot);
    assert!(store.delete(&"ses_2".into()).await.unwrap());
    assert_eq!(store.blob(&hash).await.unwrap(), None);
}

/// What sessions start with, such as the texts of instruction files, lies in one
/// blob for all of them and goes with the last.
pub async fn prompts_are_stored_once(open: impl OpenStore) {
    let store = open().await;
    let text = "rule ".repeat(MAX_INLINE_STRING_BYTES);
    let hash = BlobHash::of(text.as_bytes());
    for id in ["ses_1", "ses_2"] {
        let mut start = blueprint(id);
        start.system_prompt = vec![PromptSegment::new(
            PromptSegmentKind::Instructions,
            text.as_str(),
        )];
        let record = SessionRecord::new(start);
        store.create(record.clone()).await.unwrap();
        assert_eq!(store.blob(&hash).await.unwrap().unwrap(), text);
        let opened = open().await.open(&id.into()).await.unwrap();
        assert_eq!(opened.record, record);
    }
    assert!(store.delete(&"ses_1".into()).await.unwrap());
    assert_eq!(store.blob(&hash).await.unwrap().unwrap(), text);
    assert!(store.delete(&"ses_2".into()).await.unwrap());
    assert_eq!(store.blob(&hash).await.unwrap(), None);
}

/// A session of a newer event contract is refused, and its writer left alone.
pub async fn newer_sessions_are_refused(open: impl OpenStore) {
    let store = open().await;
    let record = SessionRecord {
        blueprint: blueprint("ses_1"),
        schema_version: halter_protocol::SCHEMA_VERSION + 1,
    };
    let token = store.create(record).await.unwrap();
    let error = open_log(&store, "ses_1").await.unwrap_err();
    assert_eq!(error.code(), "store_too_new");
    assert!(error.to_string().contains("ses_1"), "{error}");
    let newer = store
        .append(&token, 0, lines([1]), Durability::Durable)
        .await;
    assert_eq!(newer.unwrap(), 1);
}
