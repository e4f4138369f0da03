//! What children report, and what their parents make of it.

use super::{ended, last_word, spawn, spawn_and_wait, states, task};
use crate::support::replayed;
use halter_protocol::ProviderErrorKind;
use halter_protocol::{SessionEventPayload, SubagentState, UsageBuckets};
use halter_providers::{ProviderRequest, Reply};
use halter_testkit::{EventsExt, Gate, Harness, within};
use serde_json::json;

fn tokens(output: u64) -> UsageBuckets {
    UsageBuckets {
        output,
        ..UsageBuckets::default()
    }
}

#[tokio::test]
async fn only_the_report_of_a_child_enters_its_parents_context() {
    let harness = Harness::answering(|request| match task(request).as_str() {
        "look" if last_word(request) == "look" => Reply::new()
            .text("Let me see.")
            .tool_call("peek", json!({}))
            .usage(tokens(5)),
        "look" => Reply::from("A cat is here.").usage(tokens(7)),
        _ if last_word(request) == "go" => spawn_and_wait("look").usage(tokens(3)),
        _ => Reply::from("done").usage(tokens(2)),
    })
    .subagents()
    .tool(
        halter_testkit::ScriptedTool::new("peek")
            .returns("SECRET DETAIL")
            .build(),
    )
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(events.streamed_text(), "done");

    let status = ended(&events).remove(0);
    assert_eq!(status.state, SubagentState::Completed);
    assert_eq!(status.last_message.as_deref(), Some("A cat is here."));
    assert_eq!(status.usage.unwrap().output_tokens, 12);
    let last = harness.requests().pop().unwrap();
    let seen = format!("{:?}", last.messages);
    assert!(
        seen.contains("A cat is here.") && !seen.contains("SECRET DETAIL"),
        "{seen}"
    );

    // The child is a session of its own, with its parent's name in its log.
    let child = harness
        .runtime()
        .read_session(&status.session_id)
        .await
        .unwrap()
        .unwrap();
    let place = child.blueprint().subagent.clone().unwrap();
    assert_eq!((place.agent_id.as_str(), place.depth), ("agent_1", 1));
    assert_eq!(place.root_session_id, *session.session_id());
    // What it used is known above.
    let parent = harness
        .runtime()
        .read_session(session.session_id())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(parent.state().subagent_usage.output_tokens, 12);
    assert_eq!(parent.state().usage_so_far.output_tokens, 5);
}

#[tokio::test]
async fn the_report_of_a_background_child_wakes_an_idle_parent() {
    let gate = Gate::new();
    let held = gate.clone();
    let harness = Harness::answering(move |request| match task(request).as_str() {
        "look" => Reply::new().gate(&held).text("A cat is here."),
        _ if last_word(request).contains("<subagent_report") => Reply::from("So there is a cat."),
        _ if last_word(request) == "go" => spawn(json!({"message": "look"})),
        _ => Reply::from("I wait."),
    })
    .subagents()
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(events.streamed_text(), "I wait.");
    assert_eq!(session.running_subagents(), 1);

    gate.open();
    within("the session settles", session.settled()).await;
    let all = replayed(&session).await;
    assert_eq!(states(&all), [SubagentState::Completed]);
    let texts: Vec<String> = all
        .messages()
        .iter()
        .filter_map(|it| Some(it.as_assistant()?.plain_text()))
        .collect();
    assert_eq!(texts.last().unwrap(), "So there is a cat.");
    assert_eq!(all.of_kind("turn_started").len(), 2);
    assert_eq!(all.of_kind("turn_completed").len(), 2);
}

#[tokio::test]
async fn a_report_joins_a_turn_that_runs_and_is_told_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let peek = halter_testkit::ScriptedTool::new("peek")
        .long_running()
        .waits_at(&gate)
        .build();
    let harness =
        Harness::answering(
            move |request: &ProviderRequest| match task(request).as_str() {
                "look" => Reply::from("A cat is here."),
                _ if last_word(request) == "go" => Reply::new()
                    .tool_call("spawn_agent", json!({"message": "look"}))
                    .tool_call("peek", json!({})),
                _ => Reply::from("done"),
            },
        )
        .subagents()
        .tool(peek)
        .start();
    let session = harness.session().await;
    let mut events = session.subscribe();
    let turn = session
        .submit_turn(halter_protocol::Turn::user("go"))
        .await
        .unwrap();
    use futures::StreamExt;
    while let Some(event) = within("an event", events.next()).await {
        if matches!(
            event.unwrap().payload,
            SessionEventPayload::SubagentEnded { .. }
        ) {
            break;
        }
    }
    held.open();
    let events = halter_testkit::collect(turn).await;
    assert_eq!(events.streamed_text(), "done");
    within("the session settles", session.settled()).await;
    let last = harness.requests().pop().unwrap();
    let seen = format!("{:?}", last.messages);
    assert_eq!(seen.matches("<subagent_report").count(), 1, "{seen}");
    assert_eq!(replayed(&session).await.of_kind("turn_started").len(), 1);
}

#[tokio::test]
async fn the_failure_of_a_child_is_reported_with_what_it_had() {
    let harness = Harness::answering(|request| match task(request).as_str() {
        "look" if last_word(request) == "look" => Reply::new()
            .text("I have seen a paw.")
            .tool_call("nothing", json!({})),
        "look" => Reply::error(ProviderErrorKind::Fatal, "the service broke"),
        _ if last_word(request) == "go" => spawn_and_wait("look"),
        _ => Reply::from("a pity"),
    })
    .subagents()
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let status = ended(&events).remove(0);
    assert_eq!(status.state, SubagentState::Failed);
    assert_eq!(status.last_message.as_deref(), Some("I have seen a paw."));
    assert!(status.error.unwrap().message.contains("the service broke"));
    assert_eq!(events.streamed_text(), "a pity");
}

#[tokio::test]
async fn a_child_goes_on_when_it_is_told_more() {
    let harness = Harness::answering(|request| match task(request).as_str() {
        "look" => Reply::from(format!("I heard: {}", last_word(request))),
        _ => match last_word(request) {
            word if word == "go" => spawn_and_wait("look"),
            word if word.contains("previous_status") => Reply::new().tool_call(
                "send_input",
                json!({"target": "agent_1", "message": "once more"}),
            ),
            word if word.contains("I heard: look") => Reply::new().tool_call(
                "send_input",
                json!({"target": "agent_1", "message": "again"}),
            ),
            word if word.contains("\"running\"") => {
                Reply::new().tool_call("wait_agent", json!({"targets": ["agent_1"]}))
            }
            word if word.contains("I heard: again") => {
                Reply::new().tool_call("close_agent", json!({"target": "agent_1"}))
            }
            word => Reply::from(word),
        },
    })
    .subagents()
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert!(
        events.streamed_text().contains("is closed"),
        "{}",
        events.streamed_text()
    );
    assert_eq!(
        states(&events),
        [
            SubagentState::Completed,
            SubagentState::Completed,
            SubagentState::Closed
        ]
    );
    assert_eq!(events.of_kind("subagent_started").len(), 2);
}

#[tokio::test]
async fn a_forked_child_knows_what_its_parent_knew() {
    let harness = Harness::answering(|request| match last_word(request).as_str() {
        "go" => spawn(json!({"message": "look", "fork_context": true, "wait": true})),
        "look" => Reply::from(format!("{} messages", request.messages.len())),
        "hello" => Reply::from("hi").usage(tokens(9)),
        word => Reply::from(word.to_owned()),
    })
    .subagents()
    .start();
    let session = harness.session().await;
    harness.run(&session, "hello").await;
    let events = harness.run(&session, "go").await;
    let status = ended(&events).remove(0);
    // hello, hi, go, look: the answer that asks for the child is not there.
    assert_eq!(status.last_message.as_deref(), Some("4 messages"));
    assert_eq!(status.usage.unwrap().output_tokens, 0);
}
