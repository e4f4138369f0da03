//! Calls that are wrong, tools that misbehave, and the one way to a tool.

use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::{Message, SessionEventPayload, ToolErrorCode, ToolResult, Turn};
use halter_runtime::limits::{CANCEL_GRACE, TOOL_DEADLINE};
use halter_testkit::{EventsExt, Gate, Harness, Reply, ScriptedTool, collect, render, within};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn strict(name: &str) -> ScriptedTool {
    ScriptedTool::new(name).schema(json!({
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }))
}

#[tokio::test]
async fn a_call_that_is_wrong_is_answered_and_the_turn_goes_on() {
    for (reply, code, words) in [
        (
            Reply::new().tool_call_text("read", ["{oops"]),
            ToolErrorCode::InvalidArguments,
            "Send one JSON object",
        ),
        (
            Reply::new().tool_call_text("read", ["[1]"]),
            ToolErrorCode::InvalidArguments,
            "not a JSON object",
        ),
        (
            Reply::new().tool_call("read", json!({"path": 3})),
            ToolErrorCode::InvalidArguments,
            "path",
        ),
        (
            Reply::new().tool_call("reed", json!({})),
            ToolErrorCode::UnknownTool,
            "did you mean 'read'?",
        ),
    ] {
        let tool = strict("read").build();
        let harness = Harness::scripted([reply, "sorry".into()])
            .tool(tool.clone())
            .start();
        let events = harness.ask("go").await;
        let error = events.only_result().as_ref().unwrap_err();
        assert_eq!(error.code, code);
        assert!(error.message.contains(words), "{}", error.message);
        assert!(tool.calls().is_empty());
        assert_eq!(events.kinds().last(), Some(&"turn_completed"));
        assert!(!events.kinds().contains(&"tool_execution_started"));
    }
}

#[tokio::test]
async fn a_call_without_argument_text_has_no_arguments() {
    let look = ScriptedTool::new("look").build();
    let reply = Reply::new().tool_call_text("look", [""]);
    let harness = Harness::scripted([reply, "ok".into()])
        .tool(look.clone())
        .start();
    harness.ask("go").await;
    assert_eq!(look.calls(), [json!({})]);
}

#[tokio::test]
async fn a_call_id_used_twice_runs_once() {
    let look = ScriptedTool::new("look").build();
    let reply = Reply::new()
        .tool_call_with_id("same", "look", json!({"n": 1}))
        .tool_call_with_id("same", "look", json!({"n": 2}));
    let harness = Harness::scripted([reply, "ok".into()])
        .tool(look.clone())
        .start();
    let events = harness.ask("go").await;
    assert_eq!(look.calls(), [json!({"n": 1})]);
    assert!(render(&events).contains("warning the model used the call id 'same' twice"));
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn a_call_id_of_an_earlier_answer_is_a_call_of_its_own() {
    let look = ScriptedTool::new("look").build();
    let call = |n: u32| Reply::new().tool_call_with_id("call_0", "look", json!({"n": n}));
    let harness = Harness::scripted([call(1), call(2), "ok".into()])
        .tool(look.clone())
        .start();
    let events = harness.ask("go").await;
    assert_eq!(look.calls().len(), 2);
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn a_tool_that_fails_is_reported_to_the_model() {
    let broken = ScriptedTool::new("broken")
        .fails("the disk is on fire")
        .build();
    let replies = [Reply::new().tool_call("broken", json!({})), "oh".into()];
    let harness = Harness::scripted(replies).tool(broken).start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Failed);
    assert!(error.message.contains("the disk is on fire"));
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn a_tool_that_panics_takes_nothing_with_it() {
    let broken = ScriptedTool::new("broken")
        .runs(|_, _| async { panic!("at the disco") })
        .build();
    let replies = [Reply::new().tool_call("broken", json!({})), "oh".into()];
    let harness = Harness::scripted(replies).tool(broken).start();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Failed);
    assert!(error.message.contains("panicked"));
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test(start_paused = true)]
async fn an_overdue_tool_that_stops_has_timed_out() {
    let wait = ScriptedTool::new("wait").waits_for_cancel().build();
    let replies = [Reply::new().tool_call("wait", json!({})), "oh".into()];
    let harness = Harness::scripted(replies).tool(wait).start();
    let started = tokio::time::Instant::now();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::TimedOut);
    assert_eq!(started.elapsed().as_secs(), TOOL_DEADLINE.as_secs());
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test(start_paused = true)]
async fn an_overdue_tool_that_does_not_stop_is_given_up() {
    let never = Gate::new();
    let deaf = ScriptedTool::new("deaf").waits_at(&never).build();
    let replies = [Reply::new().tool_call("deaf", json!({})), "oh".into()];
    let harness = Harness::scripted(replies).tool(deaf).start();
    let started = tokio::time::Instant::now();
    let events = harness.ask("go").await;
    let error = events.only_result().as_ref().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::OutcomeUnknown);
    let allowed = TOOL_DEADLINE + CANCEL_GRACE;
    assert_eq!(started.elapsed().as_secs(), allowed.as_secs());
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test(start_paused = true)]
async fn a_long_running_tool_has_no_deadline() {
    let slow = ScriptedTool::new("slow")
        .long_running()
        .runs(|_, _| async {
            tokio::time::sleep(TOOL_DEADLINE * 100).await;
            Ok(ToolResult::text("at last"))
        })
        .build();
    let replies = [Reply::new().tool_call("slow", json!({})), "oh".into()];
    let harness = Harness::scripted(replies).tool(slow).start();
    let events = harness.ask("go").await;
    assert_eq!(
        *events.only_result(),
        Ok(ToolResult::text("at last").into())
    );
}

#[tokio::test(start_paused = true)]
async fn invariant_08_a_tool_may_use_its_deadline_to_the_end() {
    let slow = ScriptedTool::new("slow")
        .runs(|_, _| async {
            tokio::time::sleep(TOOL_DEADLINE - Duration::from_millis(1)).await;
            Ok(ToolResult::text("just in time"))
        })
        .build();
    let replies = [Reply::new().tool_call("slow", json!({})), "oh".into()];
    let harness = Harness::scripted(replies).tool(slow).start();
    let events = harness.ask("go").await;
    assert_eq!(
        *events.only_result(),
        Ok(ToolResult::text("just in time").into())
    );
}

#[tokio::test]
async fn a_cancel_beats_a_result_that_comes_too_late() {
    let never = Gate::new();
    let deaf = ScriptedTool::new("deaf").waits_at(&never).build();
    let replies = [Reply::new().tool_call("deaf", json!({})), "fine".into()];
    let harness = Harness::scripted(replies).tool(deaf).start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the tool", never.reached()).await;
    tokio::time::pause();
    session.cancel().await.unwrap();
    collect(turn).await;
    never.open();
    let events = harness.run(&session, "next").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    let log = session.replay().await.unwrap();
    assert_eq!(log.outcomes().len(), 1);
}

/// A built-in tool, a tool of the embedder's and a call that a hook rewrote
/// pass the same checks: schema, hooks, policy.
#[tokio::test]
async fn invariant_06_every_call_passes_the_same_pipeline() {
    let own = strict("own").build();
    let rewritten = strict("rewritten").build();
    let rewrite = Hook::callback(HookEventName::PreToolUse, |input| async move {
        match input.tool_name() {
            Some("rewritten") => HookResponse::passthrough().with_updated_input(json!({"path": 3})),
            _ => HookResponse::passthrough(),
        }
    });
    let guard = Hook::callback(HookEventName::PreToolUse, |input| async move {
        let path = input.field("tool_input").and_then(|it| it["path"].as_str());
        match path {
            Some("forbidden.txt") => HookResponse::block("hands off"),
            _ => HookResponse::passthrough(),
        }
    });
    let reply = Reply::new()
        .tool_call("read", json!({"path": 3}))
        .tool_call("own", json!({"path": 3}))
        .tool_call("read", json!({"path": "forbidden.txt"}))
        .tool_call("own", json!({"path": "forbidden.txt"}))
        .tool_call("rewritten", json!({"path": "fine.txt"}))
        .tool_call("read", json!({"path": "/etc/shadow"}))
        .tool_call("read", json!({"path": "fine.txt"}))
        .tool_call("own", json!({"path": "fine.txt"}));
    let harness = Harness::scripted([reply, "done".into()])
        .tools(halter_tools::builtin_tools())
        .tool(own.clone())
        .tool(rewritten.clone())
        .hook(rewrite)
        .hook(guard)
        .start();
    harness.workspace().write("fine.txt", "fine");
    harness.workspace().write("forbidden.txt", "secret");
    let events = harness.ask("go").await;
    let mut codes: Vec<_> = events
        .messages()
        .into_iter()
        .filter_map(|message| match message {
            halter_protocol::Message::Tool(tool) => Some(
                tool.error
                    .as_ref()
                    .map_or("ok".to_owned(), |e| e.code.to_string()),
            ),
            _ => None,
        })
        .collect();
    assert_eq!(codes.split_off(6), ["ok", "ok"]);
    assert_eq!(
        codes,
        [
            "invalid_arguments",
            "invalid_arguments",
            "hook_blocked",
            "hook_blocked",
            "invalid_arguments",
            "policy_denied",
        ]
    );
    assert_eq!(own.calls(), [json!({"path": "fine.txt"})]);
    assert!(rewritten.calls().is_empty());
}

#[tokio::test]
async fn a_tool_without_a_policy_it_can_be_bound_to_is_refused() {
    let look = ScriptedTool::new("look").build();
    let replies = [Reply::new().tool_call("look", json!({})), "oh".into()];
    let harness = Harness::scripted(replies)
        .tool(look.clone())
        .services(|services| {
            services.policy.sensitive_path_patterns = Some(vec!["[".to_owned()]);
        })
        .start();
    let events = harness.ask("go").await;
    assert!(events.only_result().is_err());
    assert!(look.calls().is_empty());
}

#[tokio::test]
async fn running_out_of_descriptors_is_the_turns_error() {
    let open = ScriptedTool::new("open")
        .runs(|_, _| async { Err(std::io::Error::from_raw_os_error(24).into()) })
        .build();
    let look = ScriptedTool::new("look").build();
    let replies = [Reply::new()
        .tool_call("open", json!({}))
        .tool_call("look", json!({}))];
    let harness = Harness::scripted(replies)
        .tool(open)
        .tool(look.clone())
        .start();
    let events = harness.ask("go").await;
    assert_eq!(events.turn_error().code, "out_of_descriptors");
    assert!(
        events
            .turn_error()
            .hint
            .as_ref()
            .unwrap()
            .contains("ulimit -n")
    );
    assert!(look.calls().is_empty(), "no call would work");
    assert_eq!(events.outcomes().len(), 2, "every call keeps a result");
}

/// However large, a result is kept once: the event, the state and the message
/// that the model reads share it.
#[tokio::test]
async fn a_result_is_shared_from_the_tool_to_the_request() {
    let tool = ScriptedTool::new("look").returns(&"x".repeat(100_000));
    let replies = [Reply::new().tool_call("look", json!({})), "oh".into()];
    let harness = Harness::scripted(replies).tool(tool.build()).start();
    let events = harness.ask("go").await;
    let completed = events.only_result().as_ref().unwrap();
    let message = events.iter().find_map(|event| match &event.payload {
        SessionEventPayload::MessageItem { message } => match message.as_ref() {
            Message::Tool(tool) => Some(tool.content.clone()),
            _ => None,
        },
        _ => None,
    });
    let message = message.unwrap();
    assert!(Arc::ptr_eq(completed, &message));
    let requests = harness.requests();
    let request = &requests[1].messages;
    let sent = request.iter_newest_first().next().unwrap();
    let Message::Tool(sent) = sent.as_ref() else {
        panic!("{sent:?}");
    };
    assert!(Arc::ptr_eq(&sent.content, &message));
}
