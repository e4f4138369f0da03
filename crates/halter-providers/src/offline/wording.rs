//! What the offline model says.

use super::exchange::{Exchange, content_of, number_of, rows, text_of};
use super::intent::Intent;
use super::plan::{PlannedCall, needed_tool};
use super::summary::{self, Repository};
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
pub fn answer(intent: &Intent, exchange: &Exchange<'_>) -> String {
    let missing =
        needed_tool(intent).filter(|tool| exchange.findings.is_empty() && !exchange.offers(tool));
    let body = match missing {
        Some(tool) => without_tool(tool, exchange),
        None => body(intent, exchange),
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
        let named: Vec<String> = named
            .map(|call| code(text_of(&call.arguments, argument)))
            .collect();
        if !named.is_empty() {
            sentences.push(format!("{verb} {}.", named.join(", ")));
        }
    }
    sentences.join(" ")
}

fn body(intent: &Intent, exchange: &Exchange<'_>) -> String {
    let answered = match intent {
        Intent::Summarize => summary::repository(exchange),
        Intent::Read { .. } => Some(files(exchange)),
        Intent::List { pattern } => listing(pattern, exchange),
        Intent::Search { text, .. } => search(text, exchange),
        Intent::Run { .. } => command_result(exchange),
        Intent::RunTests => command_result(exchange).or_else(|| no_tests(exchange)),
        Intent::Greet => Some(format!("Hello! {}", abilities(exchange))),
        Intent::Unclear => Some(format!(
            "I did not understand that: I follow a few fixed rules. {}",
            abilities(exchange)
        )),
    };
    answered.unwrap_or_else(|| failures(exchange).join("\n"))
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
    let read = exchange.returned("read").map(|(arguments, value)| {
        let path = match text_of(value, "path") {
            "" => text_of(arguments, "path"),
            path => path,
        };
        let text = content_of(value);
        let lines = number_of(value, "total_lines").unwrap_or(text.lines().count() as u64);
        format!(
            "{} ({}):\n\n{}",
            code(path),
            plural(lines, "line"),
            excerpt(text)
        )
    });
    let parts: Vec<String> = read.chain(failures(exchange)).collect();
    parts.join("\n\n")
}

fn listing(pattern: &str, exchange: &Exchange<'_>) -> Option<String> {
    let found = Repository::of(exchange)?;
    if found.files.is_empty() {
        return Some(format!("No file matches {}.", code(pattern)));
    }
    let paths: Vec<String> = found.files.iter().map(|file| format!("- {file}")).collect();
    Some(format!(
        "{} match {}:\n\n{}",
        plural(found.total, "file"),
        code(pattern),
        bounded(&paths, found.total)
    ))
}

fn search(text: &str, exchange: &Exchange<'_>) -> Option<String> {
    let (_, value) = exchange.returned("grep").next()?;
    let found: Vec<String> = rows(value).iter().map(match_line).collect();
    if found.is_empty() {
        return Some(format!("{} does not occur here.", code(text)));
    }
    let total = number_of(value, "total_matches").unwrap_or(found.len() as u64);
    let truncated = value.get("truncated").and_then(Value::as_bool);
    let more = if truncated == Some(true) {
        "at least "
    } else {
        ""
    };
    Some(format!(
        "{} occurs in {more}{}:\n\n{}",
        code(text),
        plural(total, "line"),
        bounded(&found, total)
    ))
}

fn match_line(row: &Value) -> String {
    let line = clip(text_of(row, "line").trim(), OFFLINE_LINE_CHARS);
    match number_of(row, "line_number") {
        Some(number) => format!("- {}:{number}: {line}", text_of(row, "path")),
        None => format!("- {}: {line}", text_of(row, "path")),
    }
}

fn command_result(exchange: &Exchange<'_>) -> Option<String> {
    let (arguments, value) = exchange.returned("shell").next()?;
    let timed_out = value.get("timed_out").and_then(Value::as_bool);
    let ended = match (timed_out, value.get("exit_code").and_then(Value::as_i64)) {
        (Some(true), _) => "ran out of time".to_owned(),
        (_, Some(0)) => "succeeded".to_owned(),
        (_, Some(code)) => format!("failed with exit code {code}"),
        (_, None) => "ended".to_owned(),
    };
    let mut parts = vec![format!("{} {ended}.", code(text_of(arguments, "command")))];
    let output = value.as_str().unwrap_or_else(|| text_of(value, "stdout"));
    if !output.trim().is_empty() {
        parts.push(excerpt_of_end(output));
    }
    let errors = text_of(value, "stderr");
    if !errors.trim().is_empty() {
        parts.push(format!(
            "It wrote to standard error:\n\n{}",
            excerpt_of_end(errors)
        ));
    }
    Some(parts.join("\n\n"))
}

fn no_tests(exchange: &Exchange<'_>) -> Option<String> {
    exchange.returned("glob").next()?;
    failures(exchange).is_empty().then(|| {
        "I found no file here that tells me how the tests are run, such as Cargo.toml, \
         package.json, pyproject.toml, go.mod or a Makefile. Say it, as in “run make check”."
            .to_owned()
    })
}

fn abilities(exchange: &Exchange<'_>) -> String {
    let offered = EXAMPLES.iter().filter(|(tool, _)| exchange.offers(tool));
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
pub fn failures(exchange: &Exchange<'_>) -> Vec<String> {
    let failed = exchange.failures().map(|(finding, error)| {
        let arguments = ["path", "command", "pattern"].iter();
        let about = arguments.map(|name| text_of(&finding.arguments, name));
        let about = about.into_iter().find(|text| !text.is_empty());
        let about = about
            .map(|about| format!(" on {}", code(about)))
            .unwrap_or_default();
        let what = format!("{}{about}", code(finding.tool));
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
fn excerpt(text: &str) -> String {
    let left_out = text.lines().count().saturating_sub(OFFLINE_SHOWN_LINES);
    let shown = fenced(text.lines().take(OFFLINE_SHOWN_LINES));
    match left_out {
        0 => shown,
        more => format!("{shown}\n({} not shown)", plural(more as u64, "more line")),
    }
}

/// The last lines of a text as a code block: what a command came to stands at
/// its end.
fn excerpt_of_end(text: &str) -> String {
    let left_out = text.lines().count().saturating_sub(OFFLINE_SHOWN_LINES);
    let shown = fenced(text.lines().skip(left_out));
    match left_out {
        0 => shown,
        more => format!("({} before these)\n{shown}", plural(more as u64, "line")),
    }
}

fn fenced<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<String> = lines.map(|line| clip(line, OFFLINE_LINE_CHARS)).collect();
    let text = lines.join("\n");
    let fence = if text.contains("```") { "````" } else { "```" };
    format!("{fence}\n{text}\n{fence}")
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
        assert!(!excerpt(&at_limit).contains("not shown"));
        let over = "x\n".repeat(OFFLINE_SHOWN_LINES + 1);
        assert!(excerpt(&over).ends_with("(1 more line not shown)"));
        assert!(excerpt_of_end(&over).starts_with("(1 line before these)\n```\n"));
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
