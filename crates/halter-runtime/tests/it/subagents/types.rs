//! What types of children have, in the list of tools and when a tool is called.

use super::{ended, last_word, spawn, task};
use crate::support::replayed;
use halter_protocol::{SessionEventPayload, SubagentState};
use halter_providers::Reply;
use halter_runtime::{AgentTypes, SessionInit};
use halter_testkit::{EventsExt, Harness, HarnessBuilder};
use halter_tools::builtin_tools;
use serde_json::{Value, json};

const WRITERS: [&str; 8] = [
    "write",
    "edit",
    "multi_edit",
    "apply_patch",
    "delete",
    "rename",
    "notebook_edit",
    "shell",
];

/// A parent that hands `task` to a child of a type, which calls a tool.
fn delegating(agent_type: &'static str, tool: &'static str, input: Value) -> HarnessBuilder {
    Harness::answering(move |request| match task(request).as_str() {
        "work" if last_word(request) == "work" => Reply::new().tool_call(tool, input.clone()),
        "work" => Reply::from(last_word(request)),
        _ if last_word(request) == "go" => {
            spawn(json!({"message": "work", "agent_type": agent_type, "wait": true}))
        }
        _ => Reply::from("done"),
    })
    .subagents()
    .tools(builtin_tools())
}

#[tokio::test]
async fn a_type_has_its_tools_in_the_list_and_when_they_are_called() {
    for name in AgentTypes::built_in().names() {
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        let types = AgentTypes::built_in();
        let agent_type = types.get(name).unwrap();
        let input = json!({"path": "new.txt", "content": "x"});
        let harness = delegating(name, "write", input).start();
        let session = harness.session().await;
        harness.run(&session, "go").await;
        let requests = harness.requests();
        let of_child = requests.iter().find(|it| task(it) == "work").unwrap();
        let listed: Vec<&str> = of_child.tools.iter().map(|it| it.name.as_str()).collect();
        for tool in builtin_tools() {
            let tool = tool.spec().name;
            let expected = agent_type.has_tool(&tool);
            assert_eq!(listed.contains(&tool.as_str()), expected, "{name}: {tool}");
        }
        let may_write = name == "general";
        assert_eq!(
            harness.workspace().path().join("new.txt").exists(),
            may_write,
            "{name}"
        );
    }
}

#[tokio::test]
async fn explore_cannot_write_even_if_the_model_insists() {
    for writer in WRITERS {
        let input = json!({"path": "new.txt", "content": "x", "command": "touch new.txt"});
        let harness = delegating("explore", writer, input).start();
        let session = harness.session().await;
        let events = harness.run(&session, "go").await;
        let report = ended(&events).remove(0).last_message.unwrap();
        assert!(
            report.contains("no tool") || report.contains("unknown"),
            "{writer}: {report}"
        );
        assert!(!harness.workspace().path().join("new.txt").exists());
    }
}

#[tokio::test]
async fn a_child_has_nothing_that_was_taken_from_its_parent() {
    let harness = delegating("general", "write", json!({"path": "a", "content": "x"})).start();
    let init = SessionInit::default().without_tool("write");
    let session = harness.session_with(init).await;
    let events = harness.run(&session, "go").await;
    assert_eq!(ended(&events)[0].state, SubagentState::Completed);
    assert!(!harness.workspace().path().join("a").exists());
}

#[tokio::test]
async fn what_does_not_exist_is_refused_with_what_does() {
    for (input, expected) in [
        (json!({"message": "x", "agent_type": "wizard"}), "general"),
        (json!({"message": "x", "model": "gpt-5"}), "known ids"),
    ] {
        let harness = Harness::answering(move |request| match last_word(request).as_str() {
            "go" => spawn(input.clone()),
            word => Reply::from(word.to_owned()),
        })
        .subagents()
        .start();
        let session = harness.session().await;
        let events = harness.run(&session, "go").await;
        let text = events.streamed_text();
        assert!(text.contains(expected), "{text}");
        assert!(
            replayed(&session)
                .await
                .of_kind("subagent_started")
                .is_empty()
        );
    }
}

#[tokio::test]
async fn children_nest_so_deep_and_no_deeper() {
    let harness = Harness::answering(|request| match last_word(request).as_str() {
        "go" | "work" => spawn(json!({"message": "work", "wait": true})),
        word => Reply::from(word.to_owned()),
    })
    .subagents()
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    let depth = halter_tools::policy::limits::SUBAGENT_DEPTH as usize;
    let children = harness.requests();
    let sessions: std::collections::BTreeSet<_> =
        children.iter().map(|it| it.session_id.clone()).collect();
    assert_eq!(sessions.len(), depth + 1);
    // The last one is not told of the tool, and cannot call it.
    assert!(
        events.streamed_text().contains("spawn_agent"),
        "{}",
        events.streamed_text()
    );
    let deepest = children.iter().filter(|it| it.tools.is_empty()).count();
    assert!(deepest > 0);
}

#[tokio::test]
async fn so_many_children_run_at_once_and_no_more() {
    let gate = halter_testkit::Gate::new();
    let held = gate.clone();
    let limit = halter_tools::policy::limits::CONCURRENT_SUBAGENTS as usize;
    let harness = Harness::answering(move |request| match task(request).as_str() {
        "work" => Reply::new().gate(&held).text("worked"),
        _ if last_word(request) == "go" => (0..=limit).fold(Reply::new(), |reply, _| {
            reply.tool_call("spawn_agent", json!({"message": "work"}))
        }),
        _ => Reply::from("started"),
    })
    .subagents()
    .start();
    let session = harness.session().await;
    let events = harness.run(&session, "go").await;
    assert_eq!(session.running_subagents(), limit);
    let failed = events
        .outcomes()
        .into_iter()
        .filter(|it| it.result.is_err());
    let failed: Vec<String> = failed.map(|it| format!("{:?}", it.result)).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].contains("max_concurrent_subagents"), "{failed:?}");
    gate.open();
    halter_testkit::within("the session settles", session.settled()).await;
    let all = replayed(&session).await;
    let ended = all
        .iter()
        .filter(|it| matches!(it.payload, SessionEventPayload::SubagentEnded { .. }));
    assert_eq!(ended.count(), limit);
}
