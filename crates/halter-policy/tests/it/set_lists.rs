//! Lists that somebody set, and who widens them.

use crate::shell_corpus::ATTACKS;
use crate::support::Session;
use halter_policy::limits::MAX_JOINED_PROGRAMS;
use halter_policy::permission::Verdict;
use halter_policy::{
    FixedLists, NetworkSwitch, Permissions, PolicySettings, SandboxMode, SourcedRule, ToolPolicy,
};
use halter_protocol::{
    Action, CallToJudge, Objection, PermissionMode, PolicyVerdict, RuleEffect, RuleSource, ToolCall,
};
use std::collections::BTreeMap;

const MODES: [PermissionMode; 5] = [
    PermissionMode::ReadOnly,
    PermissionMode::Prompt,
    PermissionMode::WorkspaceWrite,
    PermissionMode::FullAccess,
    PermissionMode::Allow,
];

fn call(action: Action, session_rules: &[&str]) -> CallToJudge {
    let call = ToolCall {
        id: "call_1".into(),
        name: "shell".into(),
        arguments: serde_json::json!({}),
    };
    CallToJudge {
        session_rules: session_rules.iter().map(|&it| it.to_owned()).collect(),
        ..CallToJudge::new(call, vec![action])
    }
}

fn run(command: &str) -> Action {
    Action::Run {
        command: command.to_owned(),
        directory: None,
    }
}

fn reach(host: &str) -> Action {
    Action::Reach {
        host: host.to_owned(),
    }
}

fn session(mode: PermissionMode, adjust: impl FnOnce(&mut PolicySettings)) -> Session {
    let rule = |text: &str| SourcedRule::new(RuleEffect::Allow, text, RuleSource::User).unwrap();
    let mut settings = PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: vec!["docs.example".into()],
        allowed_shell_commands: vec!["ls".to_owned(), "echo".to_owned(), "env".to_owned()].into(),
        sandbox: SandboxMode::Prefer,
        permissions: Permissions {
            mode,
            rules: vec![
                rule("WebFetch(domain:other.example)"),
                rule("Bash(cargo:*)"),
            ],
            home: None,
        },
        ..PolicySettings::default()
    };
    adjust(&mut settings);
    Session::with(|_| settings, |_| {})
}

fn asked(verdict: PolicyVerdict) -> Objection {
    match verdict {
        PolicyVerdict::Ask(objection) => objection,
        other => panic!("not asked: {other:?}"),
    }
}

#[test]
fn a_set_list_is_widened_by_a_person_and_by_no_rule_of_a_file_and_no_mode() {
    for mode in MODES {
        let session = session(mode, |_| {});
        for (action, rule, denied) in [
            (reach("other.example:443"), "network.host", "network.host"),
            (run("cargo build"), "shell.not_in_list", "shell.unlisted"),
        ] {
            match (
                session.policy.judge(&call(action.clone(), &[])),
                mode.asks(),
            ) {
                (PolicyVerdict::Ask(objection), true) => assert_eq!(objection.rule, rule),
                (PolicyVerdict::Deny(objection), false) if rule == "network.host" => {
                    assert!([rule, denied].contains(&objection.rule.as_str()));
                }
                (PolicyVerdict::Deny(objection), false) => assert_eq!(objection.rule, denied),
                other => panic!("{mode}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_was_approved_for_the_session_is_not_asked_about_again() {
    let session = session(PermissionMode::WorkspaceWrite, |_| {});
    let judge = |action: Action, rules: &[&str]| session.policy.judge(&call(action, rules));
    let host = asked(judge(reach("other.example:443"), &[]));
    let remedy = host.remedy.as_deref();
    assert_eq!(remedy, Some("policy.network.allowed_hosts"));
    assert_eq!(
        host.always.as_deref(),
        Some("WebFetch(domain:other.example)")
    );
    let program = asked(judge(run("cargo build -q"), &[]));
    let rule = program.always.unwrap();
    assert_eq!(rule, "Bash(cargo build:*)");
    let rules = ["WebFetch(domain:other.example)", rule.as_str()];
    assert_eq!(
        judge(reach("other.example:443"), &rules),
        PolicyVerdict::Allow
    );
    assert_eq!(judge(run("cargo build"), &rules), PolicyVerdict::Allow);
    assert_eq!(
        asked(judge(run("cargo test"), &rules)).rule,
        "shell.not_in_list"
    );
    assert_eq!(
        asked(judge(reach("third.example"), &rules)).rule,
        "network.host"
    );
    // Commands of the session reach it, too, and nothing by its name.
    let network = session.policy.network();
    let to = halter_policy::Destination::parse("other.example:443").unwrap();
    assert!(network.check(&to).is_ok());
    assert!(
        network
            .check_address(&to, "10.0.0.1".parse().unwrap())
            .is_err()
    );
}

#[test]
fn a_call_that_was_let_through_has_the_programs_and_no_other_call_has() {
    let session = session(PermissionMode::FullAccess, |_| {});
    let line = "echo a && cargo build | tee log";
    let action = run(line);
    let objection = asked(session.policy.judge(&call(action.clone(), &[])));
    assert!(
        objection.message.contains("`cargo`, `tee`"),
        "{}",
        objection.message
    );
    assert!(session.policy.check_shell_command_strict(line).is_err());
    let opened = session.policy.for_judged_call(&[action]).unwrap();
    opened.check_shell_command_strict(line).unwrap();
    let bounds = opened.sandbox_for_call(None).unwrap();
    assert_eq!(
        bounds.programs.unwrap(),
        ["ls", "echo", "env", "cargo", "tee"]
    );
    let own = session.policy.sandbox(None).programs.unwrap();
    assert_eq!(own, ["ls", "echo", "env"]);
    assert!(session.policy.sandbox_for_call(None).is_none());
    assert!(session.policy.for_judged_call(&[run("ls")]).is_none());
}

#[test]
fn what_is_refused_for_another_reason_is_not_asked_about() {
    let denied = |session: &Session, command: &str| {
        let decided = session.policy.decide_call(&call(run(command), &[]));
        assert!(decided.is_err(), "{command}: {decided:?}");
    };
    let listed = session(PermissionMode::WorkspaceWrite, |_| {});
    for command in [
        "eval cargo build",
        "cargo build; source x",
        "$PROGRAM build",
        "./cargo build",
        "cargo build; PATH=. ls",
        "cargo $((x))",
        "cargo build 'open",
    ] {
        denied(&listed, command);
    }
    let programs = |count: usize| {
        let names: Vec<String> = (0..count).map(|it| format!("p{it}")).collect();
        names.join("; ")
    };
    let most = call(run(&programs(MAX_JOINED_PROGRAMS)), &[]);
    assert_eq!(
        listed.policy.decide_call(&most).unwrap().verdict,
        Verdict::Ask
    );
    denied(&listed, &programs(MAX_JOINED_PROGRAMS + 1));
    let empty = session(PermissionMode::WorkspaceWrite, |settings| {
        settings.allowed_shell_commands = Vec::new().into();
        settings.allowed_hosts.clear();
    });
    denied(&empty, "ls");
    assert!(
        empty
            .policy
            .decide_call(&call(reach("a.example"), &[]))
            .is_err()
    );
}

#[test]
fn the_lists_of_a_session_with_less_than_its_harness_are_walls() {
    let session = session(PermissionMode::WorkspaceWrite, |settings| {
        settings.fixed_lists = FixedLists {
            programs: true,
            hosts: true,
        };
    });
    let approved = ["Bash(cargo:*)", "WebFetch(domain:other.example)"];
    for action in [run("cargo build"), reach("other.example")] {
        let decided = session.policy.judge(&call(action.clone(), &approved));
        assert!(matches!(decided, PolicyVerdict::Deny(_)), "{decided:?}");
    }
}

#[test]
fn no_attack_is_allowed_by_a_list_that_may_be_widened() {
    let mut sessions: BTreeMap<Vec<String>, Session> = BTreeMap::new();
    let mut allowed = Vec::new();
    for line in ATTACKS.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let names: Vec<String> = serde_json::from_value(line["allow"].clone()).unwrap();
        let command = line["command"].as_str().unwrap();
        let session = sessions.entry(names.clone()).or_insert_with(|| {
            session(PermissionMode::FullAccess, |settings| {
                settings.allowed_shell_commands = names.into();
                settings.permissions.rules.clear();
            })
        });
        let decided = session.policy.decide_call(&call(run(command), &[]));
        if decided.is_ok_and(|it| it.verdict == Verdict::Allow) {
            allowed.push(command.to_owned());
        }
    }
    assert!(allowed.is_empty(), "allowed: {allowed:#?}");
}
