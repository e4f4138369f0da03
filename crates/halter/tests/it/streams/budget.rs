//! A session that comes near every limit of every scope, and to some.

use super::Recorded;
use super::scenarios::{harness, read, say};
use halter::prelude::*;
use halter_protocol::{Budget, Message, Prices, SessionBudget, ToolResult, UsageBuckets};
use halter_providers::{FakeProvider, ProviderRequest};
use halter_runtime::{HarnessBudget, SharedLedger};
use halter_testkit::{Harness, Reply, ScriptedTool};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Looks once in each turn, then is done.
fn looking(request: &ProviderRequest) -> Reply {
    let newest = request.messages.iter_newest_first().next();
    let reply = match newest.map(AsRef::as_ref) {
        Some(Message::Tool(_)) => Reply::new().text("Done."),
        _ => Reply::new().tool_call("look", json!({"at": request.messages.len()})),
    };
    reply.usage(UsageBuckets {
        uncached_input: 1_000,
        output: 10,
        ..UsageBuckets::default()
    })
}

pub async fn budget() -> Recorded {
    let prices = Prices {
        input: 3_000,
        cache_read: 300,
        cache_write: 3_750,
        output: 15_000,
    };
    let provider = FakeProvider::from_fn(looking).with_prices(prices);
    let clock = Harness::echoing().start().clock().clone();
    let slow = clock.clone();
    let look = ScriptedTool::new("look").runs(move |_, _| {
        slow.advance(Duration::from_secs(2));
        async { Ok(ToolResult::text("a cat")) }
    });
    let builder = Harness::echoing()
        .clock(&clock)
        .tool(look.build())
        .provider(Arc::new(provider));
    let budget = HarnessBudget {
        session: SessionBudget::default(),
        harness: Budget {
            model_calls: Some(8),
            ..Budget::default()
        },
    };
    let harness = harness(builder.services(|services| {
        services.ledger = SharedLedger::new(budget);
    }));
    let init = SessionInit {
        session_id: Some(SessionId::from("ses_budget")),
        ..SessionInit::default()
    };
    let init = init
        .with_budget(Budget {
            tokens: Some(60_000),
            tool_calls: Some(1),
            ..Budget::default().with_dollars("1.5")
        })
        .with_turn_budget(Budget {
            wall_ms: Some(10_000),
            ..Budget::default()
        });
    let session = harness.session_with(init).await;
    let events = session.subscribe();
    let _ = session.compact(None).await.unwrap();
    for number in 1..=2 {
        say(&harness, &session, number, "Look around").await;
    }
    let raised = SessionBudget {
        session: Budget {
            tokens: Some(60_000),
            tool_calls: Some(10),
            model_calls: Some(100),
            ..Budget::default().with_dollars("3")
        },
        turn: Budget {
            wall_ms: Some(1_000),
            ..Budget::default()
        },
    };
    session.set_budget(raised).await.unwrap();
    for number in 3..=8 {
        say(&harness, &session, number, "Look around").await;
    }
    session.shutdown("recorded").await.unwrap();
    Recorded {
        events: read(events).await,
        directory: harness.workspace().path().to_owned(),
    }
}
