//! One task in every place: the same events, but for times and ids.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halter_protocol::PermissionMode;
use halter_testkit::{Harness, Reply, TempWorkspace};
use halter_tools::exec::{ExecCommand, ExecSessionSpec};
use halter_tools::{ExecBackend, LocalExec, ScratchDir, builtin_tools};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::engine::engine;
use crate::place::DaemonExec;

/// Reads, edits, builds and tests a small program.
fn task() -> Vec<Reply> {
    let call = |tool: &str, arguments: Value| Reply::new().tool_call(tool, arguments);
    vec![
        call("read", json!({"path": "greet.sh"})),
        call(
            "edit",
            json!({"path": "greet.sh", "old_string": "Helo", "new_string": "Hello"}),
        ),
        call(
            "shell",
            json!({"command": "mkdir -p build && cp greet.sh build/greet && chmod +x build/greet"}),
        ),
        call("shell", json!({"command": "sh check.sh"})),
        call(
            "shell",
            json!({"command": "cd build && sh greet | grep -c Hello; sh -c 'exit 3'"}),
        ),
        call("shell", json!({"command": "sh ./greet"})),
        call("write", json!({"path": "done.txt", "content": "done\n"})),
        Reply::from("It greets."),
    ]
}

/// The events of the task in a place, without what differs from run to run.
async fn events_in(place: Arc<dyn ExecBackend>) -> Vec<Value> {
    let workspace = Arc::new(TempWorkspace::new());
    workspace.write("greet.sh", "echo Helo, world\n");
    workspace.write(
        "check.sh",
        "out=$(sh build/greet)\n[ \"$out\" = \"Hello, world\" ] && echo pass\n",
    );
    let harness = Harness::scripted(task())
        .tools(builtin_tools())
        .workspace(Arc::clone(&workspace))
        .services(move |services| {
            services.exec = place;
            services.policy.permissions.mode = PermissionMode::Allow;
            services.policy.allowed_shell_commands =
                halter_policy::ProgramList::Set(vec!["*".to_owned()]);
            services.base_environment =
                Arc::new([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())].into());
        })
        .start();
    let session = harness.session().await;
    let events = harness.run(&session, "fix the greeting").await;
    session.shutdown("done").await.unwrap();
    assert_eq!(workspace.read("done.txt"), "done\n");
    let root = workspace.path().display().to_string();
    events.iter().map(|event| plain(event, &root)).collect()
}

fn plain(event: &halter_protocol::SessionEvent, root: &str) -> Value {
    let mut value = serde_json::to_value(&event.payload).unwrap();
    blank(&mut value, root);
    value
}

/// Takes out times, ids and the directory.
fn blank(value: &mut Value, root: &str) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| {
                !name.ends_with("_ms")
                    && !name.ends_with("_id")
                    && name != "id"
                    && name != "created_at"
            });
            map.values_mut().for_each(|inner| blank(inner, root));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| blank(inner, root)),
        Value::String(text) if text.contains(root) => *text = text.replace(root, "ROOT"),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_task_has_the_same_events_in_every_place() {
    let local = events_in(Arc::new(LocalExec)).await;
    let text = serde_json::to_string(&local).unwrap();
    assert!(
        text.contains("pass") && text.contains("Hello, world"),
        "{text}"
    );
    let socket = events_in(Arc::new(DaemonExec::start())).await;
    assert_eq!(socket, local, "over the socket");
    let secure = events_in(Arc::new(DaemonExec::secure())).await;
    assert_eq!(secure, local, "over HTTPS");
    let directory = tempfile::tempdir().unwrap();
    if let Some(program) = engine(directory.path()) {
        let container = events_in(Arc::new(DaemonExec::with_containers(&program))).await;
        assert_eq!(container, local, "in a container");
    }
}

/// By hand: `cargo test --release -p terminal-runtime --test place figure -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn figure_of_a_warm_command() {
    let place: [(&str, Arc<dyn ExecBackend>); 2] = [
        ("local", Arc::new(LocalExec)),
        ("socket", Arc::new(DaemonExec::start())),
    ];
    let mut sessions = Vec::new();
    let directory = tempfile::tempdir().unwrap();
    for (name, backend) in place {
        let scratch = Arc::new(ScratchDir::new(directory.path().join(name)));
        let environment = [("PATH", "/usr/bin:/bin")].into_iter().collect();
        let spec = ExecSessionSpec::new(directory.path(), environment, scratch);
        sessions.push((name, backend.open(spec), backend));
    }
    let cancel = CancellationToken::new();
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..500 {
        for ((_, session, _), times) in sessions.iter().zip(&mut times) {
            let command = ExecCommand::new("echo warm", Duration::from_secs(60));
            let begun = Instant::now();
            session.run(command, &cancel, &|_| {}).await.unwrap();
            if round >= 20 {
                times.push(begun.elapsed());
            }
        }
    }
    let medians = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    println!("local {:?}, socket {:?}", medians[0], medians[1]);
    for (_, session, _) in &sessions {
        session.close().await;
    }
}
