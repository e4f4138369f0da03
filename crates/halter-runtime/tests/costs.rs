//! Invariant 10: a step costs its own size, however long the session is.
//!
//! A binary of its own, because it counts every allocation of the process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

use async_trait::async_trait;
use futures::StreamExt;
use halter_protocol::{StopReason, StreamEvent};
use halter_providers::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use halter_session::{InMemorySessionStore, SessionStore, SqliteSessionStore};
use halter_testkit::{EventsExt, Harness, ScriptedTool, TempWorkspace};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const STEPS: usize = 220;

/// Calls a tool, `STEPS` times, and then says something. Takes note of what
/// has been allocated whenever it is asked.
struct Counting(Mutex<Vec<Cost>>);

#[derive(Debug, Clone, Copy)]
struct Cost {
    allocations: usize,
    bytes: usize,
}

#[async_trait]
impl Provider for Counting {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    async fn stream(
        &self,
        _: ProviderRequest,
        _: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let stats = ALLOCATOR.stats();
        let step = {
            let mut costs = self.0.lock().unwrap();
            costs.push(Cost {
                allocations: stats.allocations + stats.reallocations,
                bytes: stats.bytes_allocated,
            });
            costs.len()
        };
        let events = if step <= STEPS {
            // As long as any other, and never the same.
            let arguments = format!("{{\"step\": {}}}", 1000 + step);
            let call = format!("call_{}", 1000 + step);
            vec![
                StreamEvent::ToolCallStart {
                    id: "block".into(),
                    tool_call_id: call.into(),
                    name: "look".into(),
                },
                StreamEvent::ToolArgsDelta {
                    id: "block".into(),
                    delta: arguments,
                },
                StreamEvent::ToolCallEnd {
                    id: "block".into(),
                    opaque: None,
                },
                StreamEvent::MessageEnd {
                    id: "message".into(),
                    stop_reason: StopReason::ToolUse,
                },
            ]
        } else {
            vec![
                StreamEvent::TextStart { id: "block".into() },
                StreamEvent::TextDelta {
                    id: "block".into(),
                    delta: "done".into(),
                },
                StreamEvent::MessageEnd {
                    id: "message".into(),
                    stop_reason: StopReason::EndTurn,
                },
            ]
        };
        Ok(futures::stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

/// The cost of a typical step around `middle`. The median, because a growing
/// list doubles now and then, and a checkpoint is due now and then.
fn typical(costs: &[Cost], middle: usize, measure: impl Fn(&Cost) -> usize) -> f64 {
    let around = &costs[middle - 10..=middle + 10];
    let mut steps: Vec<usize> = around
        .windows(2)
        .map(|pair| measure(&pair[1]) - measure(&pair[0]))
        .collect();
    steps.sort_unstable();
    steps[steps.len() / 2] as f64
}

#[tokio::test]
async fn invariant_10_a_step_costs_its_own_size() {
    let workspace = Arc::new(TempWorkspace::new());
    let sqlite = SqliteSessionStore::open(workspace.beside("sessions.db")).await;
    let stores: [(&str, Arc<dyn SessionStore>); 2] = [
        ("memory", Arc::new(InMemorySessionStore::new())),
        ("sqlite", Arc::new(sqlite.unwrap())),
    ];
    for (name, store) in stores {
        let provider = Arc::new(Counting(Mutex::new(Vec::with_capacity(STEPS + 1))));
        let harness = Harness::echoing()
            .provider(provider.clone())
            .tool(
                ScriptedTool::new("look")
                    .read_only()
                    .returns("a cat")
                    .build(),
            )
            .store(store)
            .workspace(workspace.clone())
            .start();
        let events = harness.ask("look very often").await;
        assert_eq!(events.kinds().last(), Some(&"turn_completed"));

        let costs = provider.0.lock().unwrap().clone();
        assert_eq!(costs.len(), STEPS + 1);
        for (what, measure) in [
            (
                "allocations",
                (|cost| cost.allocations) as fn(&Cost) -> usize,
            ),
            ("bytes", |cost| cost.bytes),
        ] {
            let (early, late) = (typical(&costs, 20, measure), typical(&costs, 200, measure));
            println!("{name}: {what} of step 20: {early}, of step 200: {late}");
            assert!(
                late <= early * 1.1,
                "{name}: {what} grow with history, from {early} to {late}"
            );
        }
    }
}
