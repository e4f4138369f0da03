//! After hundreds of commands of the worst kinds nothing is left: no process,
//! no zombie, no descriptor, no cgroup, no spool file. One test, in a binary
//! of its own, because it counts what belongs to the whole process. Without
//! control groups or a look at environments some of these commands get away.
#![cfg(all(target_os = "linux", not(halter_portable)))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use halter_exec::{
    Command, Environment, OutputLimits, PersistentShell, ShellCommand, ShellConfig, SpoolSettings,
    list_descendants, run,
};
use tokio_util::sync::CancellationToken;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Every process these commands start sleeps for a time of this shape, which
/// is how strays are recognised after they have lost their parents.
const MARK: &str = "987654";

/// Each of these ends at once by itself or not at all.
const COMMANDS: [&str; 10] = [
    "true",
    "sleep M & sleep M & echo hi",
    "setsid sleep M & echo hi",
    "(setsid sleep M &) & echo hi",
    "(sleep M &); exit 3",
    "kill -9 $$",
    "exec 1>&- 2>&-; sleep M & exit 0",
    "seq 1 3000; seq 1 3000 >&2",
    "nohup setsid sh -c 'trap \"\" TERM HUP INT; sleep M' >/dev/null 2>&1 & false",
    "trap '' TERM INT; sleep M | sleep M & wait $!",
];

fn environment() -> Environment {
    Environment::new().with("PATH", PATH)
}

fn limits(directory: &Path) -> OutputLimits {
    OutputLimits {
        memory_bytes: 4096,
        spool: Some(SpoolSettings::in_directory(directory)),
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn strays() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains(&mark()) {
            found.push(line);
        }
    }
    found
}

/// Differs between runs, so that two of them do not see each other.
fn mark() -> String {
    format!("{MARK}.{}", std::process::id())
}

fn cgroups() -> Vec<PathBuf> {
    let name = format!("halter-{}-", std::process::id());
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .flat_map(|root| directories_named(Path::new(root), &name, 6))
        .collect()
}

fn directories_named(root: &Path, prefix: &str, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(root) else {
        return found;
    };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
        if depth > 0 {
            found.extend(directories_named(&entry.path(), prefix, depth - 1));
        }
    }
    found
}

async fn one_shot(text: &str, number: u64, spools: &Path) {
    let mut spec = Command::new("bash", "/")
        .args(["--noprofile", "--norc", "-c", text])
        .environment(environment())
        .deadline(Duration::from_secs(2))
        .grace(Duration::from_millis(20))
        .output_limits(limits(spools));
    if number.is_multiple_of(4) {
        spec.sandbox.limits.memory_bytes = Some(1 << 30);
    }
    let cancel = CancellationToken::new();
    let pause = Duration::from_micros(number * 977 % 20_000);
    match number % 3 {
        0 if !text.contains("wait") => drop(run(spec, &cancel, &()).await.unwrap()),
        1 => {
            // Cancelled at some moment.
            let ((), outcome) = tokio::join!(
                async {
                    tokio::time::sleep(pause).await;
                    cancel.cancel();
                },
                run(spec, &cancel, &())
            );
            drop(outcome.unwrap());
        }
        // The future dropped at some moment.
        _ => drop(tokio::time::timeout(pause, run(spec, &cancel, &())).await),
    }
}

async fn in_shell(shell: &mut PersistentShell, text: &str, number: u64, spools: &Path) {
    let mut command = ShellCommand::new(text);
    command.deadline = Some(Duration::from_millis(1 + number * 7 % 200));
    command.grace = Duration::from_millis(20);
    command.output = limits(spools);
    let cancel = CancellationToken::new();
    if number.is_multiple_of(7) {
        let pause = Duration::from_micros(number * 977 % 20_000);
        drop(tokio::time::timeout(pause, shell.run(command, &cancel, &())).await);
    } else {
        drop(shell.run(command, &cancel, &()).await.unwrap());
    }
}

async fn all_kinds_of_commands(rounds: u64, spools: &Path) {
    let mut shell = PersistentShell::new(ShellConfig::new(environment(), "/"));
    let mut number = 0;
    for _ in 0..rounds {
        for text in COMMANDS {
            let text = text.replace('M', &mark());
            one_shot(&text, number, spools).await;
            in_shell(&mut shell, &text, number, spools).await;
            number += 1;
        }
    }
    if rounds.is_multiple_of(2) {
        shell.close().await;
    }
}

/// The size of this process now, and at its largest so far.
fn memory_kib() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (field("VmRSS:"), field("VmHWM:"))
}

async fn large_output_in_little_memory(spools: &Path) {
    let (before, _) = memory_kib();
    let spec = Command::new("head", "/")
        .args(["-c", "200000000", "/dev/zero"])
        .environment(environment())
        .output_limits(limits(spools));
    let outcome = run(spec, &CancellationToken::new(), &()).await.unwrap();
    assert_eq!(outcome.stdout.total, 200_000_000);
    assert_eq!(outcome.stdout.spool.as_ref().unwrap().bytes(), 200_000_000);
    let (_, peak) = memory_kib();
    assert!(
        peak.saturating_sub(before) < 16 * 1024,
        "{before} -> {peak} KiB"
    );
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_is_left_behind() {
    let spools = tempfile::tempdir().unwrap();
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    // Once, for what the process keeps anyway.
    runtime().block_on(all_kinds_of_commands(1, spools.path()));
    let before = open_descriptors();

    let working = runtime();
    working.block_on(large_output_in_little_memory(spools.path()));
    working.block_on(all_kinds_of_commands(12, spools.path()));
    working.block_on(all_kinds_of_commands(3, spools.path()));
    drop(working);

    let own = i32::try_from(std::process::id()).unwrap();
    eventually("a process is left", || strays().is_empty());
    eventually("a child or zombie is left", || {
        list_descendants(own).unwrap().is_empty()
    });
    eventually("a cgroup is left", || cgroups().is_empty());
    eventually("a descriptor is left", || open_descriptors() <= before);
    eventually("a spool file is left", || {
        std::fs::read_dir(spools.path()).unwrap().count() == 0
    });
}
