//! What holds for every combination of answers.

use crate::support::{World, prioritized};
use halter_hooks::{Hook, HookEventName, HookResponse, PermissionDecision, RegisteredHookPriority};
use proptest::prelude::*;
use serde_json::json;

#[derive(Debug, Clone)]
enum Answer {
    Nothing,
    Block,
    Fail,
    Panic,
    Permit(PermissionDecision),
    Rewrite(u8),
}

fn answers() -> impl Strategy<Value = Vec<(RegisteredHookPriority, Answer)>> {
    let priority = prop_oneof![
        Just(RegisteredHookPriority::BeforePlugins),
        Just(RegisteredHookPriority::AfterPlugins),
    ];
    let answer = prop_oneof![
        Just(Answer::Nothing),
        Just(Answer::Block),
        Just(Answer::Fail),
        Just(Answer::Panic),
        prop_oneof![
            Just(PermissionDecision::Allow),
            Just(PermissionDecision::Ask),
            Just(PermissionDecision::Deny),
        ]
        .prop_map(Answer::Permit),
        (0..3u8).prop_map(Answer::Rewrite),
    ];
    proptest::collection::vec((priority, answer), 0..6)
}

fn hook(answer: &Answer) -> Hook {
    let answer = answer.clone();
    Hook::callback(HookEventName::PreToolUse, move |_| {
        let answer = answer.clone();
        async move {
            let nothing = HookResponse::passthrough();
            match answer {
                Answer::Nothing => Ok(nothing),
                Answer::Block => Ok(HookResponse::block("blocked")),
                Answer::Fail => Err(anyhow::anyhow!("broken")),
                Answer::Panic => std::panic::resume_unwind(Box::new("silent")),
                Answer::Permit(decision) => Ok(nothing.with_permission(decision, Some("because"))),
                Answer::Rewrite(value) => Ok(nothing.with_updated_input(json!(value))),
            }
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_objection_denies_and_silence_does_not(answers in answers()) {
        let hooks = prioritized(answers.iter().map(|(p, a)| (*p, hook(a))));
        let world = World::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let verdict = runtime.block_on(world.pre_tool_use(&hooks));

        let rewrites = |priority| {
            let mut values: Vec<u8> = answers
                .iter()
                .filter_map(|(p, answer)| match answer {
                    Answer::Rewrite(value) if *p == priority => Some(*value),
                    _ => None,
                })
                .collect();
            values.dedup();
            values
        };
        let early = rewrites(RegisteredHookPriority::BeforePlugins);
        let late = rewrites(RegisteredHookPriority::AfterPlugins);
        let competing = |values: &[u8]| values.iter().any(|value| Some(value) != values.first());
        let conflict = competing(&early) || (early.is_empty() && competing(&late));
        let objection = answers.iter().any(|(_, answer)| {
            matches!(
                answer,
                Answer::Block | Answer::Fail | Answer::Panic
                    | Answer::Permit(PermissionDecision::Ask | PermissionDecision::Deny)
            )
        });

        prop_assert_eq!(verdict.denial().is_some(), objection || conflict);
        prop_assert_eq!(verdict.conflict.is_some(), conflict);
        let winner = early.first().or(late.first()).filter(|_| !conflict);
        prop_assert_eq!(verdict.updated_input, winner.map(|value| json!(value)));
        prop_assert_eq!(world.seen.started().len(), answers.len());
        prop_assert_eq!(world.seen.completed().len(), answers.len());
    }
}
