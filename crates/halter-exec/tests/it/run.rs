//! One-shot commands.

use std::time::{Duration, Instant};

use halter_exec::host::TREE_MARKER;
use halter_exec::{
    Command, CommandOutcome, Environment, ExecError, OutputChunk, Process, TreeControl, run,
};
use tokio_util::sync::CancellationToken;

use crate::support::{alive, environment, eventually, sh};

async fn run_to_end(spec: Command) -> CommandOutcome {
    // Nothing here takes long; a hang must become a failure.
    let deadline = spec.deadline.unwrap_or(Duration::from_secs(60));
    run(spec.deadline(deadline), &CancellationToken::new(), &())
        .await
        .unwrap()
}

async fn error_of(spec: Command) -> ExecError {
    run(spec, &CancellationToken::new(), &()).await.unwrap_err()
}

/// Runs a command until it has written, then cancels it.
async fn cancelled_at_first_output(spec: Command) -> CommandOutcome {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let sink = move |_: OutputChunk| token.cancel();
    run(spec, &cancel, &sink).await.unwrap()
}

fn first_number(outcome: &CommandOutcome) -> i32 {
    let text = outcome.stdout.to_text();
    text.lines().next().unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn output_status_and_streams_come_back_separately() {
    let outcome = run_to_end(sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!(outcome.stdout.to_text(), "out\n");
    assert_eq!(outcome.stderr.to_text(), "err\n");
    assert_eq!(outcome.status.code, Some(3));
    assert!(!outcome.timed_out && !outcome.cancelled && !outcome.shell_restarted);
    assert!(outcome.usage.unwrap().max_resident_bytes > 0);
}

#[tokio::test]
async fn joined_streams_come_in_the_order_they_were_written() {
    let outcome = run_to_end(sh("echo 1; echo 2 >&2; echo 3; echo 4 >&2").joined_output()).await;
    assert_eq!(outcome.stdout.to_text(), "1\n2\n3\n4\n");
    assert_eq!(outcome.stderr.to_text(), "");
}

#[tokio::test]
async fn death_by_signal_is_told_from_an_exit_code() {
    let outcome = run_to_end(sh("kill -USR1 $$; sleep 60")).await;
    assert_eq!(outcome.status.code, None);
    assert_eq!(outcome.status.signal, Some(10));
    assert_eq!(outcome.status.shell_code(), 138);
}

#[tokio::test]
async fn a_background_child_does_not_delay_the_end_and_is_not_left_behind() {
    let begun = Instant::now();
    let outcome = run_to_end(sh("sleep 300 & echo $!; echo hi")).await;
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(outcome.stdout.to_text().ends_with("\nhi\n"));
    let pid = first_number(&outcome);
    assert!(!alive(pid));
}

#[tokio::test]
async fn missing_and_forbidden_things_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let plain = |program: &std::ffi::OsStr| {
        Command::new(program, directory.path()).environment(environment())
    };

    let error = error_of(plain("no-such-program-here".as_ref())).await;
    assert!(matches!(&error, ExecError::ProgramNotFound { program, .. }
        if program == "no-such-program-here"));
    let error = error_of(plain("./no-such-file".as_ref())).await;
    assert_eq!(error.code(), "program_not_found");

    let unmarked = file("unmarked", "#!/bin/sh\n", 0o644);
    let error = error_of(plain(unmarked.as_os_str())).await;
    assert!(matches!(error, ExecError::ProgramDenied { path } if path == unmarked));

    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o755);
    let error = error_of(plain(orphan.as_os_str())).await;
    assert!(matches!(error, ExecError::ProgramUnusable { path, .. } if path == orphan));

    let nowhere = Command::new("true", "/no/such/place").environment(environment());
    let error = error_of(nowhere).await;
    assert_eq!(error.code(), "working_directory_gone");
    assert!(error.to_string().contains("/no/such/place"));

    let not_a_directory = Command::new("true", &unmarked).environment(environment());
    let error = error_of(not_a_directory).await;
    assert_eq!(error.code(), "working_directory_unusable");

    let error = error_of(Command::new("true", "/").args(["nul\0"])).await;
    assert_eq!(error.code(), "invalid_input");
    let long = "x".repeat(8 * 1024 * 1024);
    let spec = Command::new("true", "/")
        .environment(environment())
        .args([long]);
    assert_eq!(error_of(spec).await.code(), "arguments_too_long");
}

#[tokio::test]
async fn programs_are_searched_in_the_childs_path_and_relative_to_its_directory() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("greet");
    std::fs::write(&path, "#!/bin/sh\necho hello\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();

    let by_name =
        Command::new("greet", "/").environment(Environment::new().with("PATH", directory.path()));
    assert_eq!(run_to_end(by_name).await.stdout.to_text(), "hello\n");
    let by_path = Command::new("./greet", directory.path());
    assert_eq!(run_to_end(by_path).await.stdout.to_text(), "hello\n");
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_given() {
    let spec = Command::new("/usr/bin/env", "/")
        .environment(Environment::new().with("A", "1").with("B", "x=y"));
    let outcome = run_to_end(spec).await;
    let text = outcome.stdout.to_text();
    let mut lines: Vec<&str> = text.lines().collect();
    if outcome.tree_control == TreeControl::GroupAndWalk {
        lines.retain(|line| !line.starts_with(TREE_MARKER));
    }
    assert_eq!(lines, ["A=1", "B=x=y"]);
}

#[tokio::test]
async fn the_child_has_its_three_streams_and_default_signals() {
    let held = std::fs::File::open("/").unwrap();
    let text = "echo /proc/self/fd/*; grep -E '^Sig(Blk|Ign)' /proc/self/status; yes | head -1";
    let outcome = run_to_end(sh(text)).await;
    drop(held);
    let none = "0000000000000000";
    let text = outcome.stdout.to_text();
    // The C library's own signals are out of its reach.
    #[cfg(any(not(target_os = "linux"), halter_portable))]
    let text = text.replace("0000000080000000", none);
    assert_eq!(
        text,
        format!(
            "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n\
             SigBlk:\t{none}\nSigIgn:\t{none}\ny\n"
        )
    );
    assert_eq!(outcome.stderr.to_text(), "");
}

#[tokio::test]
async fn input_is_written_while_output_is_read() {
    let input: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let mut spec = sh("cat").stdin(input.clone());
    spec.output.memory_bytes = 4_000_000;
    let outcome = run_to_end(spec).await;
    assert!(outcome.stdout.is_complete());
    assert!(outcome.stdout.to_bytes() == input);
}

#[tokio::test]
async fn input_that_is_not_wanted_is_no_error() {
    let outcome = run_to_end(sh("exec <&-; echo done").stdin(vec![0; 1_000_000])).await;
    assert_eq!(outcome.stdout.to_text(), "done\n");
    assert!(outcome.status.success());
}

#[tokio::test]
async fn more_input_than_the_limit_is_refused() {
    let limit = halter_exec::limits::MAX_STDIN_BYTES;
    let error = error_of(sh("cat").stdin(vec![0; limit + 1])).await;
    assert!(matches!(error, ExecError::LimitExceeded { actual, .. } if actual == limit + 1));
}

#[tokio::test]
async fn every_byte_comes_through() {
    let all: Vec<u8> = (0..=255).collect();
    let outcome = run_to_end(sh("cat; cat >&2 <<<x").stdin(all.clone())).await;
    assert_eq!(outcome.stdout.to_bytes(), all);
}

#[tokio::test]
async fn a_deadline_ends_what_ignores_term_and_keeps_the_output() {
    let spec = sh("trap '' TERM; echo begun; while :; do sleep 0.02; done")
        .deadline(Duration::from_millis(300))
        .grace(Duration::from_millis(50));
    let outcome = run_to_end(spec).await;
    assert!(outcome.timed_out && !outcome.cancelled);
    assert_eq!(outcome.stdout.to_text(), "begun\n");
    assert_eq!(outcome.status.signal, Some(9));
}

#[tokio::test]
async fn term_comes_before_kill() {
    let spec = sh("trap 'echo cleaned; exit 4' TERM; echo begun; while :; do sleep 0.02; done");
    let outcome = cancelled_at_first_output(spec).await;
    assert!(outcome.cancelled && !outcome.timed_out);
    assert_eq!(outcome.stdout.to_text(), "begun\ncleaned\n");
    assert_eq!(outcome.status.code, Some(4));
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "needs control groups or a look at environments"
)]
#[tokio::test]
async fn detached_and_double_forked_children_die_with_the_tree() {
    // The last line of output is written when all numbers have been.
    let text = "setsid sh -c 'echo $$; exec sleep 300' & \
                (setsid sh -c 'echo $$; trap \"\" TERM HUP; while :; do sleep 1; done' &) ; \
                (sleep 300 & echo $!) ; wait";
    let spec = sh(&format!(
        "{{ {text}; }} | {{ read a; read b; read c; echo $a $b $c; sleep 300; }}"
    ));
    let outcome = cancelled_at_first_output(spec.grace(Duration::from_millis(50))).await;
    let text = outcome.stdout.to_text();
    let pids: Vec<i32> = text
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 3);
    for pid in pids {
        assert!(!alive(pid), "{pid} is alive");
    }
}

#[tokio::test]
async fn a_command_cancelled_before_it_starts_still_ends() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = run(sh("sleep 300"), &cancel, &()).await.unwrap();
    assert!(outcome.cancelled);
}

#[tokio::test]
async fn dropping_the_future_kills_the_tree() {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let sink = move |chunk: OutputChunk| drop(sender.send(chunk));
    let cancel = CancellationToken::new();
    let mut running = Box::pin(run(
        sh("setsid sleep 300 & echo $!; wait; sleep 300"),
        &cancel,
        &sink,
    ));
    let chunk = tokio::select! {
        _ = &mut running => panic!("it ended"),
        chunk = receiver.recv() => chunk.unwrap(),
    };
    drop(running);
    let pid = String::from_utf8_lossy(&chunk.bytes)
        .trim()
        .parse()
        .unwrap();
    assert!(eventually(|| !alive(pid)));
}

#[tokio::test]
async fn a_process_by_handle() {
    let (mut process, mut streams) = Process::spawn(&sh("echo hi; sleep 300")).unwrap();
    let chunk = streams.stdout.read().await.unwrap().unwrap();
    assert_eq!(chunk.as_ref(), b"hi\n");
    let pid = process.pid();
    assert!(alive(pid));
    process.terminate(Duration::from_secs(10)).await;
    let (status, _) = process.wait().await.unwrap();
    assert_eq!(status.signal, Some(15));
    assert!(!alive(pid));
}
