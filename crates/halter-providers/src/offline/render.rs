//! What the offline model says.

use super::exchange::Exchange;
use super::intent::{Countable, Intent, TaskRequest};
use super::plan::{PlannedCall, needed_tool};
use super::repository::Repository;
use super::results::{self, Hit};
use super::summary;
use super::words::clip;
use crate::limits::{OFFLINE_LINE_CHARS, OFFLINE_SHOWN_ITEMS, OFFLINE_SHOWN_LINES};
use halter_protocol::{ToolError, ToolErrorCode};
use serde_json::Value;

/// How every answer ends.
pub const OFFLINE_NOTE: &str = "This is Halter's offline model: fixed rules and your tools, no language model and no network.\n\
    For a real one, set provider and model under [models.default] in halter.toml, or HALTER_MODEL=provider/model, \
    and give its key, such as OPENAI_API_KEY or ANTHROPIC_API_KEY.";

/// The answer to a request, from what the tools said.
pub fn answer(intent: &Intent, exchange: &Exchange<'_>) -> String {
    let body = match missing_tool(intent, exchange) {
        Some(tool) => without_tool(tool, exchange),
        None => body(intent, exchange),
    };
    format!("{}\n\n---\n{OFFLINE_NOTE}", body.trim_end())
}

/// What the user wants, to follow "The user wants me to".
pub fn wish(intent: &Intent) -> &'static str {
    match intent {
        Intent::Summarize => "describe this repository: first its files, then what they say",
        Intent::Read { .. } => "show files",
        Intent::List { .. } => "list files",
        Intent::Search { .. } => "find a text",
        Intent::Explain { .. } => "explain a name: I look for its definition and its uses",
        Intent::Count(_) => "count something",
        Intent::Run { .. } => "run a command",
        Intent::Write { .. } => "write a file",
        Intent::Edit { .. } => "change a file: I read it before I touch it",
        Intent::Task(_) => "work on the task list",
        Intent::Greet | Intent::Help | Intent::Unclear => "talk",
    }
}

/// What is said before tools are called.
pub fn announcement(calls: &[PlannedCall]) -> String {
    let mut sentences: Vec<String> = Vec::new();
    let read: Vec<String> = arguments_of(calls, "read", "path");
    if !read.is_empty() {
        sentences.push(format!("I read {}.", read.join(", ")));
    }
    for (tool, verb, argument) in [
        ("glob", "I look for files that match", "pattern"),
        ("grep", "I search for", "pattern"),
        ("shell", "I run", "command"),
        ("write", "I write", "path"),
        ("edit", "I change", "path"),
    ] {
        let named = arguments_of(calls, tool, argument);
        if !named.is_empty() {
            sentences.push(format!("{verb} {}.", named.join(" and ")));
        }
    }
    if calls.iter().any(|call| call.tool == "task") {
        sentences.push("I look at the task list.".to_owned());
    }
    sentences.join(" ")
}

fn arguments_of(calls: &[PlannedCall], tool: &str, argument: &str) -> Vec<String> {
    calls
        .iter()
        .filter(|call| call.tool == tool)
        .map(|call| code(results::text(&call.arguments, argument)))
        .collect()
}

fn body(intent: &Intent, exchange: &Exchange<'_>) -> String {
    match intent {
        Intent::Summarize => summary::repository(exchange),
        Intent::Read { .. } => files(exchange),
        Intent::List { pattern } => listing(pattern, exchange),
        Intent::Search { text, .. } => search(text, exchange),
        Intent::Explain { name } => explanation(name, exchange),
        Intent::Count(what) => count(what, exchange),
        Intent::Run { command } => command_result(command, exchange),
        Intent::Write { path, content } => written(path, content, exchange),
        Intent::Edit { path, old, new } => edited(path, old, new, exchange),
        Intent::Task(request) => tasks(request, exchange),
        Intent::Greet => format!("Hello! {}", abilities(exchange)),
        Intent::Help => abilities(exchange),
        Intent::Unclear => format!(
            "I did not understand that: I follow a few fixed rules. {}",
            abilities(exchange)
        ),
    }
}

fn missing_tool(intent: &Intent, exchange: &Exchange<'_>) -> Option<&'static str> {
    let tool = needed_tool(intent)?;
    (exchange.findings.is_empty() && !exchange.offers(tool)).then_some(tool)
}

fn without_tool(tool: &str, exchange: &Exchange<'_>) -> String {
    let offered = match exchange.tools.is_empty() {
        true => "no tools at all".to_owned(),
        false => format!("only {}", exchange.tools.join(", ")),
    };
    format!(
        "I need the tool {} for that, but this session offers {offered}. \
         Add it to `enabled` under [tools] in halter.toml.",
        code(tool)
    )
}

fn files(exchange: &Exchange<'_>) -> String {
    let mut parts: Vec<String> = exchange
        .returned("read")
        .map(|(arguments, value)| {
            let path = match results::text(value, "path") {
                "" => results::text(arguments, "path"),
                path => path,
            };
            let text = results::content(value).unwrap_or_default();
            let lines = results::total_lines(value).unwrap_or(text.lines().count() as u64);
            format!(
                "{} ({}):\n\n{}",
                code(path),
                plural(lines, "line"),
                excerpt(text)
            )
        })
        .collect();
    parts.extend(failures(exchange));
    parts.join("\n\n")
}

fn listing(pattern: &str, exchange: &Exchange<'_>) -> String {
    let Some(found) = Repository::of(exchange) else {
        return failures(exchange).join("\n");
    };
    if found.files().is_empty() {
        return format!("No file matches {}.", code(pattern));
    }
    let paths: Vec<String> = found
        .files()
        .iter()
        .map(|file| format!("- {}", file.shown))
        .collect();
    format!(
        "{} match {}:\n\n{}",
        plural(found.total, "file"),
        code(pattern),
        bounded(&paths, found.total)
    )
}

fn search(text: &str, exchange: &Exchange<'_>) -> String {
    if let Some((_, output)) = exchange.returned("shell").next() {
        return excerpt(results::command_output(output).stdout);
    }
    let found: Vec<(&Value, Vec<Hit<'_>>)> = exchange
        .returned("grep")
        .map(|(_, value)| (value, results::hits(value)))
        .collect();
    let Some((value, hits)) = found.iter().find(|(_, hits)| !hits.is_empty()) else {
        let failed = failures(exchange);
        return match failed.is_empty() {
            true => format!(
                "{} does not occur here, in upper or lower case.",
                code(text)
            ),
            false => failed.join("\n"),
        };
    };
    let total = results::total(value).unwrap_or(hits.len() as u64);
    let more = if results::is_truncated(value) {
        "at least "
    } else {
        ""
    };
    let lines: Vec<String> = hits.iter().map(show_hit).collect();
    format!(
        "{} occurs in {more}{}:\n\n{}",
        code(text),
        plural(total, "line"),
        bounded(&lines, total)
    )
}

fn explanation(name: &str, exchange: &Exchange<'_>) -> String {
    let mut searches = exchange
        .returned("grep")
        .map(|(_, value)| results::hits(value));
    let definitions = searches.next().unwrap_or_default();
    let uses = searches.next().unwrap_or_default();
    let mut parts = Vec::new();
    match definitions.first().or(uses.first()) {
        None => parts.push(format!("I found nothing called {} here.", code(name))),
        Some(hit) => {
            let verb = if definitions.is_empty() {
                "occurs"
            } else {
                "is defined"
            };
            parts.push(format!("{} {verb} in {}:", code(name), place(hit)));
        }
    }
    for (_, value) in exchange.returned("read") {
        parts.push(excerpt(results::content(value).unwrap_or_default()));
    }
    if !uses.is_empty() {
        let mut paths: Vec<&str> = uses.iter().map(|hit| hit.path).collect();
        paths.sort_unstable();
        paths.dedup();
        let shown: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
        let heading = format!("It occurs in {}:", plural(paths.len() as u64, "file"));
        parts.push(format!(
            "{heading}\n\n{}",
            bounded(&shown, paths.len() as u64)
        ));
    }
    parts.extend(failures(exchange));
    parts.push("I quote the code; what it means takes a real model.".to_owned());
    parts.join("\n\n")
}

fn count(what: &Countable, exchange: &Exchange<'_>) -> String {
    let counted = match what {
        Countable::Files { pattern } => Repository::of(exchange)
            .map(|found| format!("{} match {}.", plural(found.total, "file"), code(pattern))),
        Countable::Occurrences { text } => exchange.returned("grep").next().map(|(_, value)| {
            let (lines, files) = results::counts(value);
            format!(
                "{} occurs in {} of {}.",
                code(text),
                plural(lines, "line"),
                plural(files, "file")
            )
        }),
        Countable::Lines { path } => exchange.returned("read").next().map(|(_, value)| {
            let text = results::content(value).unwrap_or_default();
            let lines = results::total_lines(value).unwrap_or(text.lines().count() as u64);
            format!("{} has {}.", code(path), plural(lines, "line"))
        }),
    };
    counted.unwrap_or_else(|| failures(exchange).join("\n"))
}

fn command_result(command: &str, exchange: &Exchange<'_>) -> String {
    let Some((_, value)) = exchange.returned("shell").next() else {
        return failures(exchange).join("\n");
    };
    let output = results::command_output(value);
    let ended = match (output.timed_out, output.exit_code) {
        (true, _) => "ran out of time".to_owned(),
        (false, Some(0)) => "succeeded".to_owned(),
        (false, Some(code)) => format!("failed with exit code {code}"),
        (false, None) => "ended".to_owned(),
    };
    let mut parts = vec![format!("{} {ended}.", code(command))];
    if !output.stdout.trim().is_empty() {
        parts.push(excerpt(output.stdout));
    }
    if !output.stderr.trim().is_empty() {
        parts.push(format!(
            "It wrote to standard error:\n\n{}",
            excerpt(output.stderr)
        ));
    }
    parts.join("\n\n")
}

fn written(path: &str, content: &str, exchange: &Exchange<'_>) -> String {
    match exchange.returned("write").next() {
        Some(_) => format!(
            "I wrote {} to {}.",
            plural(content.len() as u64, "byte"),
            code(path)
        ),
        None => failures(exchange).join("\n"),
    }
}

fn edited(path: &str, old: &str, new: &str, exchange: &Exchange<'_>) -> String {
    match exchange.returned("edit").next() {
        Some(_) => format!(
            "I replaced {} with {} in {}.",
            code(old),
            code(new),
            code(path)
        ),
        None => failures(exchange).join("\n"),
    }
}

fn tasks(request: &TaskRequest, exchange: &Exchange<'_>) -> String {
    let Some((_, value)) = exchange.returned("task").next() else {
        return failures(exchange).join("\n");
    };
    let line = |task: &Value| {
        let id = task.get("id").map(Value::to_string).unwrap_or_default();
        let status = results::text(task, "status");
        format!("- {id}: {} ({status})", results::text(task, "subject"))
    };
    match request {
        TaskRequest::Add { subject } => format!("I added the task {}.", code(subject)),
        TaskRequest::Complete { id } => format!("Task {id} is complete."),
        TaskRequest::List => {
            let tasks = value.get("tasks").and_then(Value::as_array);
            let lines: Vec<String> = tasks.into_iter().flatten().map(line).collect();
            match lines.is_empty() {
                true => "The task list is empty.".to_owned(),
                false => format!("Your tasks:\n\n{}", bounded(&lines, lines.len() as u64)),
            }
        }
    }
}

fn abilities(exchange: &Exchange<'_>) -> String {
    let examples = [
        ("glob", "Summarize this repository"),
        ("glob", "list rust files"),
        ("read", "read README.md"),
        ("grep", "find TODO"),
        ("grep", "what does main do?"),
        ("grep", "how many times does unwrap occur?"),
        ("shell", "run git status"),
        ("write", "write hello to notes.txt"),
        ("edit", "replace hello with goodbye in notes.txt"),
        ("task", "add a task: write tests"),
    ];
    let offered: Vec<String> = examples
        .iter()
        .filter(|(tool, _)| exchange.offers(tool))
        .map(|(_, example)| format!("- {example}"))
        .collect();
    match offered.is_empty() {
        true => "I can do nothing here, because this session offers none of the tools I know."
            .to_owned(),
        false => format!(
            "With the tools of this session I can, for example:\n\n{}",
            offered.join("\n")
        ),
    }
}

/// What failed, in a sentence each.
pub fn failures(exchange: &Exchange<'_>) -> Vec<String> {
    exchange
        .failures()
        .map(|(finding, error)| {
            let about = ["path", "command", "pattern"]
                .iter()
                .find_map(|name| finding.argument(name))
                .map(|about| format!(" on {}", code(about)))
                .unwrap_or_default();
            failure(&format!("{}{about}", code(finding.tool)), error)
        })
        .collect()
}

fn failure(what: &str, error: &ToolError) -> String {
    let message = clip(error.message.trim(), OFFLINE_LINE_CHARS * 2);
    match error.code {
        ToolErrorCode::PolicyDenied => format!("Policy refused {what}: {message}"),
        ToolErrorCode::HookBlocked => format!("A hook blocked {what}: {message}"),
        ToolErrorCode::Cancelled => format!("{what} was cancelled: {message}"),
        ToolErrorCode::OutcomeUnknown => {
            format!("{what} may or may not have taken effect: {message}")
        }
        _ => format!("{what} failed ({}): {message}", error.code),
    }
}

fn show_hit(hit: &Hit<'_>) -> String {
    let line = clip(hit.line.trim(), OFFLINE_LINE_CHARS);
    format!("- {}: {line}", place(hit))
}

fn place(hit: &Hit<'_>) -> String {
    match hit.line_number {
        0 => hit.path.to_owned(),
        line => format!("{}:{line}", hit.path),
    }
}

/// The first items, and how many are left out of `total`.
pub fn bounded(items: &[String], total: u64) -> String {
    let mut text = items
        .iter()
        .take(OFFLINE_SHOWN_ITEMS)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    let left_out = total
        .max(items.len() as u64)
        .saturating_sub(OFFLINE_SHOWN_ITEMS as u64);
    if left_out > 0 {
        text.push_str(&format!("\n- … and {left_out} more"));
    }
    text
}

/// The first lines of a text as a code block.
pub fn excerpt(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .take(OFFLINE_SHOWN_LINES)
        .map(|line| clip(line, OFFLINE_LINE_CHARS))
        .collect();
    let left_out = text.lines().count().saturating_sub(lines.len());
    let note = match left_out {
        0 => String::new(),
        more => format!("\n({} not shown)", plural(more as u64, "more line")),
    };
    // A longer fence than any in the text.
    let fence = (3..)
        .map(|ticks| "`".repeat(ticks))
        .find(|fence| !text.contains(fence));
    let fence = fence.unwrap_or_default();
    format!("{fence}\n{}\n{fence}{note}", lines.join("\n"))
}

/// A short text set apart from prose.
pub fn code(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    format!("`{}`", clip(line, OFFLINE_LINE_CHARS).replace('`', "'"))
}

/// `1 file`, `2 files`.
pub fn plural(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_with_a_count() {
        let at_limit = "x\n".repeat(OFFLINE_SHOWN_LINES);
        assert!(!excerpt(&at_limit).contains("not shown"));
        let over = "x\n".repeat(OFFLINE_SHOWN_LINES + 1);
        assert!(excerpt(&over).ends_with("(1 more line not shown)"));
        let wide = "y".repeat(OFFLINE_LINE_CHARS + 1);
        assert!(excerpt(&wide).contains(&format!("{}…", "y".repeat(OFFLINE_LINE_CHARS))));
    }

    #[test]
    fn long_lists_are_cut_with_a_count() {
        let items: Vec<String> = (0..=OFFLINE_SHOWN_ITEMS).map(|n| n.to_string()).collect();
        let total = items.len() as u64;
        assert!(!bounded(&items[1..], total - 1).contains("more"));
        assert!(bounded(&items, total).ends_with("… and 1 more"));
        assert!(bounded(&items[..1], 90).ends_with("… and 60 more"));
    }

    #[test]
    fn a_fence_is_longer_than_those_inside() {
        assert_eq!(excerpt("```\na\n```"), "````\n```\na\n```\n````");
        assert_eq!(code("a`b\nc"), "`a'b`");
    }
}
