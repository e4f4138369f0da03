//! Background jobs: `shell` starts them, `process` looks after them.

use crate::relay::RelayedExec;
use crate::support::{Workspace, eventually};
use halter_protocol::ToolErrorCode;
use halter_protocol::limits::JOB_COMMAND_BYTES;
use halter_tools::PolicySettings;
use halter_tools::limits::{JOB_KEPT_BYTES, JOB_RESULT_BYTES, JOBS_KEPT, JOBS_RUNNING};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Starts a job and returns its id.
async fn start(workspace: &Workspace, command: &str) -> String {
    let started = workspace
        .ok("shell", json!({"command": command, "background": true}))
        .await;
    started["job_id"].as_str().unwrap().to_owned()
}

async fn process(workspace: &Workspace, action: &str, job: &str) -> Value {
    let call = json!({"action": action, "job_id": job});
    workspace.ok("process", call).await
}

/// Polls until what was shown so far is as wanted. Returns all of that and the
/// last answer.
async fn poll_until(
    workspace: &Workspace,
    job: &str,
    wanted: impl Fn(&str, &Value) -> bool,
) -> (String, Value) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut shown = String::new();
    loop {
        let answer = process(workspace, "poll", job).await;
        shown.push_str(answer["output"].as_str().unwrap());
        if wanted(&shown, &answer) {
            return (shown, answer);
        }
        assert!(Instant::now() < deadline, "{shown:?} {answer}");
    }
}

async fn ended(workspace: &Workspace, job: &str) -> (String, Value) {
    poll_until(workspace, job, |_, answer| answer["state"] == "ended").await
}

/// The number in the first line that a job prints.
async fn first_number(workspace: &Workspace, job: &str) -> i32 {
    let (shown, _) = poll_until(workspace, job, |shown, _| shown.contains('\n')).await;
    shown.lines().next().unwrap().trim().parse().unwrap()
}

async fn gone(pid: i32, directory: &Path) {
    let is_running = || crate::place::is_running(pid, directory);
    eventually("the process ends", || !is_running()).await;
}

#[tokio::test]
async fn a_job_runs_on_its_own_and_is_talked_to() {
    let workspace = Workspace::with_open_shell();
    let command = "echo ready; echo to-stderr >&2; read -r line; echo \"got $line\"; exit 3";
    let job = start(&workspace, command).await;
    assert_eq!(job, "job_1");
    poll_until(&workspace, &job, |shown, _| shown.ends_with("to-stderr\n")).await;
    // Other commands run meanwhile, and it goes on.
    workspace.ok("shell", json!({"command": "true"})).await;
    let list = workspace.ok("process", json!({"action": "list"})).await;
    let row = &list["jobs"][0];
    assert_eq!(row["job_id"], "job_1");
    assert_eq!(row["command"], command);
    assert_eq!(row["state"], "running");
    assert!(row["pid"].is_i64(), "{row}");

    let wrote = workspace
        .ok(
            "process",
            json!({"action": "write", "job_id": job, "input": "tea\n"}),
        )
        .await;
    assert_eq!(wrote["written_bytes"], 4);
    let (shown, end) = ended(&workspace, &job).await;
    assert_eq!(shown, "got tea\n");
    assert_eq!(end["exit_code"], 3);
    let again = workspace
        .ok(
            "process",
            json!({"action": "read", "job_id": job, "offset": 6}),
        )
        .await;
    assert_eq!(again["output"], "to-stderr\ngot tea\n");
    assert_eq!(again["offset"], 6);
    assert_eq!(again["next_offset"], 24);
    assert_eq!(again["printed_bytes"], 24);
    workspace.store.close().await;
}

#[tokio::test]
async fn a_job_starts_where_the_shell_is_and_its_input_can_end() {
    let workspace = Workspace::with_open_shell();
    workspace.put("deep/file", "");
    workspace.ok("shell", json!({"command": "cd deep"})).await;
    let call = json!({
        "command": "pwd; echo \"$COLOUR\"; cat; echo over",
        "env": {"COLOUR": "red"},
        "background": true,
    });
    let started = workspace.ok("shell", call).await;
    assert_eq!(started["state"], "running");
    process(&workspace, "write", "job_1").await;
    let (shown, end) = ended(&workspace, "job_1").await;
    let deep = workspace.dir().canonicalize().unwrap().join("deep");
    assert_eq!(shown, format!("{}\nred\nover\n", deep.display()));
    assert_eq!(end["exit_code"], 0);
    let call = json!({"action": "write", "job_id": "job_1", "input": "late"});
    let late = workspace.failure("process", call).await;
    assert!(late.contains("takes no more"), "{late}");
    workspace.store.close().await;
}

#[tokio::test]
async fn killing_a_job_ends_all_it_started() {
    let workspace = Workspace::with_open_shell();
    let job = start(&workspace, "sleep 1000 & echo $!; wait").await;
    let child = first_number(&workspace, &job).await;
    let tree = workspace
        .ok("process", json!({"action": "list_descendants"}))
        .await;
    let listed = tree["descendants"].as_array().unwrap();
    assert!(listed.iter().any(|it| it["pid"] == child), "{tree}");
    let killed = process(&workspace, "kill", &job).await;
    assert_eq!(killed["state"], "ended");
    assert_eq!(killed["signal"], "SIGTERM", "{killed}");
    gone(child, &workspace.dir()).await;

    // A signal that is named is sent and nothing else.
    let job = start(
        &workspace,
        "trap 'echo told; exit 7' USR1; echo $$; while :; do sleep 0.05; done",
    )
    .await;
    first_number(&workspace, &job).await;
    let call = json!({"action": "kill", "job_id": job, "signal": 10});
    workspace.ok("process", call).await;
    let (shown, end) = ended(&workspace, &job).await;
    assert!(shown.contains("told"), "{shown}");
    assert_eq!(end["exit_code"], 7);

    // By number, too.
    let job = start(&workspace, "echo $$; sleep 1000").await;
    let pid = first_number(&workspace, &job).await;
    workspace
        .ok("process", json!({"action": "kill_tree", "pid": pid}))
        .await;
    let (_, end) = ended(&workspace, &job).await;
    assert_eq!(end["signal"], "SIGKILL", "{end}");
    workspace.store.close().await;
}

#[tokio::test]
async fn jobs_end_with_the_session() {
    let workspace = Workspace::with_open_shell();
    let command = "trap '' TERM; setsid sleep 1000 & echo $!; wait";
    let job = start(&workspace, command).await;
    let child = first_number(&workspace, &job).await;
    workspace.store.close().await;
    gone(child, &workspace.dir()).await;

    // Also when nobody closes it.
    let workspace = Workspace::with_open_shell();
    let job = start(&workspace, "sleep 1000 & echo $!; wait").await;
    let child = first_number(&workspace, &job).await;
    let directory = workspace.dir();
    drop(workspace);
    gone(child, &directory).await;
}

#[tokio::test]
async fn a_job_ends_by_the_deadline_it_is_given() {
    let workspace = Workspace::with_open_shell();
    let call = json!({"command": "sleep 1000", "background": true, "timeout_ms": 1});
    workspace.ok("shell", call).await;
    let (_, end) = ended(&workspace, "job_1").await;
    assert_eq!(end["timed_out"], true);
    workspace.store.close().await;
}

#[tokio::test]
async fn the_start_and_the_end_of_much_output_are_kept() {
    let workspace = Workspace::with_open_shell();
    let total = JOB_KEPT_BYTES + 1_000_000;
    let command = format!("head -c {total} /dev/zero | tr '\\0' x; echo end");
    let job = start(&workspace, &command).await;
    over(&workspace, &job).await;
    let newest = process(&workspace, "poll", &job).await;
    assert_eq!(newest["printed_bytes"], total + 4);
    assert_eq!(newest["offset"], total + 4 - JOB_RESULT_BYTES);
    let output = newest["output"].as_str().unwrap();
    assert!(output.ends_with("xend\n") && output.len() == JOB_RESULT_BYTES);
    let note = newest["note"].as_str().unwrap();
    assert!(note.contains("`read` with offset 0"), "{note}");

    let read = async |offset: usize| {
        let call = json!({"action": "read", "job_id": job, "offset": offset});
        workspace.ok("process", call).await
    };
    let first = read(0).await;
    assert_eq!(first["next_offset"], JOB_RESULT_BYTES);
    assert_eq!(first.get("note"), None);
    let after_hole = read(JOB_KEPT_BYTES / 2).await;
    let tail_start = total + 4 - JOB_KEPT_BYTES / 2;
    assert_eq!(after_hole["offset"], tail_start);
    let note = after_hole["note"].as_str().unwrap();
    assert!(
        note.contains("1000004 bytes before `offset` are no longer kept"),
        "{note}"
    );
    workspace.store.close().await;
}

/// Waits for the end of a job without looking at its output.
async fn over(workspace: &Workspace, job: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let list = workspace.ok("process", json!({"action": "list"})).await;
        let mut rows = list["jobs"].as_array().unwrap().iter();
        if rows.any(|row| row["job_id"] == job && row["state"] == "ended") {
            return;
        }
        assert!(Instant::now() < deadline, "{list}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn output_is_cut_between_characters() {
    let workspace = Workspace::with_open_shell();
    let command = format!("printf x; for i in {{1..{JOB_RESULT_BYTES}}}; do printf é; done");
    let job = start(&workspace, &command).await;
    over(&workspace, &job).await;
    let call = json!({"action": "read", "job_id": job, "offset": 0});
    let first = workspace.ok("process", call).await;
    assert_eq!(first["next_offset"], JOB_RESULT_BYTES - 1);
    let second = process(&workspace, "read", &job).await;
    assert_eq!(second["offset"], JOB_RESULT_BYTES - 1);
    let text = second["output"].as_str().unwrap();
    assert!(text.chars().all(|it| it == 'é'), "{text:.20}");
    workspace.store.close().await;
}

#[tokio::test]
async fn so_many_jobs_run_and_no_more() {
    let workspace = Workspace::with_open_shell();
    for _ in 0..JOBS_RUNNING {
        start(&workspace, "sleep 1000").await;
    }
    let call = json!({"command": "sleep 1000", "background": true});
    let refused = workspace.failure("shell", call).await;
    assert!(refused.contains("16 jobs run already"), "{refused}");
    assert!(refused.contains("job_1, job_2"), "{refused}");
    process(&workspace, "kill", "job_3").await;
    assert_eq!(start(&workspace, "true").await, "job_17");
    over(&workspace, "job_17").await;

    // The output of the oldest that ended is let go.
    for number in 18..=JOBS_KEPT + 1 {
        let job = start(&workspace, "true").await;
        assert_eq!(job, format!("job_{number}"));
        over(&workspace, &job).await;
    }
    let oldest = process(&workspace, "read", "job_3").await;
    assert_eq!(oldest["state"], "ended");
    assert_eq!(oldest["note"], "its output is gone");
    assert_eq!(process(&workspace, "read", "job_17").await["output"], "");
    workspace.store.close().await;
}

#[tokio::test]
async fn a_job_that_does_not_exist_is_answered_with_those_that_do() {
    let workspace = Workspace::with_open_shell();
    let call = |job: Value| json!({"action": "poll", "job_id": job});
    let message = workspace.failure("process", call("job_1".into())).await;
    assert!(
        message.contains("there is no job 'job_1': none was started"),
        "{message}"
    );
    start(&workspace, "true").await;
    start(&workspace, "true").await;
    let message = workspace.failure("process", call("job_9".into())).await;
    assert!(message.contains("there are job_1, job_2"), "{message}");
    let missing = workspace
        .failure("process", json!({"action": "read"}))
        .await;
    assert!(
        missing.contains("`job_id` is missing: there are job_1"),
        "{missing}"
    );
    workspace.store.close().await;
}

#[tokio::test]
async fn jobs_are_listed_as_ended_after_a_resume() {
    let mut workspace = Workspace::with_open_shell();
    start(&workspace, "exit 4").await;
    over(&workspace, "job_1").await;
    let second = start(&workspace, "echo $$; sleep 1000").await;
    let pid = first_number(&workspace, &second).await;
    workspace.resume().await;
    gone(pid, &workspace.dir()).await;
    let list = workspace.ok("process", json!({"action": "list"})).await;
    let note = "it was ended when the session was left, before it was resumed; its output is \
                gone. `shell` starts it again, if it is still needed";
    assert_eq!(
        list["jobs"],
        json!([
            {"job_id": "job_1", "command": "exit 4", "state": "ended", "exit_code": 4,
             "note": "its output is gone"},
            {"job_id": "job_2", "command": "echo $$; sleep 1000", "state": "ended", "note": note},
        ])
    );
    for action in ["poll", "read", "kill"] {
        let answer = process(&workspace, action, "job_2").await;
        assert_eq!(answer, list["jobs"][1], "{action}");
    }
    let call = json!({"action": "write", "job_id": "job_2", "input": "x"});
    let refused = workspace.failure("process", call).await;
    assert_eq!(
        refused,
        "the job has ended and takes no more input; `shell` starts another"
    );
    // Numbers are not used twice.
    assert_eq!(start(&workspace, "true").await, "job_3");
    workspace.store.close().await;
}

#[tokio::test]
async fn so_much_of_a_command_is_remembered_and_no_more() {
    let mut workspace = Workspace::with_open_shell();
    let start_of = |bytes: usize| format!("true {}", "a".repeat(bytes - "true ".len()));
    let fits = start_of(JOB_COMMAND_BYTES);
    // A character across the edge is left out whole.
    let cut = start_of(JOB_COMMAND_BYTES - 1);
    let commands = [fits.clone(), format!("{fits}b"), format!("{cut}é")];
    for command in &commands {
        start(&workspace, command).await;
    }
    let shown = async |workspace: &Workspace| {
        let list = workspace.ok("process", json!({"action": "list"})).await;
        let rows = list["jobs"].as_array().unwrap().iter();
        rows.map(|row| row["command"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let expected = [fits.clone(), fits, cut];
    assert_eq!(shown(&workspace).await, expected);
    workspace.resume().await;
    assert_eq!(shown(&workspace).await, expected);
    workspace.store.close().await;
}

#[tokio::test]
async fn a_command_is_judged_the_same_in_the_background() {
    let workspace = Workspace::with_settings(PolicySettings {
        allowed_shell_commands: vec!["ls".to_owned()].into(),
        ..PolicySettings::default()
    });
    let call = |background: bool| json!({"command": "curl x", "background": background});
    let denied = ToolErrorCode::PolicyDenied;
    let behind = workspace.error("shell", call(true), denied.clone()).await;
    assert_eq!(behind, workspace.error("shell", call(false), denied).await);
    let tool = workspace.tools.get("shell").unwrap();
    assert_eq!(tool.actions(&call(true)), tool.actions(&call(false)));
    let process = workspace.tools.get("process").unwrap();
    assert!(process.is_polling(&json!({"action": "poll", "job_id": "job_1"})));
    assert!(!process.is_polling(&json!({"action": "write", "job_id": "job_1"})));
}

#[tokio::test]
async fn waiting_for_a_job_can_be_cancelled() {
    let workspace = Workspace::with_open_shell();
    let job = start(&workspace, "sleep 1000").await;
    let poll = workspace.error(
        "process",
        json!({"action": "poll", "job_id": job}),
        ToolErrorCode::Cancelled,
    );
    let (_, ()) = tokio::join!(poll, async { workspace.cancel.cancel() });
    workspace.store.close().await;
}

#[tokio::test]
async fn a_job_is_in_the_sandbox_of_its_session() {
    let Some(workspace) = crate::sandbox::open_shell() else {
        return;
    };
    let job = start(
        &workspace,
        "python3 -c 'open(\"/etc/halter-escaped\", \"w\")'",
    )
    .await;
    let (shown, end) = ended(&workspace, &job).await;
    assert!(shown.contains("Read-only file system"), "{shown}");
    assert_eq!(end["exit_code"], 1);
    workspace.store.close().await;
}

#[tokio::test]
async fn a_place_without_background_commands_says_so() {
    let workspace = Workspace::with_open_shell_in(Arc::new(RelayedExec));
    let call = json!({"command": "true", "background": true});
    let refused = workspace.failure("shell", call).await;
    assert!(
        refused.contains("cannot run in the background here"),
        "{refused}"
    );
    workspace.store.close().await;
}
