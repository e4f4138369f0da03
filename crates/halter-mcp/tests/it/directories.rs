//! Servers that run where the session works that calls them.

use crate::support::{Output, Started, context_with, fixture_server, program_of};
use async_trait::async_trait;
use halter_mcp::limits::INSTANCES_ELSEWHERE;
use halter_mcp::{AnyDirectory, PlacedProgram, ProgramSettings, ServerSettings};
use halter_protocol::{ToolError, ToolErrorCode};
use halter_tools::ToolContext;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Anywhere(ProgramSettings);

#[async_trait]
impl AnyDirectory for Anywhere {
    async fn program_in(&self, directory: &Path) -> Result<PlacedProgram, String> {
        if directory.ends_with("refused") {
            return Err("no sandbox for it".into());
        }
        let mut program = self.0.clone();
        program.directory = directory.to_path_buf();
        Ok(PlacedProgram {
            program,
            kept: None,
        })
    }
}

/// A server whose main instance runs in `/`.
fn anywhere(behaviour: &str) -> ServerSettings {
    let mut settings = fixture_server("x", behaviour);
    let program = program_of(&mut settings).clone();
    settings.any_directory = Some(Arc::new(Anywhere(program)));
    settings
}

/// A session in a directory.
fn session(directory: &Path, output: &Arc<Output>) -> ToolContext {
    let mut context = context_with(CancellationToken::new(), output.clone());
    context.working_dir = directory.to_path_buf();
    context
}

/// Where the server of a session in a directory runs, and as which process.
async fn asked_in(started: &Started, directory: &Path) -> Result<(PathBuf, u32), ToolError> {
    let context = session(directory, &Arc::default());
    let told = started.call_with("mcp__x__echo", json!({}), &context);
    Ok(serde_json::from_str(&told.await?.to_model_text()).unwrap())
}

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn made(below: &Path, name: &str) -> PathBuf {
    let directory = below.canonicalize().unwrap().join(name);
    std::fs::create_dir(&directory).unwrap();
    directory
}

#[tokio::test]
async fn each_session_has_a_server_in_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| made(root.path(), name));
    let started = Started::one(anywhere("tells_where")).await;
    let (main, main_process) = asked_in(&started, Path::new("/")).await.unwrap();
    assert_eq!(main, Path::new("/"));
    let (first, first_process) = asked_in(&started, &one).await.unwrap();
    let (second, second_process) = asked_in(&started, &other).await.unwrap();
    assert_eq!((&first, &second), (&one, &other));
    // The same one as before, also by another name of the directory.
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&one, &link).unwrap();
    for same in [&one, &link] {
        let again = asked_in(&started, same).await.unwrap();
        assert_eq!(again, (one.clone(), first_process));
    }
    let again = asked_in(&started, Path::new("/")).await.unwrap();
    assert_eq!(again.1, main_process);
    let context = session(&other, &Arc::default());
    let roots = started.call_with("mcp__x__roots", json!({}), &context);
    let roots = roots.await.unwrap().to_model_text();
    assert!(roots.contains(&other.display().to_string()), "{roots}");
    started.servers.shutdown().await;
    for process in [main_process, first_process, second_process] {
        assert!(!is_there(process), "{process} is left");
    }
    let stopped = asked_in(&started, &one).await.unwrap_err();
    assert!(stopped.message.contains("is stopped"), "{stopped}");
}

#[tokio::test]
async fn a_server_with_a_directory_of_its_own_serves_all_sessions() {
    let root = tempfile::tempdir().unwrap();
    let started = Started::one(fixture_server("x", "tells_where")).await;
    let (directory, _) = asked_in(&started, root.path()).await.unwrap();
    assert_eq!(directory, Path::new("/"));
    started.servers.shutdown().await;
}

#[tokio::test]
async fn servers_that_are_dropped_leave_nothing_in_other_directories() {
    let root = tempfile::tempdir().unwrap();
    let started = Started::one(anywhere("tells_where")).await;
    let (_, process) = asked_in(&started, root.path()).await.unwrap();
    let tool = started.tool("mcp__x__echo");
    drop(started);
    while is_there(process) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(tool);
}

#[tokio::test]
async fn a_start_that_fails_names_server_and_directory() {
    let root = tempfile::tempdir().unwrap();
    let there = root.path().canonicalize().unwrap();
    let mut settings = anywhere("dies_elsewhere");
    settings.start_timeout = Duration::from_secs(5);
    let started = Started::one(settings).await;
    for (directory, reason) in [
        (there.clone(), "no database here"),
        (there.join("gone"), "could not be started"),
        (there.join("refused"), "no sandbox for it"),
    ] {
        let error = asked_in(&started, &directory).await.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Failed);
        let named = format!("MCP server `x` cannot be used in {}: ", directory.display());
        assert!(error.message.starts_with(&named), "{error}");
        assert!(error.message.contains(reason), "{error}");
    }
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_tool_that_is_another_one_elsewhere_is_not_called_there() {
    let root = tempfile::tempdir().unwrap();
    let started = Started::one(anywhere("changes_elsewhere")).await;
    let there = session(root.path(), &Arc::default());
    let called = started.call_with("mcp__x__echo", json!({}), &there).await;
    let refused = called.unwrap_err().message;
    let reason = "its tool `echo` is another one there than the one that was approved";
    assert!(refused.contains(reason), "{refused}");
    let same = started.call_with("mcp__x__structured", json!({}), &there);
    same.await.unwrap();
    let here = session(Path::new("/"), &Arc::default());
    let called = started.call_with("mcp__x__echo", json!({}), &here);
    called.await.unwrap();
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_tool_that_is_another_one_after_a_restart_is_not_called() {
    let place = tempfile::tempdir().unwrap();
    let gate = place.path().join("gate");
    let mut settings = fixture_server("x", "changes_at_restart");
    program_of(&mut settings)
        .environment
        .set("MCP_FIXTURE_GATE", &gate);
    let started = Started::one(settings).await;
    let approved = started.tool("mcp__x__echo").unwrap();
    std::fs::write(&gate, "").unwrap();
    let gone = started.call("mcp__x__exit", json!({})).await;
    assert!(gone.unwrap_err().message.contains("asked to go"));
    let here = session(Path::new("/"), &Arc::default());
    // It waits until the server is there again.
    let called = approved.execute(here, json!({})).await.unwrap_err();
    let refused = called.downcast_ref::<ToolError>().unwrap();
    assert_eq!(refused.code, ToolErrorCode::PolicyDenied);
    let reason = "has changed since it was approved, and was not called; call it again";
    assert!(refused.message.contains(reason), "{refused}");
    started.call("mcp__x__echo", json!({})).await.unwrap();
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_start_that_failed_is_tried_again() {
    let root = tempfile::tempdir().unwrap();
    let there = root.path().canonicalize().unwrap().join("later");
    let started = Started::one(anywhere("tells_where")).await;
    asked_in(&started, &there).await.unwrap_err();
    std::fs::create_dir(&there).unwrap();
    assert_eq!(asked_in(&started, &there).await.unwrap().0, there);
    started.servers.shutdown().await;
}

#[tokio::test]
async fn so_many_run_in_other_directories_and_the_longest_idle_makes_room() {
    let root = tempfile::tempdir().unwrap();
    let started = Started::one(anywhere("tells_where")).await;
    let name = |n: usize| made(root.path(), &n.to_string());
    let all: Vec<PathBuf> = (0..=INSTANCES_ELSEWHERE).map(name).collect();
    let (last, full) = all.split_last().unwrap();
    let mut processes = Vec::new();
    for directory in full {
        processes.push(asked_in(&started, directory).await.unwrap().1);
    }
    // At the limit all are there, and the first is now the one called last.
    assert_eq!(asked_in(&started, &full[0]).await.unwrap().1, processes[0]);
    asked_in(&started, last).await.unwrap();
    assert_eq!(asked_in(&started, &full[0]).await.unwrap().1, processes[0]);
    assert_eq!(asked_in(&started, &full[2]).await.unwrap().1, processes[2]);
    while is_there(processes[1]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_ne!(asked_in(&started, &full[1]).await.unwrap().1, processes[1]);
    started.servers.shutdown().await;
}

#[tokio::test]
async fn servers_in_use_are_not_ended_for_others() {
    let root = tempfile::tempdir().unwrap();
    // A call of `slow` says something, and is not answered.
    let started = Started::one(anywhere("hears_of_cancels")).await;
    let name = |n: usize| made(root.path(), &n.to_string());
    let all: Vec<PathBuf> = (0..=INSTANCES_ELSEWHERE).map(name).collect();
    let (last, full) = all.split_last().unwrap();
    let outputs: Vec<Arc<Output>> = full.iter().map(|_| Arc::default()).collect();
    let sessions: Vec<ToolContext> = full
        .iter()
        .zip(&outputs)
        .map(|(directory, output)| session(directory, output))
        .collect();
    let calls = sessions
        .iter()
        .map(|context| started.call_with("mcp__x__slow", json!({}), context));
    let refused = async {
        let silent = |output: &Arc<Output>| output.0.lock().unwrap().is_empty();
        while outputs.iter().any(silent) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let context = session(last, &Arc::default());
        let refused = started.call_with("mcp__x__echo", json!({}), &context).await;
        for session in &sessions {
            session.cancel.cancel();
        }
        refused.unwrap_err()
    };
    let (ended, refused) = tokio::join!(futures::future::join_all(calls), refused);
    let limit = format!("{INSTANCES_ELSEWHERE} servers run in other directories already");
    assert!(refused.message.contains(&limit), "{refused}");
    for call in ended {
        assert_eq!(call.unwrap_err().code, ToolErrorCode::Cancelled);
    }
    // One of them is idle now.
    let context = session(last, &Arc::default());
    let served = started.call_with("mcp__x__echo", json!({}), &context);
    served.await.unwrap();
    started.servers.shutdown().await;
}
