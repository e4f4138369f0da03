//! One-shot commands.

use std::time::{Duration, Instant};

use halter_exec::{CommandOutcome, CommandSpec, ExecError, OutputLimits, run};
use tokio_util::sync::CancellationToken;

use crate::support::{alive, environment, eventually, sh};

async fn run_to_end(spec: CommandSpec) -> CommandOutcome {
    run(spec, &CancellationToken::new(), &()).await.unwrap()
}

#[tokio::test]
async fn output_status_and_streams_come_back_separately() {
    let outcome = run_to_end(sh("echo out; echo err >&2; exit 3")).await;
    assert_eq!(outcome.stdout.to_text(), "out\n");
    assert_eq!(outcome.stderr.to_text(), "err\n");
    assert_eq!(outcome.status.code, Some(3));
    assert!(!outcome.timed_out && !outcome.cancelled && !outcome.shell_restarted);
}

#[tokio::test]
async fn a_background_child_does_not_delay_the_end_and_is_not_left_behind() {
    let begun = Instant::now();
    let outcome = run_to_end(sh("sleep 300 & echo $!; echo hi")).await;
    assert!(begun.elapsed() < Duration::from_secs(100));
    let text = outcome.stdout.to_text();
    let (pid, rest) = text.split_once('\n').unwrap();
    assert_eq!(rest, "hi\n");
    let pid: i32 = pid.parse().unwrap();
    assert!(eventually(|| !alive(pid)));
}

#[tokio::test]
async fn missing_things_are_told_apart() {
    let missing = CommandSpec::new("no-such-program-here", "/").environment(environment());
    let error = run(missing, &CancellationToken::new(), &())
        .await
        .unwrap_err();
    assert!(matches!(&error, ExecError::ProgramNotFound { program, .. }
        if program == "no-such-program-here"));

    let nowhere = CommandSpec::new("true", "/no/such/place").environment(environment());
    let error = run(nowhere, &CancellationToken::new(), &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "working_directory_gone");
    assert!(error.to_string().contains("/no/such/place"));
}

#[tokio::test]
async fn the_bound_holds() {
    let spec = sh("head -c 200000 /dev/zero").output(OutputLimits {
        memory_bytes: 1000,
        spool: None,
    });
    let outcome = run_to_end(spec).await;
    assert_eq!(outcome.stdout.total, 200_000);
    assert_eq!(outcome.stdout.dropped(), 199_000);
}
