//! Which tools to call next, or that it is time to answer.
//!
//! What is called follows from the number of steps already taken for the
//! user's message, so a plan ends whatever the tools return.

use super::intent::{ALL_FILES, Intent};
use super::summary::Repository;
use super::turn::{CurrentTurn, paths_in};
use crate::limits::{
    OFFLINE_GLOB_RESULTS, OFFLINE_PARALLEL_READS, OFFLINE_SEARCH_MATCHES, OFFLINE_STEPS,
    OFFLINE_TEST_MILLIS,
};
use halter_protocol::ToolErrorCode;
use serde_json::{Value, json};

/// A tool call to make.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    pub tool: &'static str,
    pub arguments: Value,
}

/// The tool without which nothing can be said.
pub fn needed_tool(intent: &Intent) -> Option<&'static str> {
    match intent {
        Intent::Summarize | Intent::List(_) => Some("glob"),
        Intent::Read(_) => Some("read"),
        Intent::Search { .. } => Some("grep"),
        Intent::Run(_) | Intent::RunTests => Some("shell"),
        Intent::Greet | Intent::Unclear => None,
    }
}

/// The calls of the next step that the session's tools allow.
pub fn next_calls(intent: &Intent, turn: &CurrentTurn<'_>) -> Vec<PlannedCall> {
    let mut calls = match (intent, turn.steps) {
        (_, OFFLINE_STEPS..) => Vec::new(),
        (Intent::Summarize | Intent::RunTests, 0) => vec![glob(ALL_FILES)],
        (Intent::Summarize, 1) => read_what_matters(turn),
        (Intent::RunTests, 1) => {
            let command = Repository::of(turn).and_then(|found| found.test_command());
            let arguments =
                |command| json!({"command": command, "timeout_ms": OFFLINE_TEST_MILLIS});
            let command = command.map(|command| call("shell", arguments(command)));
            command.into_iter().collect()
        }
        (Intent::Read(paths), 0) => paths.iter().map(|path| read(path)).collect(),
        (Intent::Read(paths), 1) => look_elsewhere(paths, turn),
        (Intent::Read(_), 2) => {
            let found = turn.returned("glob");
            let paths = found.flat_map(|(_, value)| paths_in(value));
            paths.take(OFFLINE_PARALLEL_READS).map(read).collect()
        }
        (Intent::List(pattern), 0) => vec![glob(pattern)],
        (Intent::Search { text, place }, 0) => vec![search(text, place.as_deref())],
        (Intent::Run(command), 0) => vec![call("shell", json!({"command": command}))],
        _ => Vec::new(),
    };
    calls.retain(|call| turn.tools.contains(&call.tool));
    calls
}

fn call(tool: &'static str, arguments: Value) -> PlannedCall {
    PlannedCall { tool, arguments }
}

fn read(path: &str) -> PlannedCall {
    call("read", json!({"path": path}))
}

fn glob(pattern: &str) -> PlannedCall {
    let most = OFFLINE_GLOB_RESULTS;
    let arguments = json!({"pattern": pattern, "file_type": "file", "max_results": most});
    call("glob", arguments)
}

/// README, manifest and an entry point side by side, and the latest commits.
fn read_what_matters(turn: &CurrentTurn<'_>) -> Vec<PlannedCall> {
    let Some(repository) = Repository::of(turn).filter(|found| !found.files.is_empty()) else {
        return Vec::new();
    };
    let entry = repository.entry_points().next();
    let files = [repository.readme(), repository.manifest(), entry];
    let log = call("shell", json!({"command": "git log --oneline -n 5"}));
    files.into_iter().flatten().map(read).chain([log]).collect()
}

/// Looks for files of which no one could be read, unless policy is the reason.
fn look_elsewhere(paths: &[String], turn: &CurrentTurn<'_>) -> Vec<PlannedCall> {
    let mut failures = turn.failures();
    let missed = failures.all(|(_, error)| error.code == ToolErrorCode::Failed);
    if !missed || turn.returned("read").next().is_some() {
        return Vec::new();
    }
    let names = paths.iter().filter_map(|path| path.rsplit('/').next());
    names.map(|name| glob(&format!("**/{name}"))).collect()
}

/// A search for the text itself, in all files or below a path.
fn search(text: &str, place: Option<&str>) -> PlannedCall {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    let mut arguments = json!({"pattern": pattern, "max_matches": OFFLINE_SEARCH_MATCHES});
    if let (Some(place), Some(fields)) = (place, arguments.as_object_mut()) {
        fields.insert("path".to_owned(), Value::from(place));
    }
    call("grep", arguments)
}
