use super::*;
use crate::fake::{FakeProvider, Reply};
use crate::limits::RATE_SHOWN_WAIT_MILLIS;
use halter_protocol::{
    AssembledPrompt, ContentPart, Message, ProviderErrorKind, SessionId, ToolMessage, ToolResult,
    TurnId, Usage, UsageBuckets, UserMessage,
};
use tokio::time::Instant;

fn model(per_minute: u32) -> ResolvedModel {
    ResolvedModel {
        tokens_per_minute: Some(per_minute),
        ..crate::test_model::model("m")
    }
}

fn request(per_minute: u32, tokens: usize) -> ProviderRequest {
    let text = "x".repeat(tokens * 4);
    ProviderRequest {
        session_id: SessionId::from("ses"),
        turn_id: TurnId::from("turn"),
        model: model(per_minute),
        prompt: AssembledPrompt::default(),
        messages: [Message::User(UserMessage::text(text))]
            .into_iter()
            .collect(),
        tools: Arc::from([]),
        response_schema: None,
        purpose: crate::provider::RequestPurpose::default(),
        attempts: None,
        loaded_tools: Arc::default(),
    }
}

fn usage(uncached_input: u64, cache_read: u64) -> Usage {
    Usage::from(UsageBuckets {
        uncached_input,
        cache_read,
        ..UsageBuckets::default()
    })
}

async fn ask(provider: &RateLimited, request: ProviderRequest) -> Vec<StreamEvent> {
    let stream = provider
        .stream(request, CancellationToken::new())
        .await
        .unwrap();
    stream.map(Result::unwrap).collect().await
}

fn limited(replies: impl IntoIterator<Item = Reply>) -> RateLimited {
    RateLimited::new(
        Arc::new(FakeProvider::scripted(replies)),
        RateLimiter::new(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_full_minute_goes_at_once_and_the_rest_waits_for_the_bucket() {
    let answer = || Reply::new().text("ok").usage(usage(600, 0));
    let provider = limited([answer(), answer(), answer()]);
    let began = Instant::now();
    ask(&provider, request(1_200, 600)).await;
    ask(&provider, request(1_200, 600)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    let events = ask(&provider, request(1_200, 600)).await;
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(
        events.first(),
        Some(&StreamEvent::ProviderWarning {
            message: "waiting about 30 s to stay within the rate of 'm'".to_owned()
        })
    );
}

#[tokio::test(start_paused = true)]
async fn unset_means_half_a_million_tokens_a_minute() {
    let unset = |tokens: usize| {
        let mut request = request(1, tokens);
        request.model.tokens_per_minute = None;
        request
    };
    let answer = || Reply::new().text("ok").usage(usage(250_000, 0));
    let provider = limited([answer(), answer(), answer()]);
    let began = Instant::now();
    ask(&provider, unset(250_000)).await;
    ask(&provider, unset(250_000)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    ask(&provider, unset(250_000)).await;
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn what_was_really_used_is_paid_and_cache_reads_are_free() {
    let provider = limited([
        Reply::new().text("ok").usage(usage(100, 100_000)),
        Reply::new().text("ok"),
    ]);
    let began = Instant::now();
    ask(&provider, request(1_000, 900)).await;
    ask(&provider, request(1_000, 900)).await;
    assert_eq!(
        began.elapsed(),
        Duration::ZERO,
        "800 tokens were given back"
    );

    let provider = limited([
        Reply::new().text("ok").usage(usage(2_000, 0)),
        Reply::new().text("ok"),
    ]);
    let began = Instant::now();
    ask(&provider, request(1_000, 10)).await;
    ask(&provider, request(1_000, 10)).await;
    assert!(
        began.elapsed() >= Duration::from_secs(60),
        "the debt is paid"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_a_minute_goes_when_the_bucket_is_full() {
    let provider = limited([Reply::new().text("ok"), Reply::new().text("ok")]);
    let began = Instant::now();
    ask(&provider, request(100, 500)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_headers_of_a_server_hold_for_all_sessions() {
    let limiter = RateLimiter::new();
    let provider = RateLimited::new(
        Arc::new(FakeProvider::scripted([Reply::new().text("ok")])),
        limiter.clone(),
    );
    let hints = RateLimitHints {
        requests_remaining: Some(0),
        requests_reset: Some(Duration::from_secs(7)),
        ..RateLimitHints::default()
    };
    limiter.observe(&model(1_000), hints);
    let began = Instant::now();
    ask(&provider, request(1_000, 1)).await;
    assert_eq!(began.elapsed().as_secs(), 7);

    let hints = RateLimitHints {
        tokens_remaining: Some(50),
        tokens_reset: Some(Duration::from_secs(9)),
        ..RateLimitHints::default()
    };
    limiter.observe(&model(1_000), hints);
    assert_eq!(limiter.wait_for(&model(1_000), 50), Duration::ZERO);
    assert_eq!(limiter.wait_for(&model(1_000), 51).as_secs(), 9);
}

fn limit(tokens: u64) -> RateLimitHints {
    RateLimitHints {
        tokens_limit: Some(tokens),
        ..RateLimitHints::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_a_server_names_replaces_the_default_and_what_was_set_is_a_ceiling() {
    const ASKED: u64 = 250_000;
    let minute = |tokens: u64, per_minute: u64| (tokens * 60).div_ceil(per_minute);
    // What was set, what the server names, and the seconds that a third
    // request waits.
    for (set, named, waited) in [
        (None, 2_000_000, 0),
        (None, 0, minute(ASKED, 500_000)),
        (None, 250_000, minute(ASKED, 250_000)),
        (Some(500_000), 2_000_000, minute(ASKED, 500_000)),
        (Some(600_000), 500_000, minute(ASKED, 500_000)),
        (Some(1_000_000), 750_000, 0),
    ] {
        let place = format!("{set:?} {named}");
        let limiter = RateLimiter::new();
        let asked = ResolvedModel {
            tokens_per_minute: set,
            ..model(1)
        };
        let spend = async || {
            let bucket = limiter.bucket(&asked);
            let waiting = limiter.waits.begin("ses".into(), no_wait());
            bucket.reserve(ASKED, waiting).await
        };
        let (_first, _second) = (spend().await, spend().await);
        limiter.observe(&asked, limit(named));
        assert_eq!(limiter.wait_for(&asked, ASKED).as_secs(), waited, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_smaller_limit_makes_no_debt_of_what_went_out_before() {
    let (limiter, asked) = (RateLimiter::new(), crate::test_model::model("m"));
    let waiting = limiter.waits.begin("ses".into(), no_wait());
    let _gone = limiter.bucket(&asked).reserve(400_000, waiting).await;
    limiter.observe(&asked, limit(60_000));
    assert_eq!(limiter.wait_for(&asked, 1_000).as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_larger_limit_ends_the_wait_of_those_that_wait_already() {
    let provider = limited([Reply::new().text("ok")]);
    let mut asked = request(1, 400_000);
    asked.model.tokens_per_minute = None;
    let waiting = provider.limiter.waits.begin("ses".into(), no_wait());
    let bucket = provider.limiter.bucket(&asked.model);
    let _gone = bucket.reserve(400_000, waiting).await;
    let model = asked.model.clone();
    let began = Instant::now();
    let named_soon = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        provider.limiter.observe(&model, limit(4_000_000));
    };
    tokio::join!(ask(&provider, asked), named_soon);
    assert_eq!(began.elapsed().as_secs(), 2);
}

fn no_wait() -> RateWait {
    RateWait {
        model: "m".to_owned(),
        left: Duration::ZERO,
    }
}

/// What a session's wait is said to be at each of these moments, in
/// milliseconds.
async fn told(provider: &RateLimited, at: &[u64]) -> Vec<Option<String>> {
    let session = SessionId::from("ses");
    let look = async {
        let (mut told, mut passed) = (Vec::new(), 0);
        for &moment in at {
            tokio::time::sleep(Duration::from_millis(moment - passed)).await;
            passed = moment;
            let wait = provider.limiter.wait_of(&session);
            told.push(wait.map(|wait| wait.to_string()));
            assert_eq!(provider.limiter.wait_of(&SessionId::from("other")), None);
        }
        told
    };
    tokio::join!(ask(provider, request(1_000, 1)), look).1
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_while_it_lasts_from_a_quarter_of_a_second_on() {
    let said = |seconds: u64| {
        Some(format!(
            "waiting about {seconds} s to stay within the rate of 'm'"
        ))
    };
    for (wait, expected) in [
        (RATE_SHOWN_WAIT_MILLIS - 1, [None, None, None]),
        (RATE_SHOWN_WAIT_MILLIS, [said(1), None, None]),
        (2_500, [said(3), said(2), None]),
    ] {
        let provider = limited([Reply::new().text("ok")]);
        let held = Duration::from_millis(wait);
        provider.limiter.hold(&model(1_000), held);
        let told = told(&provider, &[100, 1_000, 2_600]).await;
        assert_eq!(told, expected, "{wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_behind_another_is_told_to_wait_too() {
    let provider = limited([Reply::new().text("ok"), Reply::new().text("ok")]);
    provider
        .limiter
        .hold(&model(1_000), Duration::from_millis(500));
    let mut other = request(1_000, 900);
    other.session_id = SessionId::from("before");
    let cancel = CancellationToken::new();
    let first = provider.stream(other, cancel).await.unwrap();
    let mut first = std::pin::pin!(first.collect::<Vec<_>>());
    assert!(futures::poll!(first.as_mut()).is_pending());
    let behind = told(&provider, &[100, 400, 600]);
    let (_, behind) = tokio::join!(first, behind);
    let said = Some("waiting about 1 s to stay within the rate of 'm'".to_owned());
    assert_eq!(behind, [said.clone(), said, None]);
}

#[tokio::test(start_paused = true)]
async fn a_far_reset_is_not_waited_for_longer_than_the_limit() {
    let limiter = RateLimiter::new();
    let hints = RateLimitHints {
        requests_remaining: Some(0),
        requests_reset: Some(Duration::from_secs(86_400)),
        ..RateLimitHints::default()
    };
    limiter.observe(&model(1_000), hints);
    assert_eq!(
        limiter.wait_for(&model(1_000), 1).as_secs(),
        crate::limits::RATE_HOLD_SECS
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_wait_worth_mentioning_is_announced() {
    for (millis, announced) in [
        (RATE_ANNOUNCED_WAIT_MILLIS - 1, false),
        (RATE_ANNOUNCED_WAIT_MILLIS, true),
    ] {
        let provider = limited([Reply::new().text("ok")]);
        let wait = Duration::from_millis(millis);
        provider.limiter.hold(&model(1_000), wait);
        let began = Instant::now();
        let events = ask(&provider, request(1_000, 1)).await;
        assert!(began.elapsed() >= wait, "{millis}");
        let warned = matches!(
            events.first(),
            Some(StreamEvent::ProviderWarning { message }) if message.contains("about 1 s")
        );
        assert_eq!(warned, announced, "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_model_first_asked_is_forgotten_beyond_the_limit() {
    let limiter = RateLimiter::new();
    let named = |number: usize| ResolvedModel {
        model: format!("m{number}"),
        ..model(1_000)
    };
    limiter.hold(&named(0), Duration::from_secs(5));
    for number in 1..RATE_LIMITED_MODELS {
        limiter.wait_for(&named(number), 1);
    }
    assert_eq!(limiter.wait_for(&named(0), 1).as_secs(), 5);
    limiter.wait_for(&named(RATE_LIMITED_MODELS), 1);
    assert_eq!(limiter.wait_for(&named(0), 1), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_it_is_cancelled() {
    let provider = limited([Reply::new().text("ok").usage(usage(1_000, 0))]);
    ask(&provider, request(1_000, 1_000)).await;
    let cancel = CancellationToken::new();
    let stream = provider
        .stream(request(1_000, 1_000), cancel.clone())
        .await
        .unwrap();
    let began = Instant::now();
    let collect = stream.collect::<Vec<_>>();
    let cancel_soon = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    };
    let (items, ()) = tokio::join!(collect, cancel_soon);
    assert_eq!(items.last(), Some(&Err(ProviderError::cancelled())));
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_costs_nothing() {
    let provider = limited([
        Reply::error(ProviderErrorKind::RateLimited, "busy"),
        Reply::new().text("ok"),
    ]);
    let stream = provider
        .stream(request(1_000, 1_000), CancellationToken::new())
        .await
        .unwrap();
    assert!(stream.collect::<Vec<_>>().await.last().unwrap().is_err());
    let began = Instant::now();
    ask(&provider, request(1_000, 1_000)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[test]
fn the_estimate_counts_what_is_new() {
    let mut asked = request(1, 10);
    assert_eq!(crate::tokens::of_new_in(&asked), 10);
    let answer = |usage| {
        let mut message = serde_json::json!({
            "role": "assistant", "id": "msg_a", "created_at": "1970-01-01T00:00:00Z",
            "parts": [{"kind": "text", "text": "hi"}],
        });
        message["usage"] = serde_json::to_value::<Usage>(usage).unwrap();
        serde_json::from_value::<Message>(message).unwrap()
    };
    asked.messages.push(answer(usage(70, 30)));
    asked
        .messages
        .push(Message::User(UserMessage::text("x".repeat(20))));
    assert_eq!(crate::tokens::of_new_in(&asked), 5, "the rest is cached");
    asked.messages.push(answer(usage(70, 0)));
    asked
        .messages
        .push(Message::User(UserMessage::text("x".repeat(20))));
    assert_eq!(crate::tokens::of_new_in(&asked), 75, "nothing is cached");
    let before = crate::tokens::of_new_in(&asked);
    asked.messages.push(result_with_image());
    let image = crate::tokens::of_new_in(&asked) - before;
    assert!((100..10_000).contains(&image), "{image} for an image");
}

fn result_with_image() -> Message {
    let image = ContentPart::image("image/png", vec![0; 1_000_000]);
    Message::Tool(ToolMessage {
        id: "msg_tool".into(),
        call_id: "call".into(),
        tool_name: "read".into(),
        content: ToolResult::parts([image]).into(),
        error: None,
        created_at: halter_protocol::Timestamp::UNIX_EPOCH,
        loaded: Vec::new(),
    })
}
