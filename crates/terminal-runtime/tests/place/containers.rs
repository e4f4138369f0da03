//! Sessions in containers, of an image that the test makes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use halter_tools::policy::{NetworkSwitch, SandboxBounds, SandboxMode};
use halter_tools::{ExecBackend as _, PolicySettings};
use serde_json::json;
use terminal_runtime::backend::RuntimeExecSettings;

use crate::common::{Daemon, until};
use crate::engine::engine;
use crate::place::{DaemonExec, IMAGE};
use crate::support::Workspace;

fn containers(program: &Path) -> String {
    let listed = Command::new(program).args(["ps", "-aq"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap()
}

/// The first process of the one container there is.
fn first_process(program: &Path) -> PathBuf {
    let name = containers(program).trim().to_owned();
    let words = ["inspect", "--format", "{{.State.Pid}}", &name];
    let found = Command::new(program).args(words).output().unwrap();
    Path::new("/proc").join(String::from_utf8(found.stdout).unwrap().trim())
}

fn settings(sandbox: SandboxMode, roots: &[&str]) -> PolicySettings {
    PolicySettings {
        sandbox,
        allowed_write_roots: roots.iter().map(PathBuf::from).collect(),
        allowed_shell_commands: halter_policy::ProgramList::Set(vec!["*".to_owned()]),
        ..PolicySettings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_in_a_container_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let place = Arc::new(DaemonExec::with_containers(&program));
    let policy = settings(SandboxMode::Prefer, &["."]);
    let workspace = Workspace::with_exec(policy, place);
    workspace.put("given.txt", "from outside\n");
    workspace.put(".env", "SECRET=1");
    // State, files in both directions, and what is hidden.
    let answer = workspace
        .ok(
            "shell",
            json!({"command": "mkdir -p sub && cd sub && v=kept && cat ../given.txt"}),
        )
        .await;
    assert_eq!(answer["stdout"], "from outside\n", "{answer:#}");
    workspace.put("try.sh", "cat .env; ls /usr 2>&1\n");
    let command = "pwd; echo $v; echo made > made.txt; sh ../try.sh";
    let answer = workspace.ok("shell", json!({"command": command})).await;
    let inside = workspace.dir().join("sub");
    let stdout = answer["stdout"].as_str().unwrap();
    assert!(
        stdout.starts_with(&format!("{}\nkept\n", inside.display())),
        "{stdout}"
    );
    assert!(!stdout.contains("SECRET"), "{stdout}");
    assert_eq!(workspace.get("sub/made.txt"), "made\n");
    let read = workspace.ok("read", json!({"path": "sub/made.txt"})).await;
    assert!(read.to_string().contains("made"), "{read}");
    // No network, deadlines, exit codes, background jobs, terminals, processes.
    workspace.put(
        "net.sh",
        "readlink /proc/self/ns/net; ip link | grep -c ^[0-9]\n",
    );
    let network = json!({"command": "sh ../net.sh"});
    let answer = workspace.ok("shell", network).await;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let seen = answer["stdout"].as_str().unwrap();
    assert!(!seen.contains(own.to_str().unwrap()), "{answer:#}");
    assert!(seen.ends_with("\n1\n"), "only its own loopback: {answer:#}");
    let late = json!({"command": "echo before; sleep 1000", "timeout_ms": 5000});
    let answer = workspace.ok("shell", late).await;
    assert_eq!(
        (&answer["timed_out"], &answer["stdout"]),
        (&json!(true), &json!("before\n"))
    );
    let answer = workspace
        .ok("shell", json!({"command": "sh -c 'exit 7'"}))
        .await;
    assert_eq!(answer["exit_code"], 7);
    let job = json!({"command": "read line; echo \"got $line\"", "background": true});
    let job = workspace.ok("shell", job).await;
    let id = &job["job_id"];
    let write = json!({"action": "write", "job_id": id, "input": "tea\n"});
    workspace.ok("process", write).await;
    let polled = crate::place::job_ended(&workspace, id).await;
    assert!(polled.to_string().contains("got tea"), "{polled}");
    let sleeper = json!({"command": "sleep 1000 >/dev/null 2>&1 & echo $!"});
    let answer = workspace.ok("shell", sleeper).await;
    let pid: i32 = answer["stdout"].as_str().unwrap().trim().parse().unwrap();
    let listed = workspace
        .ok("process", json!({"action": "list_descendants"}))
        .await;
    assert!(
        listed.to_string().contains(&format!("\"pid\":{pid}")),
        "{listed}"
    );
    let terminal = json!({
        "action": "start", "command": "tty; echo $TERM", "wait_for": "xterm", "timeout_ms": 60_000,
    });
    let terminal = workspace.ok("pty", terminal).await;
    assert!(terminal.to_string().contains("/dev/pts/"), "{terminal}");
    // It ends with the session.
    assert_eq!(containers(&program).lines().count(), 1);
    workspace.store.close().await;
    assert_eq!(containers(&program), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_policy_keeps_is_read_only_in_a_container() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let place = Arc::new(DaemonExec::with_containers(&program));
    let workspace = Workspace::with_exec(settings(SandboxMode::Prefer, &["out"]), place);
    std::fs::create_dir(workspace.dir().join("out")).unwrap();
    workspace.put("kept.txt", "kept\n");
    let script = "echo changed > kept.txt; echo made > out/made; cat kept.txt\n";
    workspace.put("try.sh", script);
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert_eq!(answer["stdout"], "kept\n", "{answer:#}");
    assert_eq!(workspace.get("kept.txt"), "kept\n");
    assert_eq!(workspace.get("out/made"), "made\n");
    workspace.store.close().await;
    assert_eq!(containers(&program), "");
}

/// A network that the policy opens is the engine's, which in these tests is the
/// host's.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_a_network_where_the_policy_opens_one() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let place = Arc::new(DaemonExec::with_containers(&program));
    let policy = PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: vec!["files.test".into()],
        ..settings(SandboxMode::Off, &["."])
    };
    let workspace = Workspace::with_exec(policy, place);
    workspace.put("net.sh", "readlink /proc/self/ns/net\n");
    let look = json!({"command": "sh net.sh"});
    let answer = workspace.ok("shell", look).await;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(answer["stdout"], format!("{}\n", own.display()));
    workspace.store.close().await;
}

/// All that is asked holds in a container: what is protected cannot be changed,
/// made, or moved away, and what keeps its place is gone with the container.
#[tokio::test(flavor = "multi_thread")]
async fn a_required_sandbox_holds_in_a_container() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let place = Arc::new(DaemonExec::with_containers(&program));
    for has_repository in [false, true] {
        let policy = settings(SandboxMode::Require, &["."]);
        let workspace = Workspace::with_exec(policy, Arc::clone(&place) as _);
        if has_repository {
            workspace.put(".git/config", "[core]\n");
        }
        let bounds = workspace.policy.sandbox(None);
        let lacks = place.check(&workspace.dir(), &bounds).await.unwrap();
        assert!(!lacks.iter().any(|it| it.contains("hold")), "{lacks:#?}");
        let attempts = "mkdir -p .halter/x .git/hooks/x; echo evil > .claude/settings.json\n\
                        mv .git gone; mkdir -p .git/hooks; echo evil > .git/config\n\
                        echo evil > .git/hooks/post-commit; rmdir .idea; echo in > inside\n";
        workspace.put("try.sh", attempts);
        let answer = workspace
            .ok("shell", json!({"command": "sh try.sh; true"}))
            .await;
        assert_eq!(answer.get("sandbox_note"), None, "{answer:#}");
        assert_eq!(workspace.get("inside"), "in\n");
        workspace.store.close().await;
        let mut left: Vec<_> = std::fs::read_dir(workspace.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = vec!["inside", "try.sh"];
        if has_repository {
            expected.insert(0, ".git");
            assert_eq!(workspace.get(".git/config"), "[core]\n");
            assert!(!workspace.dir().join(".git/hooks").exists());
        }
        assert_eq!(left, expected);
    }
}

/// Also in a repository that git made, which works on with what takes the place
/// of its files.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_replaced_or_made_is_covered_for_the_next_command_in_a_container() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let place = Arc::new(DaemonExec::with_containers(&program));
    let policy = settings(SandboxMode::Require, &["."]);
    let workspace = Workspace::with_exec(policy, place);
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        let done = git.arg("-C").arg(workspace.dir()).args(words).output();
        done.unwrap().status.success()
    };
    assert!(git(&["init", "-q"]));
    workspace.put(".env", "s3cret");
    workspace.ok("shell", json!({"command": "true"})).await;
    assert!(workspace.dir().join(".git/commondir").exists());
    assert!(git(&["status"]));
    crate::guarded::is_covered_again(&workspace).await;
    assert!(!workspace.dir().join(".git/commondir").exists());
}

/// Whichever user the image names: commands have that of the runtime, whose the
/// workspace is.
#[tokio::test(flavor = "multi_thread")]
async fn the_user_of_an_image_is_not_that_of_commands() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    for user in ["0", "65534"] {
        let image = format!("halter-test-user:{user}");
        let made = Command::new(&program)
            .args(["import", "--change", &format!("USER {user}")])
            .arg(directory.path().join("image.tar"))
            .arg(&image)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let exec = RuntimeExecSettings::default().in_containers(image);
        let place = Arc::new(DaemonExec::in_containers(&program, exec, &[]));
        let workspace = Workspace::with_exec(settings(SandboxMode::Prefer, &["."]), place);
        let command = "id -u; echo made > made && cat made";
        let answer = workspace.ok("shell", json!({"command": command})).await;
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(answer["stdout"], format!("{own}\nmade\n"), "{answer:#}");
        let made = std::fs::metadata(workspace.dir().join("made")).unwrap();
        assert_eq!(made.uid(), own);
        workspace.store.close().await;
    }
}

/// What keeps a place goes with the container, also when nobody was left to
/// remove it.
#[test]
fn no_placeholder_outlives_a_harness_and_a_daemon_that_were_killed() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let daemon = Daemon::start_with(&[("TRL_DOCKER_PROGRAM", program.to_str().unwrap())]);
    let (harness, workspace) = crate::lease::harness(&daemon, true);
    let placeholder = workspace.join(".halter");
    assert!(placeholder.is_dir());
    daemon.kill();
    crate::lease::kill(harness);
    until("its holder ends", || daemon.holders().is_empty());
    daemon.spawn();
    until("the place is free", || !placeholder.exists());
}

/// A directory that is a link has two names in a container, and what is closed
/// is so by both.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_policy_keeps_is_kept_by_both_names_of_a_linked_directory() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let real = temp.path().join("real");
    std::fs::create_dir_all(real.join("out")).unwrap();
    std::os::unix::fs::symlink("real", temp.path().join("work")).unwrap();
    std::fs::write(real.join("out/.env"), "SECRET=1").unwrap();
    let script = "cat out/.env; echo made > kept; echo made > out/made; ls . out\n";
    std::fs::write(real.join("try.sh"), script).unwrap();
    let place = Arc::new(DaemonExec::with_containers(&program));
    let environment = [("PATH".into(), "/usr/bin:/bin".into())].into();
    let policy = settings(SandboxMode::Prefer, &["out"]);
    let workspace = Workspace::in_directory(temp, policy, place, environment);
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert_eq!(
        answer["stdout"], ".:\nout\ntry.sh\n\nout:\nmade\n",
        "{answer:#}"
    );
    workspace.store.close().await;
}

/// What is mounted besides the workspace, and whose the files are.
#[tokio::test(flavor = "multi_thread")]
async fn mounts_are_read_only_unless_the_policy_opens_them() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let [kept, open] = ["kept", "open"].map(|name| directory.path().join(name));
    for path in [&kept, &open] {
        std::fs::create_dir(path).unwrap();
        std::fs::write(path.join("given"), "given\n").unwrap();
    }
    let mut exec = RuntimeExecSettings::default().in_containers(IMAGE);
    exec.mounts = vec![kept.clone(), open.clone()];
    let place = Arc::new(DaemonExec::in_containers(&program, exec, &[]));
    let policy = settings(SandboxMode::Prefer, &[".", open.to_str().unwrap()]);
    let workspace = Workspace::with_exec(policy, place);
    let script = format!(
        "cat {kept}/given {open}/given; echo made > {kept}/made; echo made > {open}/made; \
         echo made > made\n",
        kept = kept.display(),
        open = open.display()
    );
    workspace.put("try.sh", script);
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert_eq!(answer["stdout"], "given\ngiven\n", "{answer:#}");
    assert!(!kept.join("made").exists(), "{answer:#}");
    for made in [open.join("made"), workspace.dir().join("made")] {
        let found = std::fs::metadata(made).unwrap();
        assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    }
    workspace.store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_does_not_exist_is_named_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let mut exec = RuntimeExecSettings::default().in_containers(IMAGE);
    exec.mounts = vec![directory.path().join("nowhere")];
    let place = Arc::new(DaemonExec::in_containers(&program, exec, &[]));
    let checked = place
        .check(directory.path(), &SandboxBounds::default())
        .await;
    let checked = checked.unwrap_err();
    assert!(checked.to_string().contains("nowhere"), "{checked}");
    let workspace = Workspace::with_exec(settings(SandboxMode::Prefer, &["."]), place);
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(
        error.contains("nowhere") && error.contains("does not exist"),
        "{error}"
    );
    assert_eq!(containers(&program), "");
    workspace.store.close().await;
}

/// Also the commands of a session in a container may use no more than the
/// runtime lets them.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_runtime_hold_in_a_container() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let limits = [
        ("TRL_CHILD_NPROC", "30"),
        ("TRL_CHILD_MEMORY_BYTES", "67108864"),
        ("TRL_CHILD_CPU_SEC", "2"),
    ];
    let exec = RuntimeExecSettings::default().in_containers(IMAGE);
    let place = Arc::new(DaemonExec::in_containers(&program, exec, &limits));
    let bounds = SandboxBounds::default();
    let said = place.check(directory.path(), &bounds).await.unwrap();
    let named = "67108864 bytes of memory together, 30 processes at a time, 2 s of CPU time";
    assert!(said.iter().any(|it| it.contains(named)), "{said:#?}");
    let workspace = Workspace::with_exec(settings(SandboxMode::Off, &["."]), place);
    let processes = "for i in $(seq 1 60); do sleep 1000 >/dev/null 2>&1 & done\n";
    workspace.put("processes.sh", processes);
    let answer = workspace
        .ok(
            "shell",
            json!({"command": "sh processes.sh; killall sleep"}),
        )
        .await;
    let refused = answer["stderr"].as_str().unwrap();
    assert!(refused.contains("fork"), "{answer:#}");
    let busy = json!({"command": "sh -c 'while :; do :; done'", "timeout_ms": 60_000});
    let answer = workspace.ok("shell", busy).await;
    assert_eq!(answer["timed_out"], false, "{answer:#}");
    assert_ne!(answer["exit_code"], 0, "{answer:#}");
    let memory = json!({
        "command": "sh -c 'tail -c 200000000 /dev/zero | wc -c'; echo over", "timeout_ms": 60_000,
    });
    let answer = workspace.ok("shell", memory).await;
    let stdout = answer["stdout"].as_str().unwrap();
    assert!(!stdout.contains("200000000"), "{answer:#}");
    workspace.store.close().await;
    assert_eq!(containers(&program), "");
}

/// The container ends with the session of a harness that was killed, also when
/// nobody is left to remove it.
#[test]
fn no_container_outlives_a_harness_that_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    for daemon_too in [false, true] {
        let daemon = Daemon::start_with(&[("TRL_DOCKER_PROGRAM", program.to_str().unwrap())]);
        let (harness, workspace) = crate::lease::harness(&daemon, true);
        let first = first_process(&program);
        assert!(first.exists(), "{first:?}");
        if daemon_too {
            daemon.kill();
        }
        crate::lease::kill(harness);
        until("all it ran ends", || {
            crate::place::processes_in(&workspace).is_empty()
        });
        until("its holder ends", || daemon.holders().is_empty());
        until("the container ends", || !first.exists());
        if daemon_too {
            // What the engine has noted of it goes when there is a daemon again.
            daemon.spawn();
        }
        until("the container goes", || containers(&program).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_is_named_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(directory.path()) else {
        return;
    };
    let removed = Command::new(&program).args(["rmi", "-f", IMAGE]).output();
    assert!(removed.unwrap().status.success());
    let place = Arc::new(DaemonExec::with_containers(&program));
    let workspace = Workspace::with_exec(settings(SandboxMode::Off, &["."]), place);
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(error.contains("halter-test"), "{error}");
    assert!(error.contains("cannot be fetched"), "{error}");
    assert_eq!(containers(&program), "");
    workspace.store.close().await;
}
