//! Retries, as a table under virtual time.

use super::{hello, tokens};
use crate::support::{answer, outline};
use halter_protocol::{ProviderError, ProviderErrorKind, StreamEvent, ToolCallId, Usage};
use halter_providers::layers::{Jitter, Retry, RetryPolicy, SystemJitter};
use halter_providers::{AttemptBudget, FakeProvider, Provider as _, ProviderRequest, Reply};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub struct Fixed(pub f64);

impl Jitter for Fixed {
    fn fraction(&self) -> f64 {
        self.0
    }
}

/// One second, then two, four, at most five; five attempts within a minute.
pub fn policy() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 5,
        deadline: Duration::from_secs(60),
        base_backoff: Duration::from_secs(1),
        max_backoff: Duration::from_secs(5),
        jitter_percent: 50,
    }
}

struct Outcome {
    lines: Vec<String>,
    attempts: usize,
    waited: Duration,
}

async fn run_with(policy: RetryPolicy, chance: f64, replies: Vec<Reply>) -> Outcome {
    let fake = Arc::new(FakeProvider::scripted(replies));
    let retry = Retry::new(fake.clone(), policy).with_jitter(Arc::new(Fixed(chance)));
    let began = Instant::now();
    let items = answer(&retry, hello()).await;
    Outcome {
        lines: outline(&items),
        attempts: fake.request_count(),
        waited: began.elapsed(),
    }
}

async fn run(replies: Vec<Reply>) -> Outcome {
    run_with(policy(), 0.5, replies).await
}

fn error(kind: ProviderErrorKind) -> Reply {
    Reply::error(kind, "no")
}

fn ok() -> Reply {
    Reply::new().text("ok")
}

#[tokio::test(start_paused = true)]
async fn what_is_tried_again_and_after_how_long() {
    use ProviderErrorKind::{
        Authentication, Cancelled, ContextOverflow, Fatal, RateLimited, Transient,
    };
    let hinted = |kind, wait| error(kind).backoff_hint(Duration::from_millis(wait));
    struct Case {
        name: &'static str,
        replies: Vec<Reply>,
        attempts: usize,
        waited_ms: u64,
        succeeds: bool,
    }
    let case = |name, replies, attempts, waited_ms, succeeds| Case {
        name,
        replies,
        attempts,
        waited_ms,
        succeeds,
    };
    let cases = [
        case("success", vec![ok()], 1, 0, true),
        case("one failure", vec![error(Transient), ok()], 2, 1_000, true),
        case(
            "pauses double up to the longest",
            vec![
                error(Transient),
                error(RateLimited),
                error(Transient),
                error(Transient),
                ok(),
            ],
            5,
            1_000 + 2_000 + 4_000 + 5_000,
            true,
        ),
        case(
            "attempts are bounded",
            vec![error(Transient); 9],
            5,
            1_000 + 2_000 + 4_000 + 5_000,
            false,
        ),
        case("fatal", vec![error(Fatal), ok()], 1, 0, false),
        case("wrong key", vec![error(Authentication), ok()], 1, 0, false),
        case("too long", vec![error(ContextOverflow), ok()], 1, 0, false),
        case("cancelled", vec![error(Cancelled), ok()], 1, 0, false),
        case(
            "fatal after a retry",
            vec![error(Transient), error(Fatal), ok()],
            2,
            1_000,
            false,
        ),
        case(
            "the server's wish is kept and only ever lengthened",
            vec![hinted(RateLimited, 8_000), ok()],
            2,
            8_000 + 2_000,
            true,
        ),
        case(
            "a short wish is kept too",
            vec![hinted(Transient, 100), ok()],
            2,
            125,
            true,
        ),
        case(
            "a wish beyond the deadline ends it at once",
            vec![hinted(RateLimited, 61_000), ok()],
            1,
            0,
            false,
        ),
        case(
            "the deadline counts from the first attempt",
            vec![
                hinted(RateLimited, 32_000),
                hinted(RateLimited, 32_000),
                ok(),
            ],
            2,
            40_000,
            false,
        ),
        case(
            "a cut before anything",
            vec![Reply::new().then_cut(), ok()],
            2,
            1_000,
            true,
        ),
    ];
    for case in cases {
        let outcome = run(case.replies).await;
        assert_eq!(outcome.attempts, case.attempts, "{}", case.name);
        assert_eq!(
            outcome.waited,
            Duration::from_millis(case.waited_ms),
            "{}",
            case.name
        );
        let last = outcome.lines.last().unwrap();
        assert_eq!(
            last.starts_with("end"),
            case.succeeds,
            "{}: {last}",
            case.name
        );
    }
}

#[tokio::test(start_paused = true)]
async fn chance_spreads_the_pauses() {
    for (chance, waited) in [(0.0, 500), (1.0, 1_500)] {
        let outcome = run_with(
            policy(),
            chance,
            vec![error(ProviderErrorKind::Transient), ok()],
        );
        assert_eq!(outcome.await.waited, Duration::from_millis(waited));
    }
    let fractions: Vec<f64> = (0..100).map(|_| SystemJitter.fraction()).collect();
    assert!(
        fractions
            .iter()
            .all(|fraction| (0.0..1.0).contains(fraction))
    );
    assert!(fractions.iter().any(|fraction| *fraction != fractions[0]));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_again_once_something_was_shown() {
    let transient = ProviderErrorKind::Transient;
    for reply in [
        Reply::new().text("a").then_error(transient.clone(), "no"),
        Reply::new()
            .thinking("a")
            .then_error(transient.clone(), "no"),
        Reply::new()
            .tool_call_with_id(ToolCallId::from("c"), "read", serde_json::json!({}))
            .then_error(transient.clone(), "no"),
    ] {
        let outcome = run(vec![reply, ok()]).await;
        assert_eq!(outcome.attempts, 1, "{:?}", outcome.lines);
        assert_eq!(outcome.lines.last().unwrap(), "error transient: no");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_shown_once_and_each_pause_announced() {
    let begun = Reply::new()
        .raw_event(StreamEvent::TextStart { id: "b".into() })
        .then_error(ProviderErrorKind::Transient, "overloaded");
    let outcome = run(vec![begun, ok()]).await;
    assert_eq!(
        outcome.lines,
        [
            "warning attempt 1 of 5 failed: overloaded; trying again in 1.0 s",
            "start",
            "text {",
            "ok",
            "}",
            "end end_turn"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn warnings_of_attempts_are_said_once() {
    let warned = |reply: Reply| reply.warning("the temperature was left out");
    let first = warned(Reply::new()).then_error(ProviderErrorKind::Transient, "x");
    let outcome = run(vec![first, warned(Reply::new()).text("ok")]).await;
    let said = outcome
        .lines
        .iter()
        .filter(|line| line.contains("temperature"))
        .count();
    assert_eq!(said, 1, "{:?}", outcome.lines);
}

#[tokio::test(start_paused = true)]
async fn what_failed_attempts_used_is_counted() {
    let failed = || {
        Reply::new()
            .usage(tokens(100, 0))
            .then_error(ProviderErrorKind::Transient, "x")
    };
    let answered = Reply::new().text("ok").usage(tokens(100, 5));
    let outcome = run(vec![failed(), failed(), answered]).await;
    assert!(
        outcome.lines.contains(&"usage 300/5".to_owned()),
        "{:?}",
        outcome.lines
    );

    let outcome = run(vec![failed(), ok()]).await;
    assert!(
        outcome.lines.contains(&"usage 100/0".to_owned()),
        "{:?}",
        outcome.lines
    );

    let outcome = run(vec![failed(); 9]).await;
    let end = &outcome.lines[outcome.lines.len() - 2..];
    assert_eq!(end, ["usage 500/0", "error transient: x"]);
}

/// Pays for failed attempts up to so many tokens.
#[derive(Debug)]
struct Purse(u64);

impl AttemptBudget for Purse {
    fn allows_another(&self, lost: &Usage) -> bool {
        lost.context_tokens() <= self.0
    }
}

#[tokio::test(start_paused = true)]
async fn what_failed_attempts_used_must_be_paid_for() {
    use futures::StreamExt as _;
    let used = || {
        Reply::new()
            .usage(tokens(100, 0))
            .then_error(ProviderErrorKind::Transient, "x")
    };
    let free = || Reply::error(ProviderErrorKind::Transient, "x");
    for (purse, replies, requests) in [
        (250, vec![used(), used(), used(), ok()], 3),
        (300, vec![used(), used(), used(), ok()], 4),
        (0, vec![free(), free(), ok()], 3),
    ] {
        let fake = Arc::new(FakeProvider::scripted(replies));
        let retry = Retry::new(fake.clone(), policy()).with_jitter(Arc::new(Fixed(0.5)));
        let request = ProviderRequest {
            attempts: Some(Arc::new(Purse(purse))),
            ..hello()
        };
        let stream = retry.stream(request, CancellationToken::new()).await;
        let _items: Vec<_> = stream.unwrap().collect().await;
        assert_eq!(fake.request_count(), requests, "{purse}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_when_it_is_cancelled() {
    use futures::StreamExt as _;
    let fake = Arc::new(FakeProvider::scripted([
        Reply::error(ProviderErrorKind::Transient, "x"),
        ok(),
    ]));
    let retry = Retry::new(fake.clone(), policy()).with_jitter(Arc::new(Fixed(0.5)));
    let cancel = CancellationToken::new();
    let stream = retry.stream(hello(), cancel.clone()).await.unwrap();
    let began = Instant::now();
    let (items, ()) = tokio::join!(stream.collect::<Vec<_>>(), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    });
    assert_eq!(items.last(), Some(&Err(ProviderError::cancelled())));
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    assert_eq!(fake.request_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_too_many_empty_events_counts_as_shown() {
    let limit = halter_providers::limits::RETRY_HELD_EVENTS;
    // The start of the message is held as well.
    for (events, attempts) in [(limit - 1, 2), (limit, 1)] {
        let mut reply = Reply::new();
        for _ in 0..events {
            reply = reply.usage(tokens(1, 0));
        }
        let reply = reply.then_error(ProviderErrorKind::Transient, "x");
        assert_eq!(run(vec![reply, ok()]).await.attempts, attempts, "{events}");
    }
}
