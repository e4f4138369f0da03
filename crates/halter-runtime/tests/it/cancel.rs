//! Cancelling at every moment: every call keeps a result, the session goes on.

use crate::support::{assert_everything_ended, is_delta, is_kind, replayed, waiting};
use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::{Message, ToolErrorCode, ToolResult, Turn};
use halter_runtime::SessionHandle;
use halter_runtime::limits::CANCEL_GRACE;
use halter_testkit::events::collect_until;
use halter_testkit::{EventsExt, Gate, Harness, Reply, ScriptedTool, collect, render, within};
use serde_json::json;

/// The next turn works, and the strict model has no objection to what it is
/// told of the last one.
async fn assert_usable(harness: &Harness, session: &SessionHandle) {
    let events = harness.run(session, "and now?").await;
    assert_eq!(
        events.kinds().last(),
        Some(&"turn_completed"),
        "{}",
        render(&events)
    );
    let log = replayed(session).await;
    log.assert_gap_free();
    assert_everything_ended(&log);
}

#[tokio::test]
async fn a_cancel_while_the_model_talks_keeps_what_it_said() {
    let never = Gate::new();
    let reply = Reply::new().text("half an").gate(&never).text(" answer");
    let harness = Harness::scripted([reply, "fine".into()]).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let mut events = collect_until(&mut turn, is_delta).await;

    assert!(session.cancel().await.unwrap());
    events.extend(collect(turn).await);
    let expected = r#"
turn_started t1
message_item user "go"
delta_item "half an"
turn_interrupted t1: cancel() was called
message_item assistant ["half an"] interrupted
turn_failed t1 cancelled cancelled retryable"#;
    assert_eq!(render(&events), expected.trim_start());
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn a_cancel_before_the_first_word_leaves_no_empty_message() {
    let never = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&never), "fine".into()]).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the request", never.reached()).await;
    session.cancel().await.unwrap();
    let events = collect(turn).await;
    assert_eq!(events.messages().len(), 1);
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn a_cancel_while_hooks_run_ends_them() {
    for event in [
        HookEventName::SessionStart,
        HookEventName::UserPromptSubmit,
        HookEventName::PreToolUse,
        HookEventName::PostToolUse,
        HookEventName::Stop,
    ] {
        let gate = Gate::new();
        let look = ScriptedTool::new("look").build();
        let replies = [
            Reply::new().tool_call("look", json!({})),
            "done".into(),
            "fine".into(),
            "fine".into(),
        ];
        let harness = Harness::scripted(replies)
            .tool(look)
            .hook(waiting(event, &gate))
            .start();
        let session = harness.session().await;
        let turn = session.submit_turn(Turn::user("go")).await.unwrap();
        within("the hook", gate.reached()).await;
        assert!(session.cancel().await.unwrap());
        let events = collect(turn).await;
        assert_eq!(events.turn_error().code, "cancelled", "{event}");
        gate.open();
        assert_usable(&harness, &session).await;
    }
}

#[tokio::test]
async fn a_cancellable_tool_stops_by_its_token() {
    let wait = ScriptedTool::new("wait").waits_for_cancel().build();
    let replies = [Reply::new().tool_call("wait", json!({})), "fine".into()];
    let harness = Harness::scripted(replies).tool(wait).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let mut events = collect_until(&mut turn, is_kind("tool_execution_started")).await;
    session.cancel().await.unwrap();
    events.extend(collect(turn).await);
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Cancelled);
    assert_eq!(events.turn_error().code, "cancelled");
    assert_usable(&harness, &session).await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_its_token_is_given_up_after_the_grace() {
    let never = Gate::new();
    let deaf = ScriptedTool::new("deaf")
        .mutating()
        .waits_at(&never)
        .build();
    let replies = [Reply::new().tool_call("deaf", json!({})), "fine".into()];
    let harness = Harness::scripted(replies).tool(deaf).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the tool", never.reached()).await;

    let cancelled = tokio::time::Instant::now();
    session.cancel().await.unwrap();
    let events = collect(turn).await;
    assert_eq!(cancelled.elapsed().as_secs(), CANCEL_GRACE.as_secs());
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::OutcomeUnknown);
    assert_eq!(events.turn_error().code, "cancelled");
    assert_usable(&harness, &session).await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_finishes_within_the_grace_keeps_its_result() {
    let gate = Gate::new();
    let deaf = ScriptedTool::new("deaf")
        .waits_at(&gate)
        .returns("done after all")
        .build();
    let replies = [Reply::new().tool_call("deaf", json!({})), "fine".into()];
    let harness = Harness::scripted(replies).tool(deaf).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the tool", gate.reached()).await;
    session.cancel().await.unwrap();
    gate.open();
    let events = collect(turn).await;
    assert_eq!(
        *events.only_result(),
        Ok(ToolResult::text("done after all").into())
    );
    assert_eq!(events.turn_error().code, "cancelled");
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn calls_that_have_not_started_are_answered_as_not_run() {
    let first = ScriptedTool::new("first").waits_for_cancel().build();
    let second = ScriptedTool::new("second").build();
    let reply = Reply::new()
        .tool_call("first", json!({}))
        .tool_call("second", json!({}))
        .tool_call("second", json!({}));
    let harness = Harness::scripted([reply, "fine".into()])
        .tool(first)
        .tool(second.clone())
        .start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("tool_execution_started")).await;
    session.cancel().await.unwrap();
    let events = collect(turn).await;
    assert!(second.calls().is_empty());
    let codes: Vec<_> = events
        .messages()
        .into_iter()
        .filter_map(|message| match message {
            Message::Tool(tool) => Some(tool.error.clone().unwrap().code),
            _ => None,
        })
        .collect();
    assert_eq!(codes, vec![ToolErrorCode::Cancelled; 3]);
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn invariant_04_a_call_completed_before_the_cancel_is_answered() {
    let never = Gate::new();
    let look = ScriptedTool::new("look")
        .read_only()
        .returns("a cat")
        .build();
    let reply = Reply::new().tool_call("look", json!({})).gate(&never);
    let harness = Harness::scripted([reply, "fine".into()]).tool(look).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("tool_execution_completed")).await;
    session.cancel().await.unwrap();
    let events = collect(turn).await;
    let expected = r#"
turn_interrupted t1: cancel() was called
message_item assistant [c1 look {}] interrupted
message_item tool c1 "a cat"
turn_failed t1 cancelled cancelled retryable"#;
    assert_eq!(render(&events), expected.trim_start());
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn a_waiting_turn_can_be_cancelled_and_the_live_one_goes_on() {
    let gate = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&gate).text("one"), "fine".into()]).start();
    let session = harness.session().await;
    let first = session.submit_turn(Turn::user("first")).await.unwrap();
    let second = session.submit_turn(Turn::user("second")).await.unwrap();
    session
        .cancel_turn(second.turn_id(), "changed my mind")
        .await
        .unwrap();
    gate.open();
    assert_eq!(collect(first).await.kinds().last(), Some(&"turn_completed"));
    let events = collect(second).await;
    assert_eq!(
        render(&events),
        "turn_started t1\nturn_failed t1 cancelled cancelled retryable"
    );
    assert!(events.turn_error().message.contains("changed my mind"));
    assert_eq!(harness.provider().request_count(), 1);
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn cancelling_says_whether_there_was_anything_to_cancel() {
    let gate = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&gate)]).start();
    let session = harness.session().await;
    assert!(!session.cancel().await.unwrap());
    let first = session.submit_turn(Turn::user("first")).await.unwrap();
    let second = session.submit_turn(Turn::user("second")).await.unwrap();
    let nobody = halter_protocol::TurnId::new();
    assert!(!session.cancel_turn(&nobody, "?").await.unwrap());
    assert!(session.cancel_turn(second.turn_id(), "no").await.unwrap());
    assert!(session.cancel_turn(first.turn_id(), "no").await.unwrap());
    collect(first).await;
    collect(second).await;
    assert!(!session.cancel().await.unwrap());
}

#[tokio::test]
async fn cancelling_twice_is_cancelling_once() {
    let wait = ScriptedTool::new("wait").waits_for_cancel().build();
    let replies = [Reply::new().tool_call("wait", json!({})), "fine".into()];
    let harness = Harness::scripted(replies).tool(wait).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("tool_execution_started")).await;
    let (one, two) = tokio::join!(session.cancel(), session.cancel());
    one.unwrap();
    two.unwrap();
    let events = collect(turn).await;
    assert_eq!(events.of_kind("turn_interrupted").len(), 1);
    assert_eq!(events.of_kind("turn_failed").len(), 1);
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn dropping_the_stream_does_not_stop_the_turn() {
    let gate = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&gate).text("done")]).start();
    let session = harness.session().await;
    let mut all = session.subscribe();
    drop(session.submit_turn(Turn::user("go")).await.unwrap());
    within("the request", gate.reached()).await;
    gate.open();
    collect_until(&mut all, is_kind("turn_completed")).await;
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_turn_when_asked_to() {
    let never = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&never), "fine".into()]).start();
    let session = harness.session().await;
    let mut all = session.subscribe();
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let turn = turn.cancel_on_drop();
    within("the request", never.reached()).await;
    drop(turn);
    let events = collect_until(&mut all, is_kind("turn_failed")).await;
    assert!(render(&events).contains("turn_interrupted t1: the event stream was dropped"));
    assert_usable(&harness, &session).await;
}

#[tokio::test]
async fn dropping_a_finished_stream_cancels_nothing() {
    let gate = Gate::new();
    let harness = Harness::scripted([Reply::from("one"), Reply::new().gate(&gate)]).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let mut turn = turn.cancel_on_drop();
    collect_until(&mut turn, is_kind("turn_completed")).await;
    let next = session.submit_turn(Turn::user("next")).await.unwrap();
    within("the request", gate.reached()).await;
    drop(turn);
    gate.open();
    // An answer without words is asked for again; the script is at its end.
    assert_eq!(collect(next).await.turn_error().code, "provider_failed");
}

#[tokio::test]
async fn a_hook_that_ignores_its_cancellation_does_not_hold_the_turn() {
    let deaf = Hook::callback(HookEventName::PreToolUse, |_| async {
        std::future::pending::<()>().await;
        HookResponse::passthrough()
    });
    let replies = [Reply::new().tool_call("look", json!({})), "fine".into()];
    let harness = Harness::scripted(replies)
        .tool(ScriptedTool::new("look").build())
        .hook(deaf)
        .start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("go")).await.unwrap();
    collect_until(&mut turn, is_kind("hook_started")).await;
    session.cancel().await.unwrap();
    collect(turn).await;
    assert_usable(&harness, &session).await;
}

#[test]
fn a_stream_may_be_dropped_outside_of_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let turn = runtime.block_on(async {
        let harness = Harness::scripted(["done"]).start();
        let session = harness.session().await;
        let mut all = session.subscribe();
        let turn = session.submit_turn(Turn::user("go")).await.unwrap();
        collect_until(&mut all, is_kind("turn_completed")).await;
        turn.cancel_on_drop()
    });
    drop(turn);
    drop(runtime);
}
