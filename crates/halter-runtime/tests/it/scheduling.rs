//! Which calls run beside which, and when.

use crate::support::{Diary, is_delta, is_kind};
use halter_protocol::{Message, ToolErrorCode, ToolResult, Turn};
use halter_runtime::limits::{PARALLEL_TOOL_CALLS, TOOL_CALLS_PER_ANSWER};
use halter_testkit::events::collect_until;
use halter_testkit::{EventsExt, Gate, Harness, Reply, ScriptedTool, collect, eventually};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls that each wait at a gate of their own and write down when they start.
#[derive(Clone, Default)]
struct Stage {
    diary: Diary,
    gates: Arc<BTreeMap<String, Gate>>,
}

impl Stage {
    fn new(names: &[&str]) -> Self {
        let gates = names.iter().map(|name| ((*name).to_owned(), Gate::new()));
        Self {
            diary: Diary::default(),
            gates: Arc::new(gates.collect()),
        }
    }

    fn play(&self, tool: ScriptedTool) -> Arc<ScriptedTool> {
        let stage = self.clone();
        tool.runs(move |_, input| {
            let stage = stage.clone();
            async move {
                let name = input["name"].as_str().unwrap().to_owned();
                stage.diary.note(&*name);
                stage.gate(&name).pass().await;
                Ok(ToolResult::text(name))
            }
        })
        .build()
    }

    fn gate(&self, name: &str) -> &Gate {
        &self.gates[name]
    }

    fn started(&self) -> Vec<String> {
        self.diary.entries()
    }
}

fn call(reply: Reply, tool: &str, name: &str) -> Reply {
    reply.tool_call(tool, json!({"name": name}))
}

#[tokio::test]
async fn an_exclusive_call_is_a_barrier_and_results_keep_the_order_of_calls() {
    let stage = Stage::new(&["r1", "r2", "x", "r3"]);
    let reply = Reply::new();
    let reply = call(call(reply, "read", "r1"), "read", "r2");
    let reply = call(call(reply, "exclusive", "x"), "read", "r3");
    let harness = Harness::scripted([reply, "done".into()])
        .tool(stage.play(ScriptedTool::new("read").read_only()))
        .tool(stage.play(ScriptedTool::new("exclusive")))
        .start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();

    stage.gate("r1").reached().await;
    stage.gate("r2").reached().await;
    stage.gate("r2").open();
    let mut events = collect_until(&mut turn, is_kind("tool_execution_completed")).await;
    assert_eq!(stage.started(), ["r1", "r2"], "the barrier waits for both");

    stage.gate("r1").open();
    stage.gate("x").reached().await;
    assert_eq!(stage.started(), ["r1", "r2", "x"], "nothing runs beside it");

    stage.gate("x").open();
    stage.gate("r3").reached().await;
    stage.gate("r3").open();
    events.extend(collect(turn).await);

    let ended: Vec<_> = events
        .outcomes()
        .iter()
        .map(|o| o.call.arguments["name"].clone())
        .collect();
    assert_eq!(ended, ["r2", "r1", "x", "r3"]);
    let results: Vec<_> = events
        .messages()
        .into_iter()
        .filter_map(|message| match message {
            Message::Tool(tool) => Some(tool.to_model_text()),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["r1", "r2", "x", "r3"]);
}

#[tokio::test]
async fn read_only_and_parallel_safe_calls_run_side_by_side() {
    let stage = Stage::new(&["a", "b"]);
    let reply = call(call(Reply::new(), "read", "a"), "fetch", "b");
    let harness = Harness::scripted([reply, "done".into()])
        .tool(stage.play(ScriptedTool::new("read").read_only()))
        .tool(stage.play(ScriptedTool::new("fetch").parallel_safe()))
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    stage.gate("a").reached().await;
    stage.gate("b").reached().await;
    stage.gate("a").open();
    stage.gate("b").open();
    collect(turn).await;
}

#[tokio::test]
async fn a_read_does_not_run_beside_what_changes_something() {
    let stage = Stage::new(&["s1", "s2", "r", "s3"]);
    let reply = call(call(Reply::new(), "send", "s1"), "send", "s2");
    let reply = call(call(reply, "read", "r"), "send", "s3");
    let harness = Harness::scripted([reply, "done".into()])
        .tool(stage.play(ScriptedTool::new("read").read_only()))
        .tool(stage.play(ScriptedTool::new("send").parallel_safe().mutating()))
        .start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    stage.gate("s1").reached().await;
    stage.gate("s2").reached().await;
    stage.gate("s1").open();
    collect_until(&mut turn, is_kind("tool_execution_completed")).await;
    assert_eq!(stage.started(), ["s1", "s2"], "the read waits for both");
    stage.gate("s2").open();
    stage.gate("r").reached().await;
    assert_eq!(
        stage.started(),
        ["s1", "s2", "r"],
        "nothing changes meanwhile"
    );
    stage.gate("r").open();
    stage.gate("s3").open();
    collect(turn).await;
}

#[tokio::test]
async fn a_read_only_call_starts_while_the_model_still_talks() {
    let stage = Stage::new(&["early"]);
    let talking = Gate::new();
    let reply = call(Reply::new(), "read", "early")
        .gate(&talking)
        .text("and so on");
    let harness = Harness::scripted([reply, "done".into()])
        .tool(stage.play(ScriptedTool::new("read").read_only()))
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();

    stage.gate("early").reached().await;
    assert!(!talking.is_open());
    stage.gate("early").open();
    talking.open();
    let events = collect(turn).await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let answer = events
        .iter()
        .position(|event| matches!(event.payload, halter_protocol::SessionEventPayload::MessageItem { ref message } if message.as_assistant().is_some()));
    assert!(events.position("tool_execution_started") < answer.unwrap());
}

/// A model that calls a tool, says something, and then pauses. Returns which
/// tools had started when the words came.
async fn started_early(reply: Reply) -> usize {
    let talking = Gate::new();
    let reply = reply.text("words").gate(&talking);
    let harness = Harness::scripted([reply, "done".into()])
        .tool(
            ScriptedTool::new("mutating")
                .parallel_safe()
                .mutating()
                .build(),
        )
        .tool(ScriptedTool::new("exclusive").build())
        .tool(ScriptedTool::new("read").read_only().build())
        .start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let before = collect_until(&mut turn, is_delta).await;
    talking.open();
    let after = collect(turn).await;
    assert_eq!(after.kinds().last(), Some(&"turn_completed"));
    before.of_kind("tool_execution_started").len()
}

#[tokio::test]
async fn mutating_and_exclusive_calls_wait_for_the_whole_answer() {
    let read = Reply::new().tool_call("read", json!({}));
    assert_eq!(started_early(read).await, 1);
    let mutating = Reply::new().tool_call("mutating", json!({}));
    assert_eq!(started_early(mutating).await, 0);
    let exclusive = Reply::new().tool_call("exclusive", json!({}));
    assert_eq!(started_early(exclusive).await, 0);
    let behind = Reply::new()
        .tool_call("exclusive", json!({}))
        .tool_call("read", json!({}));
    assert_eq!(started_early(behind).await, 0);
}

#[tokio::test]
async fn invariant_08_no_more_calls_run_at_once_than_the_limit() {
    let gate = Gate::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak, held) = (running.clone(), most.clone(), gate.clone());
    let read = ScriptedTool::new("read")
        .read_only()
        .runs(move |_, _| {
            let (now, peak, gate) = (now.clone(), peak.clone(), held.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.pass().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(ToolResult::Empty)
            }
        })
        .build();
    let reply = (0..=PARALLEL_TOOL_CALLS).fold(Reply::new(), |reply, n| {
        reply.tool_call("read", json!({"n": n}))
    });
    let harness = Harness::scripted([reply, "done".into()])
        .tool(read.clone())
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    eventually("as many calls as may run", || {
        running.load(Ordering::SeqCst) == PARALLEL_TOOL_CALLS
    })
    .await;
    assert_eq!(read.calls().len(), PARALLEL_TOOL_CALLS);
    gate.open();
    let events = collect(turn).await;
    assert_eq!(events.outcomes().len(), PARALLEL_TOOL_CALLS + 1);
    assert_eq!(most.load(Ordering::SeqCst), PARALLEL_TOOL_CALLS);
}

#[tokio::test]
async fn invariant_08_an_answer_may_hold_so_many_calls_and_no_more() {
    for (count, refused) in [(TOOL_CALLS_PER_ANSWER, 0), (TOOL_CALLS_PER_ANSWER + 1, 1)] {
        let reply = (0..count).fold(Reply::new(), |reply, n| {
            reply.tool_call("read", json!({"n": n}))
        });
        let read = ScriptedTool::new("read").read_only().build();
        let harness = Harness::scripted([reply, "done".into()])
            .tool(read.clone())
            .start();
        let events = harness.ask("go").await;
        assert_eq!(events.kinds().last(), Some(&"turn_completed"));
        assert_eq!(read.calls().len(), TOOL_CALLS_PER_ANSWER);
        let errors: Vec<_> = events
            .outcomes()
            .into_iter()
            .filter_map(|outcome| outcome.result.as_ref().err())
            .collect();
        assert_eq!(errors.len(), refused);
        assert!(errors.iter().all(|error| {
            error.code == ToolErrorCode::InvalidArguments && error.message.contains("128 calls")
        }));
    }
}
