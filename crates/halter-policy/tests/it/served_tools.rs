//! Tools of servers: what is remembered of them, and what they say of
//! themselves, which only ever narrows.

use halter_policy::permission::Verdict;
use halter_protocol::limits::DEFINITION_DIGITS;
use halter_protocol::{
    CallToJudge, HookOpinion, PermissionMode, RuleEffect, RuleSource, ServedDefinition, ToolCall,
};
use serde_json::json;

use crate::permission_table::policy;
use crate::support::Session;

fn call(digit: &str, destructive: bool) -> CallToJudge {
    let call = ToolCall {
        id: "call".into(),
        name: "mcp__a__b".into(),
        arguments: json!({}),
    };
    let mut call = CallToJudge::new(call, Vec::new());
    call.capabilities.mutating = true;
    call.capabilities.requires_approval = true;
    call.definition = Some(ServedDefinition {
        digest: digit.repeat(DEFINITION_DIGITS),
        destructive,
    });
    call
}

#[test]
fn a_hook_spares_no_question_about_a_tool_that_says_that_it_destroys() {
    let session = Session::new();
    let policy = policy(&session, PermissionMode::WorkspaceWrite, &[]);
    for (destructive, hook, verdict, code) in [
        (
            false,
            HookOpinion::Nothing,
            Verdict::Ask,
            "requires_approval",
        ),
        (false, HookOpinion::Allow, Verdict::Allow, "permission_mode"),
        (true, HookOpinion::Nothing, Verdict::Ask, "destructive_tool"),
        (true, HookOpinion::Allow, Verdict::Ask, "destructive_tool"),
    ] {
        let mut call = call("0", destructive);
        call.hook = hook;
        let decision = policy.decide_call(&call).unwrap();
        assert_eq!((decision.verdict, decision.by.code()), (verdict, code));
    }
}

#[test]
fn a_rule_holds_for_the_definition_it_names_and_the_question_says_what_was_lost() {
    let session = Session::new();
    let rule = "mcp__a__b@00000000000000000000000000000000";
    let rules = [(RuleEffect::Allow, rule, RuleSource::User)];
    for mode in [PermissionMode::WorkspaceWrite, PermissionMode::Prompt] {
        let policy = policy(&session, mode, &rules);
        let same = policy.decide_call(&call("0", true)).unwrap();
        assert_eq!(same.verdict, Verdict::Allow);
        let changed = policy.decide_call(&call("1", false)).unwrap();
        assert_eq!(changed.verdict, Verdict::Ask);
        assert!(
            changed
                .why
                .contains("has changed the tool 'mcp__a__b' since"),
            "{}",
            changed.why
        );
        let other = format!("mcp__a__b@{}", "1".repeat(DEFINITION_DIGITS));
        assert_eq!(changed.always, Some(other));
    }
    // Whoever allows a whole server allows whatever it has.
    let rules = [(RuleEffect::Allow, "mcp__a", RuleSource::User)];
    let policy = policy(&session, PermissionMode::WorkspaceWrite, &rules);
    assert_eq!(
        policy.decide_call(&call("1", true)).unwrap().verdict,
        Verdict::Allow
    );
}
