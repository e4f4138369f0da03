//! The condition of a hook: which tool calls it is for.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// `tool` or `tool(input)`. Both are globs without regard to case: `*` stands
/// for any text, `?` for one character.
#[derive(Debug)]
pub(crate) struct Condition {
    tool: Regex,
    input: Option<Regex>,
}

impl Condition {
    /// Reads a condition; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (tool, input) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(input) => (tool.trim(), Some(input)),
                None => return Err("it has no closing parenthesis at its end".to_owned()),
            },
        };
        if tool.is_empty() {
            return Err("it names no tool".to_owned());
        }
        Ok(Self {
            tool: glob(tool)?,
            input: input.map(glob).transpose()?,
        })
    }

    /// Whether the call in a payload is one of those meant: its tool fits, and
    /// one of the texts of its input does. A payload without a call cannot be
    /// compared, so the hook runs: a guard runs rather than not.
    pub fn holds(&self, payload: &Value) -> bool {
        let Some(tool) = payload.get("tool_name").and_then(Value::as_str) else {
            return true;
        };
        let fits = |input: &Regex| {
            payload
                .get("tool_input")
                .is_some_and(|value| any_text(value, input))
        };
        self.tool.is_match(tool) && self.input.as_ref().is_none_or(fits)
    }
}

fn any_text(value: &Value, pattern: &Regex) -> bool {
    match value {
        Value::String(text) => pattern.is_match(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, pattern)),
        Value::Object(fields) => fields.values().any(|field| any_text(field, pattern)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn glob(pattern: &str) -> Result<Regex, String> {
    let escaped = regex::escape(pattern)
        .replace(r"\*", ".*")
        .replace(r"\?", ".");
    RegexBuilder::new(&format!("^{escaped}$"))
        .case_insensitive(true)
        .dot_matches_new_line(true)
        .build()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(condition: &str, tool: &str, input: Value) -> bool {
        let payload = json!({"tool_name": tool, "tool_input": input});
        Condition::parse(condition).unwrap().holds(&payload)
    }

    #[test]
    fn tools_and_inputs_are_compared() {
        let push = || json!({"command": "git push --force\norigin", "timeout_ms": 5});
        for (condition, expected) in [
            ("shell", true),
            ("Shell", true),
            ("sh*", true),
            ("*", true),
            ("s?ell(*)", true),
            ("she", false),
            ("read", false),
            ("shell(git push*)", true),
            ("shell( git push*)", false),
            ("shell(GIT PUSH*)", true),
            ("shell(git)", false),
            ("shell(*--force*)", true),
            ("shell(git push (now))", false),
            ("read(git*)", false),
        ] {
            assert_eq!(holds(condition, "shell", push()), expected, "{condition}");
        }
        assert!(holds(
            "task(*x)",
            "task",
            json!({"steps": [{"name": "to x"}]})
        ));
        assert!(!holds("task(*)", "task", json!({"id": 1})));
    }

    #[test]
    fn what_cannot_be_compared_holds() {
        let condition = Condition::parse("shell(rm*)").unwrap();
        assert!(condition.holds(&json!({"prompt": "hello"})));
    }

    #[test]
    fn conditions_that_make_no_sense_are_refused() {
        for (condition, reason) in [
            ("", "names no tool"),
            ("(git*)", "names no tool"),
            ("shell(git", "closing parenthesis"),
        ] {
            let error = Condition::parse(condition).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
