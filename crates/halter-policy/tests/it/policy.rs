//! The policy as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use halter_policy::permission::{DecidedBy, Verdict};
use halter_policy::shell::ShellDecision;
use halter_policy::{
    Permissions, PolicySettings, Precondition, SandboxMode, SoftRoots, SourcedRule, StandardPolicy,
    ToolPolicy,
};
use halter_protocol::{Action, CallToJudge, PermissionMode, RuleEffect, RuleSource, ToolCall};

use crate::support::{Session, code};

#[test]
fn a_shell_that_is_off_runs_nothing() {
    let session = Session::with(
        |_| PolicySettings {
            shell_enabled: false,
            shell_timeout_secs: 7,
            max_read_bytes: 9,
            ..PolicySettings::default()
        },
        |_| {},
    );
    let policy: Arc<dyn ToolPolicy> = Arc::new(session.policy);
    assert_eq!(code(policy.check_shell_enabled()), "shell_disabled");
    let error = policy.check_shell_command_strict("ls").unwrap_err();
    assert_eq!(error.code(), "shell_disabled");
    assert!(
        error.to_string().contains("policy.shell.enabled"),
        "{error}"
    );
    assert_eq!(policy.shell_timeout_secs(), 7);
    assert_eq!(policy.max_read_bytes(), 9);
}

#[test]
fn a_shell_that_is_on_runs_what_is_listed() {
    let session = Session::new();
    session.policy.check_shell_enabled().unwrap();
    session
        .policy
        .check_shell_command_strict("ls | rg x")
        .unwrap();
    let ShellDecision::Ask(refusal) = session.policy.decide_shell_command("rm x", None) else {
        panic!("beyond the built-in list is asked");
    };
    assert_eq!((refusal.rule, &*refusal.fragment), ("shell.unlisted", "rm"));
    assert_eq!(
        code(session.policy.check_shell_command_strict("eval ls")),
        "shell_command_rejected"
    );
    session.policy.check_shell_variable("FOO").unwrap();
    assert_eq!(
        code(session.policy.check_shell_variable("LD_PRELOAD")),
        "shell_command_rejected"
    );
}

fn call(action: Action) -> CallToJudge {
    let call = ToolCall {
        id: "1".into(),
        name: "write".into(),
        arguments: serde_json::json!({}),
    };
    CallToJudge::new(call, vec![action])
}

fn write(path: PathBuf) -> CallToJudge {
    call(Action::Write { path })
}

/// A policy whose roots nobody has set.
fn soft(session: &Session, mode: PermissionMode, allow: &[&str]) -> StandardPolicy {
    let rule = |text: &&str| SourcedRule::new(RuleEffect::Allow, text, RuleSource::User).unwrap();
    session.bind(PolicySettings {
        sandbox: SandboxMode::Prefer,
        soft_roots: SoftRoots {
            read: true,
            write: true,
        },
        permissions: Permissions {
            mode,
            rules: allow.iter().map(rule).collect(),
            home: None,
        },
        ..PolicySettings::default()
    })
}

#[test]
fn beyond_roots_that_nobody_has_set_the_mode_decides() {
    use PermissionMode::{Allow, FullAccess, Prompt, ReadOnly, WorkspaceWrite};
    let session = Session::new();
    let (file, key) = (session.outside("new"), session.outside(".ssh/key"));
    for (mode, verdict) in [
        (ReadOnly, Verdict::Deny),
        (Prompt, Verdict::Ask),
        (WorkspaceWrite, Verdict::Ask),
        (FullAccess, Verdict::Allow),
        (Allow, Verdict::Allow),
    ] {
        let policy = soft(&session, mode, &[]);
        let decision = policy.decide_call(&write(file.clone())).unwrap();
        assert_eq!(decision.verdict, verdict, "{mode}");
        let denied = policy.decide_call(&write(key.clone())).unwrap_err();
        assert_eq!(denied.rule, "sensitive_path", "{mode}");
        let hidden = session.outside("x/../.ssh/key");
        let denied = policy.decide_call(&call(Action::Read { path: hidden }));
        assert!(denied.is_err(), "{mode}");
    }
    let policy = soft(&session, WorkspaceWrite, &[]);
    let decision = policy.decide_call(&write(file.clone())).unwrap();
    assert_eq!(decision.by, DecidedBy::BeyondRoots);
    let rule = decision.always.unwrap();
    assert_eq!(rule, format!("Edit(/{})", file.display()));
    for (allow, verdict) in [(rule.as_str(), Verdict::Allow), ("Write", Verdict::Ask)] {
        let policy = soft(&session, WorkspaceWrite, &[allow]);
        let decision = policy.decide_call(&write(file.clone())).unwrap();
        assert_eq!(decision.verdict, verdict, "{allow}");
    }
    std::fs::create_dir(session.work("sub")).unwrap();
    // However it is spelled; what a link makes of `..` stays closed.
    std::os::unix::fs::symlink(session.outside("."), session.work("link")).unwrap();
    for (path, verdict) in [
        ("../outside/new", Some(Verdict::Ask)),
        ("sub/../../outside/new", Some(Verdict::Ask)),
        ("../outside/.ssh/key", None),
        ("../work/new", None),
        ("link/../../new", None),
    ] {
        let decision = policy.decide_call(&write(path.into()));
        assert_eq!(decision.ok().map(|it| it.verdict), verdict, "{path}");
    }
    for (line, expected) in [
        ("cat ../outside/secret", "ask"),
        ("cd ../outside && cat secret", "ask"),
        ("cat ../outside/.ssh/key", "deny"),
        ("cat link/../../secret", "deny"),
    ] {
        let decision = match policy.decide_shell_command(line, None) {
            ShellDecision::Allow => "allow",
            ShellDecision::Ask(_) => "ask",
            ShellDecision::Deny(_) => "deny",
        };
        assert_eq!(decision, expected, "{line}");
    }
    let line = format!("cat {}", session.outside("secret").display());
    let asked = policy.decide_shell_command(&line, None);
    assert!(matches!(asked, ShellDecision::Ask(why) if why.rule == "not_in_root"));
    // A rule about one program of a line answers nothing else in it.
    let policy = soft(
        &session,
        WorkspaceWrite,
        &["Bash(make:*)", "Bash(sed -i s/a/b/ ok)"],
    );
    for (command, verdict) in [
        ("make".to_owned(), Verdict::Allow),
        (format!("make; {line}"), Verdict::Ask),
        ("make; cd \"$x\" && cat y".to_owned(), Verdict::Ask),
        ("make; sed -i s/a/b/ f".to_owned(), Verdict::Ask),
        ("make; sed -i s/a/b/ ok".to_owned(), Verdict::Allow),
    ] {
        let run = call(Action::Run {
            command: command.clone(),
            directory: None,
        });
        assert_eq!(
            policy.decide_call(&run).unwrap().verdict,
            verdict,
            "{command}"
        );
    }
    // Roots that are set are a wall.
    let set = session.bind(PolicySettings::default());
    assert_eq!(
        set.decide_call(&write(file)).unwrap_err().rule,
        "not_in_root"
    );
}

#[test]
fn a_call_that_was_judged_reaches_what_it_was_judged_about_and_nothing_else() {
    let session = Session::new();
    std::fs::create_dir(session.outside("there")).unwrap();
    let policy = soft(&session, PermissionMode::WorkspaceWrite, &[]);
    let file = session.outside("there/new");
    let judged = write(file.clone());
    assert!(policy.for_judged_call(&judged.actions).is_none());
    policy.decide_call(&judged).unwrap();
    let wider = policy.for_judged_call(&judged.actions).unwrap();
    // The session's commands get no wider sandbox by it.
    assert_eq!(wider.sandbox(None), policy.sandbox(None));
    let ticket = wider.door().prepare_write(&file).unwrap();
    ticket.commit(b"text", Precondition::None).unwrap();
    assert_eq!(
        code(wider.door().prepare_write(&session.outside("x"))),
        "not_in_root"
    );
    assert_eq!(code(policy.door().prepare_write(&file)), "not_in_root");
    std::fs::create_dir(session.work("sub")).unwrap();
    let relative = write("sub/../../outside/there/other".into());
    policy.decide_call(&relative).unwrap();
    let wider = policy.for_judged_call(&relative.actions).unwrap();
    let spelled = Path::new("sub/../../outside/there/other");
    assert!(wider.door().prepare_write(spelled).is_ok());
    let elsewhere = Path::new("sub/../../outside/other");
    assert_eq!(code(wider.door().prepare_write(elsewhere)), "not_in_root");
    // Another directory in its place is not what was judged.
    std::fs::rename(session.outside("there"), session.outside("moved")).unwrap();
    std::os::unix::fs::symlink("/", session.outside("there")).unwrap();
    assert!(policy.for_judged_call(&judged.actions).is_none());
    let other = [Action::Write {
        path: Path::new("/etc/x").into(),
    }];
    assert!(policy.for_judged_call(&other).is_none());
}

#[test]
fn a_session_rule_that_cannot_be_used_is_said_once_and_allows_nothing() {
    let session = Session::new();
    let rules = ["Edit(~/x)", "no rule", "Bash(make:*)"].map(str::to_owned);
    let said = session.policy.hold_session_rules(&rules);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("Edit(~/x)") && said[0].contains("home directory"));
    assert!(said[1].contains("no rule"), "{said:?}");
    assert!(session.policy.hold_session_rules(&rules).is_empty());
    let more = [&rules[..], &["Bash(npm:*)".to_owned()]].concat();
    assert!(session.policy.hold_session_rules(&more).is_empty());
}

fn reach(host: &str) -> CallToJudge {
    call(Action::Reach { host: host.into() })
}

#[test]
fn a_host_that_nobody_has_set_anything_about_is_asked_about_and_opened_to_that_call() {
    use PermissionMode::{Allow, FullAccess, Prompt, ReadOnly, WorkspaceWrite};
    let session = Session::new();
    for (mode, verdict) in [
        (ReadOnly, Verdict::Deny),
        (Prompt, Verdict::Ask),
        (WorkspaceWrite, Verdict::Ask),
        (FullAccess, Verdict::Ask),
        (Allow, Verdict::Deny),
    ] {
        let policy = soft(&session, mode, &[]);
        let decision = policy.decide_call(&reach("docs.example:443")).unwrap();
        assert_eq!(decision.verdict, verdict, "{mode}");
        assert_eq!(decision.by, DecidedBy::Network("network.off"), "{mode}");
        let denied = policy.decide_call(&reach("169.254.169.254")).unwrap_err();
        assert_eq!(denied.rule, "network.metadata", "{mode}");
        let denied = policy.decide_call(&reach("a b")).unwrap_err();
        assert_eq!(denied.rule, "network.invalid_host", "{mode}");
    }
    let policy = soft(&session, WorkspaceWrite, &[]);
    let asked = policy.decide_call(&reach("Docs.example.:443")).unwrap();
    assert_eq!(asked.fragment.as_deref(), Some("docs.example:443"));
    let rule = asked.always.unwrap();
    assert_eq!(rule, "WebFetch(domain:docs.example)");
    for (allow, verdict) in [(rule.as_str(), Verdict::Allow), ("fetch", Verdict::Ask)] {
        let policy = soft(&session, WorkspaceWrite, &[allow]);
        let decision = policy.decide_call(&reach("docs.example")).unwrap();
        assert_eq!(decision.verdict, verdict, "{allow}");
    }
    assert_eq!(
        policy.check_host("docs.example").unwrap_err().rule(),
        "network.off"
    );
    let opened = policy
        .for_judged_call(&reach("docs.example").actions)
        .unwrap();
    opened.check_host("docs.example:443").unwrap();
    assert!(opened.check_host("other.example").is_err());
    assert!(policy.check_host("docs.example").is_err());
}

#[test]
fn a_command_that_would_leave_the_sandbox_is_asked_about_whatever_a_rule_allows() {
    use PermissionMode::{Allow, FullAccess, Prompt, ReadOnly, WorkspaceWrite};
    let session = Session::new();
    let leaving = call(Action::LeaveSandbox);
    for (mode, verdict) in [
        (ReadOnly, Verdict::Deny),
        (Prompt, Verdict::Ask),
        (WorkspaceWrite, Verdict::Ask),
        (FullAccess, Verdict::Ask),
        (Allow, Verdict::Deny),
    ] {
        let policy = soft(&session, mode, &["write"]);
        let decision = policy.decide_call(&leaving).unwrap();
        assert_eq!(decision.verdict, verdict, "{mode}");
        assert_eq!(decision.by.code(), "leaves_sandbox", "{mode}");
        assert_eq!(decision.always, None, "{mode}");
    }
    let with = |sandbox| {
        session.bind(PolicySettings {
            sandbox,
            ..PolicySettings::default()
        })
    };
    let denied = with(SandboxMode::Require).decide_call(&leaving);
    assert_eq!(
        denied.unwrap_err().remedy.as_deref(),
        Some("policy.sandbox")
    );
    let none = with(SandboxMode::Off).decide_call(&leaving).unwrap();
    assert_eq!(none.verdict, Verdict::Allow);
}

#[test]
fn a_command_finds_open_what_it_was_judged_to_change_and_no_more() {
    let session = Session::new();
    std::fs::create_dir_all(session.outside("there/sub")).unwrap();
    std::fs::write(session.outside("there/file"), "").unwrap();
    let policy = || soft(&session, PermissionMode::WorkspaceWrite, &[]);
    let run = |command: String| {
        call(Action::Run {
            command,
            directory: None,
        })
    };
    let writable = |policy: &StandardPolicy, command: &CallToJudge| {
        let wider = policy.for_judged_call(&command.actions)?;
        let session = policy.sandbox(None).writable;
        let mut writable = wider.sandbox_for_call(None)?.writable;
        writable.retain(|path| !session.contains(path));
        Some(writable)
    };
    let there = session.outside("there");
    for (command, opened) in [
        ("touch @/new", ""),
        ("touch @/file", ""),
        ("mkdir -p @/a/b/c", ""),
        ("cp x @/sub", "sub"),
        ("rm -r @/sub", ""),
        ("echo x > @/sub/y", "sub"),
    ] {
        let policy = policy();
        let command = run(command.replace('@', there.to_str().unwrap()));
        assert_eq!(writable(&policy, &command), None, "before: {command:?}");
        let decided = policy.decide_call(&command).unwrap();
        assert_eq!(decided.verdict, Verdict::Ask, "{command:?}");
        let opened = there.join(opened).canonicalize().unwrap();
        assert_eq!(
            writable(&policy, &command),
            Some(vec![opened]),
            "{command:?}"
        );
    }
    let policy = policy();
    for command in ["cat @/file", "touch inside"] {
        let command = run(command.replace('@', there.to_str().unwrap()));
        policy.decide_call(&command).unwrap();
        assert_eq!(writable(&policy, &command), None, "{command:?}");
    }
    // What a link leads to now is not what was judged.
    let link = session.outside("link");
    std::os::unix::fs::symlink(session.outside("there/sub"), &link).unwrap();
    let command = run(format!("touch {}/x", link.display()));
    policy.decide_call(&command).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(session.outside("."), &link).unwrap();
    assert_eq!(writable(&policy, &command), None);
}
