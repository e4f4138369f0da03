//! Every bound of subagents, at its edge.

use super::{ended, last_word, spawn_and_wait, task};
use crate::support::replayed;
use futures::StreamExt;
use halter_protocol::{Budget, SessionEventPayload, SubagentEventForwarding, SubagentState};
use halter_providers::Reply;
use halter_runtime::SessionInit;
use halter_runtime::limits::{
    BUSY_RETRY, FORWARDED_EVENTS, KEPT_SUBAGENTS, SUBAGENT_CLOSE_WAIT, SUBAGENT_MODEL_CALLS,
    SUBAGENT_REPORT_BYTES, SUBAGENT_TASK_BYTES, SUBAGENTS_PER_TURN,
};
use halter_testkit::{EventsExt, Harness, HarnessBuilder, ScriptedTool, within};
use halter_tools::limits::{
    SUBAGENT_TARGETS, SUBAGENT_TASK_CHARS, SUBAGENT_TYPE_LINE_CHARS, SUBAGENT_WAIT_MS,
};
use halter_tools::{AgentTypeLine, subagent_tools};
use serde_json::json;

/// A parent that has a child do `work`, which answers with `report`.
fn reporting(report: String) -> HarnessBuilder {
    Harness::answering(move |request| match task(request).as_str() {
        "work" => Reply::from(report.clone()),
        _ if last_word(request) == "go" => spawn_and_wait("work"),
        _ => Reply::from("done"),
    })
    .subagents()
}

#[tokio::test]
async fn a_report_and_a_task_are_shown_up_to_a_length() {
    for (bytes, cut) in [
        (SUBAGENT_REPORT_BYTES, false),
        (SUBAGENT_REPORT_BYTES + 1, true),
    ] {
        let harness = reporting("x".repeat(bytes)).start();
        let session = harness.session().await;
        let report = ended(&harness.run(&session, "go").await).remove(0);
        let message = report.last_message.unwrap();
        assert_eq!(message.ends_with("[the rest is left out]"), cut);
    }
    let long = "x".repeat(SUBAGENT_TASK_BYTES + 1);
    let harness = Harness::answering(move |request| match last_word(request).as_str() {
        "go" => spawn_and_wait(&long),
        _ => Reply::from("done"),
    });
    let harness = harness.subagents().start();
    let session = harness.session().await;
    let shown = ended(&harness.run(&session, "go").await).remove(0).task;
    assert!(
        shown.starts_with(&"x".repeat(SUBAGENT_TASK_BYTES)),
        "{shown}"
    );
    assert!(shown.ends_with("[the rest is left out]"), "{shown}");
}

#[tokio::test]
async fn a_child_that_never_ends_is_stopped_after_so_many_model_calls() {
    let look = ScriptedTool::new("look").read_only().polling().build();
    let harness = Harness::answering(|request| match task(request).as_str() {
        "work" => Reply::new()
            .text("Still at it.")
            .tool_call("look", json!({})),
        _ if last_word(request) == "go" => spawn_and_wait("work"),
        _ => Reply::from("done"),
    });
    let harness = harness.subagents().tool(look).start();
    let session = harness.session().await;
    let report = ended(&harness.run(&session, "go").await).remove(0);
    assert_eq!(report.state, SubagentState::Failed);
    assert_eq!(report.error.unwrap().code, "max_turns_reached");
    assert_eq!(report.last_message.as_deref(), Some("Still at it."));
    let requests = harness.requests();
    let calls = requests.iter().filter(|it| task(it) == "work").count();
    assert_eq!(calls, SUBAGENT_MODEL_CALLS as usize);
}

/// The child and the grandchild have the same budget on paper; what they spend is
/// spent by the turn above them all.
#[tokio::test]
async fn the_budget_of_a_turn_holds_for_all_that_is_below_it() {
    const CALLS: u64 = 6;
    let look = ScriptedTool::new("look").read_only().polling().build();
    let harness = Harness::answering(|request| match task(request).as_str() {
        "work" => Reply::new().tool_call("look", json!({})),
        "deep" if last_word(request) == "deep" => spawn_and_wait("work"),
        _ if last_word(request) == "go" => spawn_and_wait("deep"),
        _ => Reply::from("done"),
    });
    let harness = harness.subagents().tool(look).start();
    let init = SessionInit::default().with_turn_budget(Budget {
        model_calls: Some(CALLS),
        ..Budget::default()
    });
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "go").await;
    assert_eq!(harness.requests().len() as u64, CALLS);
    let report = ended(&events).remove(0);
    assert_eq!(report.state, SubagentState::Failed);
    assert_eq!(report.error.unwrap().code, "budget_exceeded");
    let failed = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::TurnFailed { error, .. } => Some(error.code.clone()),
        _ => None,
    });
    assert_eq!(failed.as_deref(), Some("budget_exceeded"));
    // The next turn has its own.
    let again = harness.run(&session, "go").await;
    assert_eq!(ended(&again).len(), 1);
    assert_eq!(harness.requests().len() as u64, 2 * CALLS);
}

#[tokio::test]
async fn a_turn_starts_so_many_children_and_the_last_ones_stay() {
    let harness = Harness::answering(|request| match task(request).as_str() {
        "work" => Reply::from("worked"),
        _ if last_word(request).contains("has started") => Reply::from(last_word(request)),
        _ => spawn_and_wait("work"),
    });
    let harness = harness.subagents().start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let refused = format!("this turn has started {SUBAGENTS_PER_TURN} subagents");
    let text = events.streamed_text();
    assert!(text.contains(&refused), "{text}");
    assert_eq!(events.of_kind("subagent_ended").len(), SUBAGENTS_PER_TURN);
    // All but the last are put away, and taken up again when they are told more.
    let mut put_away = 0;
    for status in ended(&events) {
        let store = harness.store().as_ref();
        let log = halter_session::read_events(store, &status.session_id, 0, 1_000).await;
        put_away += log.unwrap().of_kind("session_shutdown_complete").len();
    }
    assert_eq!(put_away, SUBAGENTS_PER_TURN - KEPT_SUBAGENTS);
}

fn three_deep() -> HarnessBuilder {
    Harness::answering(|request| match task(request).as_str() {
        "work" => Reply::new().text("a").text("b").text("c"),
        "deep" if last_word(request) == "deep" => spawn_and_wait("work"),
        _ if last_word(request) == "go" => spawn_and_wait("deep"),
        _ => Reply::from("done"),
    })
    .subagents()
}

#[tokio::test]
async fn events_of_children_are_forwarded_up_to_a_cap_and_one_lagged_says_so() {
    assert_eq!(FORWARDED_EVENTS, 100_000);
    for (forwarding, cap, lagged) in [
        (SubagentEventForwarding::Off, 0, 0),
        (SubagentEventForwarding::All, 0, 0),
        (SubagentEventForwarding::All, 5, 1),
    ] {
        let harness = three_deep().services(|it| it.subagent_event_forwarding_cap = cap);
        let harness = harness.start();
        let init = SessionInit::default().with_subagent_event_forwarding(forwarding);
        let session = harness.session_with(init).await;
        let turn = session.submit_turn(halter_protocol::Turn::user("go")).await;
        let events = halter_testkit::collect(turn.unwrap()).await;
        let (own, others): (Vec<_>, Vec<_>) = events
            .iter()
            .partition(|it| it.session_id == *session.session_id());
        let sessions: std::collections::BTreeSet<_> =
            others.iter().map(|it| it.session_id.clone()).collect();
        let deltas = others.iter().filter(|it| it.payload.kind() == "delta_item");
        match (forwarding, cap) {
            (SubagentEventForwarding::Off, _) => assert!(sessions.is_empty()),
            (_, 0) => assert_eq!((sessions.len(), deltas.count() >= 3), (2, true)),
            (_, cap) => assert_eq!(others.len() as u64, cap),
        }
        assert_eq!(events.of_kind("lagged").len(), lagged);
        assert!(own.iter().any(|it| it.payload.kind() == "turn_completed"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_is_closed_in_a_time() {
    let harness = reporting("worked".to_owned()).start();
    let session = harness.session().await;
    harness.run(&session, "go").await;
    let control = session.subagents().await.unwrap();
    let started = tokio::time::Instant::now();
    let target = "agent_1".into();
    let request = halter_protocol::CloseSubagentRequest { target };
    control.close(request.clone()).await.unwrap();
    assert!(started.elapsed() < SUBAGENT_CLOSE_WAIT);
    let again = control.close(request).await.unwrap();
    assert_eq!(again.previous_status.state, SubagentState::Closed);
    assert_eq!(replayed(&session).await.of_kind("subagent_ended").len(), 2);
    assert!(BUSY_RETRY < SUBAGENT_CLOSE_WAIT);
}

#[tokio::test]
async fn inputs_hold_to_their_schemas() {
    let over = |chars: u32| "x".repeat(chars as usize + 1);
    let targets: Vec<String> = (0..=SUBAGENT_TARGETS)
        .map(|it| format!("agent_{it}"))
        .collect();
    let long = SUBAGENT_WAIT_MS + 1;
    for (tool, input) in [
        ("spawn_agent", json!({"message": over(SUBAGENT_TASK_CHARS)})),
        ("spawn_agent", json!({"message": ""})),
        (
            "send_input",
            json!({"target": "agent_1", "message": over(SUBAGENT_TASK_CHARS)}),
        ),
        ("wait_agent", json!({"targets": targets})),
        (
            "wait_agent",
            json!({"targets": ["agent_1"], "timeout_ms": long}),
        ),
    ] {
        let harness = Harness::answering(move |request| match last_word(request).as_str() {
            "go" => Reply::new().tool_call(tool, input.clone()),
            _ => Reply::from("refused"),
        });
        let harness = harness.subagents().start();
        let session = harness.session().await;
        let events = harness.run(&session, "go").await;
        let error = events.only_result().as_ref().unwrap_err();
        let invalid = halter_protocol::ToolErrorCode::InvalidArguments;
        assert_eq!(error.code, invalid, "{error}");
    }
}

#[test]
fn the_line_of_a_type_is_short() {
    let line = AgentTypeLine {
        name: "wizard".into(),
        description: format!("{}\nSECOND", "w".repeat(SUBAGENT_TYPE_LINE_CHARS + 1)),
    };
    let spec = subagent_tools(&[line])[0].spec();
    let expected = format!("\nwizard: {}", "w".repeat(SUBAGENT_TYPE_LINE_CHARS));
    assert!(
        spec.description.ends_with(&expected),
        "{}",
        spec.description
    );
    let names = &spec.input_schema["properties"]["agent_type"]["enum"];
    assert_eq!(*names, json!(["wizard"]));
}

#[tokio::test]
async fn a_child_that_floods_its_events_holds_nobody_up() {
    let flood = || (0..5_000).fold(Reply::new(), |reply, _| reply.text("flood "));
    let harness = Harness::answering(move |request| match task(request).as_str() {
        "work" => flood(),
        _ if last_word(request) == "go" => spawn_and_wait("work"),
        _ => Reply::from("done"),
    });
    let harness = harness.subagents().start();
    let init = SessionInit::default();
    let init = init.with_subagent_event_forwarding(SubagentEventForwarding::All);
    let session = harness.session_with(init).await;
    // One who reads nothing until the end.
    let mut events = session.subscribe();
    harness.run(&session, "go").await;
    let ended = session.shutdown("enough");
    within("the shutdown", ended).await.unwrap();
    let mut own = Vec::new();
    while let Some(event) = within("an event", events.next()).await {
        let event = event.unwrap();
        if event.session_id == *session.session_id() {
            own.push(event.payload);
        }
    }
    let is_lagged = |it: &&SessionEventPayload| matches!(it, SessionEventPayload::Lagged { .. });
    assert!(own.iter().filter(is_lagged).count() > 0);
    let lossless = |it: &&SessionEventPayload| it.delivery() == halter_protocol::Delivery::Lossless;
    let committed = replayed(&session).await.len();
    assert_eq!(own.iter().filter(lossless).count(), committed);
}
