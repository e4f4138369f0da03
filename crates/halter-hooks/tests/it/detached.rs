//! Commands that say in their first line that they go on beside the turn, and
//! hooks that are given up.

use crate::support::{World, call};
use async_trait::async_trait;
use halter_hooks::file::{
    AgentQuestion, HookOrigin, HookOutside, HttpAnswer, HttpCall, PromptQuestion, parse_value,
};
use halter_hooks::{HookDispatch, HookEventName, Hooks};
use halter_protocol::{HookRunStatus, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// A model that never answers.
struct Silent;

#[async_trait]
impl HookOutside for Silent {
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        BTreeMap::from([("PATH".into(), path)])
    }

    fn variable(&self, _: &str) -> Option<OsString> {
        None
    }

    async fn send(&self, _: HttpCall) -> Result<HttpAnswer, String> {
        std::future::pending().await
    }

    async fn ask(&self, _: PromptQuestion) -> Result<String, String> {
        std::future::pending().await
    }

    async fn look(&self, _: AgentQuestion) -> Result<String, String> {
        std::future::pending().await
    }
}

fn guard(handler: &Value) -> Hooks {
    let mut hooks = Hooks::new();
    let events = json!({"hooks": {"PreToolUse": [{"hooks": [handler]}]}});
    let parsed = parse_value(&events, &HookOrigin::user("hooks.json"));
    assert_eq!(hooks.add_file(parsed), []);
    hooks
}

fn world() -> World {
    let mut world = World::new();
    world.outside = Arc::new(Silent);
    world
}

#[tokio::test]
async fn a_command_that_says_so_goes_on_beside_the_turn() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = world();
    world.cwd = directory.path().to_owned();
    // It ends when the verdict is there, and its answer decides nothing then.
    let line = "echo '{\"async\": true}'; until test -e verdict; do sleep 0.01; done; \
                echo '{\"decision\": \"block\"}'";
    let hooks = guard(&json!({"type": "command", "command": line, "timeout": 300}));
    let clock = || Timestamp::from_second(0).unwrap();
    let context = HookDispatch {
        session: &world.session,
        fired: &world.fired,
        ids: &world.ids,
        clock: &clock,
        cancel: &world.cancel,
        observer: &world.seen,
        cwd: &world.cwd,
        project_dir: &world.project_dir,
        outside: &world.outside,
    };
    let mut verdict = None;
    let decided = |it| {
        std::fs::write(directory.path().join("verdict"), "").unwrap();
        verdict = Some(it);
    };
    let event = HookEventName::PreToolUse;
    hooks
        .dispatch_and_stay(event, call("shell"), None, context, decided)
        .await;
    assert_eq!(verdict.unwrap().denial(), None);
    let statuses = world.seen.statuses();
    assert_eq!(statuses.len(), 1);
    assert_eq!(statuses[0].1, HookRunStatus::Completed);
}

#[tokio::test]
async fn a_command_that_says_so_last_is_just_done() {
    let mut world = world();
    world.cwd = std::env::temp_dir();
    let line = "printf '{\"async\": true}'";
    let hooks = guard(&json!({"type": "command", "command": line}));
    assert_eq!(world.pre_tool_use(&hooks).await.denial(), None);
    let runs = world.seen.completed();
    assert!(runs[0].entries.is_empty(), "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_asked_gets_its_time_and_no_more() {
    for kind in ["prompt", "agent"] {
        let world = world();
        let hooks = guard(&json!({"type": kind, "prompt": "fine?", "timeout": 7}));
        let started = tokio::time::Instant::now();
        let denial = world.pre_tool_use(&hooks).await.denial();
        assert!(denial.unwrap().contains("within 7s"));
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }
}

#[tokio::test]
async fn a_cancel_before_the_first_gives_the_only_run_back() {
    let mut world = world();
    let hooks = guard(&json!({"type": "command", "command": "true", "once": true}));
    world.cancel.cancel();
    assert!(world.pre_tool_use(&hooks).await.cancelled);
    world.cancel = Default::default();
    assert!(!world.pre_tool_use(&hooks).await.cancelled);
    assert_eq!(world.seen.statuses().len(), 1);
}
