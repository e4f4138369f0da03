//! A runtime whose files are not ours, under the same names.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use halter_policy::{ProgramList, SandboxBounds, SandboxMode};
use halter_protocol::PermissionMode;
use halter_testkit::{Harness, Reply, TempWorkspace};
use halter_tools::exec::ExecBackend;
use halter_tools::{PolicySettings, builtin_tools};
use serde_json::json;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};

use crate::common::TOKEN;
use crate::engine::engine;
use crate::place::{DaemonExec, IMAGE, secure_target};
use crate::support::Workspace;

/// Whether this process can give another one a directory of its own.
fn may_mount() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
        .output();
    let may = tried.is_ok_and(|done| done.status.success());
    if !may {
        println!("skipped: needs mount namespaces");
    }
    may
}

fn settings(sandbox: SandboxMode) -> PolicySettings {
    PolicySettings {
        sandbox,
        allowed_shell_commands: ProgramList::Set(vec!["*".to_owned()]),
        ..PolicySettings::default()
    }
}

/// A session whose directory holds other files at the runtime.
async fn apart() -> Option<(Arc<DaemonExec>, Workspace)> {
    apart_with(SandboxMode::Prefer).await
}

async fn apart_with(sandbox: SandboxMode) -> Option<(Arc<DaemonExec>, Workspace)> {
    if !may_mount() {
        return None;
    }
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("ours.txt"), "ours\n").unwrap();
    let place = Arc::new(DaemonExec::with_other_files(&work));
    let files = place.exec().files(&work).await.unwrap();
    assert!(files.is_some(), "they are not the same files");
    let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
    let workspace = Workspace::in_directory(temp, settings(sandbox), place.clone(), environment);
    Some((place, workspace))
}

#[tokio::test]
async fn tools_and_commands_work_on_the_files_of_a_runtime_with_others() {
    let Some((_place, workspace)) = apart().await else {
        return;
    };
    assert!(workspace.policy.door().is_elsewhere());
    let write = json!({"path": "src/there.txt", "content": "one\ntwo\n"});
    workspace.ok("write", write).await;
    let edit = json!({"path": "src/there.txt", "old_string": "two", "new_string": "three"});
    workspace.ok("edit", edit).await;
    let command = json!({"command": "cat src/there.txt; echo made > by-command; ls"});
    let shell = workspace.ok("shell", command).await;
    assert_eq!(
        shell["stdout"], "one\nthree\nby-command\nsrc\n",
        "{shell:#}"
    );
    let note = shell["sandbox_note"].as_str().unwrap();
    assert!(note.contains("no sandbox"), "{note}");
    let read = workspace.ok("read", json!({"path": "by-command"})).await;
    assert_eq!(read["content"], "made\n");
    let grep = workspace.ok("grep", json!({"pattern": "thr.e"})).await;
    assert_eq!(grep["matches"][0]["path"], "src/there.txt", "{grep:#}");
    let glob = workspace.ok("glob", json!({"pattern": "**/*"})).await;
    assert_eq!(glob["total_matches"], 3, "{glob:#}");
    let rename = json!({"from": "by-command", "to": "moved"});
    workspace.ok("rename", rename).await;
    workspace.ok("delete", json!({"path": "moved"})).await;
    let delete = json!({"path": "src", "recursive": true});
    workspace.ok("delete", delete).await;
    let ours = workspace.failure("read", json!({"path": "ours.txt"})).await;
    assert!(ours.contains("does not exist"), "{ours}");
    // Ours were neither seen nor touched.
    let here: Vec<_> = std::fs::read_dir(workspace.dir()).unwrap().collect();
    assert_eq!(here.len(), 1);
    assert_eq!(workspace.get("ours.txt"), "ours\n");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_full_disk_there_changes_nothing() {
    let Some((_place, workspace)) = apart().await else {
        return;
    };
    let small = json!({"path": "kept", "content": "small"});
    workspace.ok("write", small).await;
    let large = json!({"path": "kept", "content": "x".repeat(2 * 1024 * 1024)});
    let error = workspace.failure("write", large).await;
    assert!(error.contains("No space left"), "{error}");
    assert!(error.contains("nothing has changed"), "{error}");
    let read = workspace.ok("read", json!({"path": "kept"})).await;
    assert_eq!(read["content"], "small");
    let names = workspace.ok("shell", json!({"command": "ls -A"})).await;
    assert_eq!(names["stdout"], "kept\n");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_policy_that_requires_a_sandbox_refuses_files_elsewhere() {
    let Some((_place, workspace)) = apart_with(SandboxMode::Require).await else {
        return;
    };
    let command = json!({"command": "touch ran"});
    let error = workspace.failure("shell", command).await;
    assert!(error.contains("policy.sandbox = \"require\""), "{error}");
}

#[tokio::test]
async fn the_same_files_stay_local_and_a_directory_that_is_not_there_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let place = DaemonExec::start();
    assert!(place.exec().files(temp.path()).await.unwrap().is_none());
    let missing = place.exec().files(&temp.path().join("none")).await;
    let error = missing.unwrap_err().to_string();
    assert!(error.contains("cannot work in"), "{error}");
}

/// A container on another machine: its mounts are that machine's directories,
/// by their real names there, writable as the policy says.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_a_runtime_with_other_files_has_those() {
    let engine_directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(engine_directory.path()).filter(|_| may_mount()) else {
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("ours.txt"), "ours\n").unwrap();
    let place = Arc::new(DaemonExec::remote_with_containers(temp.path(), &program));
    let bounds = SandboxBounds {
        mode: SandboxMode::Prefer,
        ..SandboxBounds::default()
    };
    let lacks = place.check(&bounds).await.unwrap();
    let open = "sensitive and protected files of the mounted directories";
    assert!(lacks.iter().any(|it| it.contains(open)), "{lacks:#?}");
    assert!(place.exec().files(&work).await.unwrap().is_some());
    let mut policy = settings(SandboxMode::Prefer);
    policy.allowed_write_roots = vec!["out".into()];
    let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
    let workspace = Workspace::in_directory(temp, policy, place.clone(), environment);
    let script = "pwd -P; echo changed > kept; echo made > out/made; ls . out\n";
    let write = json!({"path": "out/try.sh", "content": script});
    workspace.ok("write", write).await;
    let answer = workspace
        .ok("shell", json!({"command": "sh out/try.sh"}))
        .await;
    let stdout = answer["stdout"].as_str().unwrap();
    assert!(
        stdout.ends_with("\n.:\nout\n\nout:\nmade\ntry.sh\n"),
        "{answer:#}"
    );
    let note = answer["sandbox_note"].as_str().unwrap();
    assert!(note.contains(open), "{note}");
    let read = workspace.ok("read", json!({"path": "out/made"})).await;
    assert_eq!(read["content"], "made\n");
    workspace.store.close().await;
    let listed = Command::new(&program).args(["ps", "-aq"]).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "");
    let here: Vec<_> = std::fs::read_dir(workspace.dir()).unwrap().collect();
    assert_eq!(here.len(), 1, "{here:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_another_machine_has_not_is_named() {
    let engine_directory = tempfile::tempdir().unwrap();
    let Some(program) = engine(engine_directory.path()).filter(|_| may_mount()) else {
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    // It is here, and not there.
    let mount = temp.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let place = DaemonExec::remote_with_containers(temp.path(), &program);
    let mut settings = RuntimeExecSettings::default().in_containers(IMAGE);
    settings.mounts = vec![mount];
    let target = secure_target(place.daemon(), TOKEN, "ca.pem");
    let exec = RuntimeExec::new(target, settings);
    let error = exec.check(&SandboxBounds::default()).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("/mount' does not exist"), "{error}");
}

/// From a session down: its policy, its instructions and its git are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_session_works_where_its_commands_run() {
    if !may_mount() {
        return;
    }
    let ours = Arc::new(TempWorkspace::new());
    ours.write("AGENTS.md", "Say nothing of ours.");
    let place = DaemonExec::with_other_files(&ours.path().canonicalize().unwrap());
    let call = |tool: &str, arguments| Reply::new().tool_call(tool, arguments);
    let replies = vec![
        call("write", json!({"path": "a.txt", "content": "there\n"})),
        call(
            "shell",
            json!({"command": "cat a.txt && echo more >> a.txt"}),
        ),
        call("read", json!({"path": "a.txt"})),
        Reply::from("Done."),
    ];
    let exec = Arc::new(place.exec().clone());
    let harness = Harness::scripted(replies)
        .tools(builtin_tools())
        .workspace(Arc::clone(&ours))
        .services(move |services| {
            services.exec = exec;
            services.policy.permissions.mode = PermissionMode::Allow;
            services.policy.allowed_shell_commands = ProgramList::Set(vec!["*".to_owned()]);
        })
        .start();
    let session = harness.session().await;
    let events = harness.run(&session, "work there").await;
    session.shutdown("done").await.unwrap();
    let text = serde_json::to_string(&events).unwrap();
    assert!(text.contains("there\\nmore\\n"), "{text}");
    assert!(!text.contains("nothing of ours"), "{text}");
    let here: Vec<_> = std::fs::read_dir(ours.path()).unwrap().collect();
    assert_eq!(here.len(), 1, "{here:?}");
}
