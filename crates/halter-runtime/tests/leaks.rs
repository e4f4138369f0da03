//! Invariant 9: nothing is left behind, however sessions end.
//!
//! A binary of its own with one test, because it counts the descriptors and
//! processes of the whole process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

use halter_protocol::{Message, SessionEventPayload, Turn};
use halter_runtime::SessionHandle;
use halter_testkit::events::collect_until;
use halter_testkit::leaks::{descendants, entries_under, processes_with};
use halter_testkit::{
    EventsExt, Harness, LeakCheck, Reply, TempWorkspace, collect, eventually, render,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SESSIONS: u64 = 200;
const SIDE_BY_SIDE: u64 = 8;
const MARK: &str = "HALTER_LEAK_TEST";

/// How a session ends.
#[derive(Debug, Clone, Copy)]
enum End {
    ShutDownIdle,
    ShutDownBusy,
    CancelledThenShutDown,
    CancelledThenDropped,
    DroppedIdle,
    /// The turn goes on until the runtime ends.
    DroppedBusy,
}

const ENDS: [End; 6] = [
    End::ShutDownIdle,
    End::ShutDownBusy,
    End::CancelledThenShutDown,
    End::CancelledThenDropped,
    End::DroppedIdle,
    End::DroppedBusy,
];

/// A model whose prompt is the command to run.
fn harness(workspace: &Arc<TempWorkspace>, mark: &str) -> Harness {
    let environment = BTreeMap::from([
        ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
        (MARK.into(), mark.into()),
    ]);
    Harness::answering(|request| {
        let last = request.messages.last().unwrap();
        match last.as_ref() {
            Message::User(user) => {
                Reply::new().tool_call("shell", json!({"command": user.plain_text()}))
            }
            _ => Reply::new().text("done"),
        }
    })
    .tools(halter_tools::builtin_tools())
    .workspace(workspace.clone())
    .services(|services| {
        services.base_environment = Arc::new(environment);
        services.policy.allowed_shell_commands =
            ["sleep", "echo", "cat"].map(str::to_owned).to_vec().into();
        services.policy.shell_timeout_secs = 600;
    })
    .start()
}

/// Starts a command that does not end, and returns once it runs.
async fn start_sleeping(session: &SessionHandle) -> halter_runtime::TurnStream {
    let command = "echo awake; sleep 1000 | cat; sleep 1000";
    let mut turn = session.submit_turn(Turn::user(command)).await.unwrap();
    let events = collect_until(&mut turn, |payload| {
        matches!(
            payload,
            SessionEventPayload::ToolOutput { .. }
                | SessionEventPayload::ToolExecutionCompleted { .. }
        )
    })
    .await;
    assert!(
        render(&events).ends_with("tool_output c1 \"awake\\n\""),
        "{:?}",
        events.outcomes()
    );
    turn
}

async fn live(harness: &Harness, end: End) {
    let session = harness.session().await;
    let events = harness.run(&session, "echo hello").await;
    assert!(events.only_result().is_ok(), "{:?}", events.only_result());
    match end {
        End::ShutDownIdle => session.shutdown("done").await.unwrap(),
        End::DroppedIdle => drop(session),
        End::ShutDownBusy => {
            let turn = start_sleeping(&session).await;
            session.shutdown("done").await.unwrap();
            collect(turn).await;
        }
        End::CancelledThenShutDown | End::CancelledThenDropped => {
            let turn = start_sleeping(&session).await;
            session.cancel().await.unwrap();
            let events = collect(turn).await;
            assert_eq!(events.turn_error().code, "cancelled");
            if matches!(end, End::CancelledThenShutDown) {
                session.shutdown("done").await.unwrap();
            }
        }
        End::DroppedBusy => drop(start_sleeping(&session).await),
    }
}

/// Lets many sessions live and end in a random order of ways.
async fn many_lives(workspace: &Arc<TempWorkspace>, mark: &str) {
    let harness = harness(workspace, mark);
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..SESSIONS / SIDE_BY_SIDE {
        let lives = (0..SIDE_BY_SIDE).map(|_| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let end = ENDS[usize::try_from(dice >> 33).unwrap() % ENDS.len()];
            live(&harness, end)
        });
        futures::future::join_all(lives).await;
    }
    harness.runtime().shutdown(Duration::ZERO).await;
}

async fn assert_nothing_left(workspace: &TempWorkspace, mark: &str) {
    eventually("no process carries the mark", || {
        processes_with(MARK, mark).is_empty()
    })
    .await;
    let scratch = workspace.beside("scratch");
    eventually("no scratch directory is left", || {
        entries_under(&scratch).is_empty()
    })
    .await;
}

#[test]
fn invariant_09_sessions_leave_no_process_descriptor_or_directory_behind() {
    let workspace = Arc::new(TempWorkspace::new());
    let mark = format!("{}-{}", std::process::id(), workspace.path().display());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        // Once before counting: the first session opens what lives as long as
        // the process.
        live(&harness(&workspace, &mark), End::ShutDownBusy).await;
        let check = LeakCheck::start();
        many_lives(&workspace, &mark).await;
        assert_nothing_left(&workspace, &mark).await;
        check.assert_clean().await;
    });

    // A program that ends in the middle of a command leaves nothing either.
    let crashing = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    crashing.block_on(async {
        let harness = harness(&workspace, &mark);
        let session = harness.session().await;
        start_sleeping(&session).await;
        assert!(!descendants().is_empty());
    });
    drop(crashing);
    runtime.block_on(assert_nothing_left(&workspace, &mark));
}
