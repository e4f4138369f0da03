//! The matcher of a hook file.

use fancy_regex::{Regex, RegexBuilder};
use halter_protocol::public_tools::{our_tool_name, public_tool};

use crate::event::HookEventName;
use crate::limits::MATCHER_BACKTRACKS;

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
    /// names, here and in public files.
    pub fn matches(&self, event: HookEventName, value: &str) -> bool {
        let is_tool = event.matcher_field() == Some("tool_name");
        match self {
            Self::Everything => true,
            Self::Names(names) => names
                .iter()
                .any(|name| name == value || (is_tool && our_tool_name(name) == value)),
            Self::Pattern(pattern) => {
                let others = is_tool.then(|| public_tool(value)).flatten();
                let others = others.into_iter().flat_map(|tool| {
                    std::iter::once(tool.public).chain(tool.aliases.iter().copied())
                });
                // One that gives up is no reason to leave a guard out.
                std::iter::once(value)
                    .chain(others)
                    .any(|name| pattern.is_match(name).unwrap_or(true))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(matcher: &str, value: &str) -> bool {
        let matcher = FileMatcher::parse(matcher).unwrap();
        matcher.matches(HookEventName::PreToolUse, value)
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
            ("Edit|Write", "multi_edit", false),
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
    fn other_events_compare_their_own_value() {
        let matcher = FileMatcher::parse("startup|resume").unwrap();
        assert!(matcher.matches(HookEventName::SessionStart, "startup"));
        assert!(!matcher.matches(HookEventName::SessionStart, "fork"));
        // Not a tool, so its other names mean nothing.
        let matcher = FileMatcher::parse("Bash").unwrap();
        assert!(!matcher.matches(HookEventName::Notification, "shell"));
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
        let started = std::time::Instant::now();
        assert!(matches(pattern, &value));
        assert!(started.elapsed().as_secs() < 5);
        assert_eq!(MATCHER_BACKTRACKS, 100_000);
    }
}
