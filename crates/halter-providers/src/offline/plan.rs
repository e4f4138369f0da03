//! What to do next: call tools, or answer.
//!
//! The plan of an intent is a list of stages, one per step. The stage is the
//! number of steps already taken for the user's message, so a plan ends
//! whatever the tools return.

use super::exchange::{Exchange, paths_in};
use super::intent::{ALL_FILES, Intent, understand};
use super::summary::Repository;
use super::wording;
use crate::limits::{
    OFFLINE_GLOB_RESULTS, OFFLINE_PARALLEL_READS, OFFLINE_SEARCH_MATCHES, OFFLINE_STEPS,
    OFFLINE_TEST_MILLIS,
};
use halter_protocol::ToolErrorCode;
use serde_json::{Value, json};

/// The next step of the offline model.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// Its visible reasoning.
    pub thinking: String,
    /// What it says.
    pub text: String,
    /// The tools it calls; none if the text is the answer.
    pub calls: Vec<PlannedCall>,
}

/// A tool call to make.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    pub tool: &'static str,
    pub arguments: Value,
}

/// Decides the next step.
pub fn next_step(exchange: &Exchange<'_>) -> Step {
    let intent = understand(&exchange.asked);
    let mut calls = match exchange.steps < OFFLINE_STEPS {
        true => calls(&intent, exchange),
        false => Vec::new(),
    };
    calls.retain(|call| exchange.offers(call.tool));
    if calls.is_empty() {
        return Step {
            thinking: "I have what I need to answer.".to_owned(),
            text: wording::answer(&intent, exchange),
            calls,
        };
    }
    let thinking = match exchange.steps {
        0 => "The user wants me to take a look before I answer.",
        _ => "That helps; I take a closer look before I answer.",
    };
    Step {
        thinking: thinking.to_owned(),
        text: wording::announcement(&calls),
        calls,
    }
}

/// The tool without which nothing can be said.
pub fn needed_tool(intent: &Intent) -> Option<&'static str> {
    match intent {
        Intent::Summarize | Intent::List { .. } => Some("glob"),
        Intent::Read { .. } => Some("read"),
        Intent::Search { .. } => Some("grep"),
        Intent::Run { .. } | Intent::RunTests => Some("shell"),
        Intent::Greet | Intent::Unclear => None,
    }
}

fn calls(intent: &Intent, exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    match (intent, exchange.steps) {
        (Intent::Summarize | Intent::RunTests, 0) => vec![glob(ALL_FILES)],
        (Intent::Summarize, 1) => read_what_matters(exchange),
        (Intent::RunTests, 1) => test_command(exchange),
        (Intent::Read { paths }, 0) => paths.iter().map(|path| read(path)).collect(),
        (Intent::Read { paths }, 1) => look_elsewhere(paths, exchange),
        (Intent::Read { .. }, 2) => {
            let found = exchange
                .returned("glob")
                .flat_map(|(_, value)| paths_in(value));
            found.take(OFFLINE_PARALLEL_READS).map(read).collect()
        }
        (Intent::List { pattern }, 0) => vec![glob(pattern)],
        (Intent::Search { text, place }, 0) => vec![search(text, place.as_deref())],
        (Intent::Run { command }, 0) => vec![call("shell", json!({"command": command}))],
        _ => Vec::new(),
    }
}

fn call(tool: &'static str, arguments: Value) -> PlannedCall {
    PlannedCall { tool, arguments }
}

fn read(path: &str) -> PlannedCall {
    call("read", json!({"path": path}))
}

fn glob(pattern: &str) -> PlannedCall {
    let arguments = json!({
        "pattern": pattern,
        "file_type": "file",
        "max_results": OFFLINE_GLOB_RESULTS,
    });
    call("glob", arguments)
}

/// README, manifest and an entry point side by side, then the latest commits.
fn read_what_matters(exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let Some(repository) = Repository::of(exchange).filter(|found| !found.files.is_empty()) else {
        return Vec::new();
    };
    let entry = repository.entry_points().next();
    let files = [repository.readme(), repository.manifest(), entry];
    let mut calls: Vec<PlannedCall> = files.into_iter().flatten().map(read).collect();
    calls.push(call("shell", json!({"command": "git log --oneline -n 5"})));
    calls
}

/// The command that runs the tests, by the manifest nearest to the root.
fn test_command(exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let repository = Repository::of(exchange);
    let command = repository.as_ref().and_then(Repository::test_command);
    let arguments = |command| json!({"command": command, "timeout_ms": OFFLINE_TEST_MILLIS});
    command
        .map(|command| call("shell", arguments(command)))
        .into_iter()
        .collect()
}

/// Looks for files of which no one could be read, unless policy is the reason.
fn look_elsewhere(paths: &[String], exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let missed = exchange.returned("read").next().is_none()
        && exchange
            .failures()
            .all(|(_, error)| error.code == ToolErrorCode::Failed);
    let names = paths.iter().filter_map(|path| path.rsplit('/').next());
    match missed {
        true => names.map(|name| glob(&format!("**/{name}"))).collect(),
        false => Vec::new(),
    }
}

/// A search for the text itself, in all files or below a path.
fn search(text: &str, place: Option<&str>) -> PlannedCall {
    let mut arguments = json!({
        "pattern": regex_literal(text),
        "max_matches": OFFLINE_SEARCH_MATCHES,
    });
    if let (Some(place), Some(fields)) = (place, arguments.as_object_mut()) {
        fields.insert("path".to_owned(), Value::from(place));
    }
    call("grep", arguments)
}

/// The text as a regular expression that matches it literally.
fn regex_literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}
