//! A child has no more than its parent, whatever both are.

use super::*;
use crate::subagents::AgentTypes;
use halter_protocol::{
    Action, CallToJudge, HookOpinion, PolicyVerdict, RuleEffect, RuleSource, ToolCall,
    ToolCapabilities,
};
use halter_tools::policy::{
    NetworkSwitch, ProgramList, SessionScope, SoftRoots, SourcedRule, StandardPolicy, ToolPolicy,
};
use proptest::prelude::*;
use serde_json::json;

const TOOLS: [&str; 6] = ["read", "write", "shell", "web_fetch", "task", "deploy"];

fn mode() -> impl Strategy<Value = PermissionMode> {
    proptest::sample::select(PermissionMode::ALL.to_vec())
}

fn rule() -> impl Strategy<Value = SourcedRule> {
    let effects = [RuleEffect::Allow, RuleEffect::Ask, RuleEffect::Deny];
    let texts = [
        "Bash(git:*)",
        "Bash(rm:*)",
        "Read(secret/**)",
        "Edit(src/**)",
        "Edit(**)",
        "deploy",
        "WebFetch(domain:a.example)",
        "Bash(ls)",
    ];
    let effect = proptest::sample::select(effects.to_vec());
    let text = proptest::sample::select(texts.to_vec());
    (effect, text).prop_filter_map("no rule", |(effect, text)| {
        SourcedRule::new(effect, text, RuleSource::User).ok()
    })
}

fn settings() -> impl Strategy<Value = PolicySettings> {
    let network = [NetworkSwitch::Unset, NetworkSwitch::Off, NetworkSwitch::On];
    let programs = [
        ProgramList::Default,
        vec!["git".to_owned()].into(),
        vec!["*".to_owned()].into(),
    ];
    (
        mode(),
        proptest::collection::vec(rule(), 0..5),
        proptest::sample::select(network.to_vec()),
        proptest::sample::select(programs.to_vec()),
        any::<(bool, bool, bool)>(),
    )
        .prop_map(|(mode, rules, network, programs, (read, write, shell))| {
            let mut settings = PolicySettings {
                network,
                allowed_hosts: vec!["a.example".into(), "b.example".into()],
                allowed_shell_commands: programs,
                soft_roots: SoftRoots { read, write },
                shell_enabled: shell,
                ..PolicySettings::default()
            };
            settings.permissions.mode = mode;
            settings.permissions.rules = rules;
            settings
        })
}

fn names() -> impl Strategy<Value = Option<Vec<ToolName>>> {
    let some = proptest::sample::subsequence(TOOLS.to_vec(), 0..TOOLS.len());
    proptest::option::of(some.prop_map(|it| it.into_iter().map(ToolName::from).collect()))
}

fn bounds() -> impl Strategy<Value = SessionBounds> {
    let hosts = proptest::option::of(Just(vec!["a.example".to_owned()]));
    let roots = proptest::option::of(Just(vec![PathBuf::from("src")]));
    let programs = proptest::option::of(Just(vec!["git".to_owned()]));
    (
        names(),
        hosts,
        roots,
        programs,
        proptest::option::of(mode()),
    )
        .prop_map(
            |(tools, hosts, write_roots, programs, permission_mode)| SessionBounds {
                tools,
                hosts,
                write_roots,
                programs,
                permission_mode,
                ..SessionBounds::default()
            },
        )
}

fn agent_type() -> impl Strategy<Value = AgentType> {
    let built_in = AgentTypes::built_in();
    let kinds: Vec<AgentType> = built_in
        .names()
        .filter_map(|it| built_in.get(it))
        .cloned()
        .collect();
    (
        proptest::sample::select(kinds),
        names(),
        proptest::option::of(mode()),
        any::<bool>(),
    )
        .prop_map(|(kind, tools, permission_mode, own)| match own {
            true => AgentType {
                tools,
                permission_mode,
                ..kind
            },
            false => kind,
        })
}

fn calls() -> Vec<CallToJudge> {
    let call = |name: &str, actions: Vec<Action>, mutating: bool, asks: bool| CallToJudge {
        call: ToolCall {
            id: "call_1".into(),
            name: name.into(),
            arguments: json!({}),
        },
        actions,
        capabilities: ToolCapabilities {
            mutating,
            requires_approval: asks,
            ..ToolCapabilities::default()
        },
        hook: HookOpinion::Nothing,
        session_rules: Vec::new(),
        definition: None,
    };
    let run = |line: &str| Action::Run {
        command: line.into(),
        directory: None,
    };
    let mut calls = vec![
        call("deploy", vec![Action::Other { mutating: true }], true, true),
        call(
            "task",
            vec![Action::Other { mutating: false }],
            false,
            false,
        ),
        call("shell", vec![run("ls"), Action::LeaveSandbox], true, false),
    ];
    for path in ["src/a", "secret/a", "../a", "/etc/hosts"] {
        calls.push(call(
            "read",
            vec![Action::Read { path: path.into() }],
            false,
            false,
        ));
        calls.push(call(
            "write",
            vec![Action::Write { path: path.into() }],
            true,
            false,
        ));
    }
    for line in [
        "ls",
        "git status",
        "git push",
        "rm -rf src",
        "npm test",
        "ls > src/a",
    ] {
        calls.push(call("shell", vec![run(line)], true, false));
    }
    for host in ["a.example", "b.example", "c.example", "localhost:80"] {
        calls.push(call(
            "web_fetch",
            vec![Action::Reach { host: host.into() }],
            false,
            false,
        ));
    }
    calls
}

/// What becomes of a call: nothing, a question, or it runs. Where nobody above
/// is asked, a question is a no.
fn rank(verdict: &PolicyVerdict, may_ask: bool) -> u8 {
    match verdict {
        PolicyVerdict::Allow => 2,
        PolicyVerdict::Ask(_) if may_ask => 1,
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_child_may_do_no_more_than_its_parent(
        settings in settings(),
        parent in bounds(),
        agent_type in agent_type(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("src")).unwrap();
        let scope = || SessionScope {
            working_dir: directory.path().to_owned(),
            ..SessionScope::default()
        };
        let all = TOOLS.map(ToolName::from);
        let of_parent = all.iter().filter(|it| parent.tools.as_ref().is_none_or(|own| own.contains(it)));
        let of_child: Vec<ToolName> = of_parent.filter(|it| agent_type.has_tool(it)).cloned().collect();
        let child = child_bounds(&parent, &agent_type, &of_child);
        let mode = settings.permissions.mode;
        prop_assert!(check_child(&parent, &child, mode).is_ok());
        let bind = |bounds: &SessionBounds| {
            let narrowed = narrowed(&settings, bounds, directory.path());
            StandardPolicy::bind(narrowed, scope()).unwrap()
        };
        let (above, below) = (bind(&parent), bind(&child));
        let parents_mode = parent.permission_mode.map_or(mode, |it| it.min(mode));
        for call in calls() {
            let has = |bounds: &SessionBounds| {
                bounds.tools.as_ref().is_none_or(|it| it.contains(&call.call.name))
            };
            prop_assert!(has(&parent) || !has(&child));
            let (above, below) = (above.judge(&call), below.judge(&call));
            prop_assert!(
                rank(&below, parents_mode.asks()) <= rank(&above, true),
                "{call:?}: {above:?} for the parent, {below:?} for the child"
            );
        }
    }
}
