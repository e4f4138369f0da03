//! Live traces of sessions.

use crate::support::text_of;
use halter_session::TraceRecorder;
use halter_testkit::{EventsExt, Harness, Reply, TempWorkspace, render};
use serde_json::Value;
use std::sync::Arc;

/// The lines of the only trace, each by its kind or the kind of its event.
fn lines(workspace: &TempWorkspace) -> Vec<String> {
    let files = halter_testkit::leaks::entries_under(&workspace.beside("traces"));
    assert_eq!(files.len(), 1, "{files:?}");
    let text = std::fs::read_to_string(&files[0]).unwrap();
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            match line.get("kind").and_then(Value::as_str) {
                Some("pending_event") => format!("({})", line["payload"]["kind"].as_str().unwrap()),
                Some(kind) => kind.to_owned(),
                None => line["payload"]["kind"].as_str().unwrap().to_owned(),
            }
        })
        .collect()
}

#[tokio::test]
async fn a_trace_shows_events_as_they_are_made_and_as_they_are_committed() {
    let workspace = Arc::new(TempWorkspace::new());
    let recorder = TraceRecorder::start(workspace.beside("traces")).unwrap();
    let first = Harness::scripted(["hello"])
        .workspace(workspace.clone())
        .services(|services| services.traces = Some(recorder.clone()))
        .start();
    let session = first.session().await;
    first.run(&session, "hi").await;
    session.shutdown("bye").await.unwrap();
    let written = lines(&workspace);
    assert_eq!(
        written[..3],
        ["trace_header", "(session_started)", "session_started"]
    );
    for kind in ["turn_started", "message_item", "turn_completed"] {
        let committed = written.iter().position(|line| line == kind).unwrap();
        let pending = format!("({kind})");
        let made = written.iter().position(|line| *line == pending).unwrap();
        assert!(made < committed, "{kind}");
    }
    assert!(written.contains(&"(delta_item)".to_owned()));
    assert!(!written.contains(&"delta_item".to_owned()));

    let second = first
        .another_process(["again"])
        .services(|services| services.traces = Some(recorder))
        .start();
    let resumed = second.resume(&session).await;
    second.run(&resumed, "still there?").await;
    resumed.shutdown("bye").await.unwrap();
    let both = lines(&workspace);
    assert_eq!(both[..written.len()], written[..]);
    assert!(both[written.len()..].contains(&"session_resumed".to_owned()));
    assert!(both[written.len()..].contains(&"turn_completed".to_owned()));
}

#[tokio::test]
async fn an_exported_trace_holds_a_header_and_every_committed_event() {
    let harness = Harness::scripted(["hello"]).start();
    let session = harness.session().await;
    harness.run(&session, "hi").await;
    let trace = session.export_trace().await.unwrap();
    let count = session.replay().await.unwrap().len();
    assert_eq!(trace.lines().count(), 1 + count);
    assert!(trace.starts_with(r#"{"kind":"trace_header""#));
}

#[tokio::test]
async fn a_trace_that_stops_is_told_before_the_end() {
    let workspace = Arc::new(TempWorkspace::new());
    let traces = workspace.beside("traces");
    let recorder = TraceRecorder::start(&traces).unwrap();
    std::fs::write(&traces, "in the way").unwrap();
    let harness = Harness::echoing()
        .workspace(workspace.clone())
        .services(|services| services.traces = Some(recorder))
        .start();
    let session = harness.session().await;
    session.shutdown("bye").await.unwrap();
    let log = session.replay().await.unwrap();
    let expected = ["session_started", "warning", "session_shutdown_complete"];
    assert_eq!(log.kinds(), expected);
    assert!(render(&log).contains("make room"), "{}", render(&log));
}

/// A tree of sessions: the root, two children, a grandchild of the first.
fn tree(workspace: &Arc<TempWorkspace>, recorder: Option<TraceRecorder>) -> Harness {
    let spawn = |task: &str| {
        let input = serde_json::json!({"message": task, "wait": true});
        Reply::new().tool_call("spawn_agent", input)
    };
    Harness::answering(move |request| {
        let words: Vec<String> = request.messages.iter().map(|it| text_of(it)).collect();
        match (words[0].as_str(), words.len()) {
            ("go", 1) => spawn("deep"),
            ("go", 3) => spawn("work"),
            ("deep", 1) => spawn("work"),
            _ => Reply::from("done"),
        }
    })
    .subagents()
    .workspace(workspace.clone())
    .services(|services| services.traces = recorder)
    .start()
}

#[tokio::test]
async fn subagents_join_the_trace_of_their_root() {
    let workspace = Arc::new(TempWorkspace::new());
    let recorder = TraceRecorder::start(workspace.beside("traces")).unwrap();
    let harness = tree(&workspace, Some(recorder));
    let session = harness.session().await;
    harness.run(&session, "go").await;
    session.shutdown("bye").await.unwrap();
    let written = lines(&workspace);
    assert_eq!(written[0], "trace_header");
    let count = |kind: &str| written.iter().filter(|it| *it == kind).count();
    assert_eq!((count("trace_header"), count("subagent_header")), (1, 3));
    assert_eq!(count("session_shutdown_complete"), 4);
    assert_eq!(count("trace_resumed"), 0);
    // Children begin while their parents still work.
    let first = written
        .iter()
        .position(|it| it == "subagent_header")
        .unwrap();
    let last = written
        .iter()
        .rposition(|it| it == "turn_completed")
        .unwrap();
    assert!(first < last);
}

#[tokio::test]
async fn an_exported_trace_holds_the_tree_depth_first() {
    let workspace = Arc::new(TempWorkspace::new());
    let harness = tree(&workspace, None);
    let session = harness.session().await;
    harness.run(&session, "go").await;
    let trace = session.export_trace().await.unwrap();
    let lines: Vec<Value> = trace
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let headers = lines.iter().filter(|it| it["kind"] == "subagent_header");
    let depths: Vec<u64> = headers
        .map(|it| it["blueprint"]["subagent"]["depth"].as_u64().unwrap())
        .collect();
    assert_eq!(depths, [1, 2, 1]);
    assert_eq!(lines[0]["kind"], "trace_header");
}
