//! The SQLite file: what is created, what is refused, what a full disk does.

use halter_protocol::{
    ContentPart, PromptSegment, PromptSegmentKind, SessionEventPayload, SessionState, ToolResult,
};
use halter_session::conformance::{blueprint, pending, turn};
use halter_session::limits::{MAX_INLINE_STRING_BYTES, SQLITE_BUSY_MILLIS};
use halter_session::{
    AppendBatch, Blob, Durability, DurabilityPolicy, EventRecord, PageRequest, SessionLog,
    SessionRecord, SessionStore, SqliteOptions, SqliteSessionStore, StoreError,
};
use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    (directory, path)
}

async fn refusal(path: &Path) -> StoreError {
    let before = std::fs::read(path).ok();
    let error = SqliteSessionStore::open(path).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert_eq!(
        std::fs::read(path).ok(),
        before,
        "a refused file is left as it is"
    );
    error
}

/// A store with one session of one event.
async fn with_one_session(path: &Path) {
    let store = SqliteSessionStore::open(path).await.unwrap();
    append_one(&store, "ses_1").await.unwrap();
    store.close().await.unwrap();
}

async fn append_one(store: &SqliteSessionStore, id: &str) -> Result<u64, StoreError> {
    let token = store.create(SessionRecord::new(blueprint(id))).await?;
    store.append(&token, 0, line(1), Durability::Durable).await
}

fn line(sequence: u64) -> AppendBatch {
    AppendBatch {
        events: vec![EventRecord {
            sequence,
            json: "{}".into(),
        }],
        ..AppendBatch::default()
    }
}

fn edit(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_new_file_is_private_and_leaves_one_file_when_closed() {
    let (directory, _) = place();
    let path = directory.path().join("a/b/sessions.db");
    with_one_session(&path).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let names: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["sessions.db"]);
}

#[tokio::test]
async fn an_empty_file_is_taken() {
    let (_directory, path) = place();
    std::fs::write(&path, "").unwrap();
    with_one_session(&path).await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let (_directory, path) = place();
    for content in [
        "x",
        "SQLite format 2\0",
        "a long text that is no database at all",
    ] {
        std::fs::write(&path, content).unwrap();
        let error = refusal(&path).await;
        assert_eq!(error.code(), "store_corrupt");
        assert!(error.to_string().contains("move it away"), "{error}");
    }
}

#[tokio::test]
async fn a_directory_is_refused() {
    let (directory, _) = place();
    assert_eq!(refusal(directory.path()).await.code(), "store_unusable");
}

#[tokio::test]
async fn a_path_below_a_file_is_refused() {
    let (_directory, path) = place();
    std::fs::write(&path, "").unwrap();
    let below = path.join("sessions.db");
    let error = SqliteSessionStore::open(&below).await.unwrap_err();
    assert_eq!(error.code(), "store_io");
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let (_directory, path) = place();
    edit(
        &path,
        "CREATE TABLE recipes (name TEXT); PRAGMA user_version = 1;",
    );
    assert_eq!(refusal(&path).await.code(), "store_unusable");
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let (_directory, path) = place();
    with_one_session(&path).await;
    edit(&path, "PRAGMA user_version = 99;");
    let error = refusal(&path).await;
    assert!(matches!(
        error,
        StoreError::TooNew {
            found: 99,
            supported: 1,
            ..
        }
    ));
}

#[tokio::test]
async fn a_damaged_file_is_an_error_not_a_panic() {
    let (_directory, path) = place();
    with_one_session(&path).await;
    let intact = std::fs::read(&path).unwrap();
    // A torn header page, and a file cut short: refused at once or when read.
    let mut torn = intact.clone();
    torn[100..2_000].fill(0xff);
    for damaged in [torn, intact[..intact.len() / 2].to_vec()] {
        std::fs::write(&path, damaged).unwrap();
        let code = match SqliteSessionStore::open(&path).await {
            Err(error) => error.code(),
            Ok(store) => {
                let error = append_one(&store, "ses_2").await.unwrap_err();
                store.close().await.unwrap();
                error.code()
            }
        };
        assert_eq!(code, "store_corrupt");
    }
}

#[tokio::test]
async fn one_bad_row_never_fails_the_listing() {
    let (_directory, path) = place();
    let store = SqliteSessionStore::open(&path).await.unwrap();
    for id in ["ses_1", "ses_2", "ses_3", "ses_4"] {
        append_one(&store, id).await.unwrap();
    }
    edit(
        &path,
        "UPDATE sessions SET working_dir = CAST(x'ff' AS TEXT) WHERE session_id = 'ses_2';
         UPDATE sessions SET created_at = 9223372036854775807 WHERE session_id = 'ses_3';",
    );
    let page = store.list(PageRequest::first(3)).await.unwrap();
    assert_eq!(page.sessions.len() + page.unreadable.len(), 3);
    let rest = PageRequest::after(page.next.unwrap(), 3);
    let rest = store.list(rest).await.unwrap();
    let readable: Vec<_> = page.sessions.iter().chain(&rest.sessions).collect();
    let unreadable: Vec<_> = page.unreadable.iter().chain(&rest.unreadable).collect();
    assert_eq!(readable.len(), 2);
    assert_eq!(unreadable.len(), 2);
    assert!(unreadable.iter().all(|it| !it.reason.is_empty()));
}

#[tokio::test]
async fn one_bad_event_spoils_one_session() {
    let (_directory, path) = place();
    let store: Arc<dyn SessionStore> = Arc::new(SqliteSessionStore::open(&path).await.unwrap());
    for id in ["ses_1", "ses_2"] {
        let policy = DurabilityPolicy::Process;
        let mut log = SessionLog::create(store.clone(), blueprint(id), policy)
            .await
            .unwrap();
        let warning = SessionEventPayload::Warning {
            message: "hm".into(),
        };
        let event = pending(id, 1, warning);
        log.append(vec![event], Durability::Durable).await.unwrap();
    }
    edit(
        &path,
        "UPDATE events SET line = 'torn' WHERE session =
         (SELECT key FROM sessions WHERE session_id = 'ses_1')",
    );
    let open = async |id: &str| {
        SessionLog::open(store.clone(), &id.into(), DurabilityPolicy::Process).await
    };
    let error = open("ses_1").await.unwrap_err();
    assert_eq!(error.code(), "store_corrupt");
    assert!(
        error.to_string().contains("event 1 of session 'ses_1'"),
        "{error}"
    );
    assert_eq!(open("ses_2").await.unwrap().head(), 1);
}

#[tokio::test]
async fn a_missing_blob_leaves_the_session_usable() {
    let (_directory, path) = place();
    let store: Arc<dyn SessionStore> = Arc::new(SqliteSessionStore::open(&path).await.unwrap());
    let policy = DurabilityPolicy::Process;
    let mut log = SessionLog::create(store.clone(), blueprint("ses_1"), policy)
        .await
        .unwrap();
    let picture = ContentPart::image("image/png", vec![7; 100_000]);
    let results = [
        ToolResult::text("x".repeat(100_000)),
        ToolResult::parts([picture]),
    ];
    for (number, result) in results.into_iter().enumerate() {
        let events = turn(number, result)
            .into_iter()
            .map(|payload| pending("ses_1", 1, payload))
            .collect();
        log.append(events, Durability::Durable).await.unwrap();
    }
    edit(&path, "DELETE FROM blobs");
    let log = SessionLog::open(store, &"ses_1".into(), policy)
        .await
        .unwrap();
    let messages = serde_json::to_string(&log.state().messages).unwrap();
    assert!(messages.contains("this text is lost"), "{messages}");
    assert!(messages.contains("this image is lost"), "{messages}");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_heals() {
    let (_directory, path) = place();
    let small = SqliteOptions {
        max_bytes: Some(512 * 1024),
    };
    let store = SqliteSessionStore::open_with(&path, small).await.unwrap();
    let store: Arc<dyn SessionStore> = Arc::new(store);
    let policy = DurabilityPolicy::Process;
    let mut log = SessionLog::create(store.clone(), blueprint("ses_1"), policy)
        .await
        .unwrap();
    let event = |number: usize| {
        let message = format!("{number} {}", "x".repeat(5_000));
        vec![pending(
            "ses_1",
            1,
            SessionEventPayload::Warning { message },
        )]
    };
    let mut stored = 0;
    let error = loop {
        match log.append(event(stored), Durability::Durable).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "store_disk_full");
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    assert!(stored > 50, "{stored}");
    // The writer stands as before, for as long as there is no room.
    let again = log.append(event(stored), Durability::Durable).await;
    assert_eq!(again.unwrap_err().code(), "store_disk_full");
    assert_eq!(log.head(), stored as u64);
    store.close().await.unwrap();

    let store: Arc<dyn SessionStore> = Arc::new(SqliteSessionStore::open(&path).await.unwrap());
    let mut log = SessionLog::open(store, &"ses_1".into(), policy)
        .await
        .unwrap();
    assert_eq!(log.head(), stored as u64);
    log.append(event(stored), Durability::Durable)
        .await
        .unwrap();
}

#[tokio::test]
async fn in_a_full_group_the_small_requests_still_succeed() {
    let (_directory, path) = place();
    let small = SqliteOptions {
        max_bytes: Some(512 * 1024),
    };
    let store = SqliteSessionStore::open_with(&path, small).await.unwrap();
    let store = Arc::new(store);
    let mut requests = Vec::new();
    for number in 0..20 {
        let store = store.clone();
        let id = format!("ses_{number}");
        let token = store
            .create(SessionRecord::new(blueprint(&id)))
            .await
            .unwrap();
        requests.push(tokio::spawn(async move {
            let mut batch = line(1);
            if number == 7 {
                batch.blobs = vec![Blob::new(vec![7; 1024 * 1024])];
            }
            store.append(&token, 0, batch, Durability::Durable).await
        }));
    }
    for (number, request) in requests.into_iter().enumerate() {
        let outcome = request.await.unwrap().map_err(|error| error.code());
        let expected = if number == 7 {
            Err("store_disk_full")
        } else {
            Ok(1)
        };
        assert_eq!(outcome, expected, "request {number}");
    }
}

#[tokio::test]
async fn deleting_makes_room_for_more() {
    let (_directory, path) = place();
    let small = SqliteOptions {
        max_bytes: Some(1024 * 1024),
    };
    let store = SqliteSessionStore::open_with(&path, small).await.unwrap();
    for number in 0..10 {
        let id = format!("ses_{number}");
        let token = store
            .create(SessionRecord::new(blueprint(&id)))
            .await
            .unwrap();
        let mut batch = line(1);
        batch.blobs = vec![Blob::new(vec![number; 600 * 1024])];
        store
            .append(&token, 0, batch, Durability::Durable)
            .await
            .unwrap();
        assert!(store.delete(&id.as_str().into()).await.unwrap());
    }
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let (_directory, path) = place();
    let store = SqliteSessionStore::open(&path).await.unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    let error = append_one(&store, "ses_1").await.unwrap_err();
    assert_eq!(error.code(), "store_closed");
    let error = store.list(PageRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), "store_closed");
}

#[tokio::test]
async fn dropping_the_store_closes_the_file() {
    let (directory, path) = place();
    let store = SqliteSessionStore::open(&path).await.unwrap();
    append_one(&store, "ses_1").await.unwrap();
    let wal = directory.path().join("sessions.db-wal");
    assert!(wal.exists());
    drop(store);
    // SQLite removes it with the last connection.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while wal.exists() {
        assert!(std::time::Instant::now() < deadline, "still open");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_file_held_by_another_process_is_waited_for() {
    let (_directory, path) = place();
    with_one_session(&path).await;
    let store = Arc::new(SqliteSessionStore::open(&path).await.unwrap());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { append_one(&store, "ses_2").await }
    });
    // Readers do not wait.
    let page = store.list(PageRequest::default()).await.unwrap();
    assert_eq!(page.sessions.len(), 1);
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_file_held_for_too_long_is_named() {
    let (_directory, path) = place();
    let store = SqliteSessionStore::open(&path).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = std::time::Instant::now();
    let error = append_one(&store, "ses_1").await.unwrap_err();
    assert!(started.elapsed().as_millis() >= u128::from(SQLITE_BUSY_MILLIS));
    assert_eq!(error.code(), "store_busy");
    assert!(error.is_retryable());
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(append_one(&store, "ses_1").await.unwrap(), 1);
}

#[tokio::test]
async fn a_long_prompt_lies_beside_its_blueprint_or_in_it() {
    let (_directory, path) = place();
    let text = "rule ".repeat(MAX_INLINE_STRING_BYTES);
    let mut start = blueprint("ses_1");
    start.system_prompt = vec![PromptSegment::new(PromptSegmentKind::System, &*text)];
    let record = SessionRecord::new(start);
    let store = SqliteSessionStore::open(&path).await.unwrap();
    store.create(record.clone()).await.unwrap();
    store.close().await.unwrap();
    let query = |sql: &str| -> i64 {
        let connection = Connection::open(&path).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert!(query("SELECT length(json) FROM blueprints") < 1_000);
    assert_eq!(query("SELECT count(*) FROM blobs"), 1);
    // Earlier versions wrote all of it into the blueprint.
    let json = serde_json::to_string(&record.blueprint).unwrap();
    edit(
        &path,
        &format!("UPDATE blueprints SET json = '{json}'; DELETE FROM blobs;"),
    );
    let store = SqliteSessionStore::open(&path).await.unwrap();
    let opened = store.open(&"ses_1".into()).await.unwrap();
    assert_eq!(opened.record, record);
}

#[tokio::test]
async fn a_file_of_version_1_opens_forever() {
    let (_directory, path) = place();
    edit(&path, include_str!("fixtures/sessions_v1.sql"));
    let store: Arc<dyn SessionStore> = Arc::new(SqliteSessionStore::open(&path).await.unwrap());
    let page = store.list(PageRequest::default()).await.unwrap();
    assert_eq!(page.sessions[0].title.as_deref(), Some("count the files"));
    let policy = DurabilityPolicy::Process;
    let log = SessionLog::open(store, &"ses_v1".into(), policy)
        .await
        .unwrap();
    assert_eq!(log.head(), 5);
    let expected = include_str!("fixtures/sessions_v1.state.json")
        .replace("2000 LINES", &"file\\n".repeat(2_000));
    let expected: SessionState = serde_json::from_str(&expected).unwrap();
    assert_eq!(log.state(), &expected);
}
