//! Adding to the live turn, and waiting behind it.

use crate::support::{code, is_delta, text_of, waiting};
use halter_hooks::HookEventName;
use halter_protocol::Turn;
use halter_runtime::limits::{QUEUED_STEERS, QUEUED_TURNS};
use halter_testkit::events::collect_until;
use halter_testkit::{EventsExt, Gate, Harness, Reply, ScriptedTool, collect, within};
use serde_json::json;

/// What the model was told in its last request.
fn last_told(harness: &Harness) -> Vec<String> {
    let request = harness.requests().pop().unwrap();
    request.messages.iter().map(|m| text_of(m)).collect()
}

#[tokio::test]
async fn a_steer_while_the_model_talks_makes_it_go_on() {
    let gate = Gate::new();
    let replies = [
        Reply::new().text("red").gate(&gate),
        Reply::new().text("blue it is"),
    ];
    let harness = Harness::scripted(replies).start();
    let session = harness.session().await;
    let mut turn = session.submit_turn(Turn::user("a colour?")).await.unwrap();
    collect_until(&mut turn, is_delta).await;
    session.steer("not red").await.unwrap();
    gate.open();
    let events = collect(turn).await;
    assert_eq!(events.of_kind("turn_completed").len(), 1);
    assert_eq!(last_told(&harness), ["a colour?", "red", "not red"]);
}

#[tokio::test]
async fn a_steer_while_a_tool_runs_joins_after_its_result() {
    let gate = Gate::new();
    let slow = ScriptedTool::new("slow")
        .waits_at(&gate)
        .returns("42")
        .build();
    let replies = [
        Reply::new().text("hm").tool_call("slow", json!({})),
        "ok".into(),
    ];
    let harness = Harness::scripted(replies).tool(slow).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("compute")).await.unwrap();
    within("the tool", gate.reached()).await;
    session.steer("in hex, please").await.unwrap();
    session.steer("and quickly").await.unwrap();
    gate.open();
    collect(turn).await;
    assert_eq!(
        last_told(&harness),
        ["compute", "hm", "42", "in hex, please", "and quickly"]
    );
}

#[tokio::test]
async fn a_steer_while_the_prompt_is_judged_joins_after_the_prompt() {
    let gate = Gate::new();
    let harness = Harness::scripted(["ok"])
        .hook(waiting(HookEventName::UserPromptSubmit, &gate))
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the hook", gate.reached()).await;
    session.steer("carefully").await.unwrap();
    gate.open();
    collect(turn).await;
    assert_eq!(last_told(&harness), ["go", "carefully"]);
}

#[tokio::test]
async fn a_steer_while_the_turn_is_about_to_stop_makes_it_go_on() {
    let gate = Gate::new();
    let harness = Harness::scripted(["done", "more done"])
        .hook(waiting(HookEventName::Stop, &gate))
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the hook", gate.reached()).await;
    session.steer("not yet").await.unwrap();
    gate.open();
    let events = collect(turn).await;
    assert_eq!(last_told(&harness), ["go", "done", "not yet"]);
    assert_eq!(events.of_kind("turn_completed").len(), 1);
}

#[tokio::test]
async fn a_steer_of_a_cancelled_turn_is_not_lost() {
    let never = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&never), "ok".into()]).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the request", never.reached()).await;
    session.steer("remember this").await.unwrap();
    session.cancel().await.unwrap();
    collect(turn).await;
    harness.run(&session, "what now?").await;
    assert_eq!(last_told(&harness), ["go", "remember this", "what now?"]);
}

#[tokio::test]
async fn a_steer_without_a_live_turn_is_refused() {
    let harness = Harness::scripted(["one"]).start();
    let session = harness.session().await;
    let error = session.steer("hello?").await.unwrap_err();
    assert_eq!(code(&error), "no_live_turn");
    harness.run(&session, "go").await;
    let error = session.steer("hello?").await.unwrap_err();
    assert_eq!(code(&error), "no_live_turn");
    assert_eq!(session.replay().await.unwrap().messages().len(), 2);
}

#[tokio::test]
async fn invariant_08_so_many_steers_wait_and_no_more() {
    let gate = Gate::new();
    let harness = Harness::scripted([Reply::new().text("a").gate(&gate), "b".into()]).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the request", gate.reached()).await;
    for number in 0..QUEUED_STEERS {
        session.steer(number.to_string()).await.unwrap();
    }
    let error = session.steer("one too many").await.unwrap_err();
    assert_eq!(code(&error), "too_many_steers");
    gate.open();
    collect(turn).await;
    assert_eq!(last_told(&harness).len(), 2 + QUEUED_STEERS);
}

#[tokio::test]
async fn a_second_turn_waits_its_turn() {
    let gate = Gate::new();
    let replies = [Reply::new().gate(&gate).text("one"), "two".into()];
    let harness = Harness::scripted(replies).start();
    let session = harness.session().await;
    let first = session.submit_turn(Turn::user("first")).await.unwrap();
    let second = session.submit_turn(Turn::user("second")).await.unwrap();
    within("the request", gate.reached()).await;
    gate.open();
    let second = collect(second).await;
    let first = collect(first).await;
    assert_eq!(first.streamed_text(), "one");
    assert_eq!(second.streamed_text(), "two");
    second.assert_gap_free();
    let (end, start) = (first.last().unwrap(), &second[0]);
    assert_eq!(start.sequence(), end.sequence() + 1);
    assert_eq!(last_told(&harness), ["first", "one", "second"]);
}

#[tokio::test]
async fn invariant_08_so_many_turns_wait_and_no_more() {
    let gate = Gate::new();
    let held = gate.clone();
    let harness = Harness::answering(move |_| Reply::new().gate(&held).text("ok")).start();
    let session = harness.session().await;
    let mut turns = vec![session.submit_turn(Turn::user("live")).await.unwrap()];
    within("the request", gate.reached()).await;
    for number in 0..QUEUED_TURNS {
        let turn = Turn::user(number.to_string());
        turns.push(session.submit_turn(turn).await.unwrap());
    }
    let refused = session.submit_turn(Turn::user("one too many")).await;
    let error = refused.err().unwrap();
    assert_eq!(code(&error), "too_many_turns");
    gate.open();
    for turn in turns {
        assert_eq!(collect(turn).await.kinds().last(), Some(&"turn_completed"));
    }
    harness.run(&session, "there is room again").await;
}

#[tokio::test]
async fn turns_of_two_sessions_do_not_wait_for_each_other() {
    let gate = Gate::new();
    let replies = [Reply::new().gate(&gate).text("slow"), "fast".into()];
    let harness = Harness::scripted(replies).start();
    let slow = harness.session().await;
    let turn = slow.submit_turn(Turn::user("slow")).await.unwrap();
    within("the request", gate.reached()).await;
    assert_eq!(harness.ask("fast").await.streamed_text(), "fast");
    gate.open();
    assert_eq!(collect(turn).await.streamed_text(), "slow");
}
