//! The matcher of a hook file.

use super::public::public_reason;
use fancy_regex::{Regex, RegexBuilder};
use halter_protocol::public_tools::{our_tool_name, public_tool, public_tool_name};

use crate::event::HookEventName;
use crate::limits::MATCHER_BACKTRACKS;
use serde_json::Value;

/// Which occurrences of an event a group of handlers is for.
#[derive(Debug, Clone)]
pub(crate) enum FileMatcher {
    Everything,
    /// Exactly one of these.
    Names(Vec<String>),
    /// A regular expression that is found anywhere in the value.
    Pattern(Box<Regex>),
}

impl FileMatcher {
    /// Reads a matcher: nothing, `*` and an empty one mean everything; letters,
    /// digits, `_`, `-`, blanks, `|` and `,` are a list of names; anything else
    /// is a regular expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if matches!(text, "" | "*") {
            return Ok(Self::Everything);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_- ,|".contains(c);
        if text.chars().all(plain) {
            let names = text.split(['|', ',']).map(str::trim);
            let names: Vec<String> = names
                .filter(|it| !it.is_empty())
                .map(str::to_owned)
                .collect();
            return match names.is_empty() {
                true => Err("it names nothing".to_owned()),
                false => Ok(Self::Names(names)),
            };
        }
        let pattern = RegexBuilder::new(text)
            .backtrack_limit(MATCHER_BACKTRACKS)
            .build();
        match pattern {
            Ok(pattern) => Ok(Self::Pattern(Box::new(pattern))),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether the value of an event is meant. A tool is meant by each of its
    /// names, here and in public files, and by those of the tools whose work it
    /// does: with this input, or with any if there is none.
    pub fn matches(&self, event: HookEventName, value: &str, input: Option<&Value>) -> bool {
        let tool = match event.is_about_a_call() {
            true => public_tool(value),
            false => None,
        };
        let work_of: Vec<&str> = match (tool, input) {
            (Some(tool), Some(input)) => tool.work_of(input).collect(),
            (Some(tool), None) => tool.stands_in_for.to_vec(),
            (None, _) => Vec::new(),
        };
        match self {
            Self::Everything => true,
            Self::Names(names) => names.iter().any(|name| {
                let ours = our_tool_name(name);
                let means = tool.is_some() && (ours == value || work_of.contains(&ours));
                name == value || means || name == public_reason(event, value)
            }),
            Self::Pattern(pattern) => {
                let own = tool.into_iter().flat_map(|tool| {
                    std::iter::once(tool.public).chain(tool.aliases.iter().copied())
                });
                let others = work_of.iter().map(|name| public_tool_name(name));
                // One that gives up is no reason to leave a guard out.
                [value, public_reason(event, value)]
                    .into_iter()
                    .chain(own)
                    .chain(others)
                    .any(|name| pattern.is_match(name).unwrap_or(true))
            }
        }
    }

    /// Whether the call in a payload is meant; what holds none is.
    pub fn means_call(&self, event: HookEventName, payload: &Value) -> bool {
        let tool = payload.get("tool_name").and_then(Value::as_str);
        match tool.filter(|_| event.is_about_a_call()) {
            Some(tool) => self.matches(event, tool, payload.get("tool_input")),
            None => true,
        }
    }

    /// The names of a list.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Names(names) => names,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(matcher: &str, value: &str) -> bool {
        let matcher = FileMatcher::parse(matcher).unwrap();
        matcher.matches(HookEventName::PreToolUse, value, None)
    }

    #[test]
    fn tools_are_meant_by_all_their_names() {
        for (matcher, tool, meant) in [
            ("", "shell", true),
            ("*", "shell", true),
            ("Bash", "shell", true),
            ("bash", "shell", true),
            ("shell", "shell", true),
            ("Bash", "read", false),
            ("Edit|Write", "write", true),
            ("Edit, Write", "edit", true),
            // Who guards edits and writes guards all that edit and write.
            ("Edit|Write", "multi_edit", true),
            ("Edit|Write", "apply_patch", true),
            ("Write", "apply_patch", true),
            ("Write", "multi_edit", false),
            ("Edit", "notebook_edit", false),
            ("^(Edit|Write)$", "apply_patch", true),
            ("Edit|MultiEdit|Write", "multi_edit", true),
            ("Task", "spawn_agent", true),
            ("Task", "task", false),
            ("TodoWrite", "task", true),
            ("mcp__memory", "mcp__memory__store", false),
            ("mcp__memory__.*", "mcp__memory__store", true),
            ("mcp__.*__write.*", "mcp__files__write_file", true),
            ("^Bash$", "shell", true),
            ("Bash.*", "shell", true),
            ("Notebook.*", "notebook_edit", true),
            ("^(?!mcp__).*", "read", true),
            ("^(?!mcp__).*", "mcp__a__b", false),
            ("Web(Fetch|Search)", "web_fetch", true),
            ("Ba", "shell", false),
            ("custom_tool", "custom_tool", true),
        ] {
            assert_eq!(matches(matcher, tool), meant, "{matcher} {tool}");
        }
    }

    #[test]
    fn a_tool_is_meant_by_the_names_of_those_whose_work_a_call_does() {
        for (matcher, tool, input, meant) in [
            (
                "Bash",
                "pty",
                json!({"action": "start", "command": "ls"}),
                true,
            ),
            (
                "^Bash$",
                "pty",
                json!({"action": "start", "command": "ls"}),
                true,
            ),
            (
                "Bash",
                "pty",
                json!({"action": "write", "input": "ls"}),
                true,
            ),
            ("Bash", "pty", json!({"action": "read"}), false),
            ("pty", "pty", json!({"action": "read"}), true),
            (
                "Bash",
                "process",
                json!({"action": "write", "input": "ls"}),
                true,
            ),
            ("Bash", "process", json!({"action": "poll"}), false),
            ("BashOutput", "process", json!({"action": "poll"}), true),
            ("Bash", "profile", json!({"command": "ls"}), true),
            ("Bash", "profile", json!({"pid": 7}), false),
            ("Edit", "rename", json!({"from": "a", "to": "b"}), true),
            ("Write", "rename", json!({"from": "a", "to": "b"}), true),
            ("Edit", "delete", json!({"path": "a"}), true),
            (
                "Edit",
                "ast_grep",
                json!({"action": "replace", "dry_run": false}),
                true,
            ),
            ("Edit", "ast_grep", json!({"action": "replace"}), false),
            (
                "Edit",
                "ast_grep",
                json!({"action": "find", "dry_run": false}),
                false,
            ),
            ("Write", "image", json!({"output_path": "a.png"}), true),
            ("Write", "image", json!({"path": "a.png"}), false),
            ("Write", "browser", json!({"output_path": "a.png"}), true),
            ("Write", "browser", json!({"action": "snapshot"}), false),
            (
                "Write",
                "profile",
                json!({"pid": 7, "output_path": "a.svg"}),
                true,
            ),
            (
                "Bash",
                "profile",
                json!({"pid": 7, "output_path": "a.svg"}),
                false,
            ),
            (
                "Bash",
                "shell",
                json!({"command": "ls", "background": true}),
                true,
            ),
        ] {
            let parsed = FileMatcher::parse(matcher).unwrap();
            let payload = json!({"tool_name": tool, "tool_input": input});
            let means = parsed.means_call(HookEventName::PreToolUse, &payload);
            assert_eq!(means, meant, "{matcher} {payload}");
        }
    }

    #[test]
    fn other_events_compare_their_own_value() {
        let matcher = FileMatcher::parse("startup|resume").unwrap();
        assert!(matcher.matches(HookEventName::SessionStart, "startup", None));
        assert!(!matcher.matches(HookEventName::SessionStart, "fork", None));
        // Not a tool, so its other names mean nothing.
        let matcher = FileMatcher::parse("Bash").unwrap();
        assert!(!matcher.matches(HookEventName::Notification, "shell", None));
    }

    #[test]
    fn what_is_no_matcher_is_refused_with_a_reason() {
        for text in ["(", "[", "*a", "|", " , "] {
            assert!(FileMatcher::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_that_backtracks_for_ever_gives_up_and_the_guard_runs() {
        let pattern = "(?i)(a|b|ab)*(?>c)";
        let value = "ab".repeat(64);
        // Without a bound it would not come back.
        assert!(matches(pattern, &value));
        assert_eq!(MATCHER_BACKTRACKS, 100_000);
    }
}
