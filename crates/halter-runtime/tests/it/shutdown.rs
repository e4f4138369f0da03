//! Ending sessions and runtimes.

use crate::support::{assert_everything_ended, code, is_kind, waiting};
use halter_hooks::HookEventName;
use halter_protocol::Turn;
use halter_runtime::limits::END_DEADLINE;
use halter_runtime::{SessionInit, ShutdownReport};
use halter_testkit::events::collect_until;
use halter_testkit::{
    EventsExt, FaultyStore, Gate, Harness, Reply, ScriptedTool, collect, collect_until_error,
    leaks::entries_under, render, within,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_shutdown_cancels_the_live_turn_and_the_waiting_ones() {
    let never = Gate::new();
    let harness = Harness::scripted([Reply::new().text("a").gate(&never)]).start();
    let session = harness.session().await;
    let all = session.subscribe();
    let first = session.submit_turn(Turn::user("first")).await.unwrap();
    let second = session.submit_turn(Turn::user("second")).await.unwrap();
    within("the model", never.reached()).await;
    session.shutdown("closing time").await.unwrap();
    for stream in [first, second] {
        assert_eq!(collect(stream).await.turn_error().code, "cancelled");
    }
    let events = collect(all).await;
    assert!(render(&events).ends_with("session_shutdown_complete closing time"));
    assert_everything_ended(&events);
    assert_eq!(harness.provider().request_count(), 1);
}

#[tokio::test]
async fn shutting_down_twice_is_shutting_down_once() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    let (one, two) = tokio::join!(session.shutdown("a"), session.shutdown("b"));
    one.unwrap();
    two.unwrap();
    session.shutdown("c").await.unwrap();
    let log = session.replay().await.unwrap();
    assert_eq!(log.of_kind("session_shutdown_complete").len(), 1);
}

#[tokio::test]
async fn a_closed_session_takes_nothing_more() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    session.shutdown("bye").await.unwrap();
    let refused = session.submit_turn(Turn::user("?")).await.err().unwrap();
    assert_eq!(code(&refused), "session_closed");
    assert_eq!(
        code(&session.steer("?").await.unwrap_err()),
        "session_closed"
    );
    assert_eq!(code(&session.cancel().await.unwrap_err()), "session_closed");
    let refused = session.notify("?", "?").await.unwrap_err();
    assert_eq!(code(&refused), "session_closed");
}

#[tokio::test]
async fn a_shutdown_waits_for_the_hooks_of_its_end() {
    let gate = Gate::new();
    let harness = Harness::echoing()
        .hook(waiting(HookEventName::SessionEnd, &gate))
        .start();
    let session = harness.session().await;
    let ending = tokio::spawn({
        let session = session.clone();
        async move { session.shutdown("bye").await }
    });
    within("the hook", gate.reached()).await;
    assert!(!ending.is_finished());
    let refused = session.submit_turn(Turn::user("?")).await.err().unwrap();
    assert_eq!(code(&refused), "session_closing");
    gate.open();
    ending.await.unwrap().unwrap();
    assert_everything_ended(&session.replay().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_up_a_tool_that_does_not_stop() {
    let never = Gate::new();
    let deaf = ScriptedTool::new("deaf").waits_at(&never).build();
    let harness = Harness::scripted([Reply::new().tool_call("deaf", json!({}))])
        .tool(deaf)
        .start();
    let session = harness.session().await;
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    within("the tool", never.reached()).await;
    session.shutdown("bye").await.unwrap();
    let events = collect(turn).await;
    assert!(render(&events).contains("tool c1 error outcome_unknown"));
}

#[tokio::test]
async fn invariant_09_a_shutdown_removes_the_scratch_directory() {
    let keep = ScriptedTool::new("keep")
        .runs(|context, _| async move {
            let directory = context.tool_sessions.scratch().create()?;
            std::fs::write(directory.join("notes"), "x")?;
            Ok(halter_protocol::ToolResult::Empty)
        })
        .build();
    let call = || Reply::new().tool_call("keep", json!({}));
    let harness = Harness::scripted([call(), "a".into(), call(), "b".into()])
        .tool(keep)
        .start();
    let scratch = harness.workspace().beside("scratch");
    let session = harness.session().await;
    harness.run(&session, "go").await;
    assert_eq!(entries_under(&scratch).len(), 1);
    session.shutdown("bye").await.unwrap();
    assert!(entries_under(&scratch).is_empty());

    let session = harness.session().await;
    harness.run(&session, "go").await;
    assert_eq!(entries_under(&scratch).len(), 1);
    drop(session);
    halter_testkit::eventually("the scratch directory of a dropped session is gone", || {
        entries_under(&scratch).is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_runtime_lets_running_turns_finish() {
    let gate = Gate::new();
    let harness = Harness::scripted([Reply::new().gate(&gate).text("done")]).start();
    let busy = harness.session().await;
    let idle = harness.session().await;
    let all = idle.subscribe();
    let turn = busy.submit_turn(Turn::user("go")).await.unwrap();
    within("the model", gate.reached()).await;
    let runtime = harness.runtime().clone();
    let ending = tokio::spawn(async move { runtime.shutdown(Duration::from_secs(600)).await });
    gate.open();
    assert_eq!(collect(turn).await.streamed_text(), "done");
    let expected = ShutdownReport {
        turns_drained: 1,
        turns_aborted: 0,
        timed_out: false,
    };
    assert_eq!(ending.await.unwrap(), expected);
    let events = collect(all).await;
    assert_eq!(events.kinds().last(), Some(&"session_shutdown_complete"));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_cancels_turns_that_take_too_long() {
    let never = Gate::new();
    let replies = [Reply::new().text("a").gate(&never), "quick".into()];
    let harness = Harness::scripted(replies).start();
    let slow = harness.session().await;
    let turn = slow.submit_turn(Turn::user("go")).await.unwrap();
    let waiting = slow.submit_turn(Turn::user("then")).await.unwrap();
    within("the model", never.reached()).await;
    let report = harness.runtime().shutdown(Duration::from_secs(5)).await;
    let expected = ShutdownReport {
        turns_drained: 0,
        turns_aborted: 2,
        timed_out: true,
    };
    assert_eq!(report, expected);
    assert_eq!(collect(turn).await.turn_error().code, "cancelled");
    assert_eq!(collect(waiting).await.turn_error().code, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_hang_a_runtime_that_ends() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing().store(store.clone()).start();
    let stuck = harness.session().await;
    let fine = harness.session().await;
    let (all_of_stuck, all_of_fine) = (stuck.subscribe(), fine.subscribe());
    let never = Gate::new();
    store.hold_next_append(&never);
    let turn = stuck.submit_turn(Turn::user("go")).await.unwrap();
    within("the append", never.reached()).await;

    let start = tokio::time::Instant::now();
    let report = harness.runtime().shutdown(Duration::ZERO).await;
    assert_eq!(start.elapsed(), END_DEADLINE);
    let expected = ShutdownReport {
        turns_drained: 0,
        turns_aborted: 1,
        timed_out: true,
    };
    assert_eq!(report, expected);
    for (_, error) in [
        collect_until_error(turn).await,
        collect_until_error(all_of_stuck).await,
    ] {
        assert_eq!(code(&error.unwrap()), "session_poisoned");
    }
    let events = collect(all_of_fine).await;
    assert_eq!(events.kinds().last(), Some(&"session_shutdown_complete"));
    stuck.shutdown("again").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_runtime_waits_until_its_deadline_for_sessions_to_end() {
    let store = Arc::new(FaultyStore::in_memory());
    let harness = Harness::echoing().store(store.clone()).start();
    let session = harness.session().await;
    let slow = Gate::new();
    store.hold_next_append(&slow);
    let open = async {
        slow.reached().await;
        tokio::time::sleep(END_DEADLINE - Duration::from_millis(1)).await;
        slow.open();
    };
    let (report, ()) = tokio::join!(harness.runtime().shutdown(Duration::ZERO), open);
    assert_eq!(report, ShutdownReport::default());
    let log = session.replay().await.unwrap();
    assert_eq!(log.kinds().last(), Some(&"session_shutdown_complete"));
}

#[tokio::test]
async fn a_runtime_without_work_ends_at_once() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    harness.run(&session, "hi").await;
    let report = harness.runtime().shutdown(Duration::ZERO).await;
    assert_eq!(report, ShutdownReport::default());
}

#[tokio::test]
async fn a_runtime_that_ends_takes_no_new_work() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    let id = session.session_id().clone();
    harness.runtime().shutdown(Duration::ZERO).await;
    let init = SessionInit::default().with_working_dir(harness.workspace().path());
    let refused = [
        harness.runtime().new_session(init).await.err().unwrap(),
        harness.runtime().resume(&id).await.err().unwrap(),
        session.submit_turn(Turn::user("?")).await.err().unwrap(),
    ];
    for error in refused {
        assert_eq!(code(&error), "runtime_shutting_down");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_sessions_run_side_by_side() {
    let harness = Harness::answering(|request| match request.messages.len() {
        1 => Reply::new().text("a").tool_call("look", json!({})),
        _ => Reply::new().text("b"),
    })
    .tool(ScriptedTool::new("look").read_only().build())
    .start();
    let asks = (0..100).map(|_| harness.ask("go"));
    for events in futures::future::join_all(asks).await {
        events.assert_gap_free();
        assert_eq!(events.streamed_text(), "ab");
    }
}

#[test]
fn a_current_thread_runtime_is_enough() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let replies = [
            Reply::new().tool_call("shell", json!({"command": "true"})),
            "done".into(),
        ];
        let harness = Harness::scripted(replies)
            .tools(halter_tools::builtin_tools())
            .start();
        let session = harness.session().await;
        let events = harness.run(&session, "go").await;
        assert_eq!(events.kinds().last(), Some(&"turn_completed"));
        assert!(events.only_result().is_ok(), "{}", render(&events));
        harness.runtime().shutdown(Duration::ZERO).await;
    });
}

#[tokio::test]
async fn a_notification_outside_of_a_turn_is_an_event() {
    let harness = Harness::echoing().start();
    let session = harness.session().await;
    let mut all = session.subscribe();
    session
        .notify("permission", "waiting for you")
        .await
        .unwrap();
    let events = collect_until(&mut all, is_kind("notification")).await;
    assert!(render(&events).ends_with("notification permission: waiting for you"));
}

#[tokio::test]
async fn a_shutdown_while_a_notification_is_heard_ends_its_hooks_first() {
    let never = Gate::new();
    let harness = Harness::echoing()
        .hook(waiting(HookEventName::Notification, &never))
        .start();
    let session = harness.session().await;
    session.notify("idle", "hello").await.unwrap();
    within("the hook", never.reached()).await;
    harness.run(&session, "a turn in between").await;
    session.shutdown("bye").await.unwrap();
    let log = session.replay().await.unwrap();
    assert_everything_ended(&log);
    assert_eq!(log.kinds().last(), Some(&"session_shutdown_complete"));
}

/// A part an embedder replaced, and replaced badly.
struct Fragile;

impl halter_runtime::PromptAssembler for Fragile {
    fn assemble(
        &self,
        context: halter_runtime::PromptContext<'_>,
    ) -> halter_protocol::AssembledPrompt {
        assert!(
            context.resources.skills.is_empty(),
            "skills are too much for me"
        );
        Default::default()
    }
}

#[tokio::test]
async fn a_part_that_panics_ends_streams_with_an_error_and_no_other_session() {
    let harness = Harness::scripted(["one", "two"])
        .services(|services| services.prompt_assembler = Arc::new(Fragile))
        .start();
    let session = harness.session().await;
    let all = session.subscribe();
    harness.run(&session, "fine").await;
    let mut snapshot = halter_protocol::ResourceSnapshot::empty();
    snapshot.skills.insert(
        "release".into(),
        halter_protocol::SkillDef::new(
            "skl_1",
            "release",
            "How to release.",
            "/skills/release/SKILL.md",
            "",
        ),
    );
    harness
        .runtime()
        .replace_resources(halter_runtime::Resources {
            snapshot: Arc::new(snapshot),
            ..Default::default()
        });
    let turn = session.submit_turn(Turn::user("go")).await.unwrap();
    let (_, error) = collect_until_error(turn).await;
    assert_eq!(code(&error.unwrap()), "session_poisoned");
    let (_, error) = collect_until_error(all).await;
    assert_eq!(code(&error.unwrap()), "session_poisoned");
    harness.runtime().replace_resources(Default::default());
    let again = harness.resume(&session).await;
    let events = harness.run(&again, "and now?").await;
    assert_eq!(events.kinds().last(), Some(&"turn_completed"));
}
