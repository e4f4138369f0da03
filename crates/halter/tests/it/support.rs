//! Directories, tools, turns and child processes that the tests share.

use async_trait::async_trait;
use futures::StreamExt;
use halter::prelude::*;
use halter::{HalterError, HalterSession};
use halter_config::Environment;
use halter_protocol::{
    ToolCapabilities, ToolConcurrency, ToolExecutionOutcome, ToolResult, ToolSpec,
};
use halter_tools::{Tool, ToolContext};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Long enough for a loaded machine; reached only when something hangs.
const CHILD_DEADLINE: Duration = Duration::from_secs(120);

/// Tells a child process that it is one.
pub const CHILD: &str = "HALTER_TEST_CHILD";

/// A directory with these files.
pub fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

/// An environment that maps every role to the offline model.
pub fn offline() -> Environment {
    Environment::from_iter([("HALTER_MODEL", "offline"), ("PATH", "/usr/bin:/bin")])
}

/// An environment without keys.
pub fn no_keys() -> Environment {
    Environment::from_iter([("PATH", "/usr/bin:/bin")])
}

/// The harness's own error in an error.
pub fn halter_error(error: &anyhow::Error) -> &HalterError {
    error
        .downcast_ref::<HalterError>()
        .unwrap_or_else(|| panic!("not a HalterError: {error:#}"))
}

/// The error of a build that must fail.
pub fn refused(built: anyhow::Result<Halter>) -> HalterError {
    match built {
        Ok(_) => panic!("the build should have been refused"),
        Err(error) => halter_error(&error).clone(),
    }
}

/// Everything an error tells a person.
pub fn told(error: &HalterError) -> String {
    format!("{error}: {}", error.hint().unwrap_or_default())
}

/// A session that works in `directory`.
pub async fn session_in(harness: &Halter, directory: &Path) -> HalterSession {
    let init = SessionInit::default().with_working_dir(directory);
    harness.new_session(init).await.unwrap()
}

/// A builder without resources and without keys.
pub fn bare() -> HalterBuilder {
    Halter::builder()
        .with_resource_snapshot(ResourceSnapshot::empty())
        .with_environment(no_keys())
}

/// A harness of the offline model.
pub async fn offline_harness() -> Halter {
    let builder = bare().with_environment(offline());
    builder.build().await.unwrap()
}

/// Runs one turn in a session of its own, from its start to its shutdown.
pub async fn one_turn(harness: &Halter, directory: &Path, text: &str) -> Vec<SessionEvent> {
    let session = session_in(harness, directory).await;
    let events = run_turn(&session, text).await;
    session.shutdown("done").await.unwrap();
    events
}

/// Runs a turn to its end.
pub async fn run_turn(session: &HalterSession, text: &str) -> Vec<SessionEvent> {
    let mut events = session.submit_turn(Turn::user(text)).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.unwrap());
    }
    seen
}

/// How the tool calls among these events ended, in the order of the calls: those
/// that run side by side end in any order.
pub fn outcomes(events: &[SessionEvent]) -> Vec<ToolExecutionOutcome> {
    let outcomes = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::ToolExecutionCompleted { outcome } => Some(outcome.clone()),
        _ => None,
    });
    let mut outcomes: Vec<_> = outcomes.collect();
    outcomes.sort_by(|one, other| one.call.id.cmp(&other.call.id));
    outcomes
}

/// The warnings among these events.
pub fn warnings(events: &[SessionEvent]) -> Vec<String> {
    let warnings = events.iter().filter_map(|event| match &event.payload {
        SessionEventPayload::Warning { message } => Some(message.clone()),
        _ => None,
    });
    warnings.collect()
}

/// A tool that answers with a fixed text.
#[derive(Debug)]
pub struct Fixed {
    pub name: &'static str,
    pub answer: &'static str,
}

#[async_trait]
impl Tool for Fixed {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.into(),
            description: "Answers with a fixed text.".to_owned(),
            input_schema: json!({"type": "object"}),
            concurrency: ToolConcurrency::ReadOnly,
            capabilities: ToolCapabilities::default(),
            provider_aliases: Default::default(),
        }
    }

    async fn execute(&self, _: ToolContext, _: Value) -> anyhow::Result<ToolResult> {
        Ok(ToolResult::text(self.answer))
    }
}

/// True in a process that [`in_child`] started.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test of this program again, alone in a process with this directory
/// and no environment but these variables.
pub fn in_child(test: &str, directory: &Path, variables: &[(&str, &str)], stdin: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env_clear().env(CHILD, "1");
    run(command, directory, variables, stdin)
}

/// Runs a command to its end, within the deadline.
pub fn run(
    mut command: Command,
    directory: &Path,
    variables: &[(&str, &str)],
    stdin: &str,
) -> Output {
    command
        .current_dir(directory)
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", std::env::temp_dir())
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_owned();
    // A child that fails early closes its end: what it did not read is not the point.
    let writer = std::thread::spawn(move || drop(input.write_all(stdin.as_bytes())));
    let id = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    let watchdog = std::thread::spawn(move || {
        let started = Instant::now();
        if ended.recv_timeout(CHILD_DEADLINE).is_err() {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
        started.elapsed()
    });
    let output = child.wait_with_output().unwrap();
    let _ = done.send(());
    writer.join().unwrap();
    let took = watchdog.join().unwrap();
    assert!(took < CHILD_DEADLINE, "the child hung: {}", shown(&output));
    output
}

/// Both outputs of a child, for a failed assertion.
pub fn shown(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
