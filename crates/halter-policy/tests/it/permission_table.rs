//! The permission tree as a table: modes by hooks, for rules and calls.

use std::fmt::Write;

use halter_policy::limits::ASK_WALK_ENTRIES;
use halter_policy::permission::{Permissions, Verdict};
use halter_policy::{PolicySettings, SourcedRule, StandardPolicy};
use halter_protocol::{
    Action, CallToJudge, HookOpinion, PermissionMode, RuleEffect, RuleSource, ToolCall,
};
use serde_json::json;

use crate::support::Session;

/// A call, and what its tool says of it.
pub struct Call {
    pub name: &'static str,
    call: ToolCall,
    actions: Vec<Action>,
    mutating: bool,
    requires_approval: bool,
}

impl Call {
    fn new(name: &'static str, tool: &str, actions: Vec<Action>) -> Self {
        Self {
            name,
            call: ToolCall {
                id: "call".into(),
                name: tool.into(),
                arguments: json!({ "depth": 3 }),
            },
            actions,
            mutating: false,
            requires_approval: false,
        }
    }

    pub fn shell(command: &'static str) -> Self {
        let run = Action::Run {
            command: command.to_owned(),
            directory: None,
        };
        Self {
            mutating: true,
            requires_approval: true,
            ..Self::new(command, "shell", vec![run])
        }
    }

    pub fn decide(&self, policy: &StandardPolicy, hook: &HookOpinion) -> Verdict {
        let mut call = CallToJudge::new(self.call.clone(), self.actions.clone());
        call.capabilities.mutating = self.mutating;
        call.capabilities.requires_approval = self.requires_approval;
        call.hook = hook.clone();
        match policy.decide_call(&call) {
            Ok(decision) => decision.verdict,
            Err(_) => Verdict::Deny,
        }
    }
}

pub fn calls() -> Vec<Call> {
    let path = |path: &str| path.into();
    let mut calls = vec![
        Call::new(
            "read src/a.rs",
            "read",
            vec![Action::Read {
                path: path("src/a.rs"),
            }],
        ),
        Call {
            mutating: true,
            ..Call::new(
                "write src/a.rs",
                "write",
                vec![Action::Write {
                    path: path("src/a.rs"),
                }],
            )
        },
        Call {
            mutating: true,
            ..Call::new(
                "write ../x",
                "write",
                vec![Action::Write { path: path("../x") }],
            )
        },
        Call {
            mutating: true,
            ..Call::new(
                "a tool that changes",
                "deploy",
                vec![Action::Other { mutating: true }],
            )
        },
        Call {
            mutating: true,
            requires_approval: true,
            ..Call::new(
                "a tool to approve",
                "deploy",
                vec![Action::Other { mutating: true }],
            )
        },
        Call::new(
            "a tool that looks",
            "look",
            vec![Action::Other { mutating: false }],
        ),
    ];
    calls.extend(
        [
            "ls",
            "git commit -m x",
            "git push",
            "ls && git push",
            "git commit -m x && git push",
            "ls | rg x; git status",
        ]
        .map(Call::shell),
    );
    calls
}

pub fn policy(
    session: &Session,
    mode: PermissionMode,
    rules: &[(RuleEffect, &str, RuleSource)],
) -> StandardPolicy {
    let rule = |(effect, text, source): &(RuleEffect, &str, RuleSource)| {
        SourcedRule::new(*effect, text, *source).unwrap()
    };
    let settings = PolicySettings {
        allowed_shell_commands: ["cp", "git", "ls", "rg", "rm"]
            .map(str::to_owned)
            .to_vec()
            .into(),
        permissions: Permissions {
            mode,
            rules: rules.iter().map(rule).collect(),
            home: None,
        },
        ..PolicySettings::default()
    };
    session.bind(settings)
}

#[test]
fn the_table_is_as_recorded() {
    use RuleEffect::{Allow, Ask, Deny};
    let session = Session::new();
    let user = |effect, text| (effect, text, RuleSource::User);
    let sets = [
        vec![],
        vec![
            user(Allow, "Bash(git commit:*)"),
            user(Allow, "Edit(./src/**)"),
            user(Allow, "deploy"),
        ],
        vec![user(Allow, "Bash")],
        vec![
            user(Ask, "Bash(git push:*)"),
            user(Ask, "Edit(*.rs)"),
            user(Ask, "deploy(depth:3)"),
        ],
        vec![
            user(Deny, "Bash(git push:*)"),
            user(Deny, "Read(src/**)"),
            user(Deny, "dep*"),
        ],
        vec![user(Allow, "Bash(git push:*)"), user(Ask, "Bash(git:*)")],
        vec![
            user(Allow, "Bash(git:*)"),
            user(Ask, "Bash(git push)"),
            user(Deny, "Bash(git push)"),
        ],
    ];
    let hooks = [
        HookOpinion::Nothing,
        HookOpinion::Allow,
        HookOpinion::Ask("sure?".to_owned()),
    ];
    let mut table = String::from(
        "Each cell: what happens if hooks say nothing, allow, ask.\n\
         + runs, ? is asked, - is denied\n",
    );
    for rules in sets {
        let named: Vec<String> = rules
            .iter()
            .map(|(effect, text, _)| format!("{} {text}", effect.as_str()))
            .collect();
        let named = match named.is_empty() {
            true => "no rules".to_owned(),
            false => named.join(", "),
        };
        writeln!(table, "\n{named}").unwrap();
        write!(table, "{:30}", "").unwrap();
        for mode in PermissionMode::ALL {
            write!(table, "{:>16}", mode.as_str()).unwrap();
        }
        table.push('\n');
        for call in calls() {
            write!(table, "{:30}", call.name).unwrap();
            for mode in PermissionMode::ALL {
                let policy = policy(&session, mode, &rules);
                let cell: String = hooks
                    .iter()
                    .map(|hook| match call.decide(&policy, hook) {
                        Verdict::Allow => '+',
                        Verdict::Ask => '?',
                        Verdict::Deny => '-',
                    })
                    .collect();
                write!(table, "{cell:>16}").unwrap();
            }
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn closing_the_shell_closes_every_tool_that_runs_commands() {
    let session = Session::new();
    let mut started = Call::shell("ls");
    started.call.name = "pty".into();
    let looking = Call::new("looking", "pty", vec![Action::Other { mutating: true }]);
    let verdicts = |effect| {
        let rules = [(effect, "Bash", RuleSource::User)];
        let policy = policy(&session, PermissionMode::WorkspaceWrite, &rules);
        [&started, &looking].map(|call| call.decide(&policy, &HookOpinion::Nothing))
    };
    assert_eq!(verdicts(RuleEffect::Deny), [Verdict::Deny, Verdict::Allow]);
    assert_eq!(verdicts(RuleEffect::Ask), [Verdict::Ask, Verdict::Allow]);
}

#[test]
fn what_cannot_be_taken_apart_is_asked_about_where_rules_would_have_to_know() {
    // A list of all programs takes lines that our own reader does not know.
    let line = "[[ x =~ $(git push) ]] && echo <<<$((`ls`";
    let any = |mode, rules: &[(RuleEffect, &str)]| {
        let session = Session::new();
        let rule = |(effect, text): &(RuleEffect, &str)| {
            SourcedRule::new(*effect, text, RuleSource::User).unwrap()
        };
        let policy = session.bind(PolicySettings {
            allowed_shell_commands: vec!["*".to_owned()].into(),
            permissions: Permissions {
                mode,
                rules: rules.iter().map(rule).collect(),
                home: None,
            },
            ..PolicySettings::default()
        });
        Call::shell(line).decide(&policy, &HookOpinion::Nothing)
    };
    let deny = [(RuleEffect::Deny, "Bash(git push:*)")];
    for mode in PermissionMode::ALL {
        assert_ne!(any(mode, &deny), Verdict::Allow, "{mode}");
    }
}

#[test]
fn destructive_forms_are_asked_about_unless_a_rule_names_them() {
    let session = Session::new();
    let reset = Call::shell("git reset --hard HEAD~1");
    let decide = |mode, rules: &[(RuleEffect, &str, RuleSource)]| {
        reset.decide(&policy(&session, mode, rules), &HookOpinion::Nothing)
    };
    let allow = |text| [(RuleEffect::Allow, text, RuleSource::User)];
    use PermissionMode::{Allow, FullAccess, ReadOnly, WorkspaceWrite};
    assert_eq!(decide(WorkspaceWrite, &[]), Verdict::Ask);
    for general in ["Bash", "Bash(git:*)", "Bash(git reset:*)"] {
        assert_eq!(
            decide(WorkspaceWrite, &allow(general)),
            Verdict::Ask,
            "{general}"
        );
    }
    for naming in ["Bash(git reset --hard:*)", "Bash(git reset --hard HEAD~1)"] {
        assert_eq!(
            decide(WorkspaceWrite, &allow(naming)),
            Verdict::Allow,
            "{naming}"
        );
    }
    assert_eq!(decide(FullAccess, &[]), Verdict::Allow);
    assert_eq!(decide(Allow, &[]), Verdict::Allow);
    assert_eq!(
        decide(ReadOnly, &allow("Bash(git reset --hard:*)")),
        Verdict::Deny
    );
}

#[test]
fn the_built_in_list_is_soft_and_a_rule_opens_a_program() {
    let session = Session::new();
    let soft = |mode, rules: &[&str]| {
        let allow =
            |text: &&str| SourcedRule::new(RuleEffect::Allow, text, RuleSource::User).unwrap();
        session.bind(PolicySettings {
            permissions: Permissions {
                mode,
                rules: rules.iter().map(allow).collect(),
                home: None,
            },
            ..PolicySettings::default()
        })
    };
    use PermissionMode::{Allow, FullAccess, Prompt, ReadOnly, WorkspaceWrite};
    let verdict = |command, mode, rules: &[&str]| {
        Call::shell(command).decide(&soft(mode, rules), &HookOpinion::Nothing)
    };
    for (mode, expected) in [
        (ReadOnly, Verdict::Deny),
        (Prompt, Verdict::Ask),
        (WorkspaceWrite, Verdict::Ask),
        (FullAccess, Verdict::Allow),
        (Allow, Verdict::Allow),
    ] {
        assert_eq!(verdict("terraform apply", mode, &[]), expected, "{mode}");
    }
    for (command, rules, expected) in [
        (
            "terraform apply",
            &["Bash(terraform apply:*)"][..],
            Verdict::Allow,
        ),
        (
            "terraform destroy",
            &["Bash(terraform apply:*)"],
            Verdict::Ask,
        ),
        (
            "ls && terraform apply",
            &["Bash(terraform apply:*)"],
            Verdict::Allow,
        ),
        (
            "terraform apply; helm list",
            &["Bash(terraform apply:*)"],
            Verdict::Ask,
        ),
        (
            "terraform apply; helm list",
            &["Bash(terraform:*)", "Bash(helm list)"],
            Verdict::Allow,
        ),
        (
            "terraform apply && rm -rf build",
            &["Bash(terraform:*)", "Bash(rm:*)"],
            Verdict::Ask,
        ),
        (
            "timeout 5 terraform apply",
            &["Bash(terraform:*)"],
            Verdict::Allow,
        ),
        (
            "echo $(terraform apply)",
            &["Bash(terraform:*)", "Bash(echo:*)"],
            Verdict::Allow,
        ),
        ("echo $(terraform apply)", &["Bash(echo:*)"], Verdict::Ask),
        (
            "for i in 1 2; do terraform apply; done",
            &["Bash(terraform:*)"],
            Verdict::Allow,
        ),
    ] {
        assert_eq!(
            verdict(command, WorkspaceWrite, rules),
            expected,
            "{command}"
        );
    }
}

#[test]
fn a_rule_that_asks_about_a_file_asks_about_changing_the_directory_it_is_in() {
    let session = Session::new();
    std::fs::create_dir_all(session.work("src/deep")).unwrap();
    std::fs::write(session.work("src/deep/.env"), "x").unwrap();
    std::fs::create_dir(session.work("docs")).unwrap();
    std::fs::write(session.work("docs/a.md"), "x").unwrap();
    std::os::unix::fs::symlink(session.work("src"), session.work("docs/link")).unwrap();
    let write = |path: &str| {
        let action = Action::Write { path: path.into() };
        Call {
            mutating: true,
            ..Call::new("change", "delete", vec![action])
        }
    };
    let read = |path: &str| {
        let action = Action::Read { path: path.into() };
        Call::new("look", "grep", vec![action])
    };
    for (rule, call, expected) in [
        ("Edit(.env)", write("src"), Verdict::Ask),
        ("Edit(.env)", write("."), Verdict::Ask),
        ("Read(src/deep/*)", write("src/deep"), Verdict::Ask),
        ("Edit(.env)", write("docs"), Verdict::Allow),
        ("Edit(.env)", write("docs/link"), Verdict::Ask),
        ("Edit(.env)", write("src/new.rs"), Verdict::Allow),
        ("Edit(.env)", read("src"), Verdict::Allow),
        ("Edit(.env)", Call::shell("rm -r src"), Verdict::Ask),
        ("Edit(.env)", Call::shell("rm -r docs"), Verdict::Allow),
        (
            "Edit(.env)",
            Call::shell("cp docs/a.md src"),
            Verdict::Allow,
        ),
    ] {
        let rules = [(RuleEffect::Ask, rule, RuleSource::User)];
        let policy = policy(&session, PermissionMode::FullAccess, &rules);
        let verdict = call.decide(&policy, &HookOpinion::Nothing);
        assert_eq!(verdict, expected, "{rule}: {:?}", call.actions);
    }
}

#[test]
fn a_directory_with_more_entries_than_are_looked_at_is_asked_about() {
    let session = Session::new();
    std::fs::create_dir(session.work("many")).unwrap();
    for number in 0..ASK_WALK_ENTRIES {
        std::fs::File::create(session.work(&format!("many/{number}"))).unwrap();
    }
    let rules = [(RuleEffect::Ask, "Edit(.env)", RuleSource::User)];
    let policy = policy(&session, PermissionMode::WorkspaceWrite, &rules);
    let action = Action::Write {
        path: "many".into(),
    };
    let call = Call::new("delete many", "delete", vec![action]);
    let verdict = || call.decide(&policy, &HookOpinion::Nothing);
    assert_eq!(verdict(), Verdict::Allow);
    std::fs::File::create(session.work("many/one-more")).unwrap();
    assert_eq!(verdict(), Verdict::Ask);
}

#[test]
fn a_tool_that_changes_things_may_say_that_a_call_does_not() {
    let session = Session::new();
    let process = |mutating| Call {
        mutating: true,
        ..Call::new("process", "process", vec![Action::Other { mutating }])
    };
    use PermissionMode::{Prompt, ReadOnly};
    for (mode, mutating, expected) in [
        (ReadOnly, false, Verdict::Allow),
        (ReadOnly, true, Verdict::Deny),
        (Prompt, false, Verdict::Allow),
        (Prompt, true, Verdict::Ask),
    ] {
        let policy = policy(&session, mode, &[]);
        let verdict = process(mutating).decide(&policy, &HookOpinion::Nothing);
        assert_eq!(verdict, expected, "{mode} {mutating}");
    }
    // One that says nothing of the kind counts as what it is.
    let looks = Call {
        mutating: true,
        ..Call::new("x", "x", vec![Action::Read { path: "a".into() }])
    };
    let policy = policy(&session, ReadOnly, &[]);
    assert_eq!(looks.decide(&policy, &HookOpinion::Nothing), Verdict::Deny);
}
