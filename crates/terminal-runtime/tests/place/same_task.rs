//! One task in every place: the same events, but for times and ids.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halter_protocol::PermissionMode;
use halter_testkit::{Harness, Reply, TempWorkspace};
use halter_tools::exec::{ExecCommand, ExecSessionSpec};
use halter_tools::policy::SandboxMode;
use halter_tools::{ExecBackend, LocalExec, ScratchDir, builtin_tools};
use serde_json::{Value, json};
use terminal_runtime::backend::RuntimeExecSettings;
use tokio_util::sync::CancellationToken;

use crate::engine::{Image, engine_with, mounted_programs};
use crate::place::{DaemonExec, IMAGE, may_mount};

/// Reads, edits, builds and tests a small program.
fn task() -> Vec<Reply> {
    let call = |tool: &str, arguments: Value| Reply::new().tool_call(tool, arguments);
    vec![
        call("read", json!({"path": "greet.c"})),
        call(
            "edit",
            json!({"path": "greet.c", "old_string": "Helo", "new_string": "Hello"}),
        ),
        call("shell", json!({"command": "make -s"})),
        call("shell", json!({"command": "make -s check"})),
        call(
            "shell",
            json!({"command": "cd build && ./greet | grep -c Hello; sh -c 'exit 3'"}),
        ),
        call("shell", json!({"command": "./greet"})),
        call("write", json!({"path": "done.txt", "content": "done\n"})),
        call("read", json!({"path": "done.txt"})),
        Reply::from("It greets."),
    ]
}

/// What is built, and by what: `cc` where there is one.
fn sources(workspace: &TempWorkspace) {
    let has = |program: &str| Path::new("/usr/bin").join(program).exists();
    let build = match has("cc") {
        true => "cc -o build/greet greet.c",
        false => "(echo 'echo Hello, world' > build/greet; chmod +x build/greet)",
    };
    workspace.write(
        "greet.c",
        "#include <stdio.h>\nint main(void) { puts(\"Helo, world\"); return 0; }\n",
    );
    workspace.write(
        "Makefile",
        format!(
            "all: greet.c\n\t@mkdir -p build && {build}\n\
             check:\n\t@touch /etc/halter-escaped 2>/dev/null; test \"$$(build/greet)\" = \"Hello, world\" && echo pass\n"
        ),
    );
}

/// The events of the task in a place that is made for its directory, without
/// what differs from run to run.
async fn events_in(place: impl FnOnce(&Path) -> Arc<dyn ExecBackend>) -> Vec<Value> {
    let workspace = Arc::new(TempWorkspace::new());
    sources(&workspace);
    let place = place(&workspace.path().canonicalize().unwrap());
    let harness = Harness::scripted(task())
        .tools(builtin_tools())
        .workspace(Arc::clone(&workspace))
        .services(move |services| {
            services.exec = place;
            services.policy.sandbox = SandboxMode::Prefer;
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
    let root = workspace.path().display().to_string();
    settled(events.iter().map(|event| plain(event, &root)).collect())
}

/// In an order that does not depend on time: a call that only reads may start,
/// and end, before the message that asks for it is complete; output may come in
/// more than one piece.
fn settled(events: Vec<Value>) -> Vec<Value> {
    let mut settled: Vec<Value> = Vec::new();
    for event in events {
        let kind = event["kind"].as_str().unwrap_or_default();
        let is_asked = kind == "message_item" && event["message"]["role"] == "assistant";
        let is_early = |it: &Value| {
            let call = [&it["call"], &it["outcome"]["call"]];
            call.iter().any(|call| call["name"] == "read")
        };
        let early = settled.iter().rev().take_while(|it| is_early(it)).count();
        match settled.last_mut() {
            Some(last) if kind == "tool_output" && last["kind"] == "tool_output" => {
                let text = [&last["chunk"], &event["chunk"]].map(|it| it.as_str().unwrap());
                last["chunk"] = text.concat().into();
            }
            _ if is_asked => settled.insert(settled.len() - early, event),
            _ => settled.push(event),
        }
    }
    settled
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
    if !Path::new("/usr/bin/make").exists() || !crate::sandbox::works("namespaces") {
        println!("skipped: needs make and name spaces");
        return;
    }
    let local = events_in(|_| Arc::new(LocalExec)).await;
    let text = serde_json::to_string(&local).unwrap();
    assert!(
        text.contains("pass") && text.contains("Hello, world") && text.contains("done"),
        "{text}"
    );
    assert!(!Path::new("/etc/halter-escaped").exists());
    let socket = events_in(|_| Arc::new(DaemonExec::start())).await;
    assert_eq!(socket, local, "over the socket");
    let secure = events_in(|_| Arc::new(DaemonExec::secure())).await;
    assert_eq!(secure, local, "over HTTPS");
    if may_mount() {
        let there = |directory: &Path| -> Arc<dyn ExecBackend> {
            Arc::new(DaemonExec::secure_with_copies(directory))
        };
        let elsewhere = events_in(there).await;
        assert_eq!(elsewhere, local, "with files elsewhere");
    }
    let directory = tempfile::tempdir().unwrap();
    if let Some(program) = engine_with(directory.path(), Image::Mounted) {
        let mut settings = RuntimeExecSettings::default().in_containers(IMAGE);
        settings.mounts = mounted_programs();
        let container = DaemonExec::in_containers(&program, settings, &[]);
        let container = events_in(|_| Arc::new(container)).await;
        assert_eq!(container, local, "in a container");
    }
    assert!(!Path::new("/etc/halter-escaped").exists());
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
