//! Permission modes, and rules as people write them. This module reads the
//! text; what a rule covers is the policy's to say.
//!
//! | rule | covers |
//! |---|---|
//! | `Tool` | every call of the tool, whatever the case or alias of its name |
//! | `Bash(git status)` | that command |
//! | `Bash(git commit *)`, `Bash(git commit:*)` | commands that start with those words |
//! | `Read(./src/**)`, `Edit(*.md)` | reading, changing files that the pattern matches |
//! | `WebFetch(domain:example.com)` | reaching the host; `*.example.com`: its subdomains |
//! | `mcp__server`, `mcp__server__tool` | the tools of a server, one of them |
//! | `mcp__server__tool@DIGEST` | that tool while the server defines it so; only in `allow` |
//! | `Tool(name:value)` | calls with such an argument; not in `allow` |

use crate::public_tools::public_tool;
use serde::{Deserialize, Serialize};
use std::fmt;

mod mode;
mod reader;

pub use mode::PermissionMode;
use reader::RuleReader;

/// What a rule does with the calls it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleEffect {
    /// They run without a question.
    Allow,
    /// A person decides.
    Ask,
    /// They do not run.
    Deny,
}

impl RuleEffect {
    /// The effect as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Who wrote a rule.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RuleSource {
    /// Halter itself.
    Default,
    /// The user's own file, one that was named, or a program.
    #[default]
    User,
    /// The file found in the project.
    Project,
    /// The command line.
    Cli,
    /// An answer that holds for the session.
    Session,
    /// A hook.
    Hook,
}

impl RuleSource {
    /// The source as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User => "user",
            Self::Project => "project",
            Self::Cli => "cli",
            Self::Session => "session",
            Self::Hook => "hook",
        }
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A rule, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    text: String,
    subject: RuleSubject,
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleSubject {
    /// Calls of a tool.
    Tool(ToolPattern),
    /// Shell commands.
    Command(CommandPattern),
    /// Reading files that the pattern matches.
    Read(String),
    /// Changing files that the pattern matches.
    Edit(String),
    /// Reaching hosts, in lower case; `*.` before it means its subdomains.
    Domain(String),
    /// Calls of a tool with an argument of such a value; `*` stands for any text.
    Argument {
        /// The tool.
        tool: ToolPattern,
        /// The name of the argument.
        name: String,
        /// Its value.
        value: String,
    },
}

/// The name of a tool, in one spelling, in which `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern {
    name: String,
    /// Only while a server defines the tool like this.
    definition: Option<String>,
}

/// A shell command in which `*` stands for any text, blanks included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    /// The command, without the end that `prefix` stands for.
    pub words: String,
    /// It ended in ` *` or `:*`: further words may follow.
    pub prefix: bool,
}

/// What is wrong with the text of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {}", self.hint())]
pub struct RuleError {
    /// The character that is wrong, counted from 0.
    pub position: usize,
    /// What is wrong.
    pub problem: String,
    /// The nearest rule that can be used.
    pub nearest: Option<String>,
}

impl RuleError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> String {
        match &self.nearest {
            Some(nearest) => format!("write {nearest:?}"),
            None => "write a rule such as \"Bash(git status)\" or \"Read(./src/**)\"".to_owned(),
        }
    }
}

/// A tool's name in one spelling: that of the tool whose rules cover it, lower
/// case, without the underscores and hyphens that `WebFetch` and `web_fetch`
/// differ in. The names of servers' tools keep theirs, which separate their
/// parts.
fn canonical_tool(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("mcp__") {
        return lower;
    }
    let plain = |name: &str| -> String {
        let kept = name.chars().filter(|c| !matches!(c, '_' | '-'));
        kept.collect()
    };
    public_tool(name).map_or_else(|| plain(&lower), |tool| plain(tool.ruled_as))
}

impl ToolPattern {
    /// Whether a tool of that name is meant, however it is defined.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        self.definition.is_none() && self.names(tool)
    }

    /// Whether a tool of that name is meant that a server defines like this.
    #[must_use]
    pub fn matches_defined(&self, tool: &str, definition: Option<&str>) -> bool {
        match &self.definition {
            Some(wanted) => definition == Some(wanted) && self.names(tool),
            None => self.names(tool),
        }
    }

    /// Whether a tool of that name is meant, but only with another definition
    /// than this.
    #[must_use]
    pub fn wants_another(&self, tool: &str, definition: &str) -> bool {
        let other = self
            .definition
            .as_deref()
            .is_some_and(|it| it != definition);
        other && self.names(tool)
    }

    fn names(&self, tool: &str) -> bool {
        let name = canonical_tool(tool);
        let pattern = &self.name;
        let whole_server = pattern.starts_with("mcp__") && pattern.matches("__").count() == 1;
        wildcard_matches(pattern, &name)
            || (whole_server && wildcard_matches(&format!("{pattern}__*"), &name))
    }

    /// The name in one spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

/// Whether a text fits a pattern in which `*` stands for any text. Takes time
/// in proportion to the product of the lengths at most.
#[must_use]
pub fn wildcard_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut in_text) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, in_text));
                at += 1;
            }
            Some(byte) if Some(byte) == text.get(in_text) => {
                at += 1;
                in_text += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    at = after_star;
                    in_text = from + 1;
                    retry = Some((after_star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern
        .get(at..)
        .unwrap_or_default()
        .iter()
        .all(|byte| *byte == b'*')
}

impl CommandPattern {
    /// Whether a command, its words with a blank between them, fits.
    #[must_use]
    pub fn matches(&self, command: &str) -> bool {
        if wildcard_matches(&self.words, command) {
            return true;
        }
        self.prefix && wildcard_matches(&format!("{} *", self.words), command)
    }

    /// Whether it covers commands it does not spell out.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.prefix || self.words.contains('*')
    }
}

impl PermissionRule {
    /// Reads a rule. What may be written depends on what the rule does: an
    /// `allow` names what it opens.
    ///
    /// # Errors
    /// The text is no rule, or not one of this effect.
    pub fn parse(text: &str, effect: RuleEffect) -> Result<Self, RuleError> {
        RuleReader::new(text, effect).read()
    }

    /// The rule as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is about.
    #[must_use]
    pub fn subject(&self) -> &RuleSubject {
        &self.subject
    }
}

impl fmt::Display for PermissionRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{DEFINITION_DIGITS, MAX_RULE_BYTES};
    use RuleEffect::{Allow, Ask, Deny};

    fn subject(text: &str, effect: RuleEffect) -> RuleSubject {
        match PermissionRule::parse(text, effect) {
            Ok(rule) => rule.subject,
            Err(error) => panic!("{text}: {error}"),
        }
    }

    #[test]
    fn a_tool_is_meant_whatever_the_case_or_alias() {
        for (rule, tool, meant) in [
            ("Bash", "shell", true),
            ("bash", "shell", true),
            ("Shell", "shell", true),
            ("Shell(*)", "shell", true),
            ("Read", "read", true),
            ("READ", "Read", true),
            ("MultiEdit", "edit", true),
            ("Edit", "multi_edit", true),
            ("Edit", "notebook_edit", true),
            ("Edit", "apply_patch", true),
            ("LS", "list", true),
            ("TodoWrite", "task", true),
            ("WebFetch", "web_fetch", true),
            ("Agent", "spawn_agent", true),
            ("Task", "spawn_agent", true),
            ("task", "spawn_agent", false),
            ("Read", "reader", false),
            ("mcp__git", "mcp__git__push", true),
            ("mcp__git", "mcp__github__push", false),
            ("mcp__git__*", "mcp__git__push", true),
            ("mcp__git__push", "mcp__Git__push", true),
            ("mcp__git__push", "mcp__git__pull", false),
        ] {
            let RuleSubject::Tool(pattern) = subject(rule, Allow) else {
                panic!("{rule}");
            };
            assert_eq!(pattern.matches(tool), meant, "{rule} {tool}");
        }
        let RuleSubject::Tool(any) = subject("*", Deny) else {
            panic!()
        };
        assert!(any.matches("read") && any.matches("mcp__a__b"));
    }

    #[test]
    fn a_rule_may_name_the_definition_of_a_tool_of_a_server() {
        let (this, other) = ("0".repeat(DEFINITION_DIGITS), "1".repeat(DEFINITION_DIGITS));
        let RuleSubject::Tool(pattern) = subject(&format!("mcp__git__push@{this}"), Allow) else {
            panic!();
        };
        assert!(pattern.matches_defined("mcp__git__push", Some(&this)));
        assert!(!pattern.matches_defined("mcp__git__pull", Some(&this)));
        assert!(!pattern.matches_defined("mcp__git__push", Some(&other)));
        assert!(!pattern.matches_defined("mcp__git__push", None));
        assert!(!pattern.matches("mcp__git__push"));
        assert!(pattern.wants_another("mcp__git__push", &other));
        assert!(!pattern.wants_another("mcp__git__push", &this));
        let RuleSubject::Tool(any) = subject("mcp__git", Allow) else {
            panic!();
        };
        assert!(any.matches_defined("mcp__git__push", Some(&this)));
        assert!(!any.wants_another("mcp__git__push", &this));
        for (text, effect) in [
            (format!("mcp__git__push@{this}"), Deny),
            (format!("mcp__git__push@{this}0"), Allow),
            (format!("mcp__git__push@{}", &this[1..]), Allow),
            (format!("mcp__git__*@{this}"), Allow),
            (format!("mcp__git@{this}"), Allow),
            (format!("Bash@{this}"), Allow),
        ] {
            assert!(PermissionRule::parse(&text, effect).is_err(), "{text}");
        }
    }

    #[test]
    fn a_star_stands_for_any_text_and_an_open_end_for_further_words() {
        for (rule, command, meant) in [
            ("Bash(git status)", "git status", true),
            ("Bash(git status)", "git status -s", false),
            ("Bash(git:*)", "git", true),
            ("Bash(git:*)", "git push", true),
            ("Bash(git:*)", "gitk", false),
            ("Bash(git *)", "git push", true),
            ("Bash(git *)", "gitk", false),
            ("Bash(git*)", "gitk", true),
            ("Bash(git commit *)", "git commit -m x", true),
            ("Bash(git commit *)", "git push", false),
            ("Bash(git * main)", "git push origin main", true),
            ("Bash(git * main)", "git push origin", false),
            ("Bash(* --force)", "git push --force", true),
            ("Bash(git  push)", "git push", true),
        ] {
            let RuleSubject::Command(pattern) = subject(rule, Allow) else {
                panic!("{rule}");
            };
            assert_eq!(pattern.matches(command), meant, "{rule} {command}");
        }
    }

    #[test]
    fn a_bad_rule_gets_its_place_and_the_nearest_rule() {
        for (text, effect, position, nearest) in [
            ("", Allow, 0, None),
            ("Bash(git push", Deny, 13, Some("Bash(git push)")),
            ("Bash(git) push", Deny, 9, Some("Bash(git)")),
            ("Bash()", Deny, 5, Some("Bash")),
            ("(git)", Deny, 0, Some("Bash(git)")),
            ("git push", Deny, 3, Some("Bash(git push:*)")),
            ("Bash(git:* push)", Deny, 8, Some("Bash(git * push)")),
            ("Bash(:*)", Deny, 5, Some("Bash")),
            ("Write(./src/**)", Deny, 0, Some("Edit(./src/**)")),
            ("Glob(src)", Allow, 0, Some("Read(src)")),
            ("Read(!src)", Deny, 5, Some("Read(src)")),
            ("Read(src/[ab)", Deny, 9, Some("Read(src/\\[ab)")),
            ("Read(../x)", Deny, 5, None),
            (
                "WebFetch(https://a.example/x)",
                Allow,
                9,
                Some("WebFetch(domain:a.example)"),
            ),
            (
                "WebFetch(domain:a/b)",
                Allow,
                17,
                Some("WebFetch(domain:a)"),
            ),
            ("*", Allow, 0, None),
            ("mcp__*", Allow, 5, None),
            ("mcp__a__b(x:1)", Allow, 10, Some("mcp__a__b")),
            ("task(x)", Deny, 5, Some("task")),
            ("Bash(é) x", Deny, 7, Some("Bash(é)")),
            ("Bash(\u{7})", Deny, 5, None),
        ] {
            let error = PermissionRule::parse(text, effect).unwrap_err();
            assert_eq!(error.position, position, "{text}: {error}");
            assert_eq!(error.nearest.as_deref(), nearest, "{text}: {error}");
        }
    }

    #[test]
    fn an_argument_is_named_in_ask_and_deny() {
        assert_eq!(
            subject("task(action:create*)", Ask),
            RuleSubject::Argument {
                tool: ToolPattern {
                    name: "task".to_owned(),
                    definition: None,
                },
                name: "action".to_owned(),
                value: "create*".to_owned(),
            }
        );
    }

    #[test]
    fn a_rule_is_so_long_and_no_longer() {
        let rule = |length: usize| format!("Bash({})", "x".repeat(length - "Bash()".len()));
        assert!(PermissionRule::parse(&rule(MAX_RULE_BYTES), Deny).is_ok());
        assert!(PermissionRule::parse(&rule(MAX_RULE_BYTES + 1), Deny).is_err());
    }

    #[test]
    fn many_stars_do_not_take_long() {
        let pattern = "a*".repeat(500);
        assert!(!wildcard_matches(
            &format!("{pattern}b"),
            &"a".repeat(20_000)
        ));
    }
}
