//! Several answers, one verdict.

use crate::support::{World, call, hooks, prioritized};
use halter_hooks::limits::{MAX_REWRITE_BYTES, MAX_TEXT_BYTES, MAX_TEXTS_PER_ANSWER};
use halter_hooks::{
    Hook, HookEventName, HookResponse, HookVerdict, PermissionDecision, RegisteredHookPriority,
    RewriteTarget,
};
use halter_protocol::{HookHandlerType, HookRunStatus, Timestamp};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

fn answering(event: HookEventName, response: HookResponse) -> Hook {
    Hook::callback(event, move |_| {
        let response = response.clone();
        async move { response }
    })
}

fn pre(response: HookResponse) -> Hook {
    answering(HookEventName::PreToolUse, response)
}

fn permitting(decision: PermissionDecision, reason: &str) -> Hook {
    pre(HookResponse::passthrough().with_permission(decision, Some(reason)))
}

fn rewriting(input: Value) -> Hook {
    pre(HookResponse::passthrough().with_updated_input(input))
}

#[tokio::test]
async fn without_hooks_nothing_objects() {
    let verdict = World::new().pre_tool_use(&hooks([])).await;
    assert_eq!(verdict, HookVerdict::default());
}

#[tokio::test]
async fn any_block_blocks_and_no_reason_is_hidden() {
    let world = World::new();
    let hooks = hooks([
        pre(HookResponse::passthrough()),
        pre(HookResponse::block("first")),
        pre(HookResponse::passthrough().with_permission(PermissionDecision::Allow, None::<String>)),
        pre(HookResponse::block("second")),
    ]);
    let verdict = world.pre_tool_use(&hooks).await;
    assert_eq!(verdict.block.as_deref(), Some("first\nsecond"));
    let statuses: Vec<_> = world.seen.statuses().into_iter().map(|s| s.1).collect();
    use HookRunStatus::{Blocked, Completed};
    assert_eq!(statuses, [Completed, Blocked, Completed, Blocked]);
}

#[tokio::test]
async fn a_stop_ends_the_chain() {
    let world = World::new();
    let hooks = hooks([
        pre(HookResponse::block("no")),
        pre(HookResponse::stop("enough")),
        pre(HookResponse::block("unheard")),
    ]);
    let verdict = world.pre_tool_use(&hooks).await;
    assert_eq!(verdict.stop.as_deref(), Some("enough"));
    assert_eq!(verdict.block.as_deref(), Some("no"));
    assert_eq!(verdict.denial().as_deref(), Some("enough"));
    assert_eq!(world.seen.started().len(), 2);
    assert_eq!(world.seen.completed()[1].status, HookRunStatus::Stopped);
}

#[tokio::test]
async fn the_strongest_permission_wins_with_its_first_reason() {
    use PermissionDecision::{Allow, Ask, Deny};
    let cases = [
        (vec![(Allow, "a")], Allow, "a"),
        (vec![(Allow, "a"), (Ask, "b")], Ask, "b"),
        (vec![(Ask, "b"), (Allow, "a")], Ask, "b"),
        (vec![(Deny, "c"), (Ask, "b"), (Allow, "a")], Deny, "c"),
        (vec![(Ask, "b"), (Deny, "c"), (Deny, "d")], Deny, "c"),
    ];
    for (answers, strongest, reason) in cases {
        let hooks = hooks(answers.iter().map(|(d, r)| permitting(*d, r)));
        let verdict = World::new().pre_tool_use(&hooks).await;
        assert_eq!(verdict.permission, strongest);
        assert_eq!(verdict.permission_reason.as_deref(), Some(reason));
        assert_eq!(verdict.denial().is_some(), strongest > Allow);
    }
}

#[tokio::test]
async fn competing_rewrites_of_equal_priority_fail_the_call() {
    let world = World::new();
    let hooks = hooks([rewriting(json!({"a": 1})), rewriting(json!({"a": 2}))]);
    let verdict = world.pre_tool_use(&hooks).await;
    let conflict = verdict.conflict.clone().unwrap();
    assert_eq!(conflict.target, RewriteTarget::Input);
    assert_eq!(conflict.code(), "hook_rewrite_conflict");
    let text = conflict.to_string();
    assert!(text.contains("p0/PreToolUse/0") && text.contains("p1/PreToolUse/0"));
    assert_eq!(verdict.updated_input, None);
    assert_eq!(verdict.denial(), Some(text.clone()));
    assert_eq!(world.seen.words(), [format!("error: {text}")]);
}

#[tokio::test]
async fn competing_outputs_fail_the_call_too() {
    let rewrite = |output: &str| {
        answering(
            HookEventName::PostToolUse,
            HookResponse::passthrough().with_updated_output(json!(output)),
        )
    };
    let verdict = World::new()
        .dispatch(
            &hooks([rewrite("x"), rewrite("y")]),
            HookEventName::PostToolUse,
            call("read"),
        )
        .await;
    assert_eq!(verdict.conflict.unwrap().target, RewriteTarget::Output);
    assert_eq!(verdict.updated_output, None);
    assert_eq!(verdict.block, None);
}

#[tokio::test]
async fn agreeing_rewrites_do_not_compete() {
    let hooks = hooks([rewriting(json!({"a": 1})), rewriting(json!({"a": 1}))]);
    let verdict = World::new().pre_tool_use(&hooks).await;
    assert_eq!(verdict.updated_input, Some(json!({"a": 1})));
    assert_eq!(verdict.conflict, None);
}

#[tokio::test]
async fn the_earlier_priority_wins_a_rewrite_and_the_loser_is_told() {
    let world = World::new();
    let hooks = prioritized([
        (
            RegisteredHookPriority::AfterPlugins,
            rewriting(json!({"late": 1})),
        ),
        (
            RegisteredHookPriority::BeforePlugins,
            rewriting(json!({"early": 1})),
        ),
    ]);
    let verdict = world.pre_tool_use(&hooks).await;
    assert_eq!(verdict.updated_input, Some(json!({"early": 1})));
    assert_eq!(verdict.conflict, None);
    let words = world.seen.words();
    assert_eq!(words.len(), 1);
    assert!(words[0].starts_with("error: ") && words[0].contains("p1/PreToolUse/0"));
}

#[tokio::test]
async fn later_priorities_judge_what_will_really_run() {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let watching = || {
        let seen = seen.clone();
        Hook::callback(HookEventName::PreToolUse, move |input| {
            seen.lock()
                .unwrap()
                .push(input.payload["tool_input"].clone());
            async { HookResponse::passthrough() }
        })
    };
    use RegisteredHookPriority::{AfterPlugins, BeforePlugins};
    let hooks = prioritized([
        (BeforePlugins, rewriting(json!("new"))),
        (BeforePlugins, watching()),
        (AfterPlugins, watching()),
    ]);
    World::new().pre_tool_use(&hooks).await;
    assert_eq!(
        *seen.lock().unwrap(),
        [json!({"command": "ls"}), json!("new")]
    );
}

#[tokio::test]
async fn texts_are_kept_in_order_and_shown_in_the_run() {
    let world = World::new();
    let say = |message: &str, context: &str| {
        HookResponse::passthrough()
            .with_system_message(message)
            .with_additional_context(context)
    };
    let hooks = hooks([
        pre(say("one", "a")),
        pre(say("two", "b").with_suppress_output(true)),
        pre(say("three", "c")),
    ]);
    let verdict = world.pre_tool_use(&hooks).await;
    assert_eq!(verdict.system_messages, ["one", "two", "three"]);
    assert_eq!(verdict.additional_context, ["a", "b", "c"]);
    assert!(verdict.suppress_output);
    assert_eq!(
        world.seen.words(),
        [
            "feedback: one",
            "context: a",
            "feedback: three",
            "context: c"
        ]
    );
}

#[tokio::test]
async fn what_has_no_effect_is_reported_not_swallowed() {
    let event = HookEventName::SessionEnd;
    let world = World::new();
    let hooks = hooks([
        answering(event, HookResponse::block("no")),
        answering(event, HookResponse::stop("no")),
        answering(
            event,
            HookResponse::passthrough()
                .with_updated_input(json!(1))
                .with_updated_output(json!(2))
                .with_permission(PermissionDecision::Deny, Some("no")),
        ),
    ]);
    let verdict = world.dispatch(&hooks, event, json!({"reason": "x"})).await;
    assert_eq!(verdict, HookVerdict::default());
    assert_eq!(
        world.seen.words(),
        [
            "error: a block has no effect on SessionEnd",
            "error: a stop has no effect on SessionEnd",
            "error: a permission has no effect on SessionEnd",
            "error: a rewritten input has no effect on SessionEnd",
            "error: a rewritten output has no effect on SessionEnd",
        ]
    );
}

#[tokio::test]
async fn runs_are_reported_whole() {
    let world = World::new();
    let hooks = hooks([pre(HookResponse::block("no")).with_status_message("looking")]);
    world.pre_tool_use(&hooks).await;
    let (started, completed) = (world.seen.started(), world.seen.completed());
    let (started, completed) = (&started[0], &completed[0]);
    assert_eq!(started.status, HookRunStatus::Running);
    assert_eq!(started.status_message.as_deref(), Some("looking"));
    assert_eq!(started.handler_type, HookHandlerType::Callback);
    assert_eq!((started.completed_at, started.duration_ms), (None, None));
    assert_eq!(started.run_id, completed.run_id);
    assert_eq!(completed.hook_id, "p0/PreToolUse/0");
    assert_eq!(completed.plugin_id.as_str(), "p0");
    assert_eq!(completed.started_at, Timestamp::from_second(0).unwrap());
    assert_eq!(completed.duration_ms, Some(1000));
}

#[tokio::test]
async fn handlers_see_the_event_its_matcher_value_and_their_plugin() {
    let hook = Hook::callback(HookEventName::Notification, |input| async move {
        assert_eq!(input.event_name, HookEventName::Notification);
        assert_eq!(input.matcher_value.as_deref(), Some("idle"));
        assert_eq!(input.string_field("plugin_id"), Some("p0"));
        HookResponse::passthrough().with_system_message("ran")
    })
    .with_matcher("^idle$");
    let hooks = hooks([hook]);
    for (kind, ran) in [("idle", 1), ("busy", 0)] {
        let verdict = World::new()
            .dispatch(
                &hooks,
                HookEventName::Notification,
                json!({"notification_type": kind}),
            )
            .await;
        assert_eq!(verdict.system_messages.len(), ran);
    }
}

#[tokio::test]
async fn long_texts_are_cut_on_a_character_and_say_so() {
    let whole = "x".repeat(MAX_TEXT_BYTES);
    let long = format!("{}é", "x".repeat(MAX_TEXT_BYTES - 1));
    let verdict = World::new()
        .pre_tool_use(&hooks([
            pre(HookResponse::passthrough().with_system_message(whole.clone())),
            pre(HookResponse::block(long)),
        ]))
        .await;
    assert_eq!(verdict.system_messages, [whole]);
    let reason = verdict.block.unwrap();
    assert!(reason.starts_with(&"x".repeat(MAX_TEXT_BYTES - 1)));
    assert!(!reason.contains('é') && reason.contains("[cut: "));
}

#[tokio::test]
async fn surplus_texts_are_dropped_with_a_note() {
    let many = |count: usize| {
        (0..count).fold(HookResponse::passthrough(), |response, n| {
            response.with_additional_context(n.to_string())
        })
    };
    let world = World::new();
    let at_edge = world
        .pre_tool_use(&hooks([pre(many(MAX_TEXTS_PER_ANSWER))]))
        .await;
    assert_eq!(at_edge.additional_context.len(), MAX_TEXTS_PER_ANSWER);
    assert!(!world.seen.words().iter().any(|w| w.starts_with("error")));
    let beyond = world
        .pre_tool_use(&hooks([pre(many(MAX_TEXTS_PER_ANSWER + 2))]))
        .await;
    assert_eq!(beyond.additional_context.len(), MAX_TEXTS_PER_ANSWER);
    assert!(
        world
            .seen
            .words()
            .iter()
            .any(|w| w.starts_with("error: 2 texts"))
    );
}

#[tokio::test]
async fn a_rewrite_that_is_too_large_is_a_failure() {
    // The two quotes count as well.
    let sized = |bytes: usize| rewriting(json!("x".repeat(bytes - 2)));
    let fits = World::new()
        .pre_tool_use(&hooks([sized(MAX_REWRITE_BYTES)]))
        .await;
    assert!(fits.updated_input.is_some() && fits.denial().is_none());
    let world = World::new();
    let verdict = world
        .pre_tool_use(&hooks([sized(MAX_REWRITE_BYTES + 1)]))
        .await;
    assert_eq!(verdict.updated_input, None);
    assert!(verdict.denial().unwrap().contains("p0/PreToolUse/0"));
    assert_eq!(world.seen.completed()[0].status, HookRunStatus::Failed);
}

/// A condition looks at the call as earlier hooks have rewritten it, and a hook
/// it keeps away has not run.
#[tokio::test]
async fn a_condition_chooses_the_calls_a_hook_is_for() {
    let guard = |condition: &str| {
        pre(HookResponse::block("not this one"))
            .with_if_condition(condition)
            .with_once(true)
    };
    for (condition, expected) in [
        ("shell(rm *)", HookRunStatus::Blocked),
        ("shell(ls)", HookRunStatus::Completed),
        ("read", HookRunStatus::Completed),
    ] {
        let world = World::new();
        let rewritten = rewriting(json!({"command": "rm -r target"}));
        let before = RegisteredHookPriority::BeforePlugins;
        let after = RegisteredHookPriority::AfterPlugins;
        let hooks = prioritized([(before, rewritten), (after, guard(condition))]);
        let verdict = world.pre_tool_use(&hooks).await;
        let blocked = expected == HookRunStatus::Blocked;
        assert_eq!(verdict.block.is_some(), blocked, "{condition}");
        let runs = world.seen.statuses();
        assert_eq!(
            runs.len(),
            1 + usize::from(blocked),
            "{condition}: {runs:?}"
        );
        assert_eq!(runs.last().unwrap().1, expected, "{condition}");
    }
}
