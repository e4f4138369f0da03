//! Sessions of a harness that is gone.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use halter_tools::policy::SandboxMode;
use halter_tools::{ExecBackend, PolicySettings};
use serde_json::json;
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::client::{Client, Target};
use terminal_runtime::protocol::CreateParams;

use crate::common::{Daemon, until};
use crate::place::{IMAGE, processes_in};
use crate::support::Workspace;

/// Short, for a harness that is killed; renewed four times in it.
/// Long enough to be renewed by a program that a busy machine holds up.
const LEASE: Duration = Duration::from_secs(10);

const SOCKET: &str = "HALTER_TEST_LEASE_SOCKET";
const DIRECTORY: &str = "HALTER_TEST_LEASE_DIRECTORY";
const CONTAINER: &str = "HALTER_TEST_LEASE_CONTAINER";

/// What a killed harness was: a program of its own, which is this one.
#[tokio::test(flavor = "multi_thread")]
async fn harness_that_is_killed() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else {
        return;
    };
    let directory = std::env::var_os(DIRECTORY).map(PathBuf::from).unwrap();
    let mut settings = RuntimeExecSettings::default().with_lease(LEASE);
    if std::env::var_os(CONTAINER).is_some() {
        settings = settings.in_containers(IMAGE);
    }
    let exec: Arc<dyn ExecBackend> = Arc::new(RuntimeExec::new(Target::Socket(socket), settings));
    let policy = PolicySettings {
        sandbox: match std::env::var_os(CONTAINER) {
            Some(_) => SandboxMode::Prefer,
            None => SandboxMode::Off,
        },
        allowed_shell_commands: halter_policy::ProgramList::Set(vec!["*".to_owned()]),
        ..PolicySettings::default()
    };
    let workspace = Workspace::with_exec(policy, exec);
    std::fs::write(
        directory.join("workspace"),
        workspace.dir().as_os_str().as_encoded_bytes(),
    )
    .unwrap();
    let job = json!({"command": "touch job; sleep 1000", "background": true});
    workspace.ok("shell", job).await;
    let command = json!({"command": "touch command; sleep 1000", "timeout_ms": 600_000});
    workspace.ok("shell", command).await;
}

/// Starts it and waits until its commands run.
pub fn harness(daemon: &Daemon, container: bool) -> (Child, PathBuf) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", "lease::harness_that_is_killed"])
        .env(SOCKET, daemon.socket())
        .env(DIRECTORY, daemon.path(""))
        .stdout(Stdio::null());
    if container {
        command.env(CONTAINER, "1");
    }
    let child = command.spawn().unwrap();
    let told = daemon.path("workspace");
    let workspace = || std::fs::read_to_string(&told).ok().map(PathBuf::from);
    until("the commands run", || {
        let is_there = |path: PathBuf| path.join("job").exists() && path.join("command").exists();
        workspace().is_some_and(is_there)
    });
    (child, workspace().unwrap())
}

pub fn kill(mut harness: Child) {
    harness.kill().unwrap();
    harness.wait().unwrap();
}

#[test]
fn nothing_goes_on_for_a_harness_that_was_killed() {
    let daemon = Daemon::start();
    // Another client's session, which nobody has to renew.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = Client::socket(daemon.socket());
    let kept = runtime.block_on(client.create_session(&CreateParams::default()));
    let (harness, workspace) = harness(&daemon, false);
    assert!(!processes_in(&workspace).is_empty());
    kill(harness);
    let sessions = || runtime.block_on(client.sessions()).unwrap().sessions;
    until("the session ends", || sessions().len() == 1);
    assert_eq!(sessions()[0].session_id, kept.unwrap().session_id);
    until("all it ran ends", || processes_in(&workspace).is_empty());
    until("its holder ends", || daemon.holders().is_empty());
}

/// Nobody restarts the daemon: the holder sees to it.
#[test]
fn nothing_goes_on_when_harness_and_daemon_were_killed() {
    let daemon = Daemon::start();
    let (harness, workspace) = harness(&daemon, false);
    daemon.kill();
    kill(harness);
    until("all it ran ends", || processes_in(&workspace).is_empty());
    until("its holder ends", || daemon.holders().is_empty());
}

/// The harness renews on, also after the daemon was away.
#[test]
fn a_harness_that_lives_keeps_its_session_when_the_daemon_is_killed() {
    let daemon = Daemon::start();
    let (harness, workspace) = harness(&daemon, false);
    daemon.kill();
    daemon.spawn();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = Client::socket(daemon.socket());
    let sessions = || runtime.block_on(client.sessions()).unwrap().sessions;
    let [kept] = <[_; 1]>::try_from(sessions()).unwrap();
    // One with the same lease, that nobody renews.
    let other = CreateParams {
        lease_s: Some(LEASE.as_secs_f64()),
        ..CreateParams::default()
    };
    runtime.block_on(client.create_session(&other)).unwrap();
    until("the other session ends", || sessions().len() == 1);
    assert_eq!(sessions()[0].session_id, kept.session_id);
    assert!(!processes_in(&workspace).is_empty());
    kill(harness);
    until("all it ran ends", || processes_in(&workspace).is_empty());
}

/// The limits of a runtime for sessions that nobody may want any more, its own
/// and those of its user, do not end one that somebody renews.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_tools_goes_on_for_as_long_as_it_is_renewed() {
    let daemon = Daemon::start_with(&[
        ("TRL_SESSION_MAX_COMMANDS", "1"),
        ("TRL_MAX_IDLE_SEC", "1"),
        ("TRL_SESSION_TTL_SEC", "1"),
    ]);
    let target = Target::Socket(daemon.socket());
    let exec = RuntimeExec::new(target, RuntimeExecSettings::default());
    let workspace = Workspace::with_open_shell_in(Arc::new(exec));
    for command in ["variable=kept", "mkdir inside", "cd inside"] {
        workspace.ok("shell", json!({"command": command})).await;
    }
    // One without a lease, made later, is over by then.
    let client = Client::socket(daemon.socket());
    let other = client.create_session(&CreateParams::default()).await;
    let other = other.unwrap().session_id;
    let sessions = async || client.sessions().await.unwrap().sessions;
    while sessions().await.iter().any(|it| it.session_id == other) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let look = json!({"command": "echo $variable; pwd"});
    let answer = workspace.ok("shell", look).await;
    let inside = workspace.dir().join("inside");
    assert_eq!(answer["stdout"], format!("kept\n{}\n", inside.display()));
    assert_eq!(answer.get("note"), None, "{answer:#}");
    workspace.store.close().await;
}
