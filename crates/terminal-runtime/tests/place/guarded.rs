//! What holds commands at a runtime, and who is served by whom.

use std::sync::Arc;

use halter_tools::ExecBackend;
use halter_tools::PolicySettings;
use halter_tools::policy::{SandboxBounds, SandboxMode};
use serde_json::json;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};

use crate::common::TOKEN;
use crate::place::{DaemonExec, secure_target};
use crate::support::Workspace;

fn settings(sandbox: SandboxMode) -> PolicySettings {
    PolicySettings {
        sandbox,
        allowed_shell_commands: halter_policy::ProgramList::Set(vec!["*".to_owned()]),
        ..PolicySettings::default()
    }
}

/// Whether the kernel of this machine has what the sandbox is made of.
fn has_landlock() -> bool {
    let containment = halter_exec::Containment::new(halter_exec::ContainmentRung::Landlock);
    let works = halter_exec::probe_containment(&containment).is_ok();
    if !works {
        println!("skipped: needs Landlock");
    }
    works
}

#[tokio::test]
async fn commands_at_a_runtime_are_in_the_sandbox_of_their_session() {
    if !has_landlock() {
        return;
    }
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_exec(settings(SandboxMode::Prefer), place);
    // Not below `/tmp`, which this rung leaves writable.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = elsewhere.path().join("made");
    let tried = format!(
        "echo in > inside; echo out > {}; echo done",
        outside.display()
    );
    // The judge reads no scripts: this is the kernel.
    workspace.put("try.sh", tried);
    let answer = workspace.ok("shell", json!({"command": "sh try.sh"})).await;
    assert_eq!(answer["stdout"], "done\n", "{answer:#}");
    assert_eq!(workspace.get("inside"), "in\n");
    assert!(!outside.exists());
    let note = answer["sandbox_note"].as_str().unwrap();
    assert!(note.contains("does not hold"), "{note}");
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

/// What was approved to run outside does, without giving its state back.
#[tokio::test]
async fn a_command_that_was_let_out_of_the_sandbox_of_a_runtime_has_a_shell_of_its_own() {
    if !has_landlock() {
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
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_exec(settings(SandboxMode::Require), Arc::clone(&place) as _);
    let error = workspace
        .failure("shell", json!({"command": "touch ran"}))
        .await;
    assert!(error.contains("policy.sandbox = \"require\""), "{error}");
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
