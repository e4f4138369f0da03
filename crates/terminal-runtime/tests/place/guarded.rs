//! What holds commands at a runtime, and who is served by whom.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halter_tools::exec::{Environment, ExecCommand, ExecSessionSpec};
use halter_tools::policy::{NetworkSwitch, SandboxBounds, SandboxMode};
use halter_tools::{ExecBackend, PolicySettings, ScratchDir};
use serde_json::json;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::protocol::{CreateParams, ExecParams, SandboxParams};
use tokio_util::sync::CancellationToken;

use crate::common::TOKEN;
use crate::place::{DaemonExec, Stranger, secure_target};
use crate::support::Workspace;

fn settings(sandbox: SandboxMode) -> PolicySettings {
    PolicySettings {
        sandbox,
        allowed_shell_commands: halter_policy::ProgramList::Set(vec!["*".to_owned()]),
        ..PolicySettings::default()
    }
}

/// A runtime that may not make name spaces: in a user namespace of its own
/// that allows none.
fn without_namespaces() -> Arc<DaemonExec> {
    let script = "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"";
    Arc::new(DaemonExec::start_by(&[
        "unshare", "-Ur", "sh", "-c", script, "sh",
    ]))
}

/// A script that the judge does not read, so that the kernel has to refuse.
fn escapes(outside: &Path) -> String {
    format!(
        "echo in > inside\necho out > {}\necho kept > .git/config\nls /tmp/marker-of-the-test*\n\
         echo done\n",
        outside.display()
    )
}

#[tokio::test]
async fn commands_at_a_runtime_are_in_the_sandbox_of_their_session() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    in_its_sandbox(DaemonExec::start()).await;
}

/// The address of this machine leads to this machine: the same files, the same
/// sandbox, the same variables.
#[tokio::test]
async fn a_runtime_of_this_machine_behind_tls_holds_the_same_sandbox() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    in_its_sandbox(DaemonExec::secure()).await;
}

async fn in_its_sandbox(place: DaemonExec) {
    let place = Arc::new(place);
    let workspace = Workspace::with_exec(settings(SandboxMode::Require), Arc::clone(&place) as _);
    let bounds = workspace.policy.sandbox(None);
    let lacks = place.check(&workspace.dir(), &bounds).await.unwrap();
    assert!(
        !lacks.iter().any(|it| it.contains("does not hold")),
        "{lacks:#?}"
    );
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = elsewhere.path().join("made");
    let seen = tempfile::Builder::new()
        .prefix("marker-of-the-test")
        .tempfile_in("/tmp")
        .unwrap();
    workspace.put(".git/config", "[core]\n");
    workspace.put("try.sh", escapes(&outside));
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert_eq!(answer["stdout"], "done\n", "{answer:#}");
    assert_eq!(workspace.get("inside"), "in\n");
    assert_eq!(workspace.get(".git/config"), "[core]\n");
    assert!(!outside.exists() && seen.path().exists());
    assert_eq!(answer.get("sandbox_note"), None, "{answer:#}");
    // Background commands are in it as well, and the shell keeps its state.
    let job = json!({"command": "sh try.sh", "background": true});
    let job = workspace.ok("shell", job).await;
    crate::place::job_ended(&workspace, &job["job_id"]).await;
    assert!(!outside.exists());
    workspace
        .ok("shell", json!({"command": "mkdir -p a && cd a"}))
        .await;
    let answer = workspace.ok("shell", json!({"command": "pwd"})).await;
    let expected = format!("{}\n", workspace.dir().join("a").display());
    assert_eq!(answer["stdout"], expected);
    workspace.store.close().await;
}

/// As in a sandbox of local commands: what can only be read can be connected to.
#[tokio::test]
async fn sockets_of_other_programs_are_out_of_reach_at_a_runtime() {
    if !crate::sandbox::works("namespaces") || !Path::new("/usr/bin/perl").exists() {
        return println!("skipped: needs name spaces and perl");
    }
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let socket = elsewhere.path().canonicalize().unwrap().join("s");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let place = Arc::new(DaemonExec::start());
    let connect = format!(
        "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); \
         print connect(S, sockaddr_un(shift)) ? \"reached\" : \"kept\"' {}",
        socket.display()
    );
    for (mode, expected) in [
        (SandboxMode::Off, "reached"),
        (SandboxMode::Require, "kept"),
    ] {
        let workspace = Workspace::with_exec(settings(mode), Arc::clone(&place) as _);
        workspace.put("try.sh", &connect);
        let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
        assert_eq!(answer["stdout"], expected, "{answer:#}");
        workspace.store.close().await;
    }
}

/// The holder has the name spaces, so a killed daemon takes nothing with it.
#[tokio::test]
async fn a_sandbox_of_name_spaces_outlives_a_daemon_that_is_killed() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_exec(settings(SandboxMode::Require), Arc::clone(&place) as _);
    workspace.put("begin.sh", "echo fresh > /tmp/own\n");
    let begin = json!({"command": "variable=kept; sh begin.sh"});
    workspace.ok("shell", begin).await;
    let killed = Arc::clone(&place);
    tokio::task::spawn_blocking(move || {
        killed.daemon().kill();
        killed.daemon().spawn();
    })
    .await
    .unwrap();
    workspace.put("try.sh", "touch /etc/halter-escaped; cat /tmp/own\n");
    let answer = workspace
        .ok("shell", json!({"command": "echo $variable; sh try.sh"}))
        .await;
    assert_eq!(answer["stdout"], "kept\nfresh\n", "{answer:#}");
    assert!(!Path::new("/etc/halter-escaped").exists());
    // Nothing is left in the place of what is protected.
    workspace.store.close().await;
    assert!(!workspace.dir().join(".git").exists());
    let holders = || place.daemon().holders().is_empty();
    crate::support::eventually("the holder ends", holders).await;
}

/// What a session of the runtime covered once is covered again after somebody
/// outside has replaced it, and what a command makes is covered for the next one.
/// The shell keeps its state, and nothing of it is run anew.
pub async fn is_covered_again(workspace: &Workspace) {
    let replace = |name: &str, text: &str| {
        workspace.put("new", text);
        std::fs::rename(workspace.dir().join("new"), workspace.dir().join(name)).unwrap();
    };
    workspace.put(".env", "s3cret");
    // Scripts, which the judge does not read.
    workspace.put(
        "try.sh",
        "exec 2>&-; cd \"$1\"; echo evil >> .git/config; mv .git gone; cat .env; echo done\n",
    );
    workspace.put(
        "make.sh",
        "mkdir -p sub/.git/hooks; echo '[core]' > sub/.git/config\n\
         echo 'ref: refs/heads/main' > sub/.git/HEAD; mkdir -p within/.git/hooks\n",
    );
    let shell = async |command: &str| {
        let answer = workspace.ok("shell", json!({"command": command})).await;
        assert_eq!(answer.get("note"), None, "{answer:#}");
        answer
    };
    let before = workspace.get(".git/config");
    let answer = shell("v=kept; sh try.sh .").await;
    assert_eq!(answer["stdout"], "done\n", "{answer:#}");
    assert_eq!(workspace.get(".git/config"), before);
    for round in 0..2 {
        // As git and editors do it.
        let text = format!("{before}# {round}\n");
        replace(".git/config", &text);
        replace(".env", "s3cret of late");
        let answer = shell("sh try.sh .; echo $v").await;
        assert_eq!(answer["stdout"], "done\nkept\n", "{answer:#}");
        assert_eq!(workspace.get(".git/config"), text);
    }
    // A command in the background is one, too.
    replace(".git/config", &before);
    let job = json!({"command": "sh try.sh .", "background": true});
    let job = workspace.ok("shell", job).await;
    crate::place::job_ended(workspace, &job["job_id"]).await;
    assert_eq!(workspace.get(".git/config"), before);
    let made = shell("sh make.sh; cd sub").await;
    let note = made["sandbox_note"].as_str().unwrap_or_default();
    assert!(note.contains("protected for the next one"), "{made:#}");
    assert!(note.contains("sub/.git"), "{made:#}");
    // Also for a shell that is within what is covered.
    let answer = shell("sh ../try.sh .; sh ../try.sh ../within; echo $v").await;
    assert_eq!(answer["stdout"], "done\ndone\nkept\n", "{answer:#}");
    assert_eq!(workspace.get("sub/.git/config"), "[core]\n");
    assert!(!workspace.dir().join("sub/gone").exists());
    workspace.store.close().await;
    // Nothing is left in the place of what is protected.
    assert!(!workspace.dir().join("sub/.git/commondir").exists());
}

#[tokio::test]
async fn what_is_replaced_or_made_is_covered_for_the_next_command_at_a_runtime() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_exec(settings(SandboxMode::Require), Arc::clone(&place) as _);
    workspace.put(".git/config", "[core]\n");
    workspace.put(".git/HEAD", "ref: refs/heads/main\n");
    is_covered_again(&workspace).await;
}

/// What cannot be covered keeps everything from running, and is told by a name.
#[tokio::test]
async fn nothing_runs_while_something_new_cannot_be_covered() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    let place = DaemonExec::start();
    let work = tempfile::tempdir().unwrap();
    let work = work.path().canonicalize().unwrap();
    let client = terminal_runtime::client::Client::socket(place.daemon().socket());
    let sandbox = SandboxParams {
        writable: vec![work.to_str().unwrap().to_owned()],
        namespaces: true,
        ..SandboxParams::default()
    };
    let session = CreateParams {
        working_dir: Some(work.to_str().unwrap().to_owned()),
        sandbox: Some(sandbox),
        ..CreateParams::default()
    };
    let session = client.create_session(&session).await.unwrap();
    let order = ExecParams {
        session_id: session.session_id,
        command: Some("touch ran".to_owned()),
        // There can be no such name, and so nothing in its place.
        protect: vec![work.join("x".repeat(300)).to_str().unwrap().to_owned()],
        ..ExecParams::default()
    };
    match client.run(&order).await {
        Err(terminal_runtime::client::ClientError::Refused(error)) => {
            assert_eq!(error.reason.as_deref(), Some("not_covered"), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!work.join("ran").exists());
}

/// A sandbox that has ended, here since somebody killed its first process, covers
/// nothing: the next command gets another one, and says so.
#[tokio::test]
async fn a_sandbox_that_covers_nothing_any_more_is_made_anew() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_exec(settings(SandboxMode::Require), Arc::clone(&place) as _);
    workspace.put(".git/config", "[core]\n");
    workspace.put("try.sh", "echo evil >> .git/config; echo done\n");
    workspace.ok("shell", json!({"command": "v=lost"})).await;
    let holders = place.daemon().holders();
    let first = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut processes = processes.map(|process| process.path());
        processes.find(|process| {
            let read = |name: &str| std::fs::read_to_string(process.join(name));
            let stat = read("stat").unwrap_or_default();
            let parent = stat
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.split(' ').nth(1));
            let parent = parent.and_then(|parent| parent.parse().ok());
            parent.is_some_and(|parent| holders.contains(&parent))
                && read("cmdline").is_ok_and(|words| words.starts_with("sandbox-init"))
        })
    };
    let process = first().expect("the first process of the sandbox");
    let number = process.file_name().unwrap().to_str().unwrap();
    let number = rustix::process::Pid::from_raw(number.parse().unwrap()).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
    crate::support::eventually("it is gone", || !process.exists()).await;
    let command = json!({"command": "echo ${v-none}; sh try.sh"});
    let answer = workspace.ok("shell", command).await;
    assert_eq!(answer["stdout"], "none\ndone\n", "{answer:#}");
    let note = answer["note"].as_str().unwrap();
    assert!(note.contains("restarted"), "{answer:#}");
    assert_eq!(workspace.get(".git/config"), "[core]\n");
    workspace.store.close().await;
}

/// Said before a session starts, and by `doctor`.
#[tokio::test]
async fn what_commands_may_use_at_a_runtime_is_named() {
    let limits = [("TRL_CHILD_NPROC", "64"), ("TRL_CHILD_CPU_SEC", "5")];
    let daemon = crate::common::Daemon::start_with(&limits);
    let exec = remote(terminal_runtime::client::Target::Socket(daemon.socket()));
    let directory = tempfile::tempdir().unwrap();
    let bounds = SandboxBounds::default();
    let lacks = exec.check(directory.path(), &bounds).await.unwrap();
    let said = |part: &str| lacks.iter().any(|it| it.contains(part));
    assert!(
        said("64 processes at a time, 5 s of CPU time"),
        "{lacks:#?}"
    );
    assert!(said("does not limit there: memory"), "{lacks:#?}");
}

/// What the list of hosts is for does not hold there, which is said.
#[tokio::test]
async fn a_required_list_of_hosts_is_refused_by_a_runtime_that_has_no_proxy() {
    let place = Arc::new(DaemonExec::start());
    let network = |mode| PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: vec!["files.test".into()],
        ..settings(mode)
    };
    let required = network(SandboxMode::Require);
    let workspace = Workspace::with_exec(required, Arc::clone(&place) as _);
    let error = workspace
        .failure("shell", json!({"command": "touch ran"}))
        .await;
    assert!(error.contains("the list of hosts"), "{error}");
    assert!(!workspace.dir().join("ran").exists());
    let preferred = network(SandboxMode::Prefer);
    let workspace = Workspace::with_exec(preferred, Arc::clone(&place) as _);
    let answer = workspace.ok("shell", json!({"command": "touch ran"})).await;
    let note = answer["sandbox_note"].as_str().unwrap();
    assert!(note.contains("the list of hosts"), "{note}");
    workspace.store.close().await;
}

/// What was approved to run outside does, without giving its state back.
#[tokio::test]
async fn a_command_that_was_let_out_of_the_sandbox_of_a_runtime_has_a_shell_of_its_own() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_exec(settings(SandboxMode::Prefer), place);
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = elsewhere.path().join("made");
    workspace.put("try.sh", format!("echo out > {}", outside.display()));
    let kept = json!({"command": "mkdir -p a && cd a && variable=kept"});
    workspace.ok("shell", kept).await;
    let call = json!({"command": "sh ../try.sh; pwd; variable=lost", "outside_sandbox": true});
    let answer = workspace.ok("shell", call).await;
    let inside = format!("{}\n", workspace.dir().join("a").display());
    assert_eq!(answer["stdout"], inside, "{answer:#}");
    assert!(outside.exists());
    let note = answer["sandbox_note"].as_str().unwrap();
    assert!(note.contains("outside the sandbox"), "{note}");
    let after = json!({"command": "echo $variable"});
    assert_eq!(workspace.ok("shell", after).await["stdout"], "kept\n");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_policy_that_requires_a_sandbox_refuses_a_runtime_without_one() {
    if !crate::sandbox::works("namespaces") {
        return;
    }
    let place = without_namespaces();
    let workspace = Workspace::with_exec(settings(SandboxMode::Require), Arc::clone(&place) as _);
    let error = workspace
        .failure("shell", json!({"command": "touch ran"}))
        .await;
    assert!(error.contains("policy.sandbox = \"require\""), "{error}");
    assert!(error.contains("namespaces: "), "{error}");
    assert!(!workspace.dir().join("ran").exists());
    let bounds = |mode| SandboxBounds {
        mode,
        ..SandboxBounds::default()
    };
    let checked = place
        .check(&workspace.dir(), &bounds(SandboxMode::Require))
        .await;
    assert!(checked.unwrap_err().to_string().contains("does not hold"));
    let lacks = place
        .check(&workspace.dir(), &bounds(SandboxMode::Prefer))
        .await
        .unwrap();
    assert!(
        lacks.iter().any(|it| it.contains("does not hold")),
        "{lacks:?}"
    );
    // Where it is only preferred, the next rung holds what it can, and says so.
    if !crate::sandbox::works("landlock_and_seccomp") {
        return;
    }
    let workspace = Workspace::with_exec(settings(SandboxMode::Prefer), Arc::clone(&place) as _);
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = elsewhere.path().join("made");
    workspace.put(".git/config", "[core]\n");
    workspace.put("try.sh", escapes(&outside));
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert!(!outside.exists(), "{answer:#}");
    let note = answer["sandbox_note"].as_str().unwrap();
    assert!(note.contains("does not hold"), "{note}");
    // What it says of changes is true.
    let says = "changes are reported after each command";
    assert!(note.contains(says), "{note}");
    assert!(note.contains("protected files were changed"), "{note}");
    assert!(note.contains(".git/config"), "{note}");
    let answer = workspace.ok("shell", json!({"command": "true"})).await;
    let note = answer["sandbox_note"].as_str().unwrap();
    assert!(!note.contains("were changed"), "{note}");
    workspace.store.close().await;
}

fn remote(target: terminal_runtime::client::Target) -> Arc<dyn ExecBackend> {
    Arc::new(RuntimeExec::new(target, RuntimeExecSettings::default()))
}

#[tokio::test]
async fn a_runtime_behind_tls_serves_who_trusts_it_and_has_its_token() {
    let daemon = DaemonExec::secure_daemon();
    let command = json!({"command": "echo secure"});
    let trusted = remote(secure_target(&daemon, TOKEN, "ca.pem"));
    let workspace = Workspace::with_open_shell_in(trusted);
    let answer = workspace.ok("shell", command.clone()).await;
    assert_eq!(answer["stdout"], "secure\n");
    workspace.store.close().await;
    // A token that is no longer the runtime's, and a runtime nobody vouches for.
    let expired = remote(secure_target(&daemon, "an-older-token", "ca.pem"));
    let workspace = Workspace::with_open_shell_in(expired);
    let error = workspace.failure("shell", command.clone()).await;
    assert!(error.contains("token"), "{error}");
    assert!(!error.contains("an-older-token"), "{error}");
    let stranger = remote(secure_target(&daemon, TOKEN, "server.pem"));
    let workspace = Workspace::with_open_shell_in(stranger);
    let error = workspace.failure("shell", command).await;
    assert!(error.contains("certificate"), "{error}");
}

/// The token was changed while a session was at work.
#[tokio::test]
async fn a_token_that_expired_is_said_and_nothing_runs() {
    let place = Arc::new(DaemonExec::secure());
    let workspace = Workspace::with_open_shell_in(Arc::clone(&place) as _);
    workspace.ok("shell", json!({"command": "true"})).await;
    place.daemon().keep_http();
    place
        .daemon()
        .set("TRL_AUTH_TOKEN", "t0ken-that-came-later");
    let changed = Arc::clone(&place);
    tokio::task::spawn_blocking(move || {
        changed.daemon().kill();
        changed.daemon().spawn();
    })
    .await
    .unwrap();
    let error = workspace
        .failure("shell", json!({"command": "touch ran"}))
        .await;
    assert!(error.contains("token"), "{error}");
    assert!(!error.contains(TOKEN), "{error}");
    assert!(!workspace.dir().join("ran").exists());
}

/// Whoever listens there as another user is not told a command.
#[tokio::test]
async fn somebody_elses_runtime_is_told_nothing() {
    let Some(stranger) = Stranger::listen() else {
        return;
    };
    let workspace = Workspace::with_open_shell_in(remote(stranger.target()));
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(error.contains("nothing was sent"), "{error}");
    assert_eq!(stranger.heard(), b"");
}

/// A runtime that takes connections and says nothing.
#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_answer_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let exec = remote(terminal_runtime::client::Target::Socket(socket));
    let checked = exec
        .check(directory.path(), &SandboxBounds::default())
        .await;
    let checked = checked.unwrap_err();
    assert!(
        checked.to_string().contains("has not answered within 30 s"),
        "{checked}"
    );
    let workspace = Workspace::with_open_shell_in(exec);
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(error.contains("has not answered"), "{error}");
}

/// Whoever cancels a call does not wait for a runtime that says nothing, or for
/// a container that is being made.
#[tokio::test]
async fn a_call_that_is_cancelled_before_it_begins_ends_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("silent.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let exec = remote(terminal_runtime::client::Target::Socket(socket));
    let session = exec.open(ExecSessionSpec::new(
        directory.path(),
        Environment::new(),
        Arc::new(ScratchDir::new(directory.path().join("scratch"))),
    ));
    let cancel = CancellationToken::new();
    let asked = cancel.clone();
    tokio::task::spawn_blocking(move || {
        // It was asked something.
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
        asked.cancel();
        stream.read_to_end(&mut Vec::new())
    });
    let command = ExecCommand::new("true", Duration::from_secs(600));
    let begun = Instant::now();
    let ran = session.run(command, &cancel, &|_| {}).await;
    let error = ran.unwrap_err().to_string();
    assert!(error.contains("cancelled"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    session.close().await;
}

/// A runtime with other files: its commands would work on those, and tools on
/// ours.
#[tokio::test]
async fn a_runtime_with_other_files_is_refused() {
    let daemon = DaemonExec::secure_daemon();
    let exec = remote(secure_target(&daemon, TOKEN, "ca.pem"));
    let workspace = Workspace::with_open_shell_in(exec);
    // As if the directory over there were another one: it is not there at all.
    std::fs::remove_dir_all(workspace.dir()).unwrap();
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(error.contains("cannot work in"), "{error}");
}
