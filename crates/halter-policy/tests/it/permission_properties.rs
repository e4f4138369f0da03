//! What holds of every set of rules, mode, hook and call.

use halter_policy::permission::Verdict;
use halter_protocol::{HookOpinion, PermissionMode, PermissionRule, RuleEffect, RuleSource};
use proptest::prelude::*;
use proptest::sample::select;

use crate::permission_table::{calls, policy};
use crate::support::Session;

type Rule = (RuleEffect, &'static str, RuleSource);

const TEXTS: &[&str] = &[
    "Bash",
    "Bash(git:*)",
    "Bash(git push)",
    "Bash(git commit *)",
    "Bash(ls)",
    "Bash(* -m x)",
    "Read",
    "Read(src/**)",
    "Read(./src/*.rs)",
    "Edit(**)",
    "Edit(./src/**)",
    "Edit(*.md)",
    "write",
    "deploy",
    "look",
    "mcp__a",
    "mcp__a__*",
    "Bash(rg:*)",
];

fn rule(effects: &'static [RuleEffect]) -> impl Strategy<Value = Rule> {
    use RuleSource::{Cli, Project, Session, User};
    let source = select(vec![User, Project, Cli, Session]);
    (select(effects), select(TEXTS), source)
}

const ALL: &[RuleEffect] = &[RuleEffect::Allow, RuleEffect::Ask, RuleEffect::Deny];
const NARROWING: &[RuleEffect] = &[RuleEffect::Ask, RuleEffect::Deny];

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(rule(ALL), 0..6)
}

fn mode() -> impl Strategy<Value = PermissionMode> {
    select(PermissionMode::ALL.to_vec())
}

fn hook() -> impl Strategy<Value = HookOpinion> {
    select(vec![
        HookOpinion::Nothing,
        HookOpinion::Allow,
        HookOpinion::Ask("sure?".to_owned()),
    ])
}

fn verdicts(mode: PermissionMode, rules: &[Rule], hook: &HookOpinion) -> Vec<Verdict> {
    thread_local!(static SESSION: Session = Session::new());
    SESSION.with(|session| {
        let policy = policy(session, mode, rules);
        calls()
            .iter()
            .map(|call| call.decide(&policy, hook))
            .collect()
    })
}

/// From what runs to what does not.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        Verdict::Deny => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_deny_rule_always_wins(
        rules in rules(),
        denied in select(TEXTS),
        place in 0usize..6,
        mode in mode(),
        hook in hook(),
    ) {
        let deny = (RuleEffect::Deny, denied, RuleSource::User);
        let alone = verdicts(PermissionMode::FullAccess, &[deny], &HookOpinion::Nothing);
        let mut all = rules.clone();
        all.insert(place.min(rules.len()), deny);
        for (alone, found) in alone.iter().zip(verdicts(mode, &all, &hook)) {
            if *alone == Verdict::Deny {
                prop_assert_eq!(found, Verdict::Deny);
            }
        }
    }

    #[test]
    fn neither_the_order_nor_the_source_of_rules_matters(
        rules in rules(),
        seed in any::<u64>(),
        mode in mode(),
        hook in hook(),
    ) {
        let mut shuffled = rules.clone();
        for index in (1..shuffled.len()).rev() {
            shuffled.swap(index, (seed as usize >> (index * 3)) % (index + 1));
        }
        let sources = [RuleSource::User, RuleSource::Cli, RuleSource::Session, RuleSource::Project];
        for (index, rule) in shuffled.iter_mut().enumerate() {
            rule.2 = sources[(seed as usize + index) % sources.len()];
        }
        prop_assert_eq!(verdicts(mode, &rules, &hook), verdicts(mode, &shuffled, &hook));
    }

    #[test]
    fn a_rule_that_a_project_may_add_never_widens(
        rules in rules(),
        added in rule(NARROWING),
        mode in mode(),
        hook in hook(),
    ) {
        let before = verdicts(mode, &rules, &hook);
        let mut all = rules.clone();
        all.push(added);
        for (before, after) in before.into_iter().zip(verdicts(mode, &all, &hook)) {
            prop_assert!(rank(after) >= rank(before), "{before:?} became {after:?}");
        }
    }

    #[test]
    fn what_runs_in_a_narrower_mode_runs_in_a_wider_one(
        rules in rules(),
        one in mode(),
        other in mode(),
        hook in hook(),
    ) {
        let (narrow, wide) = (one.min(other), one.max(other));
        let narrow = verdicts(narrow, &rules, &hook);
        for (narrow, wide) in narrow.into_iter().zip(verdicts(wide, &rules, &hook)) {
            prop_assert!(narrow != Verdict::Allow || wide == Verdict::Allow);
        }
    }

    #[test]
    fn a_hook_s_allow_spares_nothing_but_the_question_of_a_tool(rules in rules(), mode in mode()) {
        let without = verdicts(mode, &rules, &HookOpinion::Nothing);
        let with = verdicts(mode, &rules, &HookOpinion::Allow);
        for ((call, without), with) in calls().iter().zip(without).zip(with) {
            if call.name != "a tool to approve" {
                prop_assert_eq!(without, with);
            }
            prop_assert!(without != Verdict::Deny || with == Verdict::Deny);
        }
    }

    #[test]
    fn modes_that_ask_nobody_do_not_ask(rules in rules(), hook in hook()) {
        for mode in [PermissionMode::ReadOnly, PermissionMode::Allow] {
            prop_assert!(!verdicts(mode, &rules, &hook).contains(&Verdict::Ask));
        }
    }

    #[test]
    fn no_text_makes_reading_a_rule_panic(text in "\\PC{0,40}|[A-Za-z_*]{0,8}\\(.{0,20}\\)") {
        for effect in ALL {
            if let Err(error) = PermissionRule::parse(&text, *effect) {
                prop_assert!(error.position <= text.chars().count());
                if let Some(nearest) = error.nearest {
                    prop_assert!(PermissionRule::parse(&nearest, *effect).is_ok());
                }
            }
        }
    }
}
