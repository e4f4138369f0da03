//! What turns, sessions and harnesses may spend.

use crate::support::code;
use halter_protocol::{
    Budget, BudgetLeft, BudgetResource, BudgetScope, ContextCompaction, Message, Prices,
    SessionBudget, SessionEvent, SessionEventPayload, Spending, ToolErrorCode, Turn, TurnError,
    Usage, UsageBuckets,
};
use halter_providers::{FakeProvider, ProviderRequest};
use halter_runtime::limits::ASSUMED_OUTPUT_TOKENS;
use halter_runtime::{Approvals, HarnessBudget, SessionInit, SharedLedger};
use halter_testkit::{EventsExt, Gate, Harness, HarnessBuilder, Reply, ScriptedTool};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PRICES: Prices = Prices {
    input: 3_000,
    cache_read: 300,
    cache_write: 3_750,
    output: 15_000,
};

fn usage(input: u64, output: u64) -> Usage {
    Usage::from(UsageBuckets {
        uncached_input: input,
        output,
        ..UsageBuckets::default()
    })
}

/// A model that calls `look` again and again, and uses so many tokens each
/// time.
fn looking(input: u64, output: u64) -> impl Fn(&ProviderRequest) -> Reply + Send + Sync {
    move |request| {
        let said = request.messages.len();
        let call = Reply::new().tool_call("look", json!({ "at": said }));
        call.usage(usage(input, output))
    }
}

fn look() -> Arc<dyn halter_tools::Tool> {
    ScriptedTool::new("look").returns("a cat").build()
}

fn tokens(limit: u64) -> Budget {
    Budget {
        tokens: Some(limit),
        ..Budget::default()
    }
}

fn failure(events: &[SessionEvent]) -> &TurnError {
    let failed = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::TurnFailed { error, .. } => Some(error),
        _ => None,
    });
    failed.expect("the turn fails")
}

fn charged(events: &[SessionEvent]) -> Spending {
    let charges = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::BudgetCharged { charge, .. } => Some(*charge),
        _ => None,
    });
    charges.fold(Spending::default(), Spending::plus)
}

fn warnings(events: &[SessionEvent]) -> Vec<BudgetLeft> {
    let warnings = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::BudgetWarning(limit) => Some(limit.clone()),
        _ => None,
    });
    warnings.collect()
}

fn exceeded(events: &[SessionEvent]) -> BudgetLeft {
    let limits = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::BudgetExceeded(limit) => Some(limit.clone()),
        _ => None,
    });
    limits.expect("a limit is exceeded")
}

/// Harness-wide budgets, and what sessions have that say nothing else.
fn budgeted(builder: HarnessBuilder, budget: HarnessBudget) -> HarnessBuilder {
    builder.services(|services| services.ledger = SharedLedger::new(budget))
}

#[tokio::test]
async fn a_turn_ends_at_the_limit_after_a_warning_that_the_model_sees() {
    let harness = Harness::answering(looking(900, 100)).tool(look()).start();
    let init = SessionInit::default().with_budget(tokens(20_000));
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look around").await;
    let error = failure(&events);
    assert_eq!(error.code, "budget_exceeded");
    assert!(error.message.contains("budget of 20000 tokens"), "{error}");
    let hint = error.hint.as_deref().unwrap();
    assert!(hint.contains("--budget-tokens") && hint.contains("budget.tokens"));
    let limit = exceeded(&events);
    assert_eq!((limit.scope, limit.limit), (BudgetScope::Session, 20_000));
    let spent = charged(&events);
    assert!(spent.tokens <= 20_000, "{spent:?}");
    assert_eq!(spent.tokens, 1_000 * spent.model_calls);
    assert_eq!(limit.spent, spent.tokens);
    let warned = warnings(&events);
    assert_eq!(warned.len(), 1);
    assert!(warned[0].spent == 16_000);
    // The model reads it in a message after what it has read before.
    let last = harness.requests().pop().unwrap();
    let told = last
        .messages
        .iter()
        .find_map(|message| match message.as_ref() {
            Message::System(note) if note.text.starts_with("Budget:") => Some(note.text.clone()),
            _ => None,
        });
    assert!(
        told.unwrap()
            .contains("16000 tokens of the session's 20000 tokens")
    );
    // The next turn is refused as well, without a call.
    let before = harness.requests().len();
    let events = harness.run(&session, "go on").await;
    assert_eq!(failure(&events).code, "budget_exceeded");
    assert_eq!(harness.requests().len(), before);
}

#[tokio::test]
async fn attempts_that_fail_are_paid_from_what_is_left() {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let heard = answers.clone();
    let harness = Harness::answering(move |request: &ProviderRequest| {
        let paid = request.attempts.as_ref();
        let after = |tokens| paid.map(|it| it.allows_another(&usage(tokens, 0)));
        let said = [after(100), after(200), after(90_000), after(1_000)];
        heard.lock().unwrap().push(said);
        Reply::new().text("done").usage(usage(1_000, 1))
    })
    .start();
    let limited = SessionInit::default().with_budget(tokens(50_000));
    for (init, expected) in [
        (SessionInit::default(), [None; 4]),
        (limited, [Some(true), Some(true), Some(false), Some(true)]),
    ] {
        let session = harness.session_with(init).await;
        harness.run(&session, "go").await;
        assert_eq!(answers.lock().unwrap().pop(), Some(expected));
    }
}

#[tokio::test]
async fn the_output_limit_is_lowered_to_what_is_left() {
    let harness = Harness::answering(looking(900, 100)).tool(look()).start();
    let init = SessionInit::default().with_budget(tokens(6_000));
    let session = harness.session_with(init).await;
    harness.run(&session, "look around").await;
    let limits: Vec<Option<u32>> = harness
        .requests()
        .iter()
        .map(|request| request.model.max_output_tokens)
        .collect();
    assert!(limits.len() > 2, "{limits:?}");
    assert!(
        limits
            .iter()
            .all(|limit| limit.is_some_and(|it| it >= 1_024))
    );
    assert!(limits.is_sorted_by(|a, b| a > b), "{limits:?}");
    // With plenty left, it is what it always is.
    let rich = tokens(10 * ASSUMED_OUTPUT_TOKENS);
    let harness = Harness::scripted(["done"]).start();
    let init = SessionInit::default().with_budget(rich);
    let session = harness.session_with(init).await;
    harness.run(&session, "hello").await;
    assert_eq!(harness.requests()[0].model.max_output_tokens, None);
}

#[tokio::test]
async fn what_was_spent_survives_a_resume_and_can_be_raised() {
    let harness = Harness::answering(looking(900, 100)).tool(look()).start();
    let init = SessionInit::default().with_budget(Budget {
        model_calls: Some(3),
        ..Budget::default()
    });
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look around").await;
    let limit = exceeded(&events);
    assert_eq!(
        (limit.resource, limit.spent),
        (BudgetResource::ModelCalls, 3)
    );
    session.shutdown("done").await.unwrap();

    let next = harness.another_process(["done", "done"]).start();
    let session = next.resume(&session).await;
    let events = next.run(&session, "go on").await;
    assert_eq!(failure(&events).code, "budget_exceeded");
    let larger = Budget {
        model_calls: Some(4),
        ..Budget::default()
    };
    let budget = SessionBudget {
        session: larger,
        ..SessionBudget::default()
    };
    session.set_budget(budget).await.unwrap();
    assert_eq!(next.run(&session, "go on").await.streamed_text(), "done");
    assert_eq!(
        failure(&next.run(&session, "go on").await).code,
        "budget_exceeded"
    );
    session.shutdown("done").await.unwrap();

    let last = harness.another_process(["done"]).start();
    let session = last.resume(&session).await;
    let events = last.run(&session, "go on").await;
    let limit = exceeded(&events);
    assert_eq!((limit.spent, limit.limit), (4, 4));
}

#[tokio::test]
async fn a_turn_has_a_budget_of_its_own() {
    let harness = Harness::answering(looking(900, 100)).tool(look()).start();
    let init = SessionInit::default().with_turn_budget(Budget {
        model_calls: Some(2),
        ..Budget::default()
    });
    let session = harness.session_with(init).await;
    for _ in 0..2 {
        let events = harness.run(&session, "look around").await;
        let limit = exceeded(&events);
        assert_eq!((limit.scope, limit.spent), (BudgetScope::Turn, 2));
        assert!(
            failure(&events)
                .hint
                .as_deref()
                .unwrap()
                .contains("budget.turn.model_calls")
        );
    }
    assert_eq!(harness.requests().len(), 4);
}

#[tokio::test]
async fn all_sessions_of_a_harness_share_its_budget() {
    let builder = Harness::answering(looking(900, 100)).tool(look());
    let budget = HarnessBudget {
        harness: Budget {
            model_calls: Some(5),
            ..Budget::default()
        },
        ..HarnessBudget::default()
    };
    let harness = budgeted(builder, budget).start();
    let init = || {
        SessionInit::default().with_turn_budget(Budget {
            model_calls: Some(3),
            ..Budget::default()
        })
    };
    let first = harness.session_with(init()).await;
    let second = harness.session_with(init()).await;
    let events = harness.run(&first, "look around").await;
    assert_eq!(exceeded(&events).scope, BudgetScope::Turn);
    let events = harness.run(&second, "look around").await;
    assert_eq!(exceeded(&events).scope, BudgetScope::Harness);
    assert_eq!(harness.requests().len(), 5);
    let scopes: Vec<_> = warnings(&events).into_iter().map(|it| it.scope).collect();
    assert_eq!(scopes, [BudgetScope::Harness]);
    let standing = harness.runtime().services().ledger.standing();
    assert_eq!((standing[0].spent, standing[0].left()), (5, 0));
}

#[tokio::test]
async fn a_tool_call_too_many_does_not_run() {
    let answer = |_: &ProviderRequest| {
        let calls = (0..4).fold(Reply::new(), |reply, n| {
            reply.tool_call("look", json!({ "n": n }))
        });
        calls.usage(usage(10, 10))
    };
    let harness = Harness::answering(answer).tool(look()).start();
    let init = SessionInit::default().with_budget(Budget {
        tool_calls: Some(2),
        ..Budget::default()
    });
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look around").await;
    assert_eq!(failure(&events).code, "budget_exceeded");
    assert_eq!(exceeded(&events).resource, BudgetResource::ToolCalls);
    assert_eq!(charged(&events).tool_calls, 2);
    let results: Vec<Option<ToolErrorCode>> = events
        .iter()
        .filter_map(|event| match &event.payload {
            SessionEventPayload::ToolExecutionCompleted { outcome } => Some(
                outcome
                    .result
                    .as_ref()
                    .err()
                    .map(|error| error.code.clone()),
            ),
            _ => None,
        })
        .collect();
    assert_eq!(results.len(), 4);
    assert_eq!(results.iter().filter(|it| it.is_none()).count(), 2);
    assert!(results.contains(&Some(ToolErrorCode::BudgetExceeded)));
}

#[tokio::test]
async fn time_counts_and_waiting_for_a_person_does_not() {
    let clock_of = |harness: &Harness| harness.clock().clone();
    let ask = ScriptedTool::new("look")
        .requires_approval()
        .returns("a cat")
        .build();
    let replies = [
        Reply::new().tool_call("look", json!({})),
        Reply::new().text("done"),
        Reply::new().text("done"),
    ];
    let harness = Harness::scripted(replies)
        .tool(ask)
        .services(|services| services.approvals = Approvals::Attended)
        .start();
    let init = SessionInit::default().with_budget(Budget {
        wall_ms: Some(10_000),
        ..Budget::default()
    });
    let session = harness.session_with(init).await;
    let mut all = session.subscribe();
    let turn = session.submit_turn(Turn::user("look")).await.unwrap();
    let clock = clock_of(&harness);
    let id = loop {
        use futures::StreamExt;
        let event = all.next().await.unwrap().unwrap();
        if let SessionEventPayload::ApprovalRequested(request) = event.payload {
            break request.approval_id.clone();
        }
    };
    clock.advance(Duration::from_secs(3_600));
    let choice = halter_protocol::ApprovalChoice::Once;
    session.resolve_approval(&id, choice).await.unwrap();
    let events = halter_testkit::collect(turn).await;
    assert_eq!(events.streamed_text(), "done");
    assert!(charged(&events).wall_ms < 10_000);
    // Time in a tool or model counts.
    let gate = Gate::new();
    let replies = [Reply::new().gate(&gate).tool_call("look", json!({}))];
    let harness = Harness::scripted(replies).tool(look()).start();
    let init = SessionInit::default().with_budget(Budget {
        wall_ms: Some(10_000),
        ..Budget::default()
    });
    let session = harness.session_with(init).await;
    let turn = session.submit_turn(Turn::user("look")).await.unwrap();
    while harness.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    harness.clock().advance(Duration::from_secs(11));
    gate.open();
    let events = halter_testkit::collect(turn).await;
    assert_eq!(exceeded(&events).resource, BudgetResource::WallTime);
}

#[tokio::test]
async fn money_is_counted_to_the_billionth() {
    let answer = |_: &ProviderRequest| {
        let priced = Usage::from(UsageBuckets {
            uncached_input: 1_001,
            cache_read: 333,
            output: 7,
            ..UsageBuckets::default()
        });
        Reply::new().tool_call("look", json!({})).usage(priced)
    };
    let provider = FakeProvider::from_fn(answer).with_prices(PRICES);
    let harness = Harness::echoing()
        .provider(Arc::new(provider))
        .tool(look())
        .start();
    let init = SessionInit::default().with_budget(Budget {
        model_calls: Some(2),
        ..Budget::default().with_dollars("2")
    });
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look").await;
    let each = 1_001 * 3_000 + 333 * 300 + 7 * 15_000;
    assert_eq!(charged(&events).cost, 2 * each);
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_where_money_is_limited() {
    let harness = Harness::echoing().start();
    let mut init = SessionInit::default().with_budget(Budget::default().with_dollars("2"));
    init.working_dir = harness.workspace().path().to_owned();
    let error = harness.runtime().new_session(init).await.err().unwrap();
    assert_eq!(code(&error), "budget_needs_price");
    let error = error.downcast_ref::<halter_runtime::HalterError>().unwrap();
    let key = "providers.fake.models.\"fake-default\".prices";
    assert!(error.hint().unwrap().contains(key), "{error:?}");
    // Under a limit that was set later, its turns are.
    let session = harness.session().await;
    let budget = SessionBudget {
        session: Budget::default().with_dollars("2"),
        ..SessionBudget::default()
    };
    session.set_budget(budget).await.unwrap();
    let events = harness.run(&session, "hello").await;
    assert_eq!(failure(&events).code, "budget_needs_price");
}

#[tokio::test]
async fn a_cancelled_call_is_charged_by_estimate() {
    let gate = Gate::new();
    let reply = Reply::new().text("I begin").end_block().gate(&gate);
    let harness = Harness::scripted([reply]).start();
    let init = SessionInit::default().with_budget(tokens(100_000));
    let session = harness.session_with(init).await;
    let turn = session.submit_turn(Turn::user("hello")).await.unwrap();
    while harness.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    session.cancel().await.unwrap();
    let events = halter_testkit::collect(turn).await;
    assert_eq!(failure(&events).code, "cancelled");
    let spent = charged(&events);
    assert_eq!(spent.model_calls, 1);
    assert!(spent.tokens > 0, "{spent:?}");
    gate.open();
}

/// What a compaction comes to after a turn of nine model calls, of so many that
/// the session may make.
async fn compacted(calls: u64) -> (Arc<ContextCompaction>, Spending, usize) {
    let is_summary = |request: &ProviderRequest| request.tools.is_empty();
    let answer = move |request: &ProviderRequest| match request.messages.len() {
        _ if is_summary(request) => Reply::new().text("## Goal\nLook.").usage(usage(700, 70)),
        0..16 => looking(900, 100)(request),
        _ => Reply::new().text("done"),
    };
    let long = ScriptedTool::new("look").returns(&"x".repeat(790)).build();
    let harness = Harness::answering(answer).tool(long).start();
    let init = SessionInit::default().with_budget(Budget {
        model_calls: Some(calls),
        ..Budget::default()
    });
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look around").await;
    assert_eq!(events.streamed_text(), "done");
    let compaction = session.compact(None).await.unwrap().unwrap();
    let spent = charged(&session.replay().await.unwrap());
    (compaction, spent, harness.requests().len())
}

#[tokio::test]
async fn a_summary_is_paid_for() {
    let (compaction, spent, requests) = compacted(10).await;
    assert_eq!(compaction.summary_error, None);
    assert_eq!((spent.model_calls, requests), (10, 10));
}

#[tokio::test]
async fn a_list_stands_in_for_a_summary_that_nobody_can_pay() {
    let (compaction, spent, requests) = compacted(9).await;
    let why = compaction.summary_error.as_deref().unwrap();
    assert!(why.contains("budget of 9 model calls is used up"), "{why}");
    assert_eq!((spent.model_calls, requests), (9, 9));
}
