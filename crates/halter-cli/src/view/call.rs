//! A tool call on one line.

use crate::limits::CALL_SUMMARY_CHARS;
use crate::terminal::{fitted, safe_line};
use halter_protocol::{ToolCall, ToolError, ToolResult};
use serde_json::Value;

/// The arguments that say most about a call.
const TELLING: [&str; 6] = ["command", "path", "pattern", "subject", "action", "name"];

/// The tool and what it is called with.
pub fn summary(call: &ToolCall) -> String {
    let arguments = &call.arguments;
    let telling: Vec<String> = TELLING
        .iter()
        .filter_map(|name| arguments.get(name)?.as_str())
        .take(2)
        .map(str::to_owned)
        .collect();
    let said = match (telling.is_empty(), arguments) {
        (false, _) => telling.join(" "),
        (true, Value::Object(fields)) if fields.is_empty() => String::new(),
        (true, other) => other.to_string(),
    };
    let line = safe_line(&format!("{} {said}", call.name));
    fitted(line.trim_end(), CALL_SUMMARY_CHARS).into_owned()
}

/// Why a call did not do what it was meant to; none if it did. A command that
/// ran and failed is a result to the model, and a failure to a person.
pub fn shortcoming(result: Result<&ToolResult, &ToolError>) -> Option<String> {
    let value = match result {
        Err(error) => return Some(error.message.clone()),
        Ok(ToolResult::Json { value }) => value,
        Ok(_) => return None,
    };
    let is_set = |name| value.get(name).and_then(Value::as_bool) == Some(true);
    match value.get("exit_code").and_then(Value::as_i64) {
        _ if is_set("cancelled") => Some("cancelled".to_owned()),
        _ if is_set("timed_out") => Some("timed out".to_owned()),
        Some(code) if code != 0 => Some(format!("exit code {code}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(name: &str, arguments: Value) -> String {
        summary(&ToolCall {
            id: "call_1".into(),
            name: name.into(),
            arguments,
        })
    }

    #[test]
    fn calls_are_told_in_a_few_words() {
        assert_eq!(
            shown("shell", json!({"command": "git log\n-n 5"})),
            "shell git log -n 5"
        );
        assert_eq!(
            shown("grep", json!({"pattern": "x", "path": "src"})),
            "grep src x"
        );
        assert_eq!(shown("custom", json!({"a": 1})), "custom {\"a\":1}");
        assert_eq!(shown("custom", json!({})), "custom");
        let long = shown("shell", json!({"command": "x".repeat(500)}));
        assert_eq!(long.chars().count(), CALL_SUMMARY_CHARS);
    }

    #[test]
    fn commands_that_fail_are_told_as_failures() {
        let told = |value| shortcoming(Ok(&ToolResult::json(value)));
        assert_eq!(told(json!({"exit_code": 0, "cancelled": false})), None);
        let failed = told(json!({"exit_code": 2}));
        assert_eq!(failed.as_deref(), Some("exit code 2"));
        let cancelled = told(json!({"exit_code": 130, "cancelled": true}));
        assert_eq!(cancelled.as_deref(), Some("cancelled"));
        assert_eq!(told(json!({"content": "x"})), None);
    }
}
