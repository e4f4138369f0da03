//! Sessions in containers, of an image that the test makes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use halter_tools::PolicySettings;
use halter_tools::policy::SandboxMode;
use serde_json::json;

use crate::place::{DaemonExec, IMAGE};
use crate::support::Workspace;

/// A program that makes containers in a directory of its own, with an image of
/// busybox; `None` where that cannot be.
pub fn engine(directory: &Path) -> Option<PathBuf> {
    let missing = |what: &str| println!("skipped: needs {what}");
    if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/podman").exists() {
        missing("podman");
        return None;
    }
    let Some(busybox) = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        missing("busybox");
        return None;
    };
    let root = directory.join("image");
    for name in ["bin", "tmp", "etc", "proc", "dev"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::copy(busybox, root.join("bin/busybox")).unwrap();
    let listed = Command::new(busybox).arg("--list").output().unwrap();
    for name in String::from_utf8(listed.stdout).unwrap().lines() {
        let _ = std::os::unix::fs::symlink("busybox", root.join("bin").join(name));
    }
    let configuration = directory.join("containers.conf");
    let text = "[containers]\nnetns = \"none\"\n\
                default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
                [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n\
                events_logger = \"none\"\n";
    std::fs::write(&configuration, text).unwrap();
    let program = directory.join("podman");
    let script = format!(
        "#!/bin/sh\nexport CONTAINERS_CONF={configuration}\n\
         exec /usr/bin/podman --root {place}/root --runroot {place}/run --storage-driver vfs \"$@\"\n",
        configuration = configuration.display(),
        place = directory.display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let archive = directory.join("image.tar");
    let packed = Command::new("tar")
        .arg("-C")
        .arg(&root)
        .arg("-cf")
        .arg(&archive)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    let import = Command::new(&program)
        .arg("import")
        .arg(&archive)
        .arg(IMAGE)
        .output();
    let run = ["run", "--rm", IMAGE, "/bin/true"];
    let works = import.unwrap().status.success()
        && Command::new(&program)
            .args(run)
            .output()
            .unwrap()
            .status
            .success();
    if !works {
        missing("podman that can run a container");
        return None;
    }
    Some(program)
}

fn containers(program: &Path) -> String {
    let listed = Command::new(program).args(["ps", "-aq"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap()
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
    let network = json!({"command": "ip link 2>/dev/null | grep -c UP; true"});
    let answer = workspace.ok("shell", network).await;
    assert!(
        answer["stdout"]
            .as_str()
            .unwrap()
            .trim()
            .parse::<u32>()
            .unwrap()
            <= 1
    );
    let late = json!({"command": "echo before; sleep 1000", "timeout_ms": 1000});
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
    assert_eq!(containers(&program), "");
    workspace.store.close().await;
}
