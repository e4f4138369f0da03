//! The policy as a whole.

use std::sync::Arc;

use halter_policy::shell::ShellDecision;
use halter_policy::{PolicySettings, ToolPolicy};

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
    let ShellDecision::Ask(refusal) = session.policy.decide_shell_command("rm x") else {
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
