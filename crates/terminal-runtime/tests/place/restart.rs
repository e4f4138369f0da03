//! A runtime that is killed, restarted, gone or old while tools use it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use halter_exec::Signal;
use halter_exec::host::PidFd;
use halter_protocol::{PermissionMode, SessionEventPayload, ToolResult};
use halter_testkit::{Harness, Reply, TempWorkspace};
use halter_tools::policy::SandboxMode;
use halter_tools::{ExecBackend, PolicySettings, builtin_tools};
use serde_json::{Value, json};
use terminal_runtime::backend::{RuntimeExec, RuntimeExecSettings};
use terminal_runtime::client::{Client, OutputEvent, Target};
use terminal_runtime::protocol::{CreateParams, ExecParams, Variables, WaitParams};

use crate::engine::engine;
use crate::place::{DaemonExec, may_mount};
use crate::support::{Workspace, eventually};

/// How often the runtime is killed.
const KILLS: usize = 50;

/// How often where a command takes longer.
const KILLS_ELSEWHERE: usize = 10;

/// How often in one turn, so that each ends in time on a busy machine.
const KILLS_IN_A_TURN: usize = 5;

/// Prints, waits until it may go on, prints again, and leaves a line behind
/// each time it is run.
fn command(number: usize) -> String {
    format!(
        "echo {number} >> ran; touch begun-{number}; seq 1 2000; touch at-{number}; \
         while [ ! -e go-{number} ]; do sleep 0.01; done; seq 2001 4000; touch end-{number}; \
         sh -c 'exit {}'",
        number % 7
    )
}

fn whole_output() -> String {
    (1..=4000).map(|line| format!("{line}\n")).collect()
}

/// The command's outcome is known and its output complete, whenever the runtime
/// dies while it runs; and no command runs twice.
#[tokio::test]
async fn a_runtime_that_is_killed_in_the_middle_of_a_turn_loses_nothing() {
    killed_often(DaemonExec::start(), KILLS).await;
}

#[tokio::test]
async fn a_runtime_behind_tls_that_is_killed_loses_nothing() {
    let place = DaemonExec::secure();
    place.daemon().keep_http();
    killed_often(place, KILLS_ELSEWHERE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_with_containers_that_is_killed_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    if let Some(program) = engine(directory.path()) {
        killed_often(DaemonExec::with_containers(&program), KILLS_ELSEWHERE).await;
    }
}

/// Kills the runtime once for each command: when that has just begun, while it
/// prints, or when it has just printed its last line.
async fn killed_often(place: DaemonExec, kills: usize) {
    let place = Arc::new(place);
    let exec: Arc<dyn ExecBackend> = Arc::clone(&place) as _;
    let mut replies = Vec::new();
    for number in 0..kills {
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
            services.policy.sandbox = SandboxMode::Prefer;
            services.policy.permissions.mode = PermissionMode::Allow;
            services.policy.allowed_shell_commands =
                halter_policy::ProgramList::Set(vec!["*".to_owned()]);
            services.base_environment =
                Arc::new([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())].into());
        })
        .start();
    let directory = workspace.path().to_owned();
    let kill = async |number: usize| {
        let file = |name: &str| directory.join(format!("{name}-{number}"));
        let moment = match number % 3 {
            0 => "begun",
            1 => "at",
            _ => "end",
        };
        if moment == "end" {
            std::fs::write(file("go"), "").unwrap();
        }
        eventually("the command is there", || file(moment).exists()).await;
        if moment == "at" {
            // It prints while the runtime dies.
            std::fs::write(file("go"), "").unwrap();
        }
        let place = Arc::clone(&place);
        tokio::task::spawn_blocking(move || {
            place.daemon().kill();
            place.daemon().spawn();
        })
        .await
        .unwrap();
        std::fs::write(file("go"), "").unwrap();
    };
    let session = harness.session().await;
    let mut results = Vec::new();
    for turn in 0..kills / KILLS_IN_A_TURN {
        let all = async {
            for number in turn * KILLS_IN_A_TURN..(turn + 1) * KILLS_IN_A_TURN {
                kill(number).await;
            }
        };
        let (events, ()) = tokio::join!(harness.run(&session, "go"), all);
        for event in &events {
            if let SessionEventPayload::ToolExecutionCompleted { outcome } = &event.payload {
                match &*outcome.result.clone().unwrap() {
                    ToolResult::Json { value } => results.push(value.clone()),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert_eq!(results.len(), kills);
    for (number, value) in results.iter().enumerate() {
        assert_eq!(value["exit_code"], number % 7, "{number}: {value:#}");
        assert_eq!(value["stdout"], whole_output(), "{number}");
        assert_eq!(value.get("note"), None, "{number}");
    }
    let ran = std::fs::read_to_string(workspace.path().join("ran")).unwrap();
    let expected: String = (0..kills).map(|number| format!("{number}\n")).collect();
    assert_eq!(ran, expected);
    session.shutdown("done").await.unwrap();
}

/// A stream that was answered has a command that outlives the runtime: one that
/// dies before has not answered, and the command is given to the next one.
#[tokio::test]
async fn a_runtime_that_is_killed_before_a_command_has_begun_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let place = Arc::new(DaemonExec::start());
    let client = Client::socket(place.daemon().socket());
    let session = CreateParams {
        working_dir: Some(directory.path().to_str().unwrap().to_owned()),
        // With variables it has a holder from the beginning.
        env: Variables([("NAME".to_owned(), "value".to_owned())].into()),
        ..CreateParams::default()
    };
    let session_id = client.create_session(&session).await.unwrap().session_id;
    let holders: Vec<PidFd> = place.daemon().holders().into_iter().map(handle).collect();
    assert!(!holders.is_empty());
    let signal = |signal| holders.iter().for_each(|it| it.send(signal).unwrap());
    // Without them no shell is started.
    signal(Signal::STOP);
    let params = ExecParams {
        session_id,
        command: Some("echo $NAME >> ran; exit 7".to_owned()),
        exec_id: Some("c-1".to_owned()),
        queue: true,
        ..ExecParams::default()
    };
    let asking = client.clone();
    let following = tokio::spawn(async move { asking.follow_new(params).await });
    let asked = WaitParams {
        exec_id: "c-1".to_owned(),
        timeout_s: Some(0.0),
    };
    while client.wait(&asked).await.is_err() {
        tokio::task::yield_now().await;
    }
    let restarted = Arc::clone(&place);
    tokio::task::spawn_blocking(move || restarted.daemon().kill())
        .await
        .unwrap();
    signal(Signal::CONT);
    let restarted = Arc::clone(&place);
    tokio::task::spawn_blocking(move || restarted.daemon().spawn())
        .await
        .unwrap();
    let mut follower = following.await.unwrap().unwrap();
    let ending = loop {
        if let OutputEvent::Exit(ending) = follower.next().await.unwrap() {
            break ending;
        }
    };
    assert_eq!((ending.exit_code, ending.error), (7, None));
    let ran = std::fs::read_to_string(directory.path().join("ran")).unwrap();
    assert_eq!(ran, "value\n");
}

fn handle(pid: u32) -> PidFd {
    PidFd::open(pid.try_into().unwrap()).unwrap()
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

/// One that took the place of the runtime while a session was at work is asked
/// what it can do before anything is made there.
#[tokio::test]
async fn another_runtime_in_the_place_of_ours_is_noticed_before_anything_is_made_there() {
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_open_shell_in(Arc::clone(&place) as _);
    workspace.ok("shell", json!({"command": "true"})).await;
    let socket = place.daemon().socket();
    let ended = Arc::clone(&place);
    tokio::task::spawn_blocking(move || ended.daemon().terminate())
        .await
        .unwrap();
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, noted) = (stream.unwrap(), Arc::clone(&noted));
            std::thread::spawn(move || answer_as_an_older_one(&stream, &noted));
        }
    });
    let error = workspace
        .failure("shell", json!({"command": "touch ran"}))
        .await;
    assert!(error.contains("too old"), "{error}");
    assert!(!workspace.dir().join("ran").exists());
    let asked = asked.lock().unwrap().clone();
    assert!(asked.contains(&"hello".to_owned()), "{asked:?}");
    assert!(!asked.contains(&"session.create".to_owned()), "{asked:?}");
}

/// The same of one that has other files under the name of the session's directory.
#[tokio::test]
async fn a_runtime_with_other_files_in_the_place_of_ours_is_noticed() {
    if !may_mount() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let work = temp.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let socket = temp.path().join("socket");
    let first = DaemonExec::start();
    std::os::unix::fs::symlink(first.daemon().socket(), &socket).unwrap();
    let exec = exec_at(&socket);
    assert!(exec.files(&work).await.unwrap().is_none());
    let policy = PolicySettings {
        sandbox: SandboxMode::Off,
        ..PolicySettings::default()
    };
    let environment = [("PATH".into(), "/usr/bin:/bin".into())].into();
    let workspace = Workspace::in_directory(temp, policy, exec, environment);
    let command = json!({"command": "echo ran >> ran"});
    workspace.ok("shell", command.clone()).await;
    first.daemon().terminate();
    let other = DaemonExec::with_other_files(&work);
    std::fs::remove_file(&socket).unwrap();
    std::os::unix::fs::symlink(other.daemon().socket(), &socket).unwrap();
    let error = workspace.failure("shell", command).await;
    assert!(error.contains("other files"), "{error}");
    assert_eq!(workspace.get("ran"), "ran\n");
    let client = Client::socket(other.daemon().socket());
    assert_eq!(client.sessions().await.unwrap().sessions.len(), 0);
}

/// A runtime of an earlier version, which knows no session of ours.
fn answer_as_an_older_one(mut stream: &UnixStream, asked: &Mutex<Vec<String>>) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let request: Value = serde_json::from_str(&line).unwrap();
        let method = request["method"].as_str().unwrap().to_owned();
        let answer = match method.as_str() {
            "hello" => json!({
                "id": request["id"], "ok": true,
                "data": {"version": "0.0.1", "frames": request["params"]["frames"] == true},
            }),
            _ => json!({
                "id": request["id"], "ok": false,
                "error": {"code": "SESSION_NOT_FOUND", "message": "no such session"},
            }),
        };
        asked.lock().unwrap().push(method);
        if writeln!(stream, "{answer}").is_err() {
            return;
        }
    }
}

/// Ends the runtime in peace, and with it its sessions, and starts it again.
async fn restarted(place: &Arc<DaemonExec>) {
    let place = Arc::clone(place);
    tokio::task::spawn_blocking(move || {
        place.daemon().terminate();
        place.daemon().spawn();
    })
    .await
    .unwrap();
}

/// The next command runs, in a new shell, and says so. It runs where it was
/// judged for: a relative path leads to the same file as before.
#[tokio::test]
async fn a_runtime_that_was_restarted_serves_on_with_a_new_shell() {
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_open_shell_in(Arc::clone(&place) as _);
    let set = json!({"command": "mkdir inside; cd inside; variable=1"});
    workspace.ok("shell", set).await;
    restarted(&place).await;
    let after = json!({"command": "echo \"$variable.$PWD\""});
    let answer = workspace.ok("shell", after).await;
    let inside = workspace.dir().join("inside");
    assert_eq!(answer["stdout"], format!(".{}\n", inside.display()));
    let note = answer["note"].as_str().unwrap();
    assert!(note.contains("restarted"), "{note}");
    workspace.store.close().await;
}

/// Where that is gone, nothing runs anywhere else; the command after it begins
/// where the session did.
#[tokio::test]
async fn a_directory_that_went_with_the_runtime_is_said_and_left() {
    let place = Arc::new(DaemonExec::start());
    let workspace = Workspace::with_open_shell_in(Arc::clone(&place) as _);
    let set = json!({"command": "mkdir inside; cd inside"});
    workspace.ok("shell", set).await;
    restarted(&place).await;
    std::fs::remove_dir(workspace.dir().join("inside")).unwrap();
    let error = workspace.failure("shell", json!({"command": "touch ran"}));
    let error = error.await;
    assert!(error.contains("/inside"), "{error}");
    assert!(!workspace.dir().join("ran").exists());
    let answer = workspace.ok("shell", json!({"command": "pwd"})).await;
    assert_eq!(answer["stdout"], format!("{}\n", workspace.dir().display()));
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
