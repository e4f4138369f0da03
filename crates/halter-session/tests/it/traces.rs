//! Trace files: what is in them, and that they never harm a session.

use halter_protocol::{
    DeltaItem, SessionBlueprint, SessionEventPayload, Timestamp, ToolResult, TurnId,
};
use halter_session::conformance::{blueprint, pending, turn};
use halter_session::limits::{
    MAX_INLINE_STRING_BYTES, TRACE_OPEN_FILES, TRACE_QUEUE_BYTES, TRACE_QUEUE_LINES,
};
use halter_session::{
    AppendBatch, Durability, DurabilityPolicy, EventRecord, InMemorySessionStore, SessionLog,
    SessionStore, TraceRecorder, TraceStart, TraceWriter, export_session_trace,
};
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn kinds(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            value["kind"].as_str().unwrap_or("committed").to_owned()
        })
        .collect()
}

fn started(id: &str) -> SessionEventPayload {
    SessionEventPayload::TurnStarted {
        turn_id: TurnId::from(id),
        response_schema: None,
    }
}

fn writer(recorder: &TraceRecorder, session: &SessionBlueprint) -> TraceWriter {
    recorder.writer(session, TraceStart::New, NOW)
}

#[tokio::test]
async fn a_live_trace_has_a_header_pending_and_committed_lines() {
    let directory = tempfile::tempdir().unwrap();
    let traces = directory.path().join("a/traces");
    let recorder = TraceRecorder::start(&traces).unwrap();
    let session = blueprint("ses/1 ä");
    let writer = writer(&recorder, &session);
    let event = pending("ses/1 ä", 1, started("turn_1"));
    writer.pending(&event);
    let delta = SessionEventPayload::DeltaItem {
        delta: DeltaItem { text: "hi".into() },
    };
    writer.pending(&pending("ses/1 ä", 1, delta));
    writer.committed(&event.into_committed(1));
    recorder.flush().await;

    assert_eq!(writer.path(), traces.join("ses_1__.txt"));
    let text = std::fs::read_to_string(writer.path()).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0],
        json!({
            "kind": "trace_header", "trace_version": 2, "session_id": "ses/1 ä",
            "generated_at": "1970-01-01T00:00:00Z", "blueprint": session,
        })
    );
    assert_eq!(
        lines[1],
        json!({
            "kind": "pending_event", "session_id": "ses/1 ä", "delivery": "lossless",
            "recorded_at": "2023-11-14T22:13:21Z",
            "payload": {"kind": "turn_started", "turn_id": "turn_1"},
        })
    );
    assert_eq!(lines[2]["delivery"], "best_effort");
    assert_eq!(lines[3]["sequence"], 1);
    assert_eq!(lines[3].get("kind"), None);
    assert!(writer.take_error().is_none());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(writer.path()), mode(&traces)), (0o600, 0o700));
}

#[tokio::test]
async fn a_resumed_session_goes_on_in_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let session = blueprint("ses_1");
    let event = || pending("ses_1", 1, started("turn_1"));
    let recorder = TraceRecorder::start(directory.path()).unwrap();
    let first = writer(&recorder, &session);
    first.committed(&event().into_committed(1));
    recorder.flush().await;
    // The same process, the old writer still there; then a torn last line.
    let start = TraceStart::Resumed { head_sequence: 1 };
    let second = recorder.writer(&session, start, NOW);
    second.committed(&event().into_committed(2));
    recorder.flush().await;
    let mut torn = std::fs::read_to_string(first.path()).unwrap();
    torn.truncate(torn.len() - 1);
    std::fs::write(first.path(), torn).unwrap();
    let other_process = TraceRecorder::start(directory.path()).unwrap();
    let third = other_process.writer(&session, start, NOW);
    third.committed(&event().into_committed(3));
    other_process.flush().await;
    assert_eq!(
        kinds(first.path()),
        [
            "trace_header",
            "committed",
            "trace_resumed",
            "committed",
            "trace_resumed",
            "committed"
        ]
    );
}

#[tokio::test]
async fn a_resumed_session_without_a_file_says_where_it_starts() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = TraceRecorder::start(directory.path()).unwrap();
    let start = TraceStart::Resumed { head_sequence: 7 };
    let writer = recorder.writer(&blueprint("ses_1"), start, NOW);
    writer.committed(&pending("ses_1", 1, started("turn_1")).into_committed(8));
    recorder.flush().await;
    assert_eq!(
        kinds(writer.path()),
        ["trace_header", "trace_resumed", "committed"]
    );
}

#[tokio::test]
async fn more_sessions_than_open_files_are_traced() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = TraceRecorder::start(directory.path()).unwrap();
    let writers: Vec<(String, TraceWriter)> = (0..TRACE_OPEN_FILES + 3)
        .map(|number| {
            let id = format!("ses_{number}");
            let writer = writer(&recorder, &blueprint(&id));
            (id, writer)
        })
        .collect();
    for sequence in 1..=3 {
        for (id, writer) in &writers {
            writer.committed(&pending(id, 1, started("turn_1")).into_committed(sequence));
        }
    }
    recorder.flush().await;
    for (_, writer) in &writers {
        let expected = ["trace_header", "committed", "committed", "committed"];
        assert_eq!(kinds(writer.path()), expected);
    }
}

#[tokio::test]
async fn a_file_is_closed_with_its_last_writer() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = TraceRecorder::start(directory.path()).unwrap();
    let writer = writer(&recorder, &blueprint("ses_1"));
    let clone = writer.clone();
    let path = writer.path().to_owned();
    let is_open = |path: &Path| {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap();
        fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
            .any(|target| target == path)
    };
    writer.committed(&pending("ses_1", 1, started("turn_1")).into_committed(1));
    drop(writer);
    recorder.flush().await;
    let path = path.canonicalize().unwrap();
    assert!(is_open(&path));
    drop(clone);
    recorder.flush().await;
    assert!(!is_open(&path));
}

#[tokio::test]
async fn a_failing_disk_is_reported_once_and_harms_nobody() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.path().join("ses_1.txt")).unwrap();
    let recorder = TraceRecorder::start(directory.path()).unwrap();
    let full = writer(&recorder, &blueprint("ses_1"));
    let fine = writer(&recorder, &blueprint("ses_2"));
    for sequence in 1..=3 {
        full.committed(&pending("ses_1", 1, started("turn_1")).into_committed(sequence));
        fine.committed(&pending("ses_2", 1, started("turn_1")).into_committed(sequence));
        recorder.flush().await;
    }
    let error = full.take_error().unwrap();
    assert_eq!(error.code(), "trace_stopped");
    assert!(error.to_string().contains("ses_1.txt"), "{error}");
    assert!(full.take_error().is_none());
    assert!(fine.take_error().is_none());
    assert_eq!(kinds(fine.path()).len(), 4);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let recorder = TraceRecorder::start(file.join("traces")).unwrap();
    let writer = writer(&recorder, &blueprint("ses_1"));
    writer.committed(&pending("ses_1", 1, started("turn_1")).into_committed(1));
    recorder.flush().await;
    assert_eq!(writer.take_error().unwrap().code(), "trace_stopped");
}

#[tokio::test]
async fn a_slow_disk_drops_lines_and_marks_the_gap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ses_1.txt");
    // A pipe nobody reads is the slowest disk there is.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let recorder = TraceRecorder::start(directory.path()).unwrap();
    let writer = writer(&recorder, &blueprint("ses_1"));
    let event = pending("ses_1", 1, started(&"long".repeat(100))).into_committed(1);
    // Never waits: this would hang otherwise.
    let given = TRACE_QUEUE_LINES * 2;
    for _ in 0..given {
        writer.committed(&event);
    }
    assert_eq!(writer.take_error().unwrap().code(), "trace_overrun");
    assert!(writer.take_error().is_none());

    let reader = std::thread::spawn(move || {
        let mut pipe = std::fs::File::open(path).unwrap();
        let mut text = String::new();
        let mut chunk = [0; 4096];
        while !text.ends_with("the end\"}}\n") {
            let read = pipe.read(&mut chunk).unwrap();
            text.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
        }
        text
    });
    recorder.flush().await;
    let end = SessionEventPayload::Warning {
        message: "the end".into(),
    };
    writer.committed(&pending("ses_1", 1, end).into_committed(2));
    recorder.flush().await;
    let text = reader.join().unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let gap: u64 = lines
        .iter()
        .filter_map(|line| line["dropped_lines"].as_u64())
        .sum();
    let written = lines.iter().filter(|line| line["sequence"] == 1).count();
    assert!(gap > 0);
    assert_eq!(written as u64 + gap, given as u64);
}

#[tokio::test]
async fn a_line_larger_than_the_queue_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = TraceRecorder::start(directory.path()).unwrap();
    let writer = writer(&recorder, &blueprint("ses_1"));
    let event = |bytes: usize| {
        let message = "x".repeat(bytes);
        pending("ses_1", 1, SessionEventPayload::Warning { message }).into_committed(1)
    };
    let envelope = serde_json::to_string(&event(0)).unwrap().len() + 1;
    writer.committed(&event(TRACE_QUEUE_BYTES - envelope));
    recorder.flush().await;
    assert!(writer.take_error().is_none());
    writer.committed(&event(TRACE_QUEUE_BYTES - envelope + 1));
    recorder.flush().await;
    assert_eq!(writer.take_error().unwrap().code(), "trace_overrun");
    writer.committed(&event(1));
    recorder.flush().await;
    assert_eq!(
        kinds(writer.path()),
        ["trace_header", "committed", "trace_gap", "committed"]
    );
}

#[tokio::test]
async fn an_exported_trace_is_the_header_and_the_events() {
    let store: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
    let policy = DurabilityPolicy::Process;
    let mut log = SessionLog::create(store.clone(), blueprint("ses_1"), policy)
        .await
        .unwrap();
    let large = "x".repeat(MAX_INLINE_STRING_BYTES + 1);
    let events = turn(1, ToolResult::text(large.clone()))
        .into_iter()
        .map(|payload| pending("ses_1", 1, payload))
        .collect();
    let committed = log.append(events, Durability::Durable).await.unwrap();
    let damaged = AppendBatch {
        events: vec![EventRecord {
            sequence: 8,
            json: "not json".into(),
        }],
        ..AppendBatch::default()
    };
    let token = store.acquire(&"ses_1".into()).await.unwrap();
    let appended = store.append(&token, 7, damaged, Durability::Durable).await;
    appended.unwrap();

    let trace = export_session_trace(store.as_ref(), &"ses_1".into(), NOW)
        .await
        .unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(lines.len(), 9);
    assert!(lines[0].starts_with(r#"{"kind":"trace_header","trace_version":2,"#));
    for (line, event) in lines[1..8].iter().zip(&committed) {
        assert_eq!(*line, serde_json::to_string(event).unwrap());
    }
    assert_eq!(
        lines[8],
        r#"{"kind":"unreadable_event","session_id":"ses_1","sequence":8,"line":"not json"}"#
    );
    let missing = export_session_trace(store.as_ref(), &"ses_2".into(), NOW).await;
    assert_eq!(missing.unwrap_err().code(), "session_not_found");
}
