//! Sessions that see and use less: another root, limits, a container.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use halter_exec::{Environment, LevelState};
use rustix::process::geteuid;
use terminal_runtime::exec::{ExecStdin, Limits, Stream, TerminalSize};

use crate::support::{Runtime, argv, at_least, command, finished, fresh, order, settings};

/// A small root directory with a shell and little else.
pub fn small_root() -> Option<tempfile::TempDir> {
    let busybox = Path::new("/bin/busybox");
    if !busybox.exists() {
        println!("skipped: needs busybox-static");
        return None;
    }
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    for directory in ["bin", "dev", "tmp", "etc"] {
        std::fs::create_dir(path.join(directory)).unwrap();
    }
    std::fs::copy(busybox, path.join("bin/busybox")).unwrap();
    for name in [
        "sh", "cat", "echo", "env", "ls", "sleep", "seq", "true", "kill", "setsid",
    ] {
        std::os::unix::fs::symlink("busybox", path.join("bin").join(name)).unwrap();
    }
    std::fs::write(path.join("etc/inside"), "inside\n").unwrap();
    Some(root)
}

pub fn add_null(root: &Path) {
    let copied = Command::new("cp")
        .args(["-R", "/dev/null"])
        .arg(root.join("dev/null"))
        .status();
    assert!(copied.unwrap().success());
    let mode = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(root.join("dev/null"), mode).unwrap();
}

/// Whether a level is there, in full or in part.
async fn has_level(runtime: &Runtime, name: &str) -> bool {
    let levels = runtime.core.isolation().await;
    let level = levels.iter().find(|level| level.name == name).unwrap();
    !matches!(level.state, LevelState::Unavailable { .. })
}

#[tokio::test]
async fn a_session_has_a_root_of_its_own() {
    let Some(root) = small_root() else { return };
    let runtime = Runtime::start().await;
    if !has_level(&runtime, "chroot").await {
        println!("skipped: needs the right to change the root directory");
        let session = runtime
            .session_with(|spec| spec.chroot = Some(root.path().to_owned()))
            .await;
        let exec = runtime.exec(session, argv(&["/bin/true"])).await;
        let refused = exec.ended().await.unwrap_err();
        assert_eq!(refused.code(), "isolation_unavailable", "{refused}");
        runtime.shutdown().await;
        return;
    }
    add_null(root.path());
    let session = runtime
        .session_with(|spec| {
            spec.chroot = Some(root.path().to_owned());
            spec.shell = "/bin/sh".into();
            spec.working_dir = "/etc".into();
        })
        .await;
    for what in [
        argv(&["/bin/cat", "/etc/inside"]),
        fresh("cat inside; ls / >&2"),
        command("cat inside; ls / >&2"),
    ] {
        let exec = runtime.exec(session, what).await;
        let done = finished(&exec).await;
        assert_eq!(
            (done.code(), done.stdout.as_str()),
            (Some(0), "inside\n"),
            "{done:?}"
        );
        assert!(!done.stderr.contains("home"), "{done:?}");
    }
    let done = runtime.run(session, "A=kept; cd /tmp; exit 3").await;
    assert_eq!(done.code(), Some(3));
    assert_eq!(runtime.run(session, "pwd").await.stdout, "/tmp\n");
    let mut typed = order(command("cat"));
    typed.stdin = ExecStdin::Bytes("given".into());
    let exec = runtime.exec_order(session, typed).await.unwrap();
    assert_eq!(finished(&exec).await.stdout, "given");
    let mut open = order(command("cat"));
    open.stdin = ExecStdin::Open;
    let exec = runtime.exec_order(session, open).await.unwrap();
    runtime.write(&exec, Some(0), b"typed", true).await.unwrap();
    assert_eq!(finished(&exec).await.stdout, "typed");
    // What runs there is adopted like anything else.
    let slow = runtime.exec(session, command("sleep 0.2; echo late")).await;
    let (runtime, _) = runtime.crash().await;
    let slow = runtime.core.find(slow.id()).unwrap();
    assert_eq!(finished(&slow).await.stdout, "late\n");
    runtime.close(session).await;
    let left: Vec<_> = std::fs::read_dir(root.path()).unwrap().collect();
    assert_eq!(left.len(), 4, "{left:?}");
    runtime.shutdown().await;
}

#[tokio::test]
async fn each_limit_is_kept_or_refused_with_a_reason() {
    let runtime = Runtime::start().await;
    let limited = |limits| runtime.session_with(move |spec| spec.limits = limits);
    let cpu = limited(Limits {
        cpu_seconds: Some(1),
        ..Limits::default()
    })
    .await;
    let exec = runtime.exec(cpu, fresh("while :; do :; done")).await;
    let done = finished(&exec).await;
    // XCPU, or KILL where soft and hard limit are the same.
    assert!(matches!(done.end.signal, Some(24 | 9)), "{done:?}");
    if has_level(&runtime, "limit_processes").await {
        let few = limited(Limits {
            processes: Some(8),
            ..Limits::default()
        })
        .await;
        let text = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done; echo all";
        let exec = runtime.exec(few, fresh(text)).await;
        let done = finished(&exec).await;
        assert!(!done.stderr.is_empty(), "{done:?}");
    } else {
        println!("skipped: needs a limit on processes");
    }
    if has_level(&runtime, "limit_memory").await {
        let little = limited(Limits {
            memory_bytes: Some(64 * 1024 * 1024),
            ..Limits::default()
        })
        .await;
        let text = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}";
        let exec = runtime.exec(little, fresh(text)).await;
        let done = finished(&exec).await;
        assert_ne!(done.stdout, "200000000\n", "{:?}", done.end);
        let exec = runtime.exec(little, fresh("echo fine")).await;
        assert_eq!(finished(&exec).await.stdout, "fine\n");
    } else {
        println!("skipped: needs a limit on memory");
    }
    runtime.shutdown().await;
}

/// Engines of containers take long and all of a machine: one at a time.
pub static ENGINE_TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A `docker`-compatible program with everything in a directory of its own,
/// and an image in it; `None` where that cannot be.
pub fn engine(directory: &Path) -> Option<PathBuf> {
    if !geteuid().is_root() || !Path::new("/usr/bin/podman").exists() {
        println!("skipped: needs podman");
        return None;
    }
    let root = small_root()?;
    let configuration = directory.join("containers.conf");
    std::fs::write(
        &configuration,
        "[containers]\nnetns = \"none\"\n\
         default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
         [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n",
    )
    .unwrap();
    let program = directory.join("podman");
    let script = format!(
        "#!/bin/sh\nexport CONTAINERS_CONF={configuration}\n\
         exec /usr/bin/podman --root {place}/root --runroot {place}/run \
         --storage-driver vfs \"$@\"\n",
        configuration = configuration.display(),
        place = directory.display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let archive = directory.join("image.tar");
    let packed = Command::new("tar")
        .args(["-C", root.path().to_str().unwrap(), "-cf"])
        .arg(&archive)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    let imported = Command::new(&program)
        .arg("import")
        .arg(&archive)
        .arg("trl-test:1")
        .output()
        .unwrap();
    let works = imported.status.success()
        && Command::new(&program)
            .args(["run", "--rm", "trl-test:1", "/bin/true"])
            .output()
            .unwrap()
            .status
            .success();
    if !works {
        println!("skipped: needs podman that can run a container");
        return None;
    }
    Some(program)
}

#[cfg(any(not(target_os = "linux"), halter_portable))]
#[tokio::test]
async fn a_container_is_refused_where_its_processes_cannot_be_seen() {
    let runtime = Runtime::start().await;
    let session = runtime
        .session_with(|spec| spec.container_image = Some("trl-test:1".to_owned()))
        .await;
    let refused = runtime.exec_order(session, order(fresh("true"))).await;
    assert_eq!(refused.unwrap_err().code(), "isolation_unavailable");
    runtime.shutdown().await;
}

#[cfg_attr(
    any(not(target_os = "linux"), halter_portable),
    ignore = "the processes of containers cannot be seen here"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_session_runs_in_a_container() {
    let _turn = ENGINE_TURN.lock().await;
    let place = tempfile::tempdir().unwrap();
    let Some(program) = engine(place.path()) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path());
    settings.docker.program.clone_from(&program);
    settings.environment.set("RUNTIME", "of the host");
    settings.environment.set("HOST", "of the host");
    let runtime = Runtime::start_with(directory, settings).await;
    let session = runtime
        .session_with(|spec| {
            spec.container_image = Some("trl-test:1".to_owned());
            spec.shell = "/bin/sh".into();
            spec.working_dir = "/etc".into();
            // The engine's client has a value of its own for the second.
            spec.environment = Environment::new()
                .with("SECRET", "s3cret")
                .with("RUNTIME", "unspeakable-701");
        })
        .await;
    let exec = runtime
        .exec(session, argv(&["cat", "/etc/inside", "/missing"]))
        .await;
    let done = finished(&exec).await;
    assert_eq!(
        (done.code(), done.stdout.as_str()),
        (Some(1), "inside\n"),
        "{done:?}"
    );
    assert!(done.stderr.contains("/missing"), "{done:?}");
    let told = "echo $SECRET, $RUNTIME, $HOST; case $(env) in *TRL_*) echo leaked;; esac; exit 9";
    for what in [fresh(told), command(told)] {
        let done = finished(&runtime.exec(session, what).await).await;
        assert_eq!(
            (done.code(), done.stdout.as_str()),
            (Some(9), "s3cret, unspeakable-701,\n"),
            "{done:?}"
        );
    }
    // Values are on no command line, neither inside nor outside.
    let waiting = runtime.exec(session, fresh("echo begun; sleep 701")).await;
    at_least(&waiting, Stream::Stdout, 6).await;
    assert!(has_process("sleep 701"));
    assert!(!has_process("unspeakable-701"));
    let stopped = waiting.clone();
    runtime.on(async move { stopped.cancel(None).await }).await;

    // The persistent shell, its streams and its state.
    let done = runtime
        .run(session, "cat inside; echo e >&2; cd /tmp; A=1; export A")
        .await;
    assert_eq!(
        (done.code(), done.stdout.as_str(), done.stderr.as_str()),
        (Some(0), "inside\n", "e\n")
    );
    assert_eq!(
        runtime.run(session, "echo $PWD $A $SECRET").await.stdout,
        "/tmp 1 s3cret\n"
    );
    assert_eq!(runtime.run(session, "exit 4").await.code(), Some(4));
    assert_eq!(
        runtime.run(session, "echo $PWD $A").await.stdout,
        "/tmp 1\n"
    );

    // Deadlines and cancelling reach into the container.
    for what in [
        fresh("setsid sleep 700 & sleep 700"),
        command("setsid sleep 700 & sleep 700"),
    ] {
        let mut limited = order(what);
        limited.timeout = Some(Duration::from_millis(1500));
        let exec = runtime.exec_order(session, limited).await.unwrap();
        let done = finished(&exec).await;
        assert!(done.end.timed_out, "{done:?}");
        assert!(!has_process("sleep\u{0}700"));
    }
    assert_eq!(runtime.run(session, "echo $A").await.stdout, "1\n");

    // A restarted daemon finds the container and what runs in it.
    let slow = runtime
        .exec(session, command("sleep 1; echo late; exit 5"))
        .await;
    let alone = runtime
        .exec(session, fresh("sleep 1; echo alone; exit 6"))
        .await;
    let (runtime, _) = runtime.crash().await;
    for (exec, code, text) in [(slow, 5, "late\n"), (alone, 6, "alone\n")] {
        let exec = runtime.core.find(exec.id()).unwrap();
        let done = finished(&exec).await;
        assert_eq!((done.code(), done.stdout.as_str()), (Some(code), text));
    }
    let mut typed = order(fresh("echo terminal"));
    typed.pty = Some(TerminalSize { cols: 80, rows: 24 });
    let exec = runtime.exec_order(session, typed).await.unwrap();
    assert_eq!(finished(&exec).await.stdout, "terminal\r\n");
    runtime.close(session).await;
    let left = Command::new(&program).args(["ps", "-aq"]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
    runtime.shutdown().await;
}

fn has_process(line: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|found| String::from_utf8_lossy(&found).contains(line))
    })
}
