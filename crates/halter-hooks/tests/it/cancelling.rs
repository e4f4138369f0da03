//! A cancelled turn ends its hooks at once.

use crate::support::{World, call, hooks};
use halter_hooks::{Hook, HookEventName, HookResponse};
use halter_protocol::HookRunStatus;
use std::sync::Arc;
use tokio::sync::Notify;

fn hanging(event: HookEventName, begun: &Arc<Notify>) -> Hook {
    let begun = begun.clone();
    Hook::callback(event, move |_| {
        begun.notify_one();
        std::future::pending::<HookResponse>()
    })
}

#[tokio::test]
async fn cancelling_ends_the_run_and_skips_the_rest() {
    for event in [HookEventName::PreToolUse, HookEventName::Stop] {
        let world = World::new();
        let begun = Arc::new(Notify::new());
        let hooks = hooks([hanging(event, &begun), hanging(event, &begun)]);
        let (verdict, ()) = tokio::join!(world.dispatch(&hooks, event, call("shell")), async {
            begun.notified().await;
            world.cancel.cancel();
        });
        assert!(verdict.cancelled);
        assert_eq!(verdict.denial().is_some(), event.is_blocking());
        assert_eq!(
            world.seen.statuses(),
            [(format!("p0/{event}/0"), HookRunStatus::Cancelled)]
        );
    }
}

#[tokio::test]
async fn nothing_starts_after_a_cancel_and_a_blocking_event_is_denied() {
    let world = World::new();
    world.cancel.cancel();
    let begun = Arc::new(Notify::new());
    let hooks = hooks([hanging(HookEventName::PreToolUse, &begun)]);
    let verdict = world.pre_tool_use(&hooks).await;
    assert!(verdict.cancelled);
    assert!(verdict.denial().unwrap().contains("p0/PreToolUse/0"));
    assert!(world.seen.started().is_empty());
}
