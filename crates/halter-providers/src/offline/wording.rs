//! What the offline model says.

use super::intent::Intent;
use super::plan::{PlannedCall, needed_tool};
use super::summary::{self, Repository};
use super::turn::{CurrentTurn, content_of, number_of, rows, text_of};
use crate::limits::{OFFLINE_LINE_CHARS, OFFLINE_SHOWN_ITEMS, OFFLINE_SHOWN_LINES};
use halter_protocol::ToolErrorCode;
use serde_json::Value;

/// How every answer ends.
pub const OFFLINE_NOTE: &str = "This is Halter's offline model: fixed rules and your tools, no language model and no network.\n\
    For a real one, set provider and model under [models.default] in halter.toml, or HALTER_MODEL=provider/model, \
    and give its key, such as OPENAI_API_KEY or ANTHROPIC_API_KEY.";

/// What it can do, by the tool that each takes.
const EXAMPLES: &[(&str, &str)] = &[
    ("glob", "Summarize this repository"),
    ("glob", "list files"),
    ("read", "read README.md"),
    ("grep", "find TODOs"),
    ("shell", "run the tests"),
    ("shell", "run git status"),
];

/// The answer to a request, from what the tools returned.
pub fn answer(intent: &Intent, turn: &CurrentTurn<'_>) -> String {
    let missing = needed_tool(intent).filter(|tool| turn.is_fresh() && !turn.tools.contains(tool));
    let body = match missing {
        Some(tool) => without_tool(tool, turn),
        None => body(intent, turn),
    };
    format!("{}\n\n---\n{OFFLINE_NOTE}", body.trim_end())
}

/// What is said before tools are called.
pub fn announcement(calls: &[PlannedCall]) -> String {
    let mut sentences: Vec<String> = Vec::new();
    for (tool, verb, argument) in [
        ("read", "I read", "path"),
        ("glob", "I look for files that match", "pattern"),
        ("grep", "I search for", "pattern"),
        ("shell", "I run", "command"),
    ] {
        let named = calls.iter().filter(|call| call.tool == tool);
        let named = named.map(|call| code(text_of(&call.arguments, argument)));
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            sentences.push(format!("{verb} {}.", named.join(", ")));
        }
    }
    sentences.join(" ")
}

fn body(intent: &Intent, turn: &CurrentTurn<'_>) -> String {
    let answered = match intent {
        Intent::Summarize => summary::repository(turn),
        Intent::Read(_) => Some(files(turn)),
        Intent::List(pattern) => listing(pattern, turn),
        Intent::Search { text, .. } => search(text, turn),
        Intent::Run(_) => command_result(turn),
        Intent::RunTests => command_result(turn).or_else(|| no_tests(turn)),
        Intent::Greet => Some(format!("Hello! {}", abilities(turn))),
        Intent::Unclear => Some(format!(
            "I did not understand that: I follow a few fixed rules. {}",
            abilities(turn)
        )),
    };
    answered.unwrap_or_else(|| failures(turn).join("\n"))
}

fn without_tool(tool: &str, turn: &CurrentTurn<'_>) -> String {
    let offered = match turn.tools.is_empty() {
        true => "no tools at all".to_owned(),
        false => format!("only {}", turn.tools.join(", ")),
    };
    let tool = code(tool);
    format!(
        "I need the tool {tool} for that, but this session offers {offered}. \
         Add it to `enabled` under [tools] in halter.toml."
    )
}

fn files(turn: &CurrentTurn<'_>) -> String {
    let read = turn.returned("read").map(|(arguments, value)| {
        let path = code(match text_of(value, "path") {
            "" => text_of(arguments, "path"),
            path => path,
        });
        let text = content_of(value);
        let lines = number_of(value, "total_lines").unwrap_or(text.lines().count() as u64);
        format!(
            "{path} ({}):\n\n{}",
            plural(lines, "line"),
            excerpt(text, End::Start)
        )
    });
    let parts: Vec<String> = read.chain(failures(turn)).collect();
    parts.join("\n\n")
}

fn listing(pattern: &str, turn: &CurrentTurn<'_>) -> Option<String> {
    let found = Repository::of(turn)?;
    let pattern = code(pattern);
    if found.files.is_empty() {
        return Some(format!("No file matches {pattern}."));
    }
    let paths: Vec<String> = found.files.iter().map(|file| format!("- {file}")).collect();
    let (count, paths) = (plural(found.total, "file"), bounded(&paths, found.total));
    Some(format!("{count} match {pattern}:\n\n{paths}"))
}

fn search(text: &str, turn: &CurrentTurn<'_>) -> Option<String> {
    let (_, value) = turn.returned("grep").next()?;
    let found: Vec<String> = rows(value).iter().map(match_line).collect();
    let text = code(text);
    if found.is_empty() {
        return Some(format!("{text} does not occur here."));
    }
    let total = number_of(value, "total_matches").unwrap_or(found.len() as u64);
    let truncated = value.get("truncated") == Some(&Value::Bool(true));
    let more = if truncated { "at least " } else { "" };
    let (count, found) = (plural(total, "line"), bounded(&found, total));
    Some(format!("{text} occurs in {more}{count}:\n\n{found}"))
}

fn match_line(row: &Value) -> String {
    let line = clip(text_of(row, "line").trim(), OFFLINE_LINE_CHARS);
    match number_of(row, "line_number") {
        Some(number) => format!("- {}:{number}: {line}", text_of(row, "path")),
        None => format!("- {}: {line}", text_of(row, "path")),
    }
}

fn command_result(turn: &CurrentTurn<'_>) -> Option<String> {
    let (arguments, value) = turn.returned("shell").next()?;
    let timed_out = value.get("timed_out") == Some(&Value::Bool(true));
    let ended = match value.get("exit_code").and_then(Value::as_i64) {
        _ if timed_out => "ran out of time".to_owned(),
        Some(0) => "succeeded".to_owned(),
        Some(code) => format!("failed with exit code {code}"),
        None => "ended".to_owned(),
    };
    let mut parts = vec![format!("{} {ended}.", code(text_of(arguments, "command")))];
    let output = value.as_str().unwrap_or_else(|| text_of(value, "stdout"));
    if !output.trim().is_empty() {
        parts.push(excerpt(output, End::Last));
    }
    let errors = text_of(value, "stderr");
    if !errors.trim().is_empty() {
        let errors = excerpt(errors, End::Last);
        parts.push(format!("It wrote to standard error:\n\n{errors}"));
    }
    Some(parts.join("\n\n"))
}

fn no_tests(turn: &CurrentTurn<'_>) -> Option<String> {
    turn.returned("glob").next()?;
    failures(turn).is_empty().then(|| {
        "I found no file here that tells me how the tests are run, such as Cargo.toml, \
         package.json, pyproject.toml, go.mod or a Makefile. Say it, as in “run make check”."
            .to_owned()
    })
}

fn abilities(turn: &CurrentTurn<'_>) -> String {
    let offered = EXAMPLES
        .iter()
        .filter(|(tool, _)| turn.tools.contains(tool));
    let offered: Vec<String> = offered.map(|(_, example)| format!("- {example}")).collect();
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
pub fn failures(turn: &CurrentTurn<'_>) -> Vec<String> {
    let failed = turn.failures().map(|(finding, error)| {
        let arguments = ["path", "command", "pattern"].iter();
        let mut about = arguments.map(|name| text_of(&finding.arguments, name));
        let about = about.find(|text| !text.is_empty());
        let about = about.map(|about| format!(" on {}", code(about)));
        let what = format!("{}{}", code(finding.tool), about.unwrap_or_default());
        let message = clip(error.message.trim(), OFFLINE_LINE_CHARS * 2);
        match error.code {
            ToolErrorCode::PolicyDenied => format!("Policy refused {what}: {message}"),
            _ => format!("{what} failed ({}): {message}", error.code),
        }
    });
    failed.collect()
}

/// The first items, and how many of `total` are left out.
fn bounded(items: &[String], total: u64) -> String {
    let shown = items.iter().take(OFFLINE_SHOWN_ITEMS);
    let mut lines: Vec<String> = shown.cloned().collect();
    let total = total.max(items.len() as u64);
    let left_out = total.saturating_sub(OFFLINE_SHOWN_ITEMS as u64);
    if left_out > 0 {
        lines.push(format!("- … and {left_out} more"));
    }
    lines.join("\n")
}

/// Which lines of a long text are shown: what a command came to stands at its
/// end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Start,
    Last,
}

/// Some lines of a text as a code block.
fn excerpt(text: &str, end: End) -> String {
    let left_out = text.lines().count().saturating_sub(OFFLINE_SHOWN_LINES);
    let skipped = if end == End::Last { left_out } else { 0 };
    let lines = text.lines().skip(skipped).take(OFFLINE_SHOWN_LINES);
    let lines: Vec<String> = lines.map(|line| clip(line, OFFLINE_LINE_CHARS)).collect();
    let text = lines.join("\n");
    let fence = if text.contains("```") { "````" } else { "```" };
    let shown = format!("{fence}\n{text}\n{fence}");
    match (left_out as u64, end) {
        (0, _) => shown,
        (more, End::Start) => format!("{shown}\n({} not shown)", plural(more, "more line")),
        (more, End::Last) => format!("({} before these)\n{shown}", plural(more, "line")),
    }
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

/// At most `limit` characters from the start, with a mark where text was left
/// out.
pub fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_with_a_count() {
        let at_limit = "x\n".repeat(OFFLINE_SHOWN_LINES);
        assert!(!excerpt(&at_limit, End::Start).contains("not shown"));
        let over = "x\n".repeat(OFFLINE_SHOWN_LINES + 1);
        assert!(excerpt(&over, End::Start).ends_with("(1 more line not shown)"));
        assert!(excerpt(&over, End::Last).starts_with("(1 line before these)\n```\n"));
        let wide = "y".repeat(OFFLINE_LINE_CHARS + 1);
        let clipped = format!("{}…", "y".repeat(OFFLINE_LINE_CHARS));
        assert!(excerpt(&wide, End::Start).contains(&clipped));
        let fenced = excerpt("```\na\n```", End::Start);
        assert_eq!(
            fenced, "````\n```\na\n```\n````",
            "longer than those inside"
        );
    }

    #[test]
    fn long_lists_are_cut_with_a_count() {
        let items: Vec<String> = (0..=OFFLINE_SHOWN_ITEMS).map(|n| n.to_string()).collect();
        let total = items.len() as u64;
        assert!(!bounded(&items[1..], total - 1).contains("more"));
        assert!(bounded(&items, total).ends_with("… and 1 more"));
        assert!(bounded(&items[..1], 90).ends_with("… and 60 more"));
    }
}
