//! Invariant 6: any error in a blocking hook denies. Elsewhere a failed hook
//! is reported and ignored.

use crate::support::{World, call, hooks};
use halter_hooks::limits::DEFAULT_TIMEOUT;
use halter_hooks::{Hook, HookEventName, HookResponse, HookVerdict};
use halter_protocol::HookRunStatus;
use std::time::Duration;

const BLOCKING: [HookEventName; 3] = [
    HookEventName::UserPromptSubmit,
    HookEventName::PreToolUse,
    HookEventName::PermissionRequest,
];

fn erring(event: HookEventName) -> Hook {
    Hook::callback(event, |_| async {
        let cause: anyhow::Result<HookResponse> = Err(anyhow::anyhow!("disk full"));
        cause.map_err(|error| error.context("audit log"))
    })
}

fn panicking(event: HookEventName) -> Hook {
    Hook::callback(event, |input| async move {
        assert!(input.payload.is_null(), "boom {}", 7);
        HookResponse::passthrough()
    })
}

fn panicking_at_once(event: HookEventName) -> Hook {
    Hook::callback(event, |input| {
        if input.payload.is_object() {
            panic!("no future");
        }
        async { HookResponse::passthrough() }
    })
}

fn panicking_factory(event: HookEventName) -> Hook {
    Hook::function(event, || {
        let ready = std::hint::black_box(false);
        assert!(ready, "no factory");
        |_| async { HookResponse::passthrough() }
    })
}

fn hanging(event: HookEventName) -> Hook {
    Hook::callback(event, |_| std::future::pending::<HookResponse>())
        .with_timeout(Duration::from_secs(2))
}

type Broken = (fn(HookEventName) -> Hook, &'static str);

const BROKEN: [Broken; 5] = [
    (erring, "failed: audit log: disk full"),
    (panicking, "panicked: boom 7"),
    (panicking_at_once, "panicked: no future"),
    (
        panicking_factory,
        "panicked while its handler was made: no factory",
    ),
    (hanging, "gave no answer within 2s"),
];

#[tokio::test(start_paused = true)]
async fn a_blocking_hook_that_gives_no_answer_denies() {
    for event in BLOCKING {
        for (broken, words) in BROKEN {
            let world = World::new();
            let verdict = world
                .dispatch(&hooks([broken(event)]), event, call("shell"))
                .await;
            assert_eq!(
                verdict.denial(),
                Some(format!(
                    "hook `p0/{event}/0` {words}; a {event} hook that gives no answer denies"
                ))
            );
            assert_eq!(world.seen.completed()[0].status, HookRunStatus::Failed);
            assert_eq!(world.seen.words(), [format!("error: {words}")]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn elsewhere_a_failed_hook_is_reported_and_ignored() {
    for event in HookEventName::ALL {
        if BLOCKING.contains(&event) {
            continue;
        }
        for (broken, words) in BROKEN {
            let world = World::new();
            let verdict = world
                .dispatch(&hooks([broken(event)]), event, call("shell"))
                .await;
            assert_eq!(verdict, HookVerdict::default());
            assert_eq!(world.seen.completed()[0].status, HookRunStatus::Failed);
            assert_eq!(world.seen.words(), [format!("error: {words}")]);
        }
    }
}

#[tokio::test]
async fn a_failure_does_not_keep_later_hooks_from_running() {
    let later = Hook::callback(HookEventName::PreToolUse, |_| async {
        HookResponse::block("also no")
    });
    let world = World::new();
    let hooks = hooks([erring(HookEventName::PreToolUse), later]);
    let reason = world.pre_tool_use(&hooks).await.block.unwrap();
    assert!(reason.starts_with("hook `p0/PreToolUse/0` failed"));
    assert!(reason.ends_with("\nalso no"));
}

#[tokio::test(start_paused = true)]
async fn the_default_timeout_is_thirty_seconds() {
    let hook = Hook::callback(HookEventName::PreToolUse, |_| {
        std::future::pending::<HookResponse>()
    });
    let before = tokio::time::Instant::now();
    let verdict = World::new().pre_tool_use(&hooks([hook])).await;
    assert_eq!(before.elapsed(), DEFAULT_TIMEOUT);
    assert_eq!(DEFAULT_TIMEOUT.as_secs(), 30);
    assert!(verdict.denial().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_handler_is_stopped() {
    struct Dropped(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (sender, mut dropped) = tokio::sync::mpsc::unbounded_channel();
    let hook = Hook::callback(HookEventName::Stop, move |_| {
        let guard = Dropped(sender.clone());
        async move {
            let _guard = guard;
            std::future::pending::<HookResponse>().await
        }
    });
    World::new()
        .dispatch(&hooks([hook]), HookEventName::Stop, call("x"))
        .await;
    dropped.recv().await.unwrap();
}
