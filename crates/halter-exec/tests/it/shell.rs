//! Persistent shells.

use std::path::Path;
use std::time::Duration;

use halter_exec::{CommandOutcome, Environment, PersistentShell, ShellCommand, ShellConfig};
use tokio_util::sync::CancellationToken;

use crate::support::{alive, environment, eventually};

fn shell() -> PersistentShell {
    PersistentShell::new(ShellConfig::new(environment(), "/"))
}

async fn run(shell: &mut PersistentShell, text: &str) -> CommandOutcome {
    run_command(shell, ShellCommand::new(text)).await
}

async fn run_command(shell: &mut PersistentShell, mut command: ShellCommand) -> CommandOutcome {
    // Nothing here takes long; a hang must become a failure.
    command.deadline.get_or_insert(Duration::from_secs(60));
    shell
        .run(command, &CancellationToken::new(), &())
        .await
        .unwrap()
}

/// Runs a command and returns its output, which must be all there is to say.
async fn output(shell: &mut PersistentShell, text: &str) -> String {
    let outcome = run(shell, text).await;
    assert_eq!(outcome.stderr.to_text(), "", "stderr of {text}");
    assert!(!outcome.timed_out, "{text} timed out");
    outcome.stdout.to_text()
}

#[tokio::test]
async fn state_survives_from_command_to_command() {
    let mut shell = shell();
    let setup = "cd /tmp; x=1; export y=2; f() { echo \"f $1\"; }; alias ll='echo LL'; set -f; \
                 shopt -s extglob; umask 027; set -- p q";
    let outcome = run(&mut shell, setup).await;
    assert_eq!(outcome.stderr.to_text(), "");
    assert_eq!(outcome.status.code, Some(0));
    assert_eq!(outcome.cwd, Path::new("/tmp"));
    let pid = shell.pid().unwrap();
    assert_eq!(
        output(
            &mut shell,
            "pwd; echo $x; printenv y; f 3; ll; echo *; umask; echo $2"
        )
        .await,
        "/tmp\n1\n2\nf 3\nLL\n*\n0027\nq\n"
    );
    assert_eq!(shell.pid(), Some(pid));
    shell.close().await;
    assert!(!alive(pid));
}

#[tokio::test]
async fn exit_ends_the_command_with_its_code_and_keeps_the_state_set_before() {
    let mut shell = shell();
    let outcome = run(
        &mut shell,
        "cd /tmp; x='a b'; export y=2; f() { echo f; }; alias ll='echo LL'; set -f; exit 7; echo no",
    )
    .await;
    assert_eq!(outcome.status.code, Some(7));
    assert_eq!(outcome.stdout.to_text(), "");
    assert_eq!(outcome.stderr.to_text(), "");
    assert_eq!(outcome.cwd, Path::new("/tmp"));
    assert!(!outcome.shell_restarted);
    assert_eq!(
        output(&mut shell, "pwd; echo \"$x\"; printenv y; f; ll; echo *").await,
        "/tmp\na b\n2\nf\nLL\n*\n"
    );
    // And again, from the shell that was given its state.
    let outcome = run(&mut shell, "x=c; exit 8").await;
    assert_eq!(outcome.status.code, Some(8));
    assert_eq!(output(&mut shell, "echo $x; f").await, "c\nf\n");
    shell.close().await;
}

#[tokio::test]
async fn cancel_interrupts_the_command_and_keeps_the_shell() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    let pid = shell.pid();
    for text in [
        "echo begun; sleep 300; echo no",
        "echo begun; while :; do :; done; echo no",
        "echo begun; f() { for i in 1 2 3; do sleep 300 | cat; done; }; f; echo no",
    ] {
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let sink = move |_: halter_exec::OutputChunk| token.cancel();
        let outcome = shell
            .run(ShellCommand::new(text), &cancel, &sink)
            .await
            .unwrap();
        assert!(outcome.cancelled, "{text}");
        assert!(!outcome.shell_restarted, "{text}");
        assert_eq!(outcome.stdout.to_text(), "begun\n", "{text}");
        assert_eq!(outcome.status.code, Some(130), "{text}");
        assert_eq!(output(&mut shell, "echo $x").await, "kept\n");
        assert_eq!(shell.pid(), pid, "{text}");
    }
    shell.close().await;
}

#[tokio::test]
async fn a_killed_shell_is_followed_by_one_with_its_directory_and_state() {
    let mut shell = shell();
    run(
        &mut shell,
        "cd /tmp; export y=2; f() { echo f; }; alias ll='echo LL'",
    )
    .await;
    let outcome = run(&mut shell, "echo going; kill -9 $$").await;
    assert_eq!(outcome.status.signal, Some(9));
    assert_eq!(outcome.stdout.to_text(), "going\n");
    assert!(outcome.shell_restarted);
    assert_eq!(outcome.cwd, Path::new("/tmp"));
    assert_eq!(
        output(&mut shell, "pwd; printenv y; f; ll").await,
        "/tmp\n2\nf\nLL\n"
    );
    shell.close().await;
}

#[tokio::test]
async fn exec_replaces_the_shell_for_this_command_only() {
    let mut shell = shell();
    run(&mut shell, "x=kept; cd /tmp").await;
    let outcome = run(&mut shell, "exec sh -c 'echo replaced; exit 5'").await;
    assert_eq!(outcome.stdout.to_text(), "replaced\n");
    assert_eq!(outcome.status.code, Some(5));
    assert!(outcome.shell_restarted);
    assert_eq!(output(&mut shell, "echo $x; pwd").await, "kept\n/tmp\n");
    shell.close().await;
}

#[tokio::test]
async fn errors_are_those_of_bash() {
    let mut shell = shell();
    let outcome = run(&mut shell, "echo before\nif then").await;
    assert_eq!(outcome.status.code, Some(2));
    assert_eq!(outcome.stdout.to_text(), "before\n");
    assert!(outcome.stderr.to_text().contains("syntax error"));

    let outcome = run(&mut shell, "no-such-command-here").await;
    assert_eq!(outcome.status.code, Some(127));
    assert!(outcome.stderr.to_text().contains("command not found"));

    let outcome = run(&mut shell, "set -u; echo $undefined; echo no").await;
    assert_ne!(outcome.status.code, Some(0));
    assert_eq!(outcome.stdout.to_text(), "");
    run(&mut shell, "set +u").await;

    let outcome = run(&mut shell, "set -e; x=kept; false; echo no").await;
    assert_eq!(outcome.status.code, Some(1));
    assert_eq!(outcome.stdout.to_text(), "");
    // The option is state like any other.
    let outcome = run(&mut shell, "echo $x; false; echo no").await;
    assert_eq!(outcome.stdout.to_text(), "kept\n");
    assert_eq!(outcome.status.code, Some(1));
    run(&mut shell, "set +e").await;
    assert_eq!(output(&mut shell, "false; echo $x").await, "kept\n");
    shell.close().await;
}

#[tokio::test]
async fn background_work_neither_delays_a_command_nor_dies_with_it() {
    let mut shell = shell();
    let text = output(
        &mut shell,
        "(while :; do echo tick; sleep 0.01; done) & echo $!",
    )
    .await;
    let pid: i32 = text.lines().next().unwrap().parse().unwrap();
    assert_eq!(output(&mut shell, "echo next").await, "next\n");
    assert!(alive(pid));

    // Cancelling a later command does not touch it either.
    let mut command = ShellCommand::new("sleep 300");
    command.deadline = Some(Duration::from_millis(50));
    let outcome = run_command(&mut shell, command).await;
    assert!(outcome.timed_out);
    assert!(alive(pid));
    // Nor does the shell's own end.
    run(&mut shell, "exit 0").await;
    assert!(alive(pid));
    shell.close().await;
    assert!(eventually(|| !alive(pid)));
}

#[tokio::test]
async fn directory_and_variables_for_one_command_only() {
    let mut shell = shell();
    let mut command = ShellCommand::new("pwd; printenv ONCE");
    command.cwd = Some("/usr".into());
    command.environment = Environment::new().with("ONCE", "it's one");
    let outcome = run_command(&mut shell, command).await;
    assert_eq!(outcome.stdout.to_text(), "/usr\nit's one\n");
    assert_eq!(outcome.cwd, Path::new("/"));
    assert_eq!(output(&mut shell, "pwd; echo \"[$ONCE]\"").await, "/\n[]\n");

    // A command that itself goes elsewhere stays there.
    let mut command = ShellCommand::new("cd bin; pwd");
    command.cwd = Some("/usr".into());
    let outcome = run_command(&mut shell, command).await;
    assert_eq!(outcome.cwd, Path::new("/usr/bin"));
    assert_eq!(output(&mut shell, "pwd").await, "/usr/bin\n");

    let mut command = ShellCommand::new("pwd");
    command.cwd = Some("no-such-place".into());
    let error = shell
        .run(command, &CancellationToken::new(), &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "working_directory_gone");
    assert!(error.to_string().contains("/usr/bin/no-such-place"));
    assert_eq!(output(&mut shell, "pwd").await, "/usr/bin\n");
    shell.close().await;
}
