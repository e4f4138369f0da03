//! Persistent shells.

use std::path::{Path, PathBuf};
use std::time::Duration;

use halter_exec::{
    CommandOutcome, Environment, ExecError, PersistentShell, ShellCommand, ShellConfig,
};
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
    let pid: i32 = text.lines().find_map(|line| line.parse().ok()).unwrap();
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

#[tokio::test]
async fn the_shells_own_channels_are_out_of_reach() {
    let mut shell = shell();
    // Neither what is typed to the shell nor where it answers is inherited
    // (the fourth descriptor is the listed directory).
    let text = "cat; read line; echo \"[$line]\"; ls /proc/self/fd; echo x >&9";
    let outcome = run(&mut shell, text).await;
    assert_eq!(outcome.stdout.to_text(), "[]\n0\n1\n2\n3\n");
    assert!(outcome.stderr.to_text().contains("9: Bad file descriptor"));
    // Forged records in the output mean nothing.
    assert_eq!(
        output(&mut shell, "printf 'E 1 0 /\\0'; printf 'B 1\\0'").await,
        "E 1 0 /\0B 1\0"
    );
    shell.close().await;
}

#[tokio::test]
async fn input_is_the_commands_own() {
    let mut shell = shell();
    let input = vec![b'x'; 300_000];
    let mut command = ShellCommand::new("wc -c; echo more");
    command.stdin = halter_exec::Stdin::Bytes(input.into());
    let outcome = run_command(&mut shell, command).await;
    assert_eq!(outcome.stdout.to_text().trim(), "300000\nmore");
    assert_eq!(output(&mut shell, "wc -c").await.trim(), "0");
    shell.close().await;
}

#[tokio::test]
async fn a_command_that_ignores_everything_is_killed_and_the_state_survives() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    let stubborn = "setsid bash -c 'trap \"\" INT TERM HUP; echo $$; while :; do sleep 0.1; done'";
    let mut command = ShellCommand::new(format!("{stubborn}; echo no"));
    command.grace = Duration::from_millis(50);
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let sink = move |_: halter_exec::OutputChunk| token.cancel();
    let outcome = shell.run(command, &cancel, &sink).await.unwrap();
    assert!(outcome.cancelled && !outcome.shell_restarted);
    let child: i32 = outcome.stdout.to_text().trim().parse().unwrap();
    assert!(!alive(child));
    // On a slow host another shell may go on with the state of this one.
    assert_eq!(output(&mut shell, "echo $x").await, "kept\n");
    shell.close().await;
}

#[tokio::test]
async fn a_shell_that_cannot_be_interrupted_is_replaced() {
    let mut shell = shell();
    run(&mut shell, "cd /tmp; export x=kept").await;
    let mut command = ShellCommand::new("trap '' INT TERM; echo begun; while :; do :; done");
    command.deadline = Some(Duration::from_millis(300));
    command.grace = Duration::from_millis(50);
    let outcome = run_command(&mut shell, command).await;
    assert!(outcome.timed_out && outcome.shell_restarted);
    assert_eq!(outcome.stdout.to_text(), "begun\n");
    assert_eq!(outcome.status.signal, Some(9));
    assert_eq!(output(&mut shell, "echo $x; pwd").await, "kept\n/tmp\n");
    shell.close().await;
}

#[tokio::test]
async fn a_dropped_run_kills_the_shell_and_the_next_meets_the_last_state() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    let old = shell.pid().unwrap();
    let cancel = CancellationToken::new();
    {
        let running = shell.run(ShellCommand::new("sleep 300"), &cancel, &());
        let limit = tokio::time::timeout(Duration::from_millis(100), running);
        assert!(limit.await.is_err());
    }
    assert!(eventually(|| !alive(old)));
    let outcome = run(&mut shell, "echo $x").await;
    assert_eq!(outcome.stdout.to_text(), "kept\n");
    assert!(outcome.shell_restarted);
    shell.close().await;
}

#[tokio::test]
async fn dropping_the_shell_kills_all_it_started() {
    let mut shell = shell();
    let text = output(&mut shell, "setsid sleep 300 >/dev/null 2>&1 & echo $!").await;
    let child: i32 = text.trim().parse().unwrap();
    let pid = shell.pid().unwrap();
    assert!(alive(child));
    drop(shell);
    assert!(eventually(|| !alive(child) && !alive(pid)));
}

#[tokio::test]
async fn unusual_state_survives_a_restart() {
    let mut shell = shell();
    let setup = r#"declare -A map=([a]=1 ["b c"]="2 3"); list=(x "y z"); declare -r fixed=1
        declare -i number=5; text=$'tab\tnew\nline \'quote\''; unset HOME PATH2
        shopt -s extglob nullglob; set -o pipefail
        g() { case $1 in +(a|b)) echo ab;; esac; }; h() { echo h; }; export -f h; trap 'echo usr' USR1; umask 077
        set -- one "two three""#;
    let outcome = run(&mut shell, setup).await;
    assert_eq!(outcome.stderr.to_text(), "");
    let check = r#"echo "${map[b c]}|${list[1]}|$fixed|$number|$text|$(g ab)|$(umask)|$2"
        shopt extglob nullglob; set -o | grep pipefail; bash -c h; kill -USR1 $$; echo "$-""#;
    let before = output(&mut shell, check).await;
    let outcome = run(&mut shell, "kill -9 $$").await;
    assert!(outcome.shell_restarted);
    assert_eq!(output(&mut shell, check).await, before);
    assert!(before.contains("2 3|y z|1|5|tab\tnew\nline 'quote'|ab|0077|two three\n"));
    shell.close().await;
}

#[tokio::test]
async fn a_missing_shell_or_directory_is_named() {
    let mut config = ShellConfig::new(environment(), "/");
    config.program = Some("/no/such/shell".into());
    let mut shell = PersistentShell::new(config);
    let cancel = CancellationToken::new();
    let error = shell
        .run(ShellCommand::new("true"), &cancel, &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "program_not_found");
    assert!(error.to_string().contains("/no/such/shell"));

    let mut shell = PersistentShell::new(ShellConfig::new(environment(), "/no/such/place"));
    let error = shell
        .run(ShellCommand::new("true"), &cancel, &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "working_directory_gone");
}

#[tokio::test]
async fn oversized_and_impossible_commands_are_refused() {
    let mut shell = shell();
    let cancel = CancellationToken::new();
    let limit = halter_exec::limits::MAX_COMMAND_BYTES;
    let mut at_the_edge = "#".repeat(limit - 1);
    at_the_edge.push('\n');
    let outcome = run(&mut shell, &at_the_edge).await;
    assert!(outcome.status.success());
    at_the_edge.push('#');
    let error = shell
        .run(ShellCommand::new(at_the_edge), &cancel, &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "limit_exceeded");
    let error = shell
        .run(ShellCommand::new("echo \0"), &cancel, &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    let pid = shell.pid();
    let mut command = ShellCommand::new("true");
    command.environment = Environment::new().with("no name", "x");
    let error = shell.run(command, &cancel, &()).await.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    // What was refused has not touched the shell.
    assert!(pid.is_some() && shell.pid() == pid);
    shell.close().await;
}

#[tokio::test]
async fn a_posix_shell_does_as_far_as_it_can() {
    let mut config = ShellConfig::new(environment(), "/");
    config.program = Some("sh".into());
    let mut shell = PersistentShell::new(config);
    run(&mut shell, "cd /tmp; export x='a b'; f() { echo f; }").await;
    assert_eq!(
        output(&mut shell, "pwd; echo $x; f").await,
        "/tmp\na b\nf\n"
    );
    let outcome = run(&mut shell, "export y=2; exit 6").await;
    assert_eq!(outcome.status.code, Some(6));
    assert_eq!(output(&mut shell, "pwd; echo $x $y").await, "/tmp\na b 2\n");

    let mut command = ShellCommand::new("echo begun; sleep 300; echo no");
    command.deadline = Some(Duration::from_millis(300));
    command.environment = Environment::new().with("ONCE", "1");
    let outcome = run_command(&mut shell, command).await;
    assert!(outcome.timed_out);
    assert_eq!(outcome.stdout.to_text(), "begun\n");
    assert_eq!(output(&mut shell, "echo $x [$ONCE]").await, "a b []\n");
    shell.close().await;
}

#[tokio::test]
async fn a_posix_shell_keeps_what_its_functions_and_aliases_did() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("env");
    std::fs::write(&file, "h() { cd /var; }\n").unwrap();
    let plain = environment();
    // Interactive shells read the file that this names.
    let with_file = environment().with("ENV", &file);
    for (environment, texts, place) in [
        (&plain, &["f() { cd /usr; }", "/bin/true", "f"][..], "/usr"),
        (&plain, &["/bin/true", "alias g='cd /etc'", "g"], "/etc"),
        (
            &plain,
            &["cd /tmp", "/bin/true", "ls / | head -n 1"],
            "/tmp",
        ),
        (
            &plain,
            &["x=1", "cd /usr", "eval 'cd /etc'", "/bin/true"],
            "/etc",
        ),
        (&with_file, &["/bin/true", "h"], "/var"),
    ] {
        let mut config = ShellConfig::new(environment.clone(), "/");
        config.program = Some("sh".into());
        let mut shell = PersistentShell::new(config);
        for text in texts {
            run(&mut shell, text).await;
        }
        let outcome = run(&mut shell, "kill -9 $$").await;
        assert!(outcome.shell_restarted);
        let outcome = run(&mut shell, "pwd").await;
        assert_eq!(outcome.stdout.to_text(), format!("{place}\n"), "{texts:?}");
        shell.close().await;
    }
}

#[tokio::test]
async fn a_shell_that_follows_one_whose_directory_is_gone_says_where_it_is() {
    for program in ["bash", "sh"] {
        let home = tempfile::tempdir().unwrap();
        let mut config = ShellConfig::new(environment(), home.path());
        config.program = Some(program.into());
        let mut shell = PersistentShell::new(config);
        let gone = home.path().join("gone");
        let text = format!("mkdir {0}; cd {0}; rmdir {0}", gone.display());
        // A shell stays where it is, as long as it is there.
        assert_eq!(run(&mut shell, &text).await.cwd, gone);
        run(&mut shell, "kill -9 $$").await;
        let outcome = run(&mut shell, "pwd").await;
        let shown = format!("{}\n", home.path().display());
        assert_eq!(outcome.stdout.to_text(), shown, "{program}");
        assert_eq!(outcome.cwd, home.path(), "{program}");
        // With that gone too there is no place that a command could mean.
        std::fs::remove_dir(home.path()).unwrap();
        run(&mut shell, "kill -9 $$").await;
        let command = ShellCommand::new("pwd");
        let refused = shell.run(command, &CancellationToken::new(), &()).await;
        let path = home.path().to_owned();
        assert!(
            matches!(&refused, Err(ExecError::WorkingDirectoryGone { path: named }) if *named == path),
            "{program}: {refused:?}"
        );
        // It goes on as soon as the place is there again.
        std::fs::create_dir(home.path()).unwrap();
        assert_eq!(run(&mut shell, "pwd").await.cwd, home.path(), "{program}");
        shell.close().await;
    }
}

/// A program on the path of whoever runs the tests.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|place| place.join(name));
    places.find(|place| place.exists())
}

#[tokio::test]
async fn zsh_stays_zsh_and_keeps_its_state() {
    let Some(program) = on_path("zsh") else {
        println!("skipped: needs zsh");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join(".zshrc"),
        "echo read >&2; export RC=read\n",
    )
    .unwrap();
    let environment = environment().with("HOME", home.path());
    let mut config = ShellConfig::new(environment, "/");
    config.program = Some(program);
    let mut shell = PersistentShell::new(config);
    run(
        &mut shell,
        "cd /tmp; export x='a  b'; f() { echo f; }; setopt extended_glob",
    )
    .await;
    let text = "pwd; print -l $x; f; a=(1 2); echo $a[1] \"hi! [$RC]\"; [[ -o extended_glob ]]";
    assert_eq!(output(&mut shell, text).await, "/tmp\na  b\nf\n1 hi! []\n");
    for (text, stdout, code) in [
        ("echo one; export y=2; exit 6", "one\n", 6),
        ("pwd; echo $y; [[ -o extended_glob ]]", "/tmp\n2\n", 0),
        ("trap 'echo bye' EXIT; (exit 3)", "bye\n", 3),
        ("set -e; false; echo no", "", 1),
        ("set +e; cat <<E\nhere\nE", "here\n", 0),
        ("exec echo instead", "instead\n", 0),
        ("sleep 0.01 & wait; echo $x", "a  b\n", 0),
    ] {
        let outcome = run(&mut shell, text).await;
        assert_eq!(outcome.stderr.to_text(), "", "{text}");
        assert_eq!(outcome.stdout.to_text(), stdout, "{text}");
        assert_eq!(outcome.status.code, Some(code), "{text}");
    }
    let outcome = run(&mut shell, "if").await;
    assert!(outcome.stderr.to_text().contains("parse error"));
    for endless in ["echo begun; sleep 300", "echo begun; while :; do :; done"] {
        let mut command = ShellCommand::new(endless);
        command.deadline = Some(Duration::from_millis(300));
        let outcome = run_command(&mut shell, command).await;
        assert!(outcome.timed_out);
        assert_eq!(outcome.stdout.to_text(), "begun\n");
    }
    assert_eq!(output(&mut shell, "echo $x $y").await, "a  b 2\n");
    shell.close().await;
}
