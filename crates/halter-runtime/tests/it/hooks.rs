//! Hooks at each of their points, and what they can do there.

use crate::support::{Diary, answering, assert_everything_ended, is_kind, text_of};
use halter_hooks::{Hook, HookEventName, HookResponse, PermissionDecision, RegisteredHookPriority};
use halter_protocol::{
    HookRunStatus, SessionEvent, SessionEventPayload, ToolErrorCode, ToolResult,
};
use halter_runtime::limits::STOP_HOOK_CONTINUATIONS;
use halter_testkit::events::collect_until;
use halter_testkit::{EventsExt, Harness, Reply, ScriptedTool, render};
use serde_json::{Value, json};
use std::sync::Arc;

fn call_then_done() -> [Reply; 2] {
    [
        Reply::new().tool_call("look", json!({"at": "wall"})),
        "done".into(),
    ]
}

fn look() -> Arc<ScriptedTool> {
    ScriptedTool::new("look").returns("a wall").build()
}

/// The one call's error.
fn refusal(events: &[SessionEvent]) -> (ToolErrorCode, String) {
    let error = events.only_result().clone().unwrap_err();
    (error.code, error.message)
}

/// Every event but those of subagents, which need one.
fn events_of_one_session() -> Vec<HookEventName> {
    let of_subagents = [HookEventName::SubagentStart, HookEventName::SubagentStop];
    let mut events = HookEventName::ALL.to_vec();
    events.retain(|event| !of_subagents.contains(event));
    events
}

#[tokio::test]
async fn each_of_the_points_fires_and_is_seen() {
    let diary = Diary::default();
    let broken = ScriptedTool::new("broken").fails("no").build();
    let replies = [
        Reply::new()
            .text("I look around. ".repeat(100))
            .tool_call("look", json!({}))
            .tool_call("broken", json!({}))
            .tool_call("deploy", json!({})),
        "done".into(),
        "a summary".into(),
    ];
    // Nobody can be asked: it is requested and denied.
    let deploy = ScriptedTool::new("deploy").requires_approval().build();
    let builder = Harness::scripted(replies).tool(look()).tool(broken);
    let mut builder = builder.tool(deploy);
    for event in events_of_one_session() {
        let diary = diary.clone();
        builder = builder.hook(Hook::callback(event, move |input| {
            diary.note(input.string_field("hook_event_name").unwrap_or("?"));
            async { HookResponse::passthrough() }
        }));
    }
    let harness = builder.start();
    let session = harness.session().await;
    harness.run(&session, "go").await;
    session.compact(None).await.unwrap().unwrap();
    session.notify("idle", "are you there?").await.unwrap();
    session.shutdown("enough").await.unwrap();

    let mut fired = diary.entries();
    fired.sort();
    fired.dedup();
    let mut all: Vec<_> = events_of_one_session()
        .iter()
        .map(ToString::to_string)
        .collect();
    all.sort();
    assert_eq!(fired, all);

    let log = session.replay().await.unwrap();
    log.assert_gap_free();
    assert_everything_ended(&log);
    for event in events_of_one_session() {
        let id = format!("test/{event}/0");
        let runs = log.iter().filter(|it| match &it.payload {
            SessionEventPayload::HookCompleted { run } => {
                run.hook_id == id && run.status == HookRunStatus::Completed
            }
            _ => false,
        });
        assert!(runs.count() > 0, "{id}\n{}", render(&log));
    }
}

#[tokio::test]
async fn a_hook_is_told_what_it_is_about() {
    let told: Arc<std::sync::Mutex<Vec<Value>>> = Arc::default();
    let mut builder = Harness::scripted(call_then_done()).tool(look());
    for event in [
        HookEventName::UserPromptSubmit,
        HookEventName::PreToolUse,
        HookEventName::PostToolUse,
        HookEventName::Stop,
    ] {
        let told = told.clone();
        builder = builder.hook(Hook::callback(event, move |input| {
            told.lock().unwrap().push(input.payload);
            async { HookResponse::passthrough() }
        }));
    }
    let harness = builder.start();
    let session = harness.session().await;
    harness.run(&session, "go").await;
    let told = told.lock().unwrap();
    assert_eq!(told[0]["prompt"], "go");
    assert_eq!(told[1]["tool_name"], "look");
    assert_eq!(told[1]["tool_input"], json!({"at": "wall"}));
    assert_eq!(told[2]["tool_use_id"], told[1]["tool_use_id"]);
    assert!(told[2]["tool_response"].to_string().contains("a wall"));
    assert_eq!(told[3]["last_assistant_message"], "done");
    assert_eq!(told[3]["stop_hook_active"], false);
    for payload in told.iter() {
        assert_eq!(payload["session_id"], session.session_id().as_str());
        assert_eq!(payload["cwd"].as_str(), harness.workspace().path().to_str());
    }
}

#[tokio::test]
async fn a_blocked_prompt_never_reaches_the_model() {
    let block = HookResponse::block("no politics");
    let harness = Harness::scripted(["fine"])
        .hook(answering(HookEventName::UserPromptSubmit, block))
        .start();
    let events = harness.ask("who should I vote for?").await;
    assert_eq!(events.turn_error().code, "hook_blocked");
    assert!(events.turn_error().message.contains("no politics"));
    assert!(events.messages().is_empty());
    assert_eq!(harness.provider().request_count(), 0);
}

#[tokio::test]
async fn a_hook_may_stop_the_turn_at_any_point_of_it() {
    for event in [
        HookEventName::SessionStart,
        HookEventName::UserPromptSubmit,
        HookEventName::PreToolUse,
        HookEventName::PostToolUse,
    ] {
        let tool = look();
        let harness = Harness::scripted(call_then_done())
            .tool(tool.clone())
            .hook(answering(event, HookResponse::stop("that is all")))
            .start();
        let events = harness.ask("go").await;
        assert_eq!(events.turn_error().code, "hook_stopped", "{event}");
        assert!(events.turn_error().message.contains("that is all"));
        let ran = usize::from(event == HookEventName::PostToolUse);
        assert_eq!(tool.calls().len(), ran, "{event}");
    }
}

#[tokio::test]
async fn stopping_after_a_call_does_not_hide_its_result() {
    let stop = HookResponse::stop("that is all");
    let harness = Harness::scripted(call_then_done())
        .tool(look())
        .hook(answering(HookEventName::PostToolUse, stop))
        .start();
    let events = harness.ask("go").await;
    assert_eq!(*events.only_result(), Ok(ToolResult::text("a wall").into()));
}

#[tokio::test]
async fn a_stop_hook_that_stops_ends_the_turn_well() {
    let harness = Harness::scripted(["done"])
        .hook(answering(HookEventName::Stop, HookResponse::stop("good")))
        .start();
    let events = harness.ask("go").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}

#[tokio::test]
async fn a_blocked_call_does_not_run_and_the_model_learns_why() {
    let deny =
        |decision| HookResponse::passthrough().with_permission(decision, Some("not on Fridays"));
    for response in [
        HookResponse::block("not on Fridays"),
        deny(PermissionDecision::Deny),
        deny(PermissionDecision::Ask),
    ] {
        let tool = look();
        let harness = Harness::scripted(call_then_done())
            .tool(tool.clone())
            .hook(answering(HookEventName::PreToolUse, response))
            .start();
        let events = harness.ask("go").await;
        let (code, message) = refusal(&events);
        assert_eq!(code, ToolErrorCode::HookBlocked);
        assert!(message.contains("not on Fridays"));
        assert!(tool.calls().is_empty());
        assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    }
}

#[tokio::test]
async fn allowing_changes_nothing() {
    let allow =
        HookResponse::passthrough().with_permission(PermissionDecision::Allow, Some("go ahead"));
    let tool = look();
    let harness = Harness::scripted(call_then_done())
        .tool(tool.clone())
        .hook(answering(HookEventName::PreToolUse, allow))
        .start();
    harness.ask("go").await;
    assert_eq!(tool.calls().len(), 1);
}

#[tokio::test]
async fn a_hook_that_gives_no_answer_denies() {
    let fails = Hook::callback(HookEventName::PreToolUse, |_| async {
        Err::<HookResponse, _>(anyhow::anyhow!("lost my notes"))
    });
    let panics = Hook::callback(HookEventName::PreToolUse, |_| async {
        if true {
            panic!("at the disco");
        }
        HookResponse::passthrough()
    });
    for hook in [fails, panics] {
        let tool = look();
        let harness = Harness::scripted(call_then_done())
            .tool(tool.clone())
            .hook(hook)
            .start();
        let events = harness.ask("go").await;
        assert_eq!(refusal(&events).0, ToolErrorCode::HookBlocked);
        assert!(tool.calls().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_takes_too_long_denies() {
    let hangs = Hook::callback(HookEventName::PreToolUse, |_| async {
        std::future::pending::<()>().await;
        HookResponse::passthrough()
    });
    let tool = look();
    let harness = Harness::scripted(call_then_done())
        .tool(tool.clone())
        .hook(hangs)
        .start();
    let events = harness.ask("go").await;
    assert_eq!(refusal(&events).0, ToolErrorCode::HookBlocked);
    assert!(tool.calls().is_empty());
}

#[tokio::test]
async fn a_hook_may_rewrite_the_input() {
    let rewrite = HookResponse::passthrough().with_updated_input(json!({"at": "door"}));
    let tool = look();
    let harness = Harness::scripted(call_then_done())
        .tool(tool.clone())
        .hook(answering(HookEventName::PreToolUse, rewrite))
        .start();
    let events = harness.ask("go").await;
    assert_eq!(tool.calls(), [json!({"at": "door"})]);
    let started = render(&events);
    assert!(started.contains(r#"tool_execution_started c1 look {"at":"door"}"#));
}

#[tokio::test]
async fn a_hook_may_rewrite_the_output() {
    let rewrite = HookResponse::passthrough().with_updated_output(json!("a mouse"));
    let harness = Harness::scripted(call_then_done())
        .tool(look())
        .hook(answering(HookEventName::PostToolUse, rewrite))
        .start();
    harness.ask("go").await;
    let told = harness.requests().pop().unwrap().messages;
    assert_eq!(text_of(told.last().unwrap()), "a mouse");
}

#[tokio::test]
async fn a_hook_may_withhold_the_output() {
    let block = HookResponse::block("it holds a password");
    let harness = Harness::scripted(call_then_done())
        .tool(look())
        .hook(answering(HookEventName::PostToolUse, block))
        .start();
    let events = harness.ask("go").await;
    let (code, message) = refusal(&events);
    assert_eq!(code, ToolErrorCode::HookBlocked);
    assert!(message.contains("the call ran") && message.contains("password"));
    let told = harness.requests().pop().unwrap().messages;
    assert!(!text_of(told.last().unwrap()).contains("a wall"));
}

#[tokio::test]
async fn competing_rewrites_fail_the_call() {
    let rewrite = |at: &str| HookResponse::passthrough().with_updated_input(json!({"at": at}));
    let tool = look();
    let harness = Harness::scripted(call_then_done())
        .tool(tool.clone())
        .hook(answering(HookEventName::PreToolUse, rewrite("door")))
        .hook(answering(HookEventName::PreToolUse, rewrite("window")))
        .start();
    let events = harness.ask("go").await;
    let (code, message) = refusal(&events);
    assert_eq!(code, ToolErrorCode::HookBlocked);
    assert!(message.contains("test/PreToolUse/0") && message.contains("test/PreToolUse/1"));
    assert!(tool.calls().is_empty());

    let rewrite = |text: &str| HookResponse::passthrough().with_updated_output(json!(text));
    let harness = Harness::scripted(call_then_done())
        .tool(look())
        .hook(answering(HookEventName::PostToolUse, rewrite("cat")))
        .hook(answering(HookEventName::PostToolUse, rewrite("dog")))
        .start();
    let events = harness.ask("go").await;
    assert_eq!(refusal(&events).0, ToolErrorCode::HookBlocked);
}

#[tokio::test]
async fn rewrites_of_different_priority_do_not_compete() {
    let rewrite = |at: &str| HookResponse::passthrough().with_updated_input(json!({"at": at}));
    let tool = look();
    let harness = Harness::scripted(call_then_done())
        .tool(tool.clone())
        .hook_with(
            "first",
            RegisteredHookPriority::BeforePlugins,
            answering(HookEventName::PreToolUse, rewrite("door")),
        )
        .hook(answering(HookEventName::PreToolUse, rewrite("window")))
        .start();
    harness.ask("go").await;
    assert_eq!(tool.calls(), [json!({"at": "door"})]);
}

#[tokio::test]
async fn a_failure_has_hooks_of_its_own() {
    let diary = Diary::default();
    let noted = diary.clone();
    let hook = Hook::callback(HookEventName::PostToolUseFailure, move |input| {
        noted.note(input.field("error").unwrap().to_string());
        async { HookResponse::passthrough().with_additional_context("try the other door") }
    });
    let tool = ScriptedTool::new("look").fails("it is dark").build();
    let harness = Harness::scripted(call_then_done())
        .tool(tool)
        .hook(hook)
        .start();
    harness.ask("go").await;
    assert!(diary.entries()[0].contains("it is dark"));
    let told = harness.requests().pop().unwrap().messages;
    assert_eq!(text_of(told.last().unwrap()), "try the other door");
}

#[tokio::test]
async fn words_of_hooks_join_the_transcript() {
    let words = HookResponse::passthrough()
        .with_system_message("the build is red")
        .with_additional_context("tests take ten minutes");
    for event in [
        HookEventName::SessionStart,
        HookEventName::UserPromptSubmit,
        HookEventName::PreToolUse,
        HookEventName::PostToolUse,
    ] {
        let harness = Harness::scripted(call_then_done())
            .tool(look())
            .hook(answering(event, words.clone()))
            .start();
        harness.ask("go").await;
        let told = harness.requests().pop().unwrap().messages;
        let texts: Vec<String> = told.iter().map(|message| text_of(message)).collect();
        for expected in ["the build is red", "tests take ten minutes"] {
            let count = texts.iter().filter(|text| *text == expected).count();
            assert_eq!(count, 1, "{event}: {texts:?}");
        }
    }
}

#[tokio::test]
async fn words_of_a_notification_hook_wait_for_the_next_turn() {
    let words = HookResponse::passthrough().with_system_message("the user is back");
    let harness = Harness::scripted(["hi"])
        .hook(answering(HookEventName::Notification, words))
        .start();
    let session = harness.session().await;
    let mut all = session.subscribe();
    session.notify("presence", "back").await.unwrap();
    collect_until(&mut all, is_kind("hook_completed")).await;
    harness.run(&session, "hello").await;
    let told = harness.requests().pop().unwrap().messages;
    let texts: Vec<String> = told.iter().map(|message| text_of(message)).collect();
    assert_eq!(texts, ["hello", "the user is back"]);
}

#[tokio::test]
async fn a_stop_hook_may_make_the_turn_go_on_so_many_times() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let active = seen.clone();
    let hook = Hook::callback(HookEventName::Stop, move |input| {
        active
            .lock()
            .unwrap()
            .push(input.field("stop_hook_active") == Some(&json!(true)));
        async { HookResponse::block("the tests still fail") }
    });
    let harness = Harness::answering(|_| "done").hook(hook).start();
    let events = harness.ask("fix it").await;
    let continuations = usize::try_from(STOP_HOOK_CONTINUATIONS).unwrap();
    assert_eq!(harness.provider().request_count(), 1 + continuations);
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
    assert!(render(&events).contains("warning Stop hooks asked to go on more than 8 times"));
    let seen = seen.lock().unwrap();
    assert!(!seen[0]);
    assert!(seen[1..].iter().all(|active| *active));
}

#[tokio::test]
async fn the_reason_of_a_stop_hook_is_what_the_model_reads_next() {
    let hook = Hook::function(HookEventName::Stop, || {
        let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
        move |_| {
            let first = first.swap(false, std::sync::atomic::Ordering::SeqCst);
            async move {
                match first {
                    true => HookResponse::block("run the tests too"),
                    false => HookResponse::passthrough(),
                }
            }
        }
    });
    let harness = Harness::scripted(["done", "tested"]).hook(hook).start();
    let events = harness.ask("fix it").await;
    let told = harness.requests().pop().unwrap().messages;
    assert_eq!(text_of(told.last().unwrap()), "run the tests too");
    assert_eq!(events.of_kind("turn_completed").len(), 1);
}

#[tokio::test]
async fn a_hook_that_runs_once_runs_once_in_all_the_life_of_a_session() {
    let diary = Diary::default();
    let noted = diary.clone();
    let hook = Hook::callback(HookEventName::UserPromptSubmit, move |_| {
        noted.note("ran");
        async { HookResponse::passthrough() }
    })
    .with_once(true);
    let first = Harness::scripted(["a", "b"]).hook(hook).start();
    let session = first.session().await;
    first.run(&session, "one").await;
    first.run(&session, "two").await;
    session.shutdown("bye").await.unwrap();
    let second = first.another_process(["c"]).start();
    let resumed = second.resume(&session).await;
    second.run(&resumed, "three").await;
    assert_eq!(diary.entries(), ["ran"]);
    first.ask("another session").await;
    assert_eq!(diary.entries(), ["ran", "ran"]);
}

#[tokio::test]
async fn session_start_says_whether_the_session_is_new() {
    let diary = Diary::default();
    let noted = diary.clone();
    let hook = Hook::callback(HookEventName::SessionStart, move |input| {
        noted.note(input.string_field("source").unwrap());
        async { HookResponse::passthrough() }
    });
    let first = Harness::scripted(["a", "b"]).hook(hook).start();
    let session = first.session().await;
    first.run(&session, "one").await;
    first.run(&session, "two").await;
    session.shutdown("bye").await.unwrap();
    let second = first.another_process(["c"]).start();
    let resumed = second.resume(&session).await;
    second.run(&resumed, "three").await;
    assert_eq!(diary.entries(), ["startup", "resume"]);
}

#[tokio::test]
async fn a_matcher_picks_the_tools_a_hook_is_for() {
    let block =
        answering(HookEventName::PreToolUse, HookResponse::block("no")).with_matcher("^write$");
    let tool = look();
    let harness = Harness::scripted(call_then_done())
        .tool(tool.clone())
        .hook(block)
        .start();
    let events = harness.ask("go").await;
    assert_eq!(tool.calls().len(), 1);
    assert!(!events.kinds().contains(&"hook_started"));
}

#[tokio::test]
async fn hooks_are_told_the_model_of_the_turn() {
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = told.clone();
    let hook = Hook::callback(HookEventName::UserPromptSubmit, move |input| {
        let model = input.string_field("model").unwrap().to_owned();
        heard.lock().unwrap().push(model);
        async { HookResponse::passthrough() }
    });
    let harness = Harness::scripted(["one", "two"])
        .model("small")
        .hook(hook)
        .start();
    let session = harness.session().await;
    harness.run(&session, "first").await;
    let turn = halter_protocol::Turn::user("second").with_default_model("small");
    halter_testkit::collect(session.submit_turn(turn).await.unwrap()).await;
    assert_eq!(*told.lock().unwrap(), ["default", "small"]);
}
