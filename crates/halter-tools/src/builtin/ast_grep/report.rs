//! What a search found, as results show it.

use super::AstGrepInput;
use super::scan::{FoundMatch, Match, Scan, ScanEnd};
use crate::builtin::support::text_head;
use crate::limits::{AST_RESULT_BYTES, LINE_BYTES};
use ast_grep_core::meta_var::MetaVariable;
use serde_json::{Map, Value, json};

/// Some of the rows, bounded in number and size, and how many there are.
pub(super) struct FoundPage {
    rows: Vec<Value>,
    offset: u64,
    limit: u64,
    room: usize,
    next: Option<u64>,
    pub(super) total: u64,
}

impl FoundPage {
    pub(super) fn new(offset: u64, limit: u64) -> Self {
        Self {
            rows: Vec::new(),
            offset,
            limit,
            room: AST_RESULT_BYTES,
            next: None,
            total: 0,
        }
    }

    /// Counts a row, and keeps it if it is wanted and there is room.
    pub(super) fn add(&mut self, row: impl FnOnce() -> Value) {
        let index = self.total;
        self.total += 1;
        if index < self.offset || self.next.is_some() {
            return;
        }
        if self.rows.len() as u64 >= self.limit {
            self.next = Some(index);
            return;
        }
        let mut row = row();
        let mut size = row.to_string().len();
        if size > self.room {
            if !self.rows.is_empty() {
                self.next = Some(index);
                return;
            }
            // Only what variables stand for is as long as a file.
            if let Some(meta) = row.get_mut("meta") {
                *meta = "left out, it is too long".into();
            }
            size = row.to_string().len();
        }
        self.room = self.room.saturating_sub(size);
        self.rows.push(row);
    }

    pub(super) fn into_map(self, name: &str) -> Map<String, Value> {
        let mut result = Map::new();
        result.insert(name.to_owned(), self.rows.into());
        if let Some(next) = self.next {
            result.insert("next_offset".into(), next.into());
        }
        result
    }
}

pub(super) fn found_row(path: &str, input: &AstGrepInput, found: FoundMatch<'_>) -> Value {
    let FoundMatch { node, rule } = found;
    let mut row = place(path, &node);
    row.insert("text".into(), shown_text(&node.text()).into());
    if input.patterns.len() > 1 {
        row.insert("pattern".into(), json!(input.patterns.get(rule.index)));
    }
    if input.include_meta {
        row.insert("meta".into(), Value::Object(meta(&node)));
    }
    Value::Object(row)
}

pub(super) fn rewritten_row(path: &str, node: &Match<'_>, after: &str) -> Value {
    let mut row = place(path, node);
    row.insert("before".into(), shown_text(&node.text()).into());
    row.insert("after".into(), shown_text(after).into());
    Value::Object(row)
}

fn place(path: &str, node: &Match<'_>) -> Map<String, Value> {
    let mut row = Map::new();
    let (start, end) = (node.start_pos(), node.end_pos());
    row.insert("path".into(), path.into());
    row.insert("line_number".into(), (start.line() + 1).into());
    if end.line() > start.line() {
        row.insert("end_line_number".into(), (end.line() + 1).into());
    }
    row
}

/// What each variable of a pattern stands for.
fn meta(node: &Match<'_>) -> Map<String, Value> {
    let environment = node.get_env();
    let mut meta = Map::new();
    for variable in environment.get_matched_variables() {
        match variable {
            MetaVariable::Capture(name, _) => {
                if let Some(found) = environment.get_match(&name) {
                    meta.insert(name, shown_text(&found.text()).into());
                }
            }
            MetaVariable::MultiCapture(name) => {
                let found = environment.get_multiple_matches(&name);
                let named = found.iter().filter(|node| node.is_named());
                let texts: Vec<_> = named.map(|node| shown_text(&node.text())).collect();
                meta.insert(name, texts.into());
            }
            MetaVariable::Dropped(_) | MetaVariable::Multiple => {}
        }
    }
    meta.sort_keys();
    meta
}

fn shown_text(text: &str) -> String {
    let head = text_head(text, LINE_BYTES);
    match head.len() < text.len() {
        true => format!(
            "{head} … [cut: {} of {} bytes shown]",
            head.len(),
            text.len()
        ),
        false => head.to_owned(),
    }
}

/// What was left out, and why.
pub(super) fn remarks(result: &mut Map<String, Value>, scan: &Scan<'_>, end: ScanEnd) {
    let is_cut = matches!(end, ScanEnd::OutOfTime | ScanEnd::TooManyEntries);
    let truncated = is_cut || result.contains_key("next_offset");
    result.insert("truncated".into(), truncated.into());
    if !scan.parse_errors.is_empty() {
        result.insert("parse_errors".into(), scan.parse_errors.clone().into());
    }
    if scan.more_parse_errors > 0 {
        result.insert("more_parse_errors".into(), scan.more_parse_errors.into());
    }
    let unusable: Vec<&String> = scan.unusable().collect();
    if !unusable.is_empty() {
        result.insert("pattern_errors".into(), json!(unusable));
    }
    let skipped: Map<String, Value> = [
        ("by_policy", scan.skipped.by_policy),
        ("unreadable", scan.skipped.unreadable),
        ("too_large", scan.skipped.too_large),
        ("not_text", scan.skipped.not_text),
        ("too_deep", scan.skipped.too_deep),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| (name.to_owned(), count.into()))
    .collect();
    if !skipped.is_empty() {
        result.insert("skipped".into(), Value::Object(skipped));
    }
    if is_cut {
        let note = "not everything was searched; name a smaller `path` or a `glob`";
        result.insert("note".into(), note.into());
    }
}
