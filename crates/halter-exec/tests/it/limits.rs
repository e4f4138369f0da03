//! The named limits, at their edge.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use halter_exec::host::PidFd;
use halter_exec::limits::{
    DEFAULT_GRACE, DEFAULT_OUTPUT_MEMORY_BYTES, DEFAULT_SPOOL_QUOTA_BYTES, INTERRUPT_GRACE,
    KILL_WAIT, MAX_COMMAND_LINE_BYTES, SHELL_CLOSE_GRACE, SHELL_START_DEADLINE,
};
use halter_exec::{
    Command, CommandOutcome, OutputChunk, OutputLimits, PersistentShell, Process, ShellCommand,
    ShellConfig, Signal, SpoolSettings, list_descendants, run,
};
use tokio_util::sync::CancellationToken;

use crate::support::{alive, environment, eventually, sh};

async fn run_to_end(spec: Command) -> CommandOutcome {
    run(spec, &CancellationToken::new(), &()).await.unwrap()
}

#[tokio::test]
async fn the_default_memory_holds_so_much_and_not_one_byte_more() {
    let printing = |bytes: usize| sh(&format!("head -c {bytes} /dev/zero"));
    let fits = run_to_end(printing(DEFAULT_OUTPUT_MEMORY_BYTES))
        .await
        .stdout;
    assert!(fits.is_complete());
    let over = run_to_end(printing(DEFAULT_OUTPUT_MEMORY_BYTES + 1))
        .await
        .stdout;
    assert_eq!(over.dropped(), 1);
    assert_eq!(
        over.head.len() + over.tail.len(),
        DEFAULT_OUTPUT_MEMORY_BYTES
    );
}

#[test]
fn the_defaults_are_the_limits() {
    let settings = SpoolSettings::in_directory("/");
    assert_eq!(settings.quota_bytes, DEFAULT_SPOOL_QUOTA_BYTES);
    assert_eq!(
        OutputLimits::default().memory_bytes,
        DEFAULT_OUTPUT_MEMORY_BYTES
    );
    assert_eq!(Command::new("x", "/").grace, DEFAULT_GRACE);
}

#[tokio::test]
async fn what_ignores_term_is_killed_after_the_grace_and_not_before() {
    let spec = sh("trap '' TERM; echo begun; while :; do sleep 0.1; done");
    let (mut process, mut streams) = Process::spawn(&spec).unwrap();
    streams.stdout.read().await.unwrap().unwrap();
    let begun = Instant::now();
    process.terminate(DEFAULT_GRACE).await;
    let elapsed = begun.elapsed();
    assert!(elapsed >= DEFAULT_GRACE, "{elapsed:?}");
    assert!(
        elapsed < DEFAULT_GRACE + Duration::from_secs(20),
        "{elapsed:?}"
    );
    let (status, _) = process.wait().await.unwrap();
    assert_eq!(status.signal, Some(9));
}

#[tokio::test]
async fn a_long_command_line_is_shown_up_to_its_bound() {
    let long = "x".repeat(2 * MAX_COMMAND_LINE_BYTES);
    let spec = sh(&format!("echo ready; sleep 300; : {long}"));
    let (process, mut streams) = Process::spawn(&spec).unwrap();
    streams.stdout.read().await.unwrap().unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    let found = list_descendants(own).unwrap();
    let shown = found.iter().find(|one| one.pid == process.pid()).unwrap();
    assert_eq!(shown.command.len(), MAX_COMMAND_LINE_BYTES);
    assert!(shown.command.ends_with('x'));
}

/// A group in which processes cannot even die. Only hosts with the version 1
/// freezer have such a thing.
struct Freezer(PathBuf);

impl Freezer {
    fn around(pid: i32) -> Option<Self> {
        let path = PathBuf::from(format!("/sys/fs/cgroup/freezer/halter-test-{pid}"));
        std::fs::create_dir(&path).ok()?;
        let freezer = Self(path);
        std::fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).ok()?;
        std::fs::write(freezer.0.join("freezer.state"), "FROZEN").ok()?;
        let frozen = || {
            std::fs::read_to_string(freezer.0.join("freezer.state"))
                .is_ok_and(|state| state.trim() == "FROZEN")
        };
        eventually(frozen).then_some(freezer)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        assert!(eventually(|| std::fs::remove_dir(&self.0).is_ok()));
    }
}

#[tokio::test]
async fn a_dropped_handle_does_not_hold_up_its_thread() {
    let (process, mut streams) = Process::spawn(&sh("echo ready; exec sleep 300")).unwrap();
    streams.stdout.read().await.unwrap().unwrap();
    let pid = process.pid();
    let Some(freezer) = Freezer::around(pid) else {
        return;
    };
    let begun = Instant::now();
    drop(process);
    let elapsed = begun.elapsed();
    assert!(elapsed < Duration::from_millis(200), "{elapsed:?}");
    assert!(alive(pid));
    drop(freezer);
    // Collected in the end, by a thread of its own.
    assert!(eventually(|| !std::path::Path::new(&format!(
        "/proc/{pid}"
    ))
    .exists()));
}

/// Before the test's own timeout, and not too early.
fn took(begun: Instant, at_least: Duration) {
    let elapsed = begun.elapsed();
    assert!(elapsed >= at_least, "{elapsed:?} < {at_least:?}");
    assert!(elapsed < at_least + Duration::from_secs(20), "{elapsed:?}");
}

#[tokio::test]
async fn what_ignores_an_interrupt_has_its_time_before_it_is_told_to_end() {
    let mut shell = PersistentShell::new(ShellConfig::new(environment(), "/"));
    let cancel = CancellationToken::new();
    let cancelled = std::sync::OnceLock::new();
    let sink = |_: OutputChunk| {
        let _ = cancelled.set(Instant::now());
        cancel.cancel();
    };
    let text = "sh -c 'trap \"\" INT; echo begun; exec sleep 300'";
    let outcome = shell
        .run(ShellCommand::new(text), &cancel, &sink)
        .await
        .unwrap();
    took(*cancelled.get().unwrap(), INTERRUPT_GRACE);
    assert!(outcome.cancelled && !outcome.shell_restarted);
    shell.close().await;
}

#[tokio::test]
async fn a_shell_may_take_a_moment_to_leave_and_no_longer() {
    let mut shell = PersistentShell::new(ShellConfig::new(environment(), "/"));
    let cancel = CancellationToken::new();
    shell
        .run(ShellCommand::new(":"), &cancel, &())
        .await
        .unwrap();
    // One that cannot even read that it is to leave.
    let process = PidFd::open(shell.pid().unwrap()).unwrap();
    process.send(Signal::STOP).unwrap();
    let begun = Instant::now();
    shell.close().await;
    took(begun, SHELL_CLOSE_GRACE);
}

/// Only the clock of the test runs, so that this takes no time.
#[tokio::test(start_paused = true)]
async fn a_shell_that_never_answers_is_given_up() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("mute");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 300\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = ShellConfig::new(environment(), "/");
    config.program = Some(program);
    let mut shell = PersistentShell::new(config);
    let begun = tokio::time::Instant::now();
    let cancel = CancellationToken::new();
    let error = shell
        .run(ShellCommand::new(":"), &cancel, &())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "shell_start");
    let elapsed = begun.elapsed();
    assert!(elapsed >= SHELL_START_DEADLINE, "{elapsed:?}");
    // While it is brought down, which takes real time, the clock runs ahead.
    assert!(elapsed < SHELL_START_DEADLINE + KILL_WAIT, "{elapsed:?}");
}
