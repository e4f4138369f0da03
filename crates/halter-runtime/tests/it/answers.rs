//! Answers of every kind, good and bad.

use crate::support::{StreamingProvider, text_of};
use futures::StreamExt;
use halter_protocol::{
    Message, ProviderErrorKind, SessionEvent, SessionEventPayload, StopReason, StreamEvent,
    ToolErrorCode, Turn, UsageBuckets,
};
use halter_providers::EventStream;
use halter_runtime::SessionInit;
use halter_runtime::limits::EMPTY_ANSWER_RETRIES;
use halter_runtime::limits::PAUSED_ANSWER_RESUMES;
use halter_testkit::{EventsExt, Gate, Harness, Reply, ScriptedTool, render};
use serde_json::json;
use std::sync::Arc;

/// Code, cancelled, retryable of the turn's end.
fn ending(events: &[SessionEvent]) -> (&str, bool, bool) {
    match &events.last().unwrap().payload {
        SessionEventPayload::TurnFailed {
            error,
            cancelled,
            retryable,
            ..
        } => (&error.code, *cancelled, *retryable),
        SessionEventPayload::TurnCompleted { .. } => ("completed", false, false),
        other => panic!("{} is no end", other.kind()),
    }
}

#[tokio::test]
async fn max_turns_bounds_the_model_calls_of_one_turn() {
    let look = ScriptedTool::new("look").build();
    let call = |n: u32| Reply::new().tool_call("look", json!({"n": n}));
    let harness = Harness::scripted([call(1), call(2), "fine".into()])
        .tool(look.clone())
        .start();
    let init = SessionInit::default().with_max_turns(2);
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "look around").await;
    assert_eq!(ending(&events), ("max_turns_reached", false, false));
    assert_eq!(look.calls().len(), 2, "the calls of the last answer ran");
    let events = harness.run(&session, "and?").await;
    assert_eq!(ending(&events), ("completed", false, false));
}

#[tokio::test]
async fn as_many_model_calls_as_max_turns_are_fine() {
    let call = Reply::new().tool_call("look", json!({}));
    let harness = Harness::scripted([call, "done".into()])
        .tool(ScriptedTool::new("look").build())
        .start();
    let init = SessionInit::default().with_max_turns(2);
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "go").await;
    assert_eq!(ending(&events), ("completed", false, false));
}

#[tokio::test]
async fn a_call_repeated_with_the_same_result_is_warned_about_then_stopped() {
    let look = ScriptedTool::new("look").returns("nothing").build();
    let harness = Harness::answering(|_| Reply::new().tool_call("look", json!({"at": "wall"})))
        .tool(look.clone())
        .start();
    let events = harness.ask("go").await;
    assert_eq!(ending(&events), ("repeated_call", false, false));
    assert_eq!(look.calls().len(), 4);
    let warnings: Vec<String> = events
        .messages()
        .into_iter()
        .filter(|message| matches!(message, Message::System(_)))
        .map(text_of)
        .collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("same tool call with the same result"));
}

#[tokio::test]
async fn polling_may_repeat_itself() {
    let poll = ScriptedTool::new("poll")
        .polling()
        .returns("not yet")
        .build();
    let harness = Harness::answering(|request| match request.messages.len() {
        0..30 => Reply::new().tool_call("poll", json!({})),
        _ => Reply::new().text("now"),
    })
    .tool(poll.clone())
    .start();
    let events = harness.ask("wait for it").await;
    assert_eq!(ending(&events), ("completed", false, false));
    assert!(poll.calls().len() > 10);
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_again_once() {
    let harness = Harness::scripted([Reply::new(), "here".into()]).start();
    let events = harness.ask("hello?").await;
    assert_eq!(ending(&events), ("completed", false, false));
    let told = harness.requests().pop().unwrap().messages;
    assert!(text_of(told.last().unwrap()).contains("empty"));
    assert_eq!(told.len(), 2, "nothing stands for the empty answer");
}

#[tokio::test]
async fn a_refusal_without_words_is_named_and_not_asked_for_again() {
    let harness = Harness::scripted([Reply::new().stop(StopReason::Refusal)]).start();
    let events = harness.ask("do something bad").await;
    assert_eq!(ending(&events), ("model_refused", false, false));
    assert_eq!(harness.requests().len(), 1);
}

/// Whatever was said and called before such an end is not all of it.
#[tokio::test]
async fn an_answer_that_ends_early_is_never_taken_for_a_complete_one() {
    for (reason, expected) in [
        (StopReason::Refusal, ("model_refused", false, false)),
        (
            StopReason::ContextWindowExceeded,
            ("context_overflow", false, false),
        ),
        (StopReason::Interrupted, ("answer_cut_off", false, true)),
    ] {
        let write = ScriptedTool::new("write").mutating().build();
        let said = Reply::new().text("The first half");
        let replies = [
            said.clone().stop(reason.clone()),
            said.tool_call("write", json!({})).stop(reason),
            "fine".into(),
        ];
        let harness = Harness::scripted(replies).tool(write.clone()).start();
        let session = harness.session().await;
        for _ in 0..2 {
            let events = harness.run(&session, "go").await;
            assert_eq!(ending(&events), expected);
            assert_eq!(text_of(events.messages()[1]), "The first half");
        }
        assert!(write.calls().is_empty(), "the call does not run");
        assert_eq!(ending(&harness.run(&session, "again").await).0, "completed");
    }
}

#[tokio::test]
async fn a_pause_is_answered_with_the_answer_itself() {
    let pause = Reply::new().text("One moment.").stop(StopReason::Pause);
    let harness = Harness::scripted([pause, "There we are.".into()]).start();
    let events = harness.ask("search").await;
    assert_eq!(ending(&events).0, "completed");
    let told = harness.requests().pop().unwrap().messages;
    assert_eq!(told.len(), 2, "nothing joins the conversation");
    assert_eq!(text_of(told.last().unwrap()), "One moment.");
}

#[tokio::test]
async fn what_a_user_adds_during_a_pause_waits_for_the_next_answer() {
    let gate = Gate::new();
    let replies = [
        Reply::new()
            .text("One ")
            .gate(&gate)
            .stop(StopReason::Pause),
        Reply::new().text("There."),
        Reply::new().text("Faster."),
    ];
    let harness = Harness::scripted(replies).start();
    let session = harness.session().await;
    let stream = session.submit_turn(Turn::user("search")).await.unwrap();
    gate.reached().await;
    session.steer("hurry").await.unwrap();
    gate.open();
    let events = halter_testkit::collect(stream).await;
    assert_eq!(events.streamed_text(), "One There.Faster.");
    let lengths: Vec<usize> = harness
        .requests()
        .iter()
        .map(|r| r.messages.len())
        .collect();
    assert_eq!(lengths, [1, 2, 4]);
}

#[tokio::test]
async fn a_model_may_pause_so_often_and_no_more() {
    let harness = Harness::answering(|_| Reply::new().text("Hm.").stop(StopReason::Pause)).start();
    let events = harness.ask("search").await;
    assert_eq!(ending(&events), ("paused_too_often", false, false));
    assert_eq!(harness.requests().len(), PAUSED_ANSWER_RESUMES as usize + 1);
}

/// A call without a message counts, and what has no price is no cost.
#[tokio::test]
async fn the_session_knows_what_was_used_by_model() {
    let spent = |output, cost| {
        let mut usage = halter_protocol::Usage::from(UsageBuckets {
            output,
            ..UsageBuckets::default()
        });
        usage.cost = cost;
        usage
    };
    let priced = halter_protocol::Cost {
        output: 70,
        price_built_in: true,
        ..halter_protocol::Cost::default()
    };
    let replies = [
        Reply::new().usage(spent(2, None)),
        Reply::new().text("done").usage(spent(7, Some(priced))),
    ];
    let harness = Harness::scripted(replies).start();
    let session = harness.session().await;
    harness.run(&session, "go").await;
    let log = session.replay().await.unwrap();
    let state = halter_protocol::fold::fold_events(log.iter().map(|event| &event.payload));
    assert_eq!(state.usage_so_far.output_tokens, 9);
    let cost = state.usage_so_far.cost.unwrap();
    assert_eq!((cost.total(), cost.partial), (70, true));
    let by_model: Vec<(&String, u64)> = state
        .usage_by_model
        .iter()
        .map(|(model, usage)| (model, usage.output_tokens))
        .collect();
    assert_eq!(by_model.len(), 1);
    assert_eq!(by_model[0].1, 9);
}

#[tokio::test]
async fn a_second_empty_answer_fails_the_turn() {
    let harness = Harness::scripted([Reply::new(), Reply::new().text(" \n")]).start();
    let events = harness.ask("hello?").await;
    assert_eq!(ending(&events), ("empty_answer", false, true));
    assert_eq!(harness.requests().len(), 1 + EMPTY_ANSWER_RETRIES as usize);
    assert!(events.turn_error().hint.is_some());
}

#[tokio::test]
async fn an_answer_cut_at_the_output_limit_fails_the_turn_and_keeps_its_text() {
    let reply = Reply::new().text("once upon").stop(StopReason::MaxTokens);
    let harness = Harness::scripted([reply, "the end".into()]).start();
    let session = harness.session().await;
    let events = harness.run(&session, "a story").await;
    assert_eq!(ending(&events), ("output_limit_reached", false, false));
    assert_eq!(text_of(events.messages()[1]), "once upon");
    let events = harness.run(&session, "go on").await;
    assert_eq!(ending(&events), ("completed", false, false));
}

#[tokio::test]
async fn a_call_cut_at_the_output_limit_does_not_run() {
    let write = ScriptedTool::new("write").build();
    let reply = Reply::new()
        .text("I write")
        .tool_call_cut("write", r#"{"text": "half a"#)
        .stop(StopReason::MaxTokens);
    let harness = Harness::scripted([reply, "sorry".into()])
        .tool(write.clone())
        .start();
    let events = harness.ask("write").await;
    assert!(write.calls().is_empty(), "{}", render(&events));
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::InvalidArguments);
    assert_eq!(ending(&events).0, "completed");
}

#[tokio::test]
async fn a_request_that_fails_says_what_to_make_of_it() {
    for (kind, expected) in [
        (
            ProviderErrorKind::Transient,
            ("provider_unavailable", false, true),
        ),
        (
            ProviderErrorKind::RateLimited,
            ("provider_rate_limited", false, true),
        ),
        (
            ProviderErrorKind::Authentication,
            ("provider_authentication", false, false),
        ),
        (ProviderErrorKind::Fatal, ("provider_failed", false, false)),
    ] {
        let before = Reply::error(kind.clone(), "no luck");
        let within = Reply::new().text("I was").then_error(kind, "no luck");
        for reply in [before, within] {
            let harness = Harness::scripted([reply, "fine".into()]).start();
            let session = harness.session().await;
            let events = harness.run(&session, "go").await;
            assert_eq!(ending(&events), expected);
            assert_eq!(events.turn_error().message, "no luck");
            let events = harness.run(&session, "again").await;
            assert_eq!(ending(&events).0, "completed");
        }
    }
}

#[tokio::test]
async fn a_stream_that_just_stops_keeps_its_complete_blocks_as_interrupted() {
    let look = ScriptedTool::new("look").read_only().build();
    let reply = Reply::new()
        .text("I look")
        .tool_call("look", json!({}))
        .tool_call_cut("look", "{")
        .then_cut();
    let harness = Harness::scripted([reply, "fine".into()]).tool(look).start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(ending(&events), ("provider_unavailable", false, true));
    let answer = events.messages()[1].as_assistant().unwrap();
    assert_eq!(answer.stop_reason, Some(StopReason::Interrupted));
    assert_eq!(answer.parts.len(), 2);
    let events = harness.run(&session, "again").await;
    assert_eq!(ending(&events).0, "completed");
}

#[tokio::test]
async fn the_usage_of_all_model_calls_adds_up() {
    let usage = |output| UsageBuckets {
        uncached_input: 10,
        output,
        ..UsageBuckets::default()
    };
    let replies = [
        Reply::new()
            .usage(usage(1))
            .tool_call("look", json!({}))
            .usage(usage(5)),
        Reply::new().text("done").usage(usage(7)),
    ];
    let harness = Harness::scripted(replies)
        .tool(ScriptedTool::new("look").build())
        .start();
    let events = harness.ask("go").await;
    let SessionEventPayload::TurnCompleted { usage, .. } = &events.last().unwrap().payload else {
        panic!("{}", render(&events));
    };
    assert_eq!((usage.input_tokens, usage.output_tokens), (20, 12));
}

#[tokio::test]
async fn a_failed_turn_says_what_it_used() {
    let spent = UsageBuckets {
        output: 3,
        ..UsageBuckets::default()
    };
    let reply = Reply::new().text("a").usage(spent).then_cut();
    let events = Harness::scripted([reply]).start().ask("go").await;
    let SessionEventPayload::TurnFailed { usage, .. } = &events.last().unwrap().payload else {
        panic!("{}", render(&events));
    };
    assert_eq!(usage.output_tokens, 3);
}

async fn ask_rogue(stream: fn() -> EventStream) -> Vec<SessionEvent> {
    let rogue = Arc::new(StreamingProvider::new(stream));
    Harness::echoing().provider(rogue).start().ask("go").await
}

#[tokio::test]
async fn a_provider_that_panics_fails_the_turn() {
    let events = ask_rogue(|| panic!("before the stream")).await;
    assert_eq!(ending(&events), ("provider_failed", false, false));
    let events = ask_rogue(|| futures::stream::poll_fn(|_| panic!("in the stream")).boxed()).await;
    assert_eq!(ending(&events), ("provider_failed", false, false));
}

#[tokio::test]
async fn events_that_make_no_sense_are_ignored() {
    let events = ask_rogue(|| {
        let nonsense = [
            StreamEvent::TextDelta {
                id: "nowhere".into(),
                delta: "lost".into(),
            },
            StreamEvent::ToolArgsDelta {
                id: "nowhere".into(),
                delta: "{".into(),
            },
            StreamEvent::ToolCallEnd {
                id: "nowhere".into(),
                opaque: None,
            },
            StreamEvent::TextStart { id: "b".into() },
            StreamEvent::ToolArgsDelta {
                id: "b".into(),
                delta: "{".into(),
            },
            StreamEvent::TextDelta {
                id: "b".into(),
                delta: "sense".into(),
            },
            StreamEvent::MessageEnd {
                id: "m".into(),
                stop_reason: StopReason::EndTurn,
            },
            StreamEvent::TextDelta {
                id: "b".into(),
                delta: "too late".into(),
            },
        ];
        futures::stream::iter(nonsense.map(Ok)).boxed()
    })
    .await;
    assert_eq!(ending(&events).0, "completed");
    assert_eq!(events.streamed_text(), "sense");
}

#[tokio::test]
async fn a_turn_may_use_another_model_and_the_cut_is_announced() {
    let harness = Harness::echoing().model("large").start();
    let session = harness.session().await;
    harness.run(&session, "one").await;
    let turn = Turn::user("two").with_default_model("large");
    let stream = session.submit_turn(turn).await.unwrap();
    let events = halter_testkit::collect(stream).await;
    assert_eq!(events.streamed_text(), "fake> two [fake-large]");
    assert!(render(&events).contains("cache_break model_changed"));
    let events = harness.run(&session, "three").await;
    assert!(render(&events).contains("cache_break model_changed"));
    let events = harness.run(&session, "four").await;
    assert!(!events.kinds().contains(&"cache_break"));
}

#[tokio::test]
async fn a_turn_of_an_unknown_model_fails_and_names_the_known_ones() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    let turn = Turn::user("hi").with_default_model("huge");
    let stream = session.submit_turn(turn).await.unwrap();
    let events = halter_testkit::collect(stream).await;
    assert_eq!(ending(&events), ("unknown_model", false, false));
    assert!(events.turn_error().message.contains("default"));
    assert_eq!(ending(&harness.run(&session, "hi").await).0, "completed");
}
