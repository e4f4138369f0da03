//! What to do next: call tools, or answer.
//!
//! The plan of an intent is a list of stages, one per step. The stage is the
//! number of steps already taken for the user's message, so a plan ends
//! whatever the tools return.

use super::exchange::Exchange;
use super::intent::{Countable, Intent, TaskRequest, understand};
use super::render;
use super::repository::{LIST_COMMAND, Repository};
use super::results;
use super::words::{regex_literal, shell_word};
use crate::limits::{
    OFFLINE_GLOB_RESULTS, OFFLINE_PARALLEL_READS, OFFLINE_SEARCH_MATCHES, OFFLINE_SHOWN_LINES,
    OFFLINE_STEPS,
};
use halter_protocol::ToolErrorCode;
use serde_json::{Value, json};

/// Lines around a definition that are read: before it, and in all.
const LINES_BEFORE_DEFINITION: u64 = 8;
const LINES_OF_DEFINITION: usize = 30;

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
            text: render::answer(&intent, exchange),
            calls,
        };
    }
    let thinking = match exchange.steps {
        0 => format!("The user wants me to {}.", render::wish(&intent)),
        _ => "That helps; I take a closer look before I answer.".to_owned(),
    };
    Step {
        thinking,
        text: render::announcement(&calls),
        calls,
    }
}

/// The tool without which nothing can be said.
pub fn needed_tool(intent: &Intent) -> Option<&'static str> {
    Some(match intent {
        Intent::Summarize | Intent::List { .. } | Intent::Count(Countable::Files { .. }) => "glob",
        Intent::Read { .. } | Intent::Count(Countable::Lines { .. }) => "read",
        Intent::Search { .. }
        | Intent::Explain { .. }
        | Intent::Count(Countable::Occurrences { .. }) => "grep",
        Intent::Run { .. } => "shell",
        Intent::Write { .. } => "write",
        Intent::Edit { .. } => "edit",
        Intent::Task(_) => "task",
        Intent::Greet | Intent::Help | Intent::Unclear => return None,
    })
}

fn calls(intent: &Intent, exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let stage = exchange.steps;
    match (intent, stage) {
        (Intent::Summarize, 0) => list_files(exchange),
        (Intent::Summarize, 1) => read_what_matters(exchange),
        (Intent::Read { paths }, 0) => paths.iter().map(|path| read(path)).collect(),
        (Intent::Read { paths }, 1) => look_elsewhere(paths, exchange),
        (Intent::Read { .. }, 2) => read_what_was_found(exchange),
        (Intent::List { pattern } | Intent::Count(Countable::Files { pattern }), 0) => {
            vec![glob(pattern)]
        }
        (Intent::Search { text, glob }, 0) => {
            search(text, glob.as_deref(), CaseRule::Exact, exchange)
        }
        (Intent::Search { text, glob }, 1) if found_nothing(exchange) => {
            search(text, glob.as_deref(), CaseRule::Ignore, exchange)
        }
        (Intent::Explain { name }, 0) => find_definition(name),
        (Intent::Explain { .. }, 1) => read_definition(exchange),
        (Intent::Count(Countable::Occurrences { text }), 0) => vec![count(text)],
        (Intent::Count(Countable::Lines { path }), 0) => vec![read(path)],
        (Intent::Run { command }, 0) => vec![call("shell", json!({"command": command}))],
        (Intent::Write { path, content }, 0) => {
            vec![call("write", json!({"path": path, "content": content}))]
        }
        (Intent::Edit { path, .. }, 0) if exchange.offers("edit") => vec![read(path)],
        (Intent::Edit { path, old, new }, 1) => replace(path, old, new, exchange),
        (Intent::Task(request), 0) => vec![task(request)],
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

fn list_files(exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    match exchange.offers("glob") {
        true => vec![glob(super::intent::ALL_FILES)],
        false => vec![call("shell", json!({"command": LIST_COMMAND}))],
    }
}

/// README, manifest and an entry point side by side, then the latest commits.
fn read_what_matters(exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let Some(repository) = Repository::of(exchange).filter(|found| !found.files().is_empty())
    else {
        return Vec::new();
    };
    let entry = repository.entry_points().into_iter().next();
    let files = [repository.readme(), repository.manifest(), entry];
    let mut calls: Vec<PlannedCall> = files
        .into_iter()
        .flatten()
        .take(OFFLINE_PARALLEL_READS)
        .map(|file| read(&file.path))
        .collect();
    calls.push(call("shell", json!({"command": "git log --oneline -n 5"})));
    calls
}

/// Looks for the files of a step in which no read found anything, unless
/// policy is the reason.
fn look_elsewhere(paths: &[String], exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let missed = exchange.returned("read").next().is_none()
        && exchange
            .failures()
            .all(|(_, error)| error.code == ToolErrorCode::Failed);
    let names = paths
        .iter()
        .filter_map(|path| path.rsplit('/').next())
        .filter(|name| !name.is_empty());
    match missed {
        true => names.map(|name| glob(&format!("**/{name}"))).collect(),
        false => Vec::new(),
    }
}

fn read_what_was_found(exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    exchange
        .returned("glob")
        .flat_map(|(_, value)| results::paths(value))
        .take(OFFLINE_PARALLEL_READS)
        .map(read)
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
enum CaseRule {
    Exact,
    Ignore,
}

fn search(
    text: &str,
    place: Option<&str>,
    case: CaseRule,
    exchange: &Exchange<'_>,
) -> Vec<PlannedCall> {
    if !exchange.offers("grep") {
        let command = format!("rg --line-number --fixed-strings -- {}", shell_word(text));
        return vec![call("shell", json!({"command": command}))];
    }
    let mut arguments = json!({
        "pattern": regex_literal(text),
        "max_matches": OFFLINE_SEARCH_MATCHES,
    });
    if let Some(fields) = arguments.as_object_mut() {
        if let Some(place) = place {
            let key = if place.contains('*') { "glob" } else { "path" };
            fields.insert(key.to_owned(), Value::from(place));
        }
        if case == CaseRule::Ignore {
            fields.insert("ignore_case".to_owned(), Value::from(true));
        }
    }
    vec![call("grep", arguments)]
}

fn found_nothing(exchange: &Exchange<'_>) -> bool {
    let mut searches = exchange.returned("grep").peekable();
    searches.peek().is_some() && searches.all(|(_, value)| results::hits(value).is_empty())
}

fn count(text: &str) -> PlannedCall {
    call(
        "grep",
        json!({"pattern": regex_literal(text), "output_mode": "count"}),
    )
}

/// The definition, and every place that uses the name, side by side.
fn find_definition(name: &str) -> Vec<PlannedCall> {
    let keywords = "fn|struct|enum|trait|type|const|static|mod|class|def|function|func|interface";
    let name = regex_literal(name);
    let pattern = format!(r"\b({keywords})\s+{name}\b");
    vec![
        call("grep", json!({"pattern": pattern, "max_matches": 10})),
        call(
            "grep",
            json!({"pattern": name, "max_matches": OFFLINE_SEARCH_MATCHES}),
        ),
    ]
}

fn read_definition(exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let best = exchange
        .returned("grep")
        .find_map(|(_, value)| results::hits(value).into_iter().next());
    let Some(hit) = best else {
        return Vec::new();
    };
    let offset = hit
        .line_number
        .saturating_sub(LINES_BEFORE_DEFINITION)
        .max(1);
    let arguments = json!({
        "path": hit.path,
        "offset": offset,
        "limit": LINES_OF_DEFINITION.min(OFFLINE_SHOWN_LINES),
    });
    vec![call("read", arguments)]
}

/// Edits what was just read; a file that cannot be read is not edited.
fn replace(path: &str, old: &str, new: &str, exchange: &Exchange<'_>) -> Vec<PlannedCall> {
    let seen = exchange.returned("read").next();
    let arguments = json!({"path": path, "old_string": old, "new_string": new});
    seen.map(|_| call("edit", arguments)).into_iter().collect()
}

fn task(request: &TaskRequest) -> PlannedCall {
    let arguments = match request {
        TaskRequest::Add { subject } => json!({"action": "create", "subject": subject}),
        TaskRequest::List => json!({"action": "list"}),
        TaskRequest::Complete { id } => json!({"action": "complete", "id": id}),
    };
    call("task", arguments)
}

#[cfg(test)]
mod tests;
