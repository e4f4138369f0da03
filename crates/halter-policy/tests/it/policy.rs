//! The policy as a whole.

use std::process::{Command, Stdio};
use std::sync::Arc;

use halter_policy::{PolicySettings, ToolPolicy};

use crate::support::{Session, code};

#[test]
fn the_defaults_are_the_documented_ones() {
    let settings = PolicySettings::default();
    assert_eq!(
        settings.allowed_write_roots,
        [std::path::PathBuf::from(".")]
    );
    assert!(settings.allowed_read_roots.is_empty());
    assert_eq!(settings.sensitive_path_patterns, None);
    assert_eq!(settings.max_read_bytes, 1_048_576);
    assert!(settings.shell_enabled);
    assert_eq!(
        settings.allowed_shell_commands,
        ["git", "cargo", "rg", "ls", "find", "true", "cd"]
    );
    assert_eq!(settings.shell_timeout_secs, 30);
}

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
    assert_eq!(
        code(session.policy.check_shell_command_strict("rm x")),
        "shell_command_rejected"
    );
    session.policy.check_shell_variable("FOO").unwrap();
    assert_eq!(
        code(session.policy.check_shell_variable("LD_PRELOAD")),
        "shell_command_rejected"
    );
}

#[test]
fn only_descendants_may_be_signalled() {
    let session = Session::new();
    let signal = |pid: u32| {
        session
            .policy
            .check_process_signal(i32::try_from(pid).unwrap())
    };

    // A child, and a grandchild: the shell waits for its `sleep`.
    let mut child = Command::new("sh")
        .args(["-c", "sleep 600 & echo $!; wait"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let grandchild: u32 = line.trim().parse().unwrap();
    let verdicts = (signal(child.id()), signal(grandchild));
    let grandchild = rustix::process::Pid::from_raw(i32::try_from(grandchild).unwrap()).unwrap();
    rustix::process::kill_process(grandchild, rustix::process::Signal::KILL).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    verdicts.0.unwrap();
    verdicts.1.unwrap();

    assert_eq!(code(signal(1)), "process_outside_tree");
    assert_eq!(code(signal(std::process::id())), "process_outside_tree");
    assert_eq!(code(signal(child.id())), "process_outside_tree");
    for pid in [0, -1, -12, i32::MIN, i32::MAX] {
        let error = session.policy.check_process_signal(pid).unwrap_err();
        assert_eq!(error.code(), "process_outside_tree");
        assert!(error.to_string().contains(&pid.to_string()), "{error}");
    }
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
    assert_eq!(
        code(session.policy.check_process_signal(parent)),
        "process_outside_tree"
    );
}
