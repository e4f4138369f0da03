//! Handlers as users write them compile as they are.

use crate::support::{World, call, hooks};
use halter_hooks::{Hook, HookEventName, HookResponse};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[tokio::test]
async fn the_documented_pattern_blocks_what_it_says() {
    let hook = Hook::callback(HookEventName::PreToolUse, |input| async move {
        if input.tool_name() == Some("shell") && input.payload.to_string().contains("rm -rf /") {
            return HookResponse::block("dangerous shell command blocked");
        }
        HookResponse::passthrough()
    });
    let hooks = hooks([hook]);
    let world = World::new();
    let mut payload = call("shell");
    assert_eq!(world.pre_tool_use(&hooks).await.denial(), None);
    payload["tool_input"] = json!({"command": "rm -rf /"});
    let verdict = world
        .dispatch(&hooks, HookEventName::PreToolUse, payload)
        .await;
    assert_eq!(
        verdict.denial().as_deref(),
        Some("dangerous shell command blocked")
    );
}

#[tokio::test]
async fn a_handler_may_return_ok_and_use_the_question_mark() {
    #[derive(serde::Deserialize)]
    struct Call {
        tool_name: String,
    }
    let plain = Hook::callback(HookEventName::PreToolUse, |_| async {
        Ok(HookResponse::passthrough())
    });
    let fallible = Hook::callback(HookEventName::PreToolUse, |input| async move {
        let call: Call = input.decode()?;
        let digits: u32 = "12".parse()?;
        Ok(HookResponse::block(format!("{} {digits}", call.tool_name)))
    });
    let verdict = World::new().pre_tool_use(&hooks([plain, fallible])).await;
    assert_eq!(verdict.block.as_deref(), Some("shell 12"));
}

#[tokio::test]
async fn named_functions_are_handlers_too() {
    async fn guard(input: halter_hooks::HookInput) -> anyhow::Result<HookResponse> {
        anyhow::ensure!(input.tool_use_id().is_some(), "no id");
        Ok(HookResponse::block("guarded"))
    }
    let verdict = World::new()
        .pre_tool_use(&hooks([Hook::callback(HookEventName::PreToolUse, guard)]))
        .await;
    assert_eq!(verdict.block.as_deref(), Some("guarded"));
}

#[tokio::test]
async fn a_function_hook_counts_per_session() {
    let hook = Hook::function(HookEventName::PreToolUse, || {
        let calls = Arc::new(AtomicU32::new(0));
        move |_input| {
            let calls = calls.clone();
            async move {
                let count = calls.fetch_add(1, Ordering::Relaxed);
                HookResponse::passthrough().with_system_message(count.to_string())
            }
        }
    });
    let hooks = hooks([hook]);
    let (one, other) = (World::new(), World::new());
    assert_eq!(one.pre_tool_use(&hooks).await.system_messages, ["0"]);
    assert_eq!(one.pre_tool_use(&hooks).await.system_messages, ["1"]);
    assert_eq!(other.pre_tool_use(&hooks).await.system_messages, ["0"]);
}
