//! Once-only hooks, and handlers made for one session.

use crate::support::{World, call, hooks};
use halter_hooks::{Hook, HookEventName, HookResponse, Hooks};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;

fn greeting() -> Hook {
    Hook::callback(HookEventName::SessionStart, |_| async {
        HookResponse::passthrough().with_system_message("hello")
    })
    .with_once(true)
}

async fn greetings(world: &World, hooks: &Hooks) -> usize {
    let verdict = world
        .dispatch(hooks, HookEventName::SessionStart, call("x"))
        .await;
    verdict.system_messages.len()
}

#[tokio::test]
async fn a_once_only_hook_runs_once_even_before_its_run_is_in_the_log() {
    let world = World::new();
    let hooks = hooks([greeting()]);
    assert_eq!(greetings(&world, &hooks).await, 1);
    assert_eq!(greetings(&world, &hooks).await, 0);
    assert_eq!(greetings(&World::new(), &hooks).await, 1);
}

#[tokio::test]
async fn a_once_only_hook_that_the_log_knows_does_not_run_again() {
    let mut world = World::new();
    world.fired.insert("p0/SessionStart/0".into());
    assert_eq!(greetings(&world, &hooks([greeting()])).await, 0);
    assert!(world.seen.started().is_empty());
}

#[tokio::test]
async fn a_once_only_hook_that_failed_has_not_had_its_run() {
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = attempts.clone();
    let hook = Hook::callback(HookEventName::PreToolUse, move |_| {
        let attempt = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            anyhow::ensure!(attempt > 0, "not yet");
            Ok(HookResponse::passthrough())
        }
    })
    .with_once(true);
    let (world, hooks) = (World::new(), hooks([hook]));
    assert!(world.pre_tool_use(&hooks).await.denial().is_some());
    assert!(world.pre_tool_use(&hooks).await.denial().is_none());
    assert!(world.pre_tool_use(&hooks).await.denial().is_none());
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_cancelled_once_only_hook_may_run_again() {
    let begun = Arc::new(Notify::new());
    let notify = begun.clone();
    let hook = Hook::callback(HookEventName::Stop, move |_| {
        notify.notify_one();
        std::future::pending::<HookResponse>()
    })
    .with_once(true);
    let mut world = World::new();
    let hooks = hooks([hook]);
    for _ in 0..2 {
        world.cancel = tokio_util::sync::CancellationToken::new();
        tokio::join!(
            world.dispatch(&hooks, HookEventName::Stop, call("x")),
            async {
                begun.notified().await;
                world.cancel.cancel();
            }
        );
    }
    assert_eq!(world.seen.started().len(), 2);
}

fn counting_factory(made: &Arc<AtomicU32>) -> Hook {
    let made = made.clone();
    Hook::function(HookEventName::PreToolUse, move || {
        let number = made.fetch_add(1, Ordering::Relaxed);
        move |_| async move { HookResponse::passthrough().with_system_message(number.to_string()) }
    })
}

#[tokio::test]
async fn a_factory_runs_once_per_session_even_for_calls_side_by_side() {
    let made = Arc::new(AtomicU32::new(0));
    let (world, hooks) = (World::new(), hooks([counting_factory(&made)]));
    let (a, b) = tokio::join!(world.pre_tool_use(&hooks), world.pre_tool_use(&hooks));
    assert_eq!(a.system_messages, b.system_messages);
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_replaced_hook_of_the_same_id_gets_its_own_handler() {
    let made = Arc::new(AtomicU32::new(0));
    let world = World::new();
    let before = hooks([counting_factory(&made)]);
    let after = hooks([counting_factory(&made)]);
    assert_eq!(world.pre_tool_use(&before).await.system_messages, ["0"]);
    assert_eq!(world.pre_tool_use(&after).await.system_messages, ["1"]);
    let merged = Hooks::new().merged(&after).unwrap();
    assert_eq!(world.pre_tool_use(&merged).await.system_messages, ["1"]);
}

#[tokio::test]
async fn a_dispatch_can_be_spawned() {
    fn sendable<T: Send>(future: T) -> T {
        future
    }
    let (world, hooks) = (World::new(), hooks([greeting()]));
    let verdict = sendable(world.dispatch(&hooks, HookEventName::SessionStart, call("x"))).await;
    assert_eq!(verdict.system_messages, ["hello"]);
}
