//! A session of 5,000 steps in a window of 200,000 tokens: it ends, and its
//! last steps take no more time or memory than its early ones.
//!
//! A binary of its own, because it counts every allocation of the process, and
//! ignored, because it takes a minute: `cargo test -p halter-runtime --release
//! --test long_session -- --ignored --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs
)]

use async_trait::async_trait;
use futures::StreamExt;
use halter_protocol::{
    Message, SessionEventPayload, StopReason, StreamEvent, ToolCapabilities, ToolConcurrency,
    ToolResult, ToolSpec, Usage, UsageBuckets,
};
use halter_providers::tokens::of_message;
use halter_providers::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use halter_session::{DurabilityPolicy, SessionLog, SqliteSessionStore};
use halter_testkit::{Harness, TempWorkspace};
use halter_tools::{Tool, ToolContext};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes of what a tool returns: about 1,500 tokens.
const OUTPUT: usize = 6_000;

#[derive(Debug, Clone, Copy)]
struct Moment {
    /// Processor time of the process so far: others may be busy, too.
    worked: Duration,
    live_bytes: usize,
    window: u64,
}

/// Calls a tool so many times and counts tokens as a service does.
struct Model {
    steps: usize,
    moments: Mutex<Vec<Moment>>,
}

#[async_trait]
impl Provider for Model {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new().with_context_window(200_000)
    }

    async fn stream(
        &self,
        request: ProviderRequest,
        _: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let window: u64 = request.messages.iter().map(|it| of_message(it)).sum();
        let usage = StreamEvent::UsageUpdate {
            usage: Usage::from(UsageBuckets {
                uncached_input: window,
                output: 20,
                ..UsageBuckets::default()
            }),
        };
        if request.tools.is_empty() {
            return Ok(said("## Goal\nCount.", usage));
        }
        let stats = ALLOCATOR.stats();
        let step = {
            let mut moments = self.moments.lock().unwrap();
            moments.push(Moment {
                worked: worked(),
                live_bytes: stats.bytes_allocated - stats.bytes_deallocated,
                window,
            });
            moments.len()
        };
        if step > self.steps {
            return Ok(said("done", usage));
        }
        let events = vec![
            StreamEvent::ToolCallStart {
                id: "block".into(),
                tool_call_id: format!("call_{step}").into(),
                name: "look".into(),
            },
            StreamEvent::ToolArgsDelta {
                id: "block".into(),
                delta: format!("{{\"step\": {step}}}"),
            },
            StreamEvent::ToolCallEnd {
                id: "block".into(),
                opaque: None,
            },
            usage,
            StreamEvent::MessageEnd {
                id: "message".into(),
                stop_reason: StopReason::ToolUse,
            },
        ];
        Ok(futures::stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

/// A tool that keeps nothing of its calls.
struct Look;

#[async_trait]
impl Tool for Look {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "look".into(),
            description: "Look.".to_owned(),
            input_schema: json!({"type": "object"}),
            concurrency: ToolConcurrency::ReadOnly,
            capabilities: ToolCapabilities::default(),
            provider_aliases: Default::default(),
        }
    }

    async fn execute(&self, _: ToolContext, input: Value) -> anyhow::Result<ToolResult> {
        let words = "word ".repeat(OUTPUT / 5);
        Ok(ToolResult::text(format!("{input} {words}")))
    }
}

fn said(text: &str, usage: StreamEvent) -> EventStream {
    let events = vec![
        StreamEvent::TextStart { id: "block".into() },
        StreamEvent::TextDelta {
            id: "block".into(),
            delta: text.to_owned(),
        },
        usage,
        StreamEvent::MessageEnd {
            id: "message".into(),
            stop_reason: StopReason::EndTurn,
        },
    ];
    futures::stream::iter(events.into_iter().map(Ok)).boxed()
}

/// Runs a session of so many steps and returns its moments, and how long it
/// takes to open it again.
async fn run(steps: usize) -> (Vec<Moment>, usize, Duration) {
    let workspace = Arc::new(TempWorkspace::new());
    let store = SqliteSessionStore::open(workspace.beside("sessions.db")).await;
    let store = Arc::new(store.unwrap());
    let model = Arc::new(Model {
        steps,
        moments: Mutex::new(Vec::with_capacity(steps + 1)),
    });
    let harness = Harness::echoing()
        .provider(model.clone())
        .store(store.clone())
        .workspace(workspace)
        .tool(Arc::new(Look))
        .start();
    let session = harness.session().await;
    let events = session
        .submit_turn(halter_protocol::Turn::new(
            halter_protocol::UserMessage::text("count, the word is xyzzy"),
        ))
        .await
        .unwrap();
    let (mut compactions, mut text) = (0, String::new());
    tokio::pin!(events);
    while let Some(event) = events.next().await {
        match event.unwrap().payload {
            SessionEventPayload::ContextCompacted(_) => compactions += 1,
            SessionEventPayload::DeltaItem { delta } => text = delta.text,
            SessionEventPayload::TurnFailed { error, .. } => panic!("{error:?}"),
            _ => {}
        }
    }
    assert_eq!(text, "done");
    session.shutdown("over").await.unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let log = SessionLog::open(
            store.clone(),
            session.session_id(),
            DurabilityPolicy::Process,
        );
        let log = log.await.unwrap();
        times.push(started.elapsed());
        let first = log.state().messages.iter().next().cloned().unwrap();
        assert!(
            matches!(first.as_ref(), Message::User(user) if user.plain_text().contains("xyzzy"))
        );
    }
    times.sort_unstable();
    let moments = model.moments.lock().unwrap().clone();
    (moments, compactions, times[2])
}

/// What the process has worked so far, by the system's account in hundredths
/// of a second.
fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let mut ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks
        .by_ref()
        .map(|field| field.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// The time and the largest memory of a tenth.
fn tenth(moments: &[Moment], number: usize) -> (Duration, usize) {
    let length = moments.len() / 10;
    let part = &moments[length * number..length * (number + 1)];
    let memory = part.iter().map(|moment| moment.live_bytes).max().unwrap();
    (part[length - 1].worked - part[0].worked, memory)
}

#[tokio::test]
#[ignore = "takes a minute"]
async fn five_thousand_steps_cost_what_five_hundred_cost() {
    let (moments, compactions, reopened) = run(5_000).await;
    for number in 0..10 {
        let (time, memory) = tenth(&moments, number);
        println!("tenth {}: {time:?}, {} KiB", number + 1, memory / 1024);
    }
    let (early, early_memory) = tenth(&moments, 1);
    let (late, late_memory) = tenth(&moments, 9);
    let largest = moments.iter().map(|moment| moment.window).max().unwrap();
    // A session of about 1,000 events, for comparison.
    let (_, _, short) = run(200).await;
    let ratio = late.as_secs_f64() / early.as_secs_f64();
    let memory = late_memory as f64 / early_memory as f64;
    let opening = reopened.as_secs_f64() / short.as_secs_f64();
    println!(
        "{compactions} compactions, largest window {largest} tokens; steps of the last tenth \
         {late:?} against {early:?} of the second ({ratio:.2}); memory {late_memory} against \
         {early_memory} bytes ({memory:.2}); reopened in {reopened:?} against {short:?} \
         ({opening:.2})"
    );
    assert!(largest < 200_000 && compactions > 10);
    assert!(ratio <= 1.2, "{ratio}");
    assert!(memory <= 1.2, "{memory}");
    assert!(opening <= 2.0, "{opening}");
}
