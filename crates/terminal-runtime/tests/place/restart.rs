//! A runtime that is killed, restarted, gone or old while tools use it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use halter_protocol::{PermissionMode, SessionEventPayload, ToolResult};
use halter_testkit::{Harness, Reply, TempWorkspace};
use halter_tools::{ExecBackend, builtin_tools};
use serde_json::{Value, json};
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::client::Target;

use crate::place::DaemonExec;
use crate::support::{Workspace, eventually};

/// How often the runtime is killed.
const KILLS: usize = 50;

/// How often in one turn, so that each ends in time on a busy machine.
const KILLS_IN_A_TURN: usize = 5;

/// Prints, waits until it may go on, prints again, and leaves a line behind
/// each time it is run.
fn command(number: usize) -> String {
    format!(
        "echo {number} >> ran; seq 1 2000; touch at-{number}; \
         while [ ! -e go-{number} ]; do sleep 0.01; done; seq 2001 4000; sh -c 'exit {}'",
        number % 7
    )
}

fn whole_output() -> String {
    (1..=4000).map(|line| format!("{line}\n")).collect()
}

/// The command's outcome is known and its output complete, however often the
/// runtime dies while it runs; and no command runs twice.
#[tokio::test]
async fn a_runtime_that_is_killed_in_the_middle_of_a_turn_loses_nothing() {
    let place = Arc::new(DaemonExec::start());
    let exec: Arc<dyn ExecBackend> = Arc::clone(&place) as _;
    let mut replies = Vec::new();
    for number in 0..KILLS {
        replies.push(Reply::new().tool_call("shell", json!({"command": command(number)})));
        if (number + 1) % KILLS_IN_A_TURN == 0 {
            replies.push(Reply::from("done"));
        }
    }
    let workspace = Arc::new(TempWorkspace::new());
    let harness = Harness::scripted(replies)
        .tools(builtin_tools())
        .workspace(Arc::clone(&workspace))
        .services(move |services| {
            services.exec = exec;
            services.policy.permissions.mode = PermissionMode::Allow;
            services.policy.allowed_shell_commands =
                halter_policy::ProgramList::Set(vec!["*".to_owned()]);
            services.base_environment =
                Arc::new([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())].into());
        })
        .start();
    let directory = workspace.path().to_owned();
    let kill = async |number: usize| {
        let at = directory.join(format!("at-{number}"));
        eventually("the command runs", || at.exists()).await;
        let place = Arc::clone(&place);
        tokio::task::spawn_blocking(move || {
            place.daemon().kill();
            place.daemon().spawn();
        })
        .await
        .unwrap();
        std::fs::write(directory.join(format!("go-{number}")), "").unwrap();
    };
    let session = harness.session().await;
    let mut results = Vec::new();
    for turn in 0..KILLS / KILLS_IN_A_TURN {
        let kills = async {
            for number in turn * KILLS_IN_A_TURN..(turn + 1) * KILLS_IN_A_TURN {
                kill(number).await;
            }
        };
        let (events, ()) = tokio::join!(harness.run(&session, "go"), kills);
        for event in &events {
            if let SessionEventPayload::ToolExecutionCompleted { outcome } = &event.payload {
                match &*outcome.result.clone().unwrap() {
                    ToolResult::Json { value } => results.push(value.clone()),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert_eq!(results.len(), KILLS);
    for (number, value) in results.iter().enumerate() {
        assert_eq!(value["exit_code"], number % 7, "{number}: {value:#}");
        assert_eq!(value["stdout"], whole_output(), "{number}");
        assert_eq!(value.get("note"), None, "{number}");
    }
    let ran = std::fs::read_to_string(workspace.path().join("ran")).unwrap();
    let expected: String = (0..KILLS).map(|number| format!("{number}\n")).collect();
    assert_eq!(ran, expected);
    session.shutdown("done").await.unwrap();
}

fn exec_at(socket: &Path) -> Arc<dyn ExecBackend> {
    let target = Target::Socket(socket.to_owned());
    Arc::new(RuntimeExec::new(target, RuntimeExecSettings::default()))
}

#[tokio::test]
async fn a_runtime_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("none.sock");
    let workspace = Workspace::with_open_shell_in(exec_at(&socket));
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(error.contains("no runtime at"), "{error}");
    assert!(error.contains("none.sock"), "{error}");
}

/// A runtime that knows no directories of commands would run them elsewhere.
#[tokio::test]
async fn a_runtime_that_is_too_old_is_refused_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("old.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let old = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        let request: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(request["method"], "hello");
        let answer = json!({
            "id": request["id"], "ok": true, "data": {"version": "0.0.1", "frames": false},
        });
        writeln!(&stream, "{answer}").unwrap();
        let mut more = String::new();
        BufReader::new(&stream).read_line(&mut more).unwrap();
        more
    });
    let workspace = Workspace::with_open_shell_in(exec_at(&socket));
    let error = workspace.failure("shell", json!({"command": "true"})).await;
    assert!(error.contains("too old"), "{error}");
    drop(workspace);
    assert_eq!(old.join().unwrap(), "");
}

/// A runtime that was restarted in peace has ended its sessions: the next
/// command runs, in a new shell, and says so.
#[tokio::test]
async fn a_runtime_that_was_restarted_serves_on_with_a_new_shell() {
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_open_shell_in(Arc::clone(&place) as _);
    let set = json!({"command": "mkdir inside; cd inside; variable=1"});
    workspace.ok("shell", set).await;
    let restarted = Arc::clone(&place);
    tokio::task::spawn_blocking(move || {
        restarted.daemon().terminate();
        restarted.daemon().spawn();
    })
    .await
    .unwrap();
    let after = json!({"command": "echo \"$variable.$PWD\""});
    let answer = workspace.ok("shell", after).await;
    let expected = format!(".{}\n", workspace.dir().display());
    assert_eq!(answer["stdout"], expected);
    let note = answer["note"].as_str().unwrap();
    assert!(note.contains("restarted"), "{note}");
    workspace.store.close().await;
}

/// A runtime that ends while a command runs takes the command with it: what
/// became of it is not known, and it is not run again.
#[tokio::test]
async fn a_command_whose_runtime_ended_has_an_unknown_outcome_and_runs_once() {
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_open_shell_in(Arc::clone(&place) as _);
    let directory = workspace.dir();
    let ended = async {
        eventually("the command runs", || directory.join("ran").exists()).await;
        let place = Arc::clone(&place);
        tokio::task::spawn_blocking(move || {
            place.daemon().terminate();
            place.daemon().spawn();
        })
        .await
        .unwrap();
    };
    let run = workspace.call("shell", json!({"command": "echo x >> ran; sleep 1000"}));
    let (result, ()) = tokio::join!(run, ended);
    // A runtime that ends in peace cancels what runs, and may still say so.
    match result {
        Ok(value) => assert_eq!(value["cancelled"], true, "{value:#}"),
        Err(error) => assert!(error.message.contains("unknown"), "{}", error.message),
    }
    assert_eq!(workspace.get("ran"), "x\n");
    workspace.store.close().await;
}
