//! What holds commands at a runtime, and who is served by whom.

use std::path::Path;
use std::sync::Arc;

use halter_tools::ExecBackend;
use halter_tools::PolicySettings;
use halter_tools::policy::{NetworkSwitch, SandboxBounds, SandboxMode};
use serde_json::json;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};

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
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_exec(settings(SandboxMode::Require), place);
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
    let checked = place.check(&bounds(SandboxMode::Require)).await;
    assert!(checked.unwrap_err().to_string().contains("does not hold"));
    let lacks = place.check(&bounds(SandboxMode::Prefer)).await.unwrap();
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
    workspace.put("try.sh", escapes(&outside));
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert!(!outside.exists(), "{answer:#}");
    let note = answer["sandbox_note"].as_str().unwrap();
    assert!(note.contains("does not hold"), "{note}");
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
    let Some(stranger) = Stranger::listen().await else {
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
    let checked = exec.check(&SandboxBounds::default()).await.unwrap_err();
    assert!(
        checked.to_string().contains("has not answered within 30 s"),
        "{checked}"
    );
    let workspace = Workspace::with_open_shell_in(exec);
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(error.contains("has not answered"), "{error}");
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
    assert!(
        error.contains("cannot") || error.contains("does not"),
        "{error}"
    );
}
