//! Reads what tools return, tolerantly: a field that is missing or of another
//! type is nothing to say, not a failure.

use serde_json::Value;

/// One line a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit<'a> {
    pub path: &'a str,
    pub line_number: u64,
    pub line: &'a str,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput<'a> {
    pub exit_code: Option<i64>,
    pub stdout: &'a str,
    pub stderr: &'a str,
    pub timed_out: bool,
}

/// The paths of files in a result of `glob`; of plain text, its lines.
pub fn paths(value: &Value) -> Vec<&str> {
    if let Some(text) = value.as_str() {
        return text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
    }
    matches(value)
        .iter()
        .filter(|entry| !matches!(text(entry, "file_type"), "dir" | "directory"))
        .filter_map(|entry| entry.as_str().or_else(|| entry.get("path")?.as_str()))
        .collect()
}

/// How many there are in all, where the tool says so.
pub fn total(value: &Value) -> Option<u64> {
    value.get("total_matches")?.as_u64()
}

/// True if the tool left something out.
pub fn is_truncated(value: &Value) -> bool {
    value
        .get("truncated")
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// The text of a file in a result of `read`.
pub fn content(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// How many lines the file has.
pub fn total_lines(value: &Value) -> Option<u64> {
    value.get("total_lines")?.as_u64()
}

/// The lines in a result of `grep`.
pub fn hits(value: &Value) -> Vec<Hit<'_>> {
    matches(value)
        .iter()
        .filter_map(|entry| {
            Some(Hit {
                path: entry.get("path")?.as_str()?,
                line_number: entry
                    .get("line_number")
                    .and_then(Value::as_u64)
                    .unwrap_or(0),
                line: text(entry, "line"),
            })
        })
        .collect()
}

/// How many lines of how many files match, in a result of `grep` that counts.
pub fn counts(value: &Value) -> (u64, u64) {
    let rows = matches(value);
    let listed = rows.iter().fold(0, |sum: u64, row| {
        sum.saturating_add(row.get("match_count").and_then(Value::as_u64).unwrap_or(0))
    });
    let files = value.get("files_with_matches").and_then(Value::as_u64);
    (
        total(value).unwrap_or(0).max(listed),
        files.unwrap_or(0).max(rows.len() as u64),
    )
}

/// A result of `shell`; of plain text, that is the output.
pub fn command_output(value: &Value) -> CommandOutput<'_> {
    CommandOutput {
        exit_code: value.get("exit_code").and_then(Value::as_i64),
        stdout: value.as_str().unwrap_or_else(|| text(value, "stdout")),
        stderr: text(value, "stderr"),
        timed_out: value
            .get("timed_out")
            .and_then(Value::as_bool)
            .unwrap_or(false),
    }
}

/// A text field, empty where there is none.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn matches(value: &Value) -> &[Value] {
    let list = value
        .as_array()
        .or_else(|| value.get("matches")?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_come_from_objects_strings_and_plain_text() {
        let objects = json!({"matches": [
            {"path": "a.rs", "file_type": "file"},
            {"path": "src", "file_type": "dir"},
            {"path": 7},
        ], "total_matches": 2});
        assert_eq!(paths(&objects), ["a.rs"]);
        assert_eq!(total(&objects), Some(2));
        assert_eq!(paths(&json!(["a", "b"])), ["a", "b"]);
        assert_eq!(paths(&json!("a\n\n b\n")), ["a", "b"]);
        assert_eq!(paths(&Value::Null), [""; 0]);
    }

    #[test]
    fn odd_shapes_are_nothing_to_say() {
        for odd in [
            json!(null),
            json!(3),
            json!({"matches": {}}),
            json!({"matches": [1, null]}),
        ] {
            assert_eq!(hits(&odd), []);
            assert_eq!(content(&odd), None);
            assert_eq!(command_output(&odd).stdout, "");
        }
    }

    #[test]
    fn counts_are_those_of_the_tool_where_rows_were_left_out() {
        let row = json!({"path": "a", "match_count": 2});
        assert_eq!(counts(&json!({"matches": [row, row]})), (4, 2));
        let cut = json!({"matches": [row], "total_matches": 90, "files_with_matches": 30});
        assert_eq!(counts(&cut), (90, 30));
        assert_eq!(counts(&Value::Null), (0, 0));
    }

    #[test]
    fn commands_are_read_with_their_exit_code() {
        let value = json!({"exit_code": 1, "stdout": "out", "stderr": "err", "timed_out": true});
        assert_eq!(
            command_output(&value),
            CommandOutput {
                exit_code: Some(1),
                stdout: "out",
                stderr: "err",
                timed_out: true
            }
        );
    }
}
