//! Commands at the edges of what a shell allows: cancelled at bad moments,
//! closing descriptors that are not theirs, forging end records, at every limit.

use std::time::{Duration, Instant};

use halter_exec::limits::{MAX_COMMAND_BYTES, SHELL_ANSWER_LOOK};
use halter_exec::{CommandOutcome, PersistentShell, ShellCommand, ShellConfig};
use tokio_util::sync::CancellationToken;

use crate::support::{alive, environment, eventually};

fn shell() -> PersistentShell {
    PersistentShell::new(ShellConfig::new(environment(), "/"))
}

async fn run(shell: &mut PersistentShell, text: &str) -> CommandOutcome {
    let mut command = ShellCommand::new(text);
    // Nothing here takes long; a hang must become a failure.
    command.deadline = Some(Duration::from_secs(60));
    let outcome = shell.run(command, &CancellationToken::new(), &()).await;
    let outcome = outcome.unwrap();
    assert!(!outcome.timed_out, "{text} did not end");
    outcome
}

async fn output(shell: &mut PersistentShell, text: &str) -> String {
    let outcome = run(shell, text).await;
    assert_eq!(outcome.stderr.to_text(), "", "stderr of {text}");
    outcome.stdout.to_text()
}

/// Runs a command and cancels it as soon as it has said something.
async fn cancel_when_begun(shell: &mut PersistentShell, text: &str) -> CommandOutcome {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let sink = move |_: halter_exec::OutputChunk| token.cancel();
    let mut command = ShellCommand::new(text);
    command.deadline = Some(Duration::from_secs(60));
    let outcome = shell.run(command, &cancel, &sink).await.unwrap();
    assert!(outcome.cancelled, "{text}");
    outcome
}

#[tokio::test]
async fn an_interrupt_of_the_shells_own_making_ends_one_command_and_no_other() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    let pid = shell.pid();
    for next in [
        "echo $x; false",
        "set -u; unset __halter_interrupted; echo $x; false",
    ] {
        let interrupted = run(&mut shell, "echo a; kill -INT $$; echo no").await;
        assert_eq!(interrupted.status.code, Some(130));
        assert_eq!(interrupted.stdout.to_text(), "a\n");
        let after = run(&mut shell, next).await;
        assert_eq!(after.status.code, Some(1), "{next}");
        assert_eq!(after.stdout.to_text(), "kept\n");
    }
    assert_eq!(shell.pid(), pid);
}

#[tokio::test]
async fn whatever_a_command_is_doing_cancel_ends_it_and_keeps_the_shell() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    let pid = shell.pid();
    for text in [
        // A program, in every position.
        "echo begun; sleep 300; echo no",
        "echo begun; sleep 300 | cat | cat; echo no",
        "echo begun; (sleep 300; echo no); echo no",
        "echo begun; y=$(sleep 300; echo no); echo no",
        "echo begun; f() { sleep 300; echo no; }; f; echo no",
        "echo begun; if sleep 300; then echo no; else echo no; fi; echo no",
        "echo begun; sleep 300 || echo no; echo no",
        // The shell itself.
        "echo begun; while :; do :; done; echo no",
        "echo begun; until false; do y=$((y+1)); done; echo no",
        "echo begun; for ((;;)); do :; done; echo no",
        "echo begun; f() { while :; do :; done; }; f; echo no",
        "echo begun; while :; do while :; do :; done; done; echo no",
        // The shell, waiting.
        "echo begun; sleep 300 & wait; echo no",
        "echo begun; sleep 300 & wait $!; echo no",
        "echo begun; while read -r y; do echo no; done < <(sleep 300); echo no",
        "echo begun; coproc sleep 300; wait; echo no",
    ] {
        let outcome = cancel_when_begun(&mut shell, text).await;
        assert_eq!(outcome.stdout.to_text(), "begun\n", "{text}");
        assert!(!outcome.shell_restarted, "{text}");
        assert_eq!(outcome.status.code, Some(130), "{text}");
        assert_eq!(output(&mut shell, "echo $x").await, "kept\n", "{text}");
        assert_eq!(shell.pid(), pid, "{text}");
    }
    shell.close().await;
}

#[tokio::test]
async fn a_builtin_that_will_not_be_interrupted_costs_the_process_and_no_state() {
    let place = tempfile::tempdir().unwrap();
    let mut shell = shell();
    let setup = format!("x=kept; cd {}; mkfifo pipe", place.path().display());
    run(&mut shell, &setup).await;
    for text in [
        "echo begun; exec 3<>pipe; read -u 3 y; echo no",
        "echo begun; read y <pipe; echo no",
    ] {
        let outcome = cancel_when_begun(&mut shell, text).await;
        assert_eq!(outcome.stdout.to_text(), "begun\n", "{text}");
        assert!(!outcome.shell_restarted, "{text}");
        let next = output(&mut shell, "echo $x; [ -p pipe ] && echo there").await;
        assert_eq!(next, "kept\nthere\n", "{text}");
    }
    shell.close().await;
}

#[tokio::test]
async fn cancel_ends_what_the_command_put_into_the_background_and_nothing_older() {
    let mut shell = shell();
    let older: i32 = output(&mut shell, "sleep 300 >/dev/null 2>&1 & echo $!")
        .await
        .trim()
        .parse()
        .unwrap();
    let text = "sleep 300 & setsid sleep 300 & echo $!; sleep 300";
    let outcome = cancel_when_begun(&mut shell, text).await;
    let younger: i32 = outcome.stdout.to_text().trim().parse().unwrap();
    assert!(!alive(younger));
    assert!(alive(older));
    shell.close().await;
    assert!(eventually(|| !alive(older)));
}

#[tokio::test]
async fn a_cancelled_command_cleans_up_with_its_exit_trap() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    let text = "y=2; trap 'echo cleaned' EXIT; echo begun; sleep 300; echo no";
    let outcome = cancel_when_begun(&mut shell, text).await;
    assert_eq!(outcome.stdout.to_text(), "begun\ncleaned\n");
    // By TERM if the shell did not get to its trap in the time INT has.
    let code = outcome.status.code;
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    assert_eq!(output(&mut shell, "echo $x $y").await, "kept 2\n");
    shell.close().await;
}

#[tokio::test]
async fn a_cancel_leaves_the_users_debug_trap_alone() {
    let mut shell = shell();
    run(&mut shell, "n=0; trap 'n=$((n+1))' DEBUG").await;
    cancel_when_begun(&mut shell, "echo begun; while :; do :; done").await;
    let found = output(&mut shell, "trap -p DEBUG; shopt -p extdebug").await;
    assert_eq!(found, "trap -- 'n=$((n+1))' DEBUG\nshopt -u extdebug\n");
    shell.close().await;
}

#[tokio::test]
async fn a_shell_killed_between_commands_is_followed_by_another() {
    let mut shell = shell();
    run(&mut shell, "x=kept; cd /tmp").await;
    // The state is written down before the next command is begun.
    run(&mut shell, "true").await;
    let pid = shell.pid().unwrap();
    let killed = std::process::Command::new("/bin/kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
    assert!(eventually(|| shell.pid().is_none()));
    let outcome = run(&mut shell, "echo $x; pwd").await;
    assert_eq!(outcome.stdout.to_text(), "kept\n/tmp\n");
    assert!(outcome.shell_restarted);
    shell.close().await;
}

#[tokio::test]
async fn what_a_command_does_to_descriptors_is_undone() {
    let place = tempfile::tempdir().unwrap();
    let mut shell = shell();
    run(
        &mut shell,
        &format!("x=kept; cd {}", place.path().display()),
    )
    .await;
    for text in [
        "exec 9>&-; echo said",
        "exec 9>file; echo said",
        "exec 19>&-; echo said",
        "exec 19>file; echo said",
        "exec 2>&-; echo said",
        "exec 0<&-; echo said",
        "exec 0<&- 2>&-; echo said",
        "echo said; exec >&- 2>&- 0<&-",
        "echo said; exec >file",
        "exec 10>f 11>f 12>f 13>f 14>f; echo said",
    ] {
        let outcome = run(&mut shell, text).await;
        assert_eq!(outcome.stdout.to_text(), "said\n", "{text}");
        let next = output(&mut shell, "cat; echo $x; ls /proc/self/fd | wc -l").await;
        assert!(next.starts_with("kept\n"), "{text}: {next}");
    }
    shell.close().await;
}

#[tokio::test]
async fn a_shell_that_loses_every_descriptor_is_replaced_with_its_state() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    let text = "y=2; for fd in {3..255}; do eval \"exec $fd>&-\"; done; echo said";
    let outcome = run(&mut shell, text).await;
    assert_eq!(outcome.stdout.to_text(), "said\n");
    assert_eq!(output(&mut shell, "echo $x").await, "kept\n");
    shell.close().await;
}

#[tokio::test]
async fn forged_records_end_nothing() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    // The saved record channel is somewhere among the descriptors of the
    // shell; what is missing is the command's name.
    let text = "for fd in {3..30}; do
          for name in 0 1 0123456789abcdef; do
            printf 'E %s 0 /forged\\0' $name >&$fd
            printf 'E %s 0 /forged\\0' $name >/proc/$$/fd/$fd
          done
        done 2>/dev/null
        head -c 100000 /dev/zero | tr '\\0' x >/proc/$$/fd/13
        echo still running; (exit 7)";
    let outcome = run(&mut shell, text).await;
    assert_eq!(outcome.stdout.to_text(), "still running\n");
    assert_eq!(outcome.status.code, Some(7));
    assert_eq!(outcome.cwd, std::path::Path::new("/"));
    assert_eq!(output(&mut shell, "echo $x").await, "kept\n");
    shell.close().await;
}

#[tokio::test]
async fn a_shell_that_will_not_answer_any_more_is_replaced() {
    let mut shell = shell();
    run(&mut shell, "x=kept; cd /tmp").await;
    for text in [
        "echo said; set -n",
        "echo said; enable -n printf",
        "echo said; shopt -s extdebug; trap false DEBUG",
    ] {
        let begun = Instant::now();
        let outcome = run(&mut shell, text).await;
        // It is looked at three times before it is given up.
        let elapsed = begun.elapsed();
        assert!(elapsed >= SHELL_ANSWER_LOOK * 3, "{text}: {elapsed:?}");
        assert!(elapsed < SHELL_ANSWER_LOOK * 30, "{text}: {elapsed:?}");
        assert_eq!(outcome.stdout.to_text(), "said\n", "{text}");
        let next = run(&mut shell, "echo $x; pwd").await;
        assert_eq!(next.stdout.to_text(), "kept\n/tmp\n", "{text}");
    }
    shell.close().await;
}

#[tokio::test]
async fn a_command_as_long_as_allowed_runs() {
    let mut shell = shell();
    let (head, tail) = ("x='", "'; echo ${#x}; (exit 9)");
    let filling = MAX_COMMAND_BYTES - head.len() - tail.len();
    let text = format!("{head}{}{tail}", "a".repeat(filling));
    assert_eq!(text.len(), MAX_COMMAND_BYTES);
    let outcome = run(&mut shell, &text).await;
    assert_eq!(outcome.stdout.to_text(), format!("{filling}\n"));
    assert_eq!(outcome.status.code, Some(9));
    // The large variable is state, and survives too.
    run(&mut shell, "exit 0").await;
    assert_eq!(
        output(&mut shell, "echo ${#x}").await,
        format!("{filling}\n")
    );
    shell.close().await;
}

#[tokio::test]
async fn a_command_that_bash_chokes_on_leaves_a_usable_shell() {
    let mut shell = shell();
    run(&mut shell, "x=kept").await;
    for text in [
        "echo $(echo a",
        "echo ${x",
        "echo $((1",
        "a=(1 2",
        "[[ a",
        "f() {",
    ] {
        run(&mut shell, text).await;
        assert_eq!(output(&mut shell, "echo $x").await, "kept\n", "{text}");
    }
    shell.close().await;
}

#[tokio::test]
async fn what_reads_lines_and_does_nothing_is_given_up_before_its_time() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("reader");
    std::fs::write(&program, "#!/bin/sh\nexec cat >/dev/null\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = ShellConfig::new(environment(), "/");
    config.program = Some(program);
    let mut shell = PersistentShell::new(config);
    let error = shell
        .run(ShellCommand::new("echo"), &CancellationToken::new(), &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "shell_start");
    assert!(error.to_string().contains("does nothing"), "{error}");
}

#[tokio::test]
async fn what_is_no_shell_is_named() {
    let mut config = ShellConfig::new(environment(), "/");
    config.program = Some("/bin/true".into());
    let mut shell = PersistentShell::new(config);
    let error = shell
        .run(ShellCommand::new("echo"), &CancellationToken::new(), &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "shell_start");
    assert!(error.to_string().contains("/bin/true"), "{error}");

    let mut config = ShellConfig::new(environment(), "/");
    config.program = Some("no-such-shell".into());
    let mut shell = PersistentShell::new(config);
    let error = shell
        .run(ShellCommand::new("echo"), &CancellationToken::new(), &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "program_not_found");
    assert!(error.to_string().contains("no-such-shell"), "{error}");
}

/// The shell of a standalone BusyBox, where there is one.
#[tokio::test]
async fn the_applets_of_a_busybox_read_none_of_our_lines() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = halter_exec::Environment::new().with("PATH", path);
    let Ok(busybox) = halter_exec::find_program("busybox".as_ref(), &found, "/".as_ref()) else {
        return println!("skipped: needs busybox");
    };
    let directory = tempfile::tempdir().unwrap();
    for name in ["ash", "sh"] {
        let program = directory.path().join(name);
        std::os::unix::fs::symlink(&busybox, &program).unwrap();
        let mut config = ShellConfig::new(environment(), "/");
        config.program = Some(program);
        let mut shell = PersistentShell::new(config);
        for _ in 0..2 {
            let first = output(&mut shell, "printf 'b\\na\\n' | head -1").await;
            assert_eq!(first, "b\n", "{name}");
        }
        output(&mut shell, "x=1; f() { echo f $x; }; cd /usr").await;
        let stopped = cancel_when_begun(&mut shell, "echo begun; while :; do sleep 9; done").await;
        assert_eq!(stopped.stdout.to_text(), "begun\n");
        assert_eq!(output(&mut shell, "f; pwd").await, "f 1\n/usr\n");
        shell.close().await;
        std::fs::remove_file(directory.path().join(name)).unwrap();
        if !std::path::Path::new("/bin/busybox").exists() {
            // A shell called `sh` is taken for one only where it is installed.
            break;
        }
    }
}
