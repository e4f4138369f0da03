//! A runtime whose files are not ours, under the same names.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use halter_policy::{ProgramList, SandboxBounds, SandboxMode};
use halter_protocol::PermissionMode;
use halter_testkit::{Harness, Reply, TempWorkspace};
use halter_tools::exec::{Environment, ExecBackend, probe_sandbox};
use halter_tools::{PolicySettings, builtin_tools};
use serde_json::json;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};

use crate::common::TOKEN;
use crate::engine::engine;
use crate::place::{DaemonExec, IMAGE, may_mount, secure_target};
use crate::support::Workspace;

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
    let read = workspace.ok("read", json!({"path": "by-command"})).await;
    assert_eq!(read["content"], "made\n");
    let grep = workspace.ok("grep", json!({"pattern": "thr.e"})).await;
    assert_eq!(grep["matches"][0]["path"], "src/there.txt", "{grep:#}");
    let glob = workspace.ok("glob", json!({"pattern": "**/*"})).await;
    assert_eq!(glob["total_matches"], 3, "{glob:#}");
    // What a command printed too much of is here, and says so.
    let much = workspace
        .ok("shell", json!({"command": "seq 1 20000"}))
        .await;
    let file = much["stdout_file"].as_str().unwrap();
    let note = much["stdout_file_note"].as_str().unwrap();
    assert!(note.contains("the tool `read` finds it"), "{note}");
    let last = json!({"path": file, "offset": 20_000, "limit": 1});
    let last = workspace.ok("read", last).await;
    assert_eq!(last["content"], "20000\n", "{last:#}");
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
    let Some((_place, workspace)) = apart_with(SandboxMode::Off).await else {
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

/// A session whose directory a script fills at the runtime.
async fn filled(
    script: &str,
    policy: PolicySettings,
    exec: RuntimeExecSettings,
    variables: &[(&str, &str)],
) -> (Arc<DaemonExec>, Workspace) {
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let place = DaemonExec::with_files_made_by(&work, script, exec, variables);
    let place = Arc::new(place);
    assert!(place.exec().files(&work).await.unwrap().is_some());
    let environment = BTreeMap::from([
        ("PATH".into(), "/nowhere-there".into()),
        ("GIVEN_TOKEN".into(), "from-here".into()),
        ("GIVEN_WORD".into(), "from-here".into()),
        ("OTHER_WORD".into(), "from-here".into()),
    ]);
    let workspace = Workspace::in_directory(temp, policy, place.clone(), environment);
    (place, workspace)
}

/// What is closed is searched for there, and held by that machine's kernel.
#[tokio::test]
async fn commands_with_files_elsewhere_are_in_a_sandbox_of_that_machine() {
    if !may_mount() || !namespaces_work() {
        return;
    }
    let script = "echo SECRET=1 > .env && mkdir .git && echo '[core]' > .git/config";
    let policy = settings(SandboxMode::Require);
    let exec = RuntimeExecSettings::default();
    let (place, workspace) = filled(script, policy, exec, &[]).await;
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let attempts = format!(
        "cat .env; echo x > .git/config; mkdir .git/hooks; mv .git gone; mkdir .halter; \
         echo out > {}/made; echo in > inside; cat .git/config inside",
        outside.path().display()
    );
    let write = json!({"path": "try.sh", "content": attempts});
    workspace.ok("write", write).await;
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert_eq!(answer["stdout"], "[core]\nin\n", "{answer:#}");
    assert_eq!(answer.get("sandbox_note"), None, "{answer:#}");
    let made: Vec<_> = std::fs::read_dir(outside.path()).unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
    // Before a session starts, the same is said.
    let bounds = workspace.policy.sandbox(None);
    let lacks = place.check(&workspace.dir(), &bounds).await.unwrap();
    assert!(
        !lacks.iter().any(|it| it.contains("does not hold")),
        "{lacks:#?}"
    );
    workspace.store.close().await;
}

fn namespaces_work() -> bool {
    let status = probe_sandbox(&SandboxBounds::default(), &Environment::new());
    let mut rungs = status.rungs.iter();
    let works = rungs.any(|rung| rung.name == "namespaces" && rung.supported);
    if !works {
        println!("skipped: needs name spaces");
    }
    works
}

/// A kernel that cannot hold what is required runs nothing, and says why.
#[tokio::test]
async fn a_policy_that_requires_a_sandbox_refuses_a_machine_that_has_none() {
    if !may_mount() {
        return;
    }
    let script = "set -- unshare -Ur sh -c \
                  'echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"' sh \"$@\"";
    let policy = settings(SandboxMode::Require);
    let exec = RuntimeExecSettings::default();
    let (place, workspace) = filled(script, policy, exec, &[]).await;
    let error = workspace
        .failure("shell", json!({"command": "touch ran"}))
        .await;
    assert!(error.contains("policy.sandbox = \"require\""), "{error}");
    assert!(error.contains("namespaces: "), "{error}");
    let bounds = workspace.policy.sandbox(None);
    let checked = place.check(&workspace.dir(), &bounds).await.unwrap_err();
    assert!(checked.to_string().contains("namespaces: "), "{checked}");
    let listed = workspace.ok("list", json!({"path": "."})).await;
    assert!(!listed.to_string().contains("ran"), "{listed}");
}

/// Commands there see that machine's variables without its secrets, and what
/// the user added of ours.
#[tokio::test]
async fn commands_elsewhere_see_no_secret_of_the_runtime() {
    if !may_mount() {
        return;
    }
    let mut exec = RuntimeExecSettings::default();
    exec.added_variables = vec!["GIVEN_*".into(), "OTHER_WORD".into()];
    exec.removed_variables = vec!["GONE_*".into()];
    let planted = [
        ("PLANTED_TOKEN", "s3cret-of-the-runtime"),
        ("PLANTED_WORD", "of-the-runtime"),
        ("GONE_WORD", "of-the-runtime"),
    ];
    let policy = settings(SandboxMode::Prefer);
    let (_place, workspace) = filled("true", policy, exec, &planted).await;
    let answer = workspace.ok("shell", json!({"command": "env"})).await;
    let stdout = answer["stdout"].as_str().unwrap();
    let has = |line: &str| stdout.lines().any(|it| it == line);
    assert!(!stdout.contains("s3cret"), "{stdout}");
    assert!(
        !stdout.contains("GONE_WORD") && !stdout.contains("TRL_"),
        "{stdout}"
    );
    assert!(has("PLANTED_WORD=of-the-runtime"), "{stdout}");
    assert!(
        has("GIVEN_TOKEN=from-here") && has("OTHER_WORD=from-here"),
        "{stdout}"
    );
    // What a star names and belongs to this machine stays here.
    assert!(!stdout.contains("GIVEN_WORD"), "{stdout}");
    assert!(!has("PATH=/nowhere-there"), "{stdout}");
    workspace.store.close().await;
}

/// Programs that a repository there names are turned off, as here.
#[tokio::test]
async fn filters_of_a_repository_elsewhere_are_turned_off() {
    if !may_mount() {
        return;
    }
    let script = "mkdir -p .git/hooks sub && \
                  printf '[filter \"evil\"]\\n\\tclean = x\\n' > .git/config";
    let policy = settings(SandboxMode::Off);
    let (_place, workspace) = filled(script, policy, RuntimeExecSettings::default(), &[]).await;
    for command in ["env", "cd sub && env"] {
        let answer = workspace.ok("shell", json!({"command": command})).await;
        let stdout = answer["stdout"].as_str().unwrap();
        assert!(
            stdout.contains("=filter.evil.clean\n"),
            "{command}: {stdout}"
        );
    }
    workspace.store.close().await;
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
    assert!(place.exec().files(&work).await.unwrap().is_some());
    let mut policy = settings(SandboxMode::Prefer);
    policy.allowed_write_roots = vec!["out".into()];
    let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
    let workspace = Workspace::in_directory(temp, policy, place.clone(), environment);
    let script = "pwd -P; echo changed > kept; echo made > out/made; mkdir out/.halter; \
                  cat out/.env; ls . out\n";
    let write = json!({"path": "out/try.sh", "content": script});
    workspace.ok("write", write).await;
    // A secret that lies there before the session's first command.
    let plant = format!(
        "echo SECRET=1 > {}",
        workspace.dir().join("out/.env").display()
    );
    let daemon = place.daemon().pid().to_string();
    let planted = Command::new("nsenter")
        .args(["-t", &daemon, "-m", "sh", "-c", &plant])
        .status();
    assert!(planted.unwrap().success());
    let answer = workspace
        .ok("shell", json!({"command": "sh out/try.sh"}))
        .await;
    let stdout = answer["stdout"].as_str().unwrap();
    assert!(
        stdout.ends_with("\n.:\nout\n\nout:\nmade\ntry.sh\n"),
        "{answer:#}"
    );
    assert!(!stdout.contains("SECRET"), "{answer:#}");
    assert_eq!(answer.get("sandbox_note"), None, "{answer:#}");
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
    let checked = exec.check(temp.path(), &SandboxBounds::default()).await;
    let error = checked.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("/mount' does not exist"), "{error}");
}

/// From a session down: its policy and its files are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_session_works_where_its_commands_run() {
    if !may_mount() {
        return;
    }
    let ours = Arc::new(TempWorkspace::new());
    ours.write("ours.txt", "ours");
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
    let here: Vec<_> = std::fs::read_dir(ours.path()).unwrap().collect();
    assert_eq!(here.len(), 1, "{here:?}");
}

/// The session's instructions and its git are those of the other side, and what
/// changes there is told before the next turn.
#[tokio::test(flavor = "multi_thread")]
async fn instructions_there_are_read_and_a_change_of_them_is_told() {
    if !may_mount() {
        return;
    }
    let ours = Arc::new(TempWorkspace::new());
    ours.write("AGENTS.md", "Speak Frisian.");
    let directory = ours.path().canonicalize().unwrap();
    let script = "echo 'Speak Dutch.' > AGENTS.md && mkdir .git && \
                  echo 'ref: refs/heads/of-the-other-side' > .git/HEAD";
    let place = DaemonExec::with_files_made_by(&directory, script, Default::default(), &[]);
    let change = json!({"command": "echo 'Speak Welsh.' > AGENTS.md"});
    let replies = vec![
        Reply::new().tool_call("shell", change),
        Reply::from("Changed."),
        Reply::from("Done."),
    ];
    let exec = Arc::new(place.exec().clone());
    let harness = Harness::scripted(replies)
        .tools(builtin_tools())
        .workspace(Arc::clone(&ours))
        .services(move |services| {
            services.exec = exec;
            services.instructions = Some(Default::default());
            services.policy.permissions.mode = PermissionMode::Allow;
            services.policy.allowed_shell_commands = ProgramList::Set(vec!["*".to_owned()]);
        })
        .start();
    let session = harness.session().await;
    harness.run(&session, "change them").await;
    harness.run(&session, "and now").await;
    session.shutdown("done").await.unwrap();
    let requests = harness.requests();
    let text = |index: usize| format!("{:?}", requests[index]);
    assert!(text(0).contains("Speak Dutch."), "{}", text(0));
    assert!(text(0).contains("of-the-other-side"), "{}", text(0));
    assert!(text(2).contains("Speak Welsh."), "{}", text(2));
    assert!(!text(2).contains("Speak Frisian."), "{}", text(2));
}
