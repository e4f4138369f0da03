//! Tasks: progress, cancelling, and hosts that go.

use super::host::{RawHost, ScriptedAgent, text};
use halter_mcp::limits::{
    OUTGOING_MESSAGES, PROGRESS_BEAT, PROGRESS_CHARS, PROGRESS_MESSAGES, STREAM_CLOSE_WAIT,
    TASKS_AT_ONCE, WORK_END_WAIT,
};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use tokio::time::Instant;

fn told(task: &str) -> Value {
    json!({"name": "run_task", "arguments": {"task": task}, "_meta": {"progressToken": "p"}})
}

#[tokio::test]
async fn a_task_is_answered_with_its_session() {
    let mut host = RawHost::legacy(json!({})).await;
    let answer = host.request(1, "tools/list", json!({})).await;
    let names: Vec<&Value> = answer["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["run_task", "list_sessions"]);
    host.ask(2, "tools/call", told("say hello")).await;
    let progress = host.next().await;
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    assert_eq!(progress["params"]["message"], "hello");
    let answer = host.next().await;
    assert_eq!(text(&answer), "hello");
    let value = &answer["result"]["structuredContent"];
    assert_eq!(
        (&value["session_id"], &value["answer"]),
        (&json!("ses_1"), &json!("hello"))
    );
    let arguments = json!({"task": "fail", "session_id": "ses_9"});
    let answer = host
        .request(
            3,
            "tools/call",
            json!({"name": "run_task", "arguments": arguments}),
        )
        .await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(text(&answer), "failed: nobody knows how (session ses_9)");
    let sessions = json!({"name": "list_sessions", "arguments": {"limit": 1}});
    let answer = host.request(4, "tools/call", sessions).await;
    assert_eq!(
        answer["result"]["structuredContent"]["sessions"][0]["session_id"],
        "ses_0"
    );
}

#[tokio::test]
async fn a_cancelled_task_ends_and_is_not_answered() {
    let mut host = RawHost::legacy(json!({})).await;
    host.start(1, "wait").await;
    host.agent.started.notified().await;
    host.cancel(1).await;
    // The next answer is that of the next request.
    host.start(2, "say done").await;
    assert_eq!(text(&host.next().await), "done");
    let agent = host.leave().await;
    assert_eq!(agent.cancelled.load(Ordering::SeqCst), 1);
    assert_eq!(agent.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn nothing_goes_on_for_a_host_that_has_gone() {
    let mut host = RawHost::legacy(json!({})).await;
    host.start(1, "wait").await;
    host.start(2, "wait").await;
    host.agent.started.notified().await;
    let began = Instant::now();
    let agent = host.leave().await;
    assert!(began.elapsed() < WORK_END_WAIT, "work is cancelled at once");
    assert_eq!(agent.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_that_is_stopped_ends_its_tasks() {
    let mut host = RawHost::legacy(json!({})).await;
    host.start(1, "wait").await;
    host.agent.started.notified().await;
    host.stop.cancel();
    host.serving.await.unwrap().unwrap();
    assert_eq!(host.agent.running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_is_waited_for_so_long() {
    let agent = ScriptedAgent {
        stubborn: true,
        ..ScriptedAgent::default()
    };
    let mut host = RawHost::legacy_with(agent, json!({})).await;
    host.start(1, "wait").await;
    host.agent.started.notified().await;
    let began = Instant::now();
    host.leave().await;
    let waited = began.elapsed();
    assert!(
        waited >= WORK_END_WAIT && waited < WORK_END_WAIT * 3,
        "{waited:?}"
    );
}

#[tokio::test]
async fn so_many_tasks_run_at_once_and_no_more() {
    let mut host = RawHost::legacy(json!({})).await;
    for id in 0..TASKS_AT_ONCE {
        host.start(id as u64 + 1, "wait").await;
        host.agent.started.notified().await;
    }
    let answer = host.request(100, "tools/call", told("say more")).await;
    assert!(text(&answer).starts_with("too_many_tasks: "), "{answer}");
    host.cancel(1).await;
    while host.agent.cancelled.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let answer = loop {
        let answer = host
            .request(
                101,
                "tools/call",
                json!({"name": "run_task", "arguments": {"task": "say more"}}),
            )
            .await;
        if text(&answer) == "more" {
            break answer;
        }
    };
    assert_eq!(answer["result"]["isError"], false);
    let agent = host.leave().await;
    assert_eq!(agent.running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_host_hears_of_long_work_now_and_then() {
    let mut host = RawHost::legacy(json!({})).await;
    host.ask(1, "tools/call", told("wait")).await;
    let began = Instant::now();
    for beat in 1..4 {
        let progress = host.next().await;
        assert_eq!(progress["params"]["message"], "still working");
        assert_eq!(began.elapsed().as_secs(), (PROGRESS_BEAT * beat).as_secs());
    }
    host.leave().await;
}

#[tokio::test]
async fn progress_is_cut_and_dropped_and_never_holds_work() {
    let mut host = RawHost::legacy(json!({})).await;
    let long = "é".repeat(PROGRESS_CHARS + 1);
    host.ask(1, "tools/call", told(&format!("say {long}")))
        .await;
    let progress = host.next().await;
    let message = progress["params"]["message"].as_str().unwrap();
    assert_eq!(message.chars().count(), PROGRESS_CHARS);
    host.next().await;
    host.ask(
        2,
        "tools/call",
        told(&format!("flood {}", PROGRESS_MESSAGES * 2)),
    )
    .await;
    let mut last = 0;
    for _ in 0..PROGRESS_MESSAGES {
        let progress = host.next().await;
        last = progress["params"]["message"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
    }
    assert_eq!(last, PROGRESS_MESSAGES - 1, "what comes later is dropped");
    host.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_reads_nothing_does_not_hold_the_end() {
    let mut host = RawHost::with_buffer(ScriptedAgent::default(), 64);
    // Every line is refused, no refusal is read, and the refusals that do not
    // fit into the queue are dropped.
    for _ in 0..OUTGOING_MESSAGES * 4 {
        host.send_line("nonsense").await;
    }
    let began = Instant::now();
    host.stop.cancel();
    host.serving.await.unwrap().unwrap();
    assert!(began.elapsed() <= STREAM_CLOSE_WAIT);
}
