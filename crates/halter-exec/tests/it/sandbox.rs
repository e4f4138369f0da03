//! Confinement and limits. Every test holds wherever it runs: a level that is
//! not available must be refused by name, one that is must bind.

use std::path::Path;
use std::time::Duration;

use halter_exec::host::Sandbox;
use halter_exec::{
    Command, CommandOutcome, ExecError, FileAccess, FileRule, LevelState, LimitKind,
    LimitMechanism, ResourceLimits, SandboxSpec, Signal, isolation_ladder, run,
};
use tokio_util::sync::CancellationToken;

use crate::support::{environment, sh};

fn available(level: &str) -> bool {
    let ladder = isolation_ladder();
    let found = ladder.iter().find(|one| one.name == level).unwrap();
    !matches!(found.state, LevelState::Unavailable { .. })
}

async fn run_in(sandbox: SandboxSpec, spec: Command) -> Result<CommandOutcome, ExecError> {
    let spec = spec.sandbox(sandbox).deadline(Duration::from_secs(600));
    run(spec, &CancellationToken::new(), &()).await
}

/// What the command did in the sandbox; `None` if this level is not to be
/// had, after making sure that nothing was run without it.
async fn outcome_with(level: &str, sandbox: SandboxSpec, spec: Command) -> Option<CommandOutcome> {
    let outcome = run_in(sandbox, spec).await;
    if available(level) {
        return Some(outcome.unwrap());
    }
    let error = outcome.unwrap_err();
    assert_eq!(error.code(), "sandbox_unavailable");
    assert!(error.to_string().contains(level), "{error}");
    None
}

fn limited(limits: ResourceLimits) -> SandboxSpec {
    SandboxSpec {
        limits,
        ..SandboxSpec::default()
    }
}

fn dash(text: &str) -> Command {
    Command::new("/bin/sh", "/")
        .args(["-c", text])
        .environment(environment())
}

#[tokio::test]
async fn memory_is_limited() {
    let sandbox = limited(ResourceLimits {
        memory_bytes: Some(64 * 1024 * 1024),
        ..ResourceLimits::default()
    });
    // The last program keeps all it reads, for want of a line's end.
    let text = "head -c 300000000 /dev/zero | tail -n 1 | wc -c";
    let outcome = outcome_with("limit_memory", sandbox, dash(text))
        .await
        .unwrap();
    assert_eq!(outcome.stdout.to_text().trim(), "0");

    let text = "head -c 3000000 /dev/zero | tail -n 1 | wc -c";
    let sandbox = limited(ResourceLimits {
        memory_bytes: Some(64 * 1024 * 1024),
        ..ResourceLimits::default()
    });
    let outcome = outcome_with("limit_memory", sandbox, dash(text))
        .await
        .unwrap();
    assert_eq!(outcome.stdout.to_text().trim(), "3000000");
}

#[tokio::test]
async fn processes_are_limited() {
    let sandbox = limited(ResourceLimits {
        processes: Some(10),
        ..ResourceLimits::default()
    });
    let text = "n=0; while [ $n -lt 40 ]; do sleep 300 & n=$((n+1)); echo $n; done";
    let level = "limit_processes";
    let Some(outcome) = outcome_with(level, sandbox, dash(text)).await else {
        return;
    };
    let started = outcome.stdout.to_text().lines().count();
    assert!(started < 10, "{started}");
    assert!(!outcome.status.success());
}

#[tokio::test]
async fn the_share_of_the_cpu_is_limited() {
    let sandbox = limited(ResourceLimits {
        cpu_millis: Some(100),
        ..ResourceLimits::default()
    });
    let text = "n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done";
    let Some(outcome) = outcome_with("limit_cpu", sandbox, dash(text)).await else {
        return;
    };
    assert!(outcome.status.success());
    let usage = outcome.usage.unwrap();
    let used = (usage.user_time + usage.system_time).as_secs_f64();
    // A tenth, and what one window lets through at the start.
    let share = (used - 0.02).max(0.0) / outcome.duration.as_secs_f64();
    assert!(share < 0.3, "{share}");
}

#[tokio::test]
async fn cpu_time_is_limited() {
    let sandbox = limited(ResourceLimits {
        cpu_time: Some(Duration::from_secs(1)),
        ..ResourceLimits::default()
    });
    let outcome = outcome_with("limit_cpu_time", sandbox, dash("while :; do :; done"))
        .await
        .unwrap();
    assert_eq!(outcome.status.signal, Some(Signal::XCPU.number()));
    assert!(!outcome.timed_out);
}

#[tokio::test]
async fn each_limit_is_reported_with_what_keeps_it() {
    let spec = limited(ResourceLimits {
        memory_bytes: Some(1 << 30),
        processes: Some(100),
        cpu_millis: Some(1000),
        cpu_time: Some(Duration::from_secs(100)),
    });
    let name = format!("halter-report-{}", std::process::id());
    let everything = ["limit_memory", "limit_processes", "limit_cpu"];
    let established = Sandbox::establish(spec.clone(), &name);
    let Some(missing) = everything.into_iter().find(|level| !available(level)) else {
        let sandbox = established.unwrap();
        let kinds: Vec<LimitKind> = sandbox.limits().iter().map(|limit| limit.kind).collect();
        let all = [
            LimitKind::Memory,
            LimitKind::Processes,
            LimitKind::Cpu,
            LimitKind::CpuTime,
        ];
        assert_eq!(kinds, all);
        let last = sandbox.limits().last().unwrap();
        assert_eq!(last.mechanism, LimitMechanism::Rlimit);
        // Found again by name, as after a crash.
        let again = Sandbox::establish(spec, &name).unwrap();
        assert_eq!(again.limits(), sandbox.limits());
        sandbox.remove().unwrap();
        again.remove().unwrap();
        return;
    };
    let error = established.unwrap_err();
    assert!(error.to_string().contains(missing), "{error}");
}

#[tokio::test]
async fn a_sandbox_counts_how_often_its_limits_were_in_the_way() {
    use crate::launch::{end_of, on_null, sh_plan};
    let spec = limited(ResourceLimits {
        memory_bytes: Some(64 * 1024 * 1024),
        processes: Some(5),
        ..ResourceLimits::default()
    });
    let name = format!("halter-hits-{}", std::process::id());
    let Ok(sandbox) = Sandbox::establish(spec, &name) else {
        return println!("skipped: needs limits by groups");
    };
    let by_groups = |limit: &halter_exec::LimitReport| limit.mechanism != LimitMechanism::Rlimit;
    if !sandbox.limits().iter().all(by_groups) {
        return println!("skipped: needs limits by groups");
    }
    let hits = |text: &str| {
        let mut plan = sh_plan(text);
        sandbox.confine(&mut plan);
        let child = on_null(|slots| halter_exec::host::launch(&plan, slots)).unwrap();
        end_of(&child);
        sandbox.hits()
    };
    let nothing = hits("true");
    assert_eq!((nothing.memory, nothing.processes), (0, 0));
    let memory = hits("head -c 200000000 /dev/zero | tail -n 1");
    assert!(memory.memory > 0, "{memory:?}");
    assert_eq!(memory.processes, 0);
    let processes = hits("for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done; wait");
    assert!(processes.processes > 0, "{processes:?}");
    eventually_removed(&sandbox);
}

/// What was started in it takes a moment to be gone.
fn eventually_removed(sandbox: &Sandbox) {
    let until = std::time::Instant::now() + Duration::from_secs(600);
    while sandbox.remove().is_err() {
        assert!(std::time::Instant::now() < until, "the sandbox stays");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn what_a_sandbox_left_behind_is_swept_with_what_lives_in_it() {
    use crate::launch::{end_of, on_null, sh_plan};
    let spec = limited(ResourceLimits {
        memory_bytes: Some(1 << 30),
        ..ResourceLimits::default()
    });
    let prefix = format!("halter-swept-{}", std::process::id());
    let Ok(left) = Sandbox::establish(spec.clone(), &format!("{prefix}-1")) else {
        return;
    };
    if left.limits()[0].mechanism == LimitMechanism::Rlimit {
        return;
    }
    let kept = Sandbox::establish(spec, &format!("{prefix}-2")).unwrap();
    let mut plan = sh_plan("sleep 300");
    left.confine(&mut plan);
    let child = on_null(|slots| halter_exec::host::launch(&plan, slots)).unwrap();
    assert!(left.remove().is_err());

    let stuck = Sandbox::sweep(&prefix, |name| name.ends_with("-2"));
    assert_eq!(stuck, Vec::<std::path::PathBuf>::new());
    assert_eq!(end_of(&child).status.signal, Some(9));
    let mut plan = sh_plan(":");
    kept.confine(&mut plan);
    let groups = plan.limit_groups.iter().chain(&plan.cgroup);
    assert!(groups.clone().count() > 0 && groups.clone().all(|group| group.exists()));
    kept.remove().unwrap();
}

#[tokio::test]
async fn a_root_directory_hides_everything_else() {
    // What lies below /usr is enough of a system to run a shell in.
    if !Path::new("/usr/lib64").exists() {
        return;
    }
    let sandbox = SandboxSpec {
        root: Some("/usr".into()),
        working_directory: Some("/share".into()),
        ..SandboxSpec::default()
    };
    let spec = Command::new("sh", "/")
        .args(["-c", "pwd; test -e /etc/passwd || echo hidden"])
        .environment(halter_exec::Environment::new().with("PATH", "/bin"));
    let Some(outcome) = outcome_with("chroot", sandbox.clone(), spec).await else {
        return;
    };
    assert_eq!(outcome.stdout.to_text(), "/share\nhidden\n");

    let missing = Command::new("no-such-program", "/");
    let error = run_in(sandbox, missing).await.unwrap_err();
    assert_eq!(error.code(), "program_not_found");
}

fn programs() -> Vec<FileRule> {
    ["/usr", "/bin", "/lib", "/lib64"]
        .into_iter()
        .filter(|path| Path::new(path).exists())
        .map(|path| FileRule::new(path, FileAccess::Execute))
        .collect()
}

fn confined(rules: impl IntoIterator<Item = FileRule>) -> SandboxSpec {
    SandboxSpec {
        file_rules: Some(programs().into_iter().chain(rules).collect()),
        ..SandboxSpec::default()
    }
}

#[tokio::test]
async fn file_rules_allow_what_they_say_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["open", "look", "closed"] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(name).join("file"), "text\n").unwrap();
    }
    let single = path("single");
    std::fs::write(&single, "alone\n").unwrap();
    let rules = [
        FileRule::new(path("open"), FileAccess::Write),
        FileRule::new(path("look"), FileAccess::Read),
        FileRule::new(&single, FileAccess::Read),
    ];
    let text = "cat open/file look/file single; ls look; \
                echo x > open/new && mv open/new open/newer && cat open/newer; \
                for place in look closed .; do echo x 2>&- > $place/new || echo no $place; done; \
                cat closed/file 2>&- || echo unread; \
                truncate -s 0 look/file 2>&- || echo uncut; \
                cp /bin/true open/program && open/program 2>&- || echo unrun";
    let spec = Command::new("bash", directory.path())
        .args(["--noprofile", "--norc", "-c", text])
        .environment(environment());
    let Some(outcome) = outcome_with("landlock", confined(rules), spec).await else {
        return;
    };
    assert_eq!(
        outcome.stdout.to_text(),
        "text\ntext\nalone\nfile\nx\nno look\nno closed\nno .\nunread\nuncut\nunrun\n",
        "{}",
        outcome.stderr.to_text()
    );
}

#[tokio::test]
async fn a_rule_for_something_that_is_not_there_is_named() {
    let missing = FileRule::new("/no/such/place", FileAccess::Read);
    let error = run_in(confined([missing]), sh(":")).await.unwrap_err();
    assert_eq!(error.code(), "sandbox_unavailable");
    if available("landlock") {
        assert!(error.to_string().contains("/no/such/place"), "{error}");
    }
}

#[tokio::test]
async fn rules_are_about_the_files_inside_the_root() {
    if !available("chroot") || !available("landlock") || !Path::new("/usr/lib64").exists() {
        return;
    }
    let sandbox = SandboxSpec {
        root: Some("/usr".into()),
        file_rules: Some(
            ["/bin", "/lib", "/lib64"]
                .map(|path| FileRule::new(path, FileAccess::Execute))
                .to_vec(),
        ),
        ..SandboxSpec::default()
    };
    let text = "test -e /share/doc; ls /lib64 >&- 2>&-; ls /share 2>/dev/null || echo closed";
    let spec = Command::new("/bin/sh", "/")
        .args(["-c", text])
        .environment(halter_exec::Environment::new().with("PATH", "/bin"));
    let outcome = run_in(sandbox, spec).await.unwrap();
    assert_eq!(outcome.stdout.to_text(), "closed\n");
}

#[tokio::test]
async fn new_privileges_are_given_up_when_asked_for() {
    let text = "grep NoNewPrivs /proc/self/status";
    let outcome = run_in(SandboxSpec::default(), sh(text)).await.unwrap();
    let before = outcome.stdout.to_text();
    let sandbox = SandboxSpec {
        no_new_privileges: true,
        ..SandboxSpec::default()
    };
    let Some(outcome) = outcome_with("no_new_privileges", sandbox, sh(text)).await else {
        return;
    };
    assert_eq!(outcome.stdout.to_text(), "NoNewPrivs:\t1\n");
    assert!(before.starts_with("NoNewPrivs:"));
}

#[test]
fn the_ladder_has_every_level_once_and_a_reason_for_what_is_missing() {
    let ladder = isolation_ladder();
    let names: Vec<&str> = ladder.iter().map(|level| level.name).collect();
    assert_eq!(
        names,
        [
            "process_tree",
            "chroot",
            "no_new_privileges",
            "landlock",
            "limit_memory",
            "limit_processes",
            "limit_cpu",
            "limit_cpu_time",
            "namespaces",
            "landlock_and_seccomp",
        ]
    );
    for level in ladder {
        let words = match level.state {
            LevelState::Enforced { by } => by,
            LevelState::Weaker { reason, .. } | LevelState::Unavailable { reason } => reason,
            _ => unreachable!(),
        };
        assert!(!words.is_empty(), "{}", level.name);
    }
}

#[test]
fn a_sandbox_is_not_given_a_name_that_leads_elsewhere() {
    for name in ["", "..", "a/b", "a b"] {
        let error = Sandbox::establish(SandboxSpec::default(), name).unwrap_err();
        assert_eq!(error.code(), "invalid_input");
    }
}
