//! What a server says of a file, as far as a model is shown it.

use crate::limits::{DIAGNOSTIC_CHARS, SHOWN_DIAGNOSTICS};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a server last said of a file. The rest of what it said is not kept: it
/// may be large, and the files many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    /// How often it has said something.
    pub times: u64,
    /// The version of the file it means, if it says so.
    pub version: Option<i64>,
    /// The worst of its diagnostics, as models read them.
    pub shown: Arc<[Value]>,
    /// How many more there were.
    pub left_out: usize,
}

impl Published {
    /// Takes what the server says now in place of what it said before.
    pub fn take(&mut self, params: &Value) {
        let items = params.get("diagnostics").and_then(Value::as_array);
        let mut items: Vec<&Value> = items.into_iter().flatten().collect();
        items.sort_by_key(|item| (severity(item), line(item)));
        self.times += 1;
        self.version = params.get("version").and_then(Value::as_i64);
        self.left_out = items.len().saturating_sub(SHOWN_DIAGNOSTICS);
        let shown = items.into_iter().take(SHOWN_DIAGNOSTICS);
        self.shown = shown.map(diagnostic).collect();
    }

    /// The same for a model: the worst first, within bounds.
    pub fn told(&self) -> Value {
        let mut told = json!({"diagnostics": *self.shown});
        if let (1.., Some(fields)) = (self.left_out, told.as_object_mut()) {
            fields.insert("left_out".to_owned(), json!(self.left_out));
        }
        told
    }
}

/// 1 is an error, 4 a hint; one that says nothing counts as an error.
fn severity(item: &Value) -> u64 {
    item.get("severity").and_then(Value::as_u64).unwrap_or(1)
}

/// The line, counted from 0.
fn line(item: &Value) -> u64 {
    let line = item.pointer("/range/start/line");
    line.and_then(Value::as_u64).unwrap_or(0)
}

fn diagnostic(item: &Value) -> Value {
    let severity = match severity(item) {
        2 => "warning",
        3 => "information",
        4 => "hint",
        _ => "error",
    };
    let cut = |text: &str| text.chars().take(DIAGNOSTIC_CHARS).collect::<String>();
    let message = item.get("message").and_then(Value::as_str);
    let mut shown = json!({
        "line": line(item).saturating_add(1),
        "severity": severity,
        "message": cut(message.unwrap_or_default()),
    });
    let code = match item.get("code") {
        Some(Value::String(code)) => Some(json!(cut(code))),
        Some(code @ Value::Number(_)) => Some(code.clone()),
        _ => None,
    };
    if let (Some(code), Some(fields)) = (code, shown.as_object_mut()) {
        fields.insert("code".to_owned(), code);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: u64, severity: u64, message: &str) -> Value {
        json!({
            "range": {"start": {"line": line, "character": 0}}, "severity": severity,
            "message": message, "code": message, "data": "x".repeat(1000),
        })
    }

    #[test]
    fn the_worst_comes_first_and_no_more_is_kept_than_is_shown() {
        let mut items = vec![item(5, 2, "unused"); SHOWN_DIAGNOSTICS];
        items.push(item(9, 1, &"x".repeat(DIAGNOSTIC_CHARS + 1)));
        let mut published = Published::default();
        published.take(&json!({"diagnostics": items, "version": 3}));
        assert_eq!((published.times, published.version), (1, Some(3)));
        assert_eq!(published.shown.len(), SHOWN_DIAGNOSTICS);
        let told = published.told();
        assert_eq!(
            told["diagnostics"].as_array().unwrap().len(),
            SHOWN_DIAGNOSTICS
        );
        let cut = "x".repeat(DIAGNOSTIC_CHARS);
        let worst = json!({"line": 10, "severity": "error", "message": cut, "code": cut});
        assert_eq!(told["diagnostics"][0], worst);
        assert_eq!(told["left_out"], 1);
        published.take(&json!({"diagnostics": []}));
        assert_eq!(published.told(), json!({"diagnostics": []}));
        assert_eq!((published.times, published.version), (2, None));
    }
}
