//! What ten thousand idle sessions take.

use async_trait::async_trait;
use futures::StreamExt;
use halter::prelude::*;
use halter_bench::measure::{block_on, median, memory_kib, run_child, tell};
use halter_bench::report::{Claim, print};
use halter_protocol::{StopReason, StreamEvent};
use halter_providers::{EventStream, Provider, ProviderCapabilities, ProviderRequest};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const SESSIONS: usize = 10_000;
const ROUNDS: usize = 5;

fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("--child") {
        return tell(&block_on(open_sessions())?);
    }
    let mut sizes = Vec::new();
    for _ in 0..ROUNDS {
        let child = block_on(run_child::<f64>(&[]))?;
        sizes.push(child.report);
    }
    print(&Claim {
        what: "memory of an idle session that has had one turn, of 10,000",
        value: median(sizes),
        limit: 20.0,
        unit: "KiB",
    });
    Ok(())
}

/// Says hello and keeps nothing.
struct Hello;

#[async_trait]
impl Provider for Hello {
    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities::new()
    }

    async fn stream(
        &self,
        _: ProviderRequest,
        _: CancellationToken,
    ) -> anyhow::Result<EventStream> {
        let events = [
            StreamEvent::TextStart { id: "text".into() },
            StreamEvent::TextDelta {
                id: "text".into(),
                delta: "hello".to_owned(),
            },
            StreamEvent::TextEnd {
                id: "text".into(),
                opaque: None,
            },
            StreamEvent::MessageEnd {
                id: "msg".into(),
                stop_reason: StopReason::EndTurn,
            },
        ];
        Ok(futures::stream::iter(events.map(Ok)).boxed())
    }
}

async fn open_sessions() -> anyhow::Result<f64> {
    let workspace = tempfile::tempdir()?;
    let harness = HalterBuilder::new()
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_provider(Arc::new(Hello))
        .build()
        .await?;
    let init = SessionInit::default().with_working_dir(workspace.path());
    let mut sessions = Vec::with_capacity(SESSIONS);
    // The first ones pay for what all share.
    for _ in 0..10 {
        sessions.push(one_turn(&harness, init.clone()).await?);
    }
    let before = memory_kib("VmRSS")?;
    for _ in 0..SESSIONS {
        sessions.push(one_turn(&harness, init.clone()).await?);
    }
    let after = memory_kib("VmRSS")?;
    Ok((after - before) as f64 / SESSIONS as f64)
}

async fn one_turn(harness: &Halter, init: SessionInit) -> anyhow::Result<HalterSession> {
    let session = harness.new_session(init).await?;
    let mut events = session.submit_turn(Turn::user("hello")).await?;
    while let Some(event) = events.next().await {
        event?;
    }
    Ok(session)
}
