//! What commands in the background are told of their sandbox.

use crate::sandbox::{FETCH, OneName, open_shell, settings, sh, works};
use crate::support::Workspace;
use halter_tools::PolicySettings;
use halter_tools::policy::{NetworkSwitch, SandboxMode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writes where the kernel refuses it, and the judge cannot tell.
const ESCAPE: &str = "python3 -c 'open(\"/etc/halter-escaped\", \"w\")'";

/// Runs a command as a job, and returns what is said of it once it has ended.
async fn job(workspace: &Workspace, command: &str) -> Value {
    let call = json!({"command": command, "background": true});
    let started = workspace.ok("shell", call).await;
    let poll = json!({"action": "poll", "job_id": started["job_id"]});
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let answer = workspace.ok("process", poll.clone()).await;
        if answer["state"] == "ended" {
            return answer;
        }
        assert!(Instant::now() < deadline, "{answer}");
    }
}

/// The same in a terminal.
#[cfg(feature = "pty")]
async fn in_terminal(workspace: &Workspace, command: &str) -> Value {
    let start = json!({
        "action": "start", "command": command,
        "wait_for": "never to be seen", "timeout_ms": 60_000,
    });
    let started = workspace.ok("pty", start).await;
    assert_eq!(started["state"], "ended", "{started}");
    let read = json!({"action": "read", "terminal_id": started["terminal_id"]});
    workspace.ok("pty", read).await
}

/// Whether what a failed command was told names the sandbox and what it refused.
fn names_refusal(told: &Value) -> bool {
    let note = told["sandbox_note"].as_str().unwrap_or_default();
    ["sandbox (namespaces)", "Read-only file system"]
        .iter()
        .all(|part| note.contains(part))
}

#[tokio::test]
async fn a_failed_job_is_told_what_its_sandbox_refused() {
    let Some(workspace) = open_shell() else {
        return;
    };
    let refused = job(&workspace, ESCAPE).await;
    let listed = workspace.ok("process", json!({"action": "list"})).await;
    for told in [&refused, &listed["jobs"][0]] {
        assert!(names_refusal(told), "{told}");
    }
    let said = job(&workspace, "echo Read-only file system").await;
    assert_eq!(said.get("sandbox_note"), None, "{said}");
    workspace.store.close().await;
}

#[cfg(feature = "pty")]
#[tokio::test]
async fn a_failed_terminal_is_told_what_its_sandbox_refused() {
    let Some(workspace) = open_shell() else {
        return;
    };
    let refused = in_terminal(&workspace, ESCAPE).await;
    assert!(names_refusal(&refused), "{refused}");
    let said = in_terminal(&workspace, "echo Read-only file system").await;
    assert_eq!(said.get("sandbox_note"), None, "{said}");
    workspace.store.close().await;
}

/// A session that reaches one host, by name.
fn with_network() -> Workspace {
    let mut workspace = Workspace::with_settings(PolicySettings {
        network: NetworkSwitch::On,
        allowed_hosts: vec!["files.test".into()],
        ..settings(SandboxMode::Prefer, &["*"])
    });
    workspace.resolve_by(Arc::new(OneName("files.test")));
    workspace
}

fn fetch(host: &str) -> String {
    format!("{FETCH} http://{host}/")
}

/// Whether a command was told that this host was refused, and of no other.
fn names_host(answer: &Value, host: &str) -> bool {
    let refused = answer["network_refused"].as_array();
    let only = refused
        .filter(|it| it.len() == 1)
        .and_then(|it| it[0].as_str());
    only.is_some_and(|it| it.contains(host) && it.contains("rule network.host"))
}

#[tokio::test]
async fn hosts_refused_to_a_job_are_told_with_it_and_with_no_other_command() {
    if !works("namespaces") || !crate::place::filters_hosts() {
        return;
    }
    let workspace = with_network();
    let answer = job(&workspace, &fetch("job.test")).await;
    assert!(names_host(&answer, "job.test"), "{answer}");
    // Commands in the shell hear of their own only, and jobs not of theirs.
    assert_eq!(sh(&workspace, "true").await.get("network_refused"), None);
    let answer = sh(&workspace, &fetch("shell.test")).await;
    assert!(names_host(&answer, "shell.test"), "{answer}");
    let listed = workspace.ok("process", json!({"action": "list"})).await;
    assert!(names_host(&listed["jobs"][0], "job.test"), "{listed}");
    workspace.store.close().await;
}

#[cfg(feature = "pty")]
#[tokio::test]
async fn hosts_refused_to_a_terminal_are_told_with_it() {
    if !works("namespaces") || !crate::place::filters_hosts() {
        return;
    }
    let workspace = with_network();
    let answer = in_terminal(&workspace, &fetch("terminal.test")).await;
    assert!(names_host(&answer, "terminal.test"), "{answer}");
    assert_eq!(sh(&workspace, "true").await.get("network_refused"), None);
    workspace.store.close().await;
}
