//! What the fake provider can be told to do.

use crate::support::{
    answer, assert_well_formed, assistant_calls, events, outline, request, tool_result, user,
};
use futures::{FutureExt as _, StreamExt as _};
use halter_protocol::{
    Message, ProviderError, ProviderErrorKind, StopReason, StreamEvent, UsageBuckets,
};
use halter_providers::limits::RECORDED_REQUESTS;
use halter_providers::{FakeProvider, Gate, Provider, Reply};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn hello() -> halter_providers::ProviderRequest {
    request([user("hello")])
}

async fn outline_of(reply: Reply) -> Vec<String> {
    outline(&answer(&FakeProvider::scripted([reply]), hello()).await)
}

#[tokio::test]
async fn by_default_it_repeats_the_user_in_one_delta() {
    let lines = outline(&answer(&FakeProvider::default(), hello()).await);
    assert_eq!(
        lines,
        ["start", "text {", "fake> hello [m-1]", "}", "end end_turn"]
    );
    let prefixed = FakeProvider::with_prefix("echo:");
    let lines = outline(&answer(&prefixed, request([user("a"), user("b")])).await);
    assert_eq!(lines[2], "echo: b [m-1]");
}

#[tokio::test]
async fn a_reply_is_played_in_the_order_it_is_written() {
    let reply = Reply::new()
        .thinking("hm")
        .text("I ")
        .text("look")
        .end_block()
        .text("twice")
        .tool_call("read", json!({"path": "a"}))
        .tool_call_text("grep", ["{\"pattern\":", "\"x\"}"])
        .warning("nearly full")
        .usage(UsageBuckets {
            uncached_input: 7,
            output: 3,
            ..UsageBuckets::default()
        });
    assert_eq!(
        outline_of(reply.clone()).await,
        [
            "start",
            "thinking {",
            "hm",
            "}",
            "text {",
            "I ",
            "look",
            "}",
            "text {",
            "twice",
            "}",
            "call read {",
            "{\"path\":\"a\"}",
            "}",
            "call grep {",
            "{\"pattern\":",
            "\"x\"}",
            "}",
            "warning nearly full",
            "usage 7/3",
            "end tool_use"
        ]
    );
    assert_well_formed(&events(&FakeProvider::scripted([reply]), hello()).await);
}

#[tokio::test]
async fn an_answer_can_be_empty_or_end_for_any_reason() {
    assert_eq!(outline_of(Reply::new()).await, ["start", "end end_turn"]);
    let odd = Reply::new()
        .text("so")
        .stop(StopReason::Unknown("bored".into()));
    assert_eq!(
        outline_of(odd).await,
        ["start", "text {", "so", "}", "end bored"]
    );
    let half = Reply::new()
        .tool_call_cut("write", "{\"pa")
        .stop(StopReason::MaxTokens);
    assert_eq!(
        outline_of(half).await,
        ["start", "call write {", "{\"pa", "}", "end max_tokens"]
    );
}

#[tokio::test]
async fn a_stream_can_be_cut_anywhere() {
    assert_eq!(outline_of(Reply::new().then_cut()).await, [""; 0]);
    assert_eq!(
        outline_of(Reply::cut_after("I was")).await,
        ["start", "text {", "I was"]
    );
    assert_eq!(
        outline_of(Reply::new().tool_call_cut("read", "{").then_cut()).await,
        ["start", "call read {", "{"]
    );
}

#[tokio::test]
async fn failures_come_before_or_in_the_stream() {
    let refused =
        FakeProvider::scripted([Reply::error(ProviderErrorKind::RateLimited, "slow down")
            .backoff_hint(Duration::from_secs(2))]);
    let Err(error) = refused.stream(hello(), CancellationToken::new()).await else {
        panic!("the request itself fails");
    };
    let error = error.downcast::<ProviderError>().unwrap();
    assert_eq!(error.kind, ProviderErrorKind::RateLimited);
    assert_eq!(error.backoff_hint, Some(Duration::from_secs(2)));

    assert_eq!(
        outline_of(Reply::new().then_error(ProviderErrorKind::Transient, "gone")).await,
        ["error transient: gone"]
    );
    assert_eq!(
        outline_of(
            Reply::new()
                .text("so far")
                .end_block()
                .then_error(ProviderErrorKind::Transient, "gone")
        )
        .await,
        ["start", "text {", "so far", "}", "error transient: gone"]
    );
}

#[tokio::test]
async fn a_script_that_runs_out_says_at_which_request() {
    let fake = FakeProvider::scripted(["one"]);
    assert_eq!(fake.remaining(), 1);
    events(&fake, hello()).await;
    assert_eq!(fake.remaining(), 0);
    assert_eq!(
        outline(&answer(&fake, hello()).await),
        [
            "error fatal: the script of the fake provider has no reply for request 2: \
          add one, or find out why the harness asks again"
        ]
    );
}

#[tokio::test]
async fn the_answer_can_follow_from_the_request() {
    let fake = FakeProvider::from_fn(|request| {
        if request.messages.len() == 1 {
            Reply::new().tool_call_with_id("a", "read", json!({}))
        } else {
            Reply::new().text("done")
        }
    });
    let first = events(&fake, hello()).await;
    assert!(matches!(
        &first[1],
        StreamEvent::ToolCallStart { tool_call_id, .. } if tool_call_id.as_str() == "a"
    ));
    let second = request([user("hello"), assistant_calls(&["a"]), tool_result("a")]);
    assert_eq!(outline(&answer(&fake, second).await)[2], "done");
}

#[tokio::test]
async fn requests_are_recorded_and_the_record_is_bounded() {
    let fake = FakeProvider::default();
    for turn in 0..=RECORDED_REQUESTS {
        let asked = request([user(&turn.to_string())]);
        drop(fake.stream(asked, CancellationToken::new()).await.unwrap());
    }
    let requests = fake.requests();
    assert_eq!(fake.request_count(), RECORDED_REQUESTS + 1);
    assert_eq!(requests.len(), RECORDED_REQUESTS);
    let Message::User(oldest) = requests[0].messages.last().unwrap().as_ref() else {
        panic!("a user message");
    };
    assert_eq!(oldest.plain_text(), "1");
}

#[tokio::test]
async fn a_request_that_does_not_pair_is_refused_unless_lenient() {
    let unpaired = || request([user("go"), assistant_calls(&["a"]), user("and?")]);
    assert_eq!(
        outline(&answer(&FakeProvider::default(), unpaired()).await),
        [
            "error fatal: request 1 is malformed: call 'a' of tool 'read' has no result: \
          a user message stands at message 2, where its result belongs"
        ]
    );
    events(&FakeProvider::default().lenient(), unpaired()).await;
}

#[tokio::test]
async fn ids_differ_between_answers_and_repeat_between_runs() {
    let ids = |fake: FakeProvider| async move {
        let mut ids = Vec::new();
        for _ in 0..2 {
            for event in events(&fake, hello()).await {
                if let StreamEvent::ToolCallStart { tool_call_id, .. } = event {
                    ids.push(tool_call_id);
                }
            }
        }
        ids
    };
    let two_calls = || {
        Reply::new()
            .tool_call("read", json!({}))
            .tool_call("read", json!({}))
    };
    let run = ids(FakeProvider::from_fn(move |_| two_calls())).await;
    let again = ids(FakeProvider::from_fn(move |_| two_calls())).await;
    assert_eq!(run, again);
    assert_eq!(
        run.iter().collect::<std::collections::HashSet<_>>().len(),
        4
    );
}

#[tokio::test]
async fn what_stands_before_a_gate_arrives_while_the_gate_is_closed() {
    let gate = Gate::new();
    let fake = FakeProvider::scripted([Reply::new().text("one ").gate(&gate).text("two")]);
    let mut stream = fake
        .stream(hello(), CancellationToken::new())
        .await
        .unwrap();
    let mut early = Vec::new();
    for _ in 0..3 {
        early.push(stream.next().await.unwrap());
    }
    assert_eq!(outline(&early), ["start", "text {", "one "]);
    assert!(stream.next().now_or_never().is_none(), "held at the gate");
    gate.reached().await;
    assert!(!gate.is_open());

    gate.open();
    let rest: Vec<_> = stream.collect().await;
    assert_eq!(outline(&rest), ["two", "}", "end end_turn"]);
}

#[tokio::test(start_paused = true)]
async fn delays_pass_on_the_paused_clock() {
    let slow = Reply::new().delay(Duration::from_secs(3600)).text("late");
    let before = tokio::time::Instant::now();
    assert_eq!(outline_of(slow).await.len(), 5);
    assert_eq!(before.elapsed(), Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_any_wait() {
    let closed = Gate::new();
    let day = Duration::from_secs(86_400);
    for reply in [
        Reply::new().gate(&closed),
        Reply::new().delay(day),
        Reply::error(ProviderErrorKind::Transient, "too late").delay(day),
    ] {
        let fake = FakeProvider::scripted([reply]);
        let cancel = CancellationToken::new();
        let before = tokio::time::Instant::now();
        let asked = async {
            match fake.stream(hello(), cancel.clone()).await {
                Ok(stream) => stream.collect().await,
                Err(error) => vec![Err(error.downcast::<ProviderError>().unwrap())],
            }
        };
        let cancelled = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            cancel.cancel();
        };
        let (items, ()) = tokio::join!(asked, cancelled);
        assert_eq!(
            outline(&items),
            ["error cancelled: the request was cancelled"]
        );
        assert!(before.elapsed() < day);
    }
}

#[tokio::test]
async fn a_cancel_after_any_event_is_the_next_and_last_item() {
    let reply = || {
        Reply::new()
            .thinking("hm")
            .text("a")
            .text("b")
            .tool_call("read", json!({"path": "a"}))
    };
    let whole = events(&FakeProvider::scripted([reply()]), hello()).await;
    for seen in 0..whole.len() {
        let cancel = CancellationToken::new();
        let fake = FakeProvider::scripted([reply()]);
        let mut stream = fake.stream(hello(), cancel.clone()).await.unwrap();
        for expected in whole.iter().take(seen) {
            assert_eq!(stream.next().await.unwrap().as_ref(), Ok(expected));
        }
        cancel.cancel();
        let rest: Vec<_> = stream.collect().await;
        assert_eq!(rest, [Err(ProviderError::cancelled())]);
    }
}
