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
//! | `Tool(name:value)` | calls with such an argument; not in `allow` |

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::limits::MAX_RULE_BYTES;

/// What is asked where no rule decides, from the narrowest to the widest.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PermissionMode {
    /// Nothing is changed, and nothing is asked.
    ReadOnly,
    /// Every change is asked about.
    Prompt,
    /// Changes inside the write roots need no question.
    #[default]
    WorkspaceWrite,
    /// Only rules ask.
    FullAccess,
    /// Nothing is asked: what a rule would ask about is denied.
    Allow,
}

impl PermissionMode {
    /// Every mode, from the narrowest to the widest.
    pub const ALL: [Self; 5] = [
        Self::ReadOnly,
        Self::Prompt,
        Self::WorkspaceWrite,
        Self::FullAccess,
        Self::Allow,
    ];

    /// The mode as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Prompt => "prompt",
            Self::WorkspaceWrite => "workspace_write",
            Self::FullAccess => "full_access",
            Self::Allow => "allow",
        }
    }

    /// Whether a person may be asked in this mode.
    #[must_use]
    pub const fn asks(self) -> bool {
        !matches!(self, Self::ReadOnly | Self::Allow)
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("'{text}' is no permission mode; there are {names}")
        })
    }
}

/// A mode of a later version counts as the narrowest one.
impl<'de> Deserialize<'de> for PermissionMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(text.parse().unwrap_or(Self::ReadOnly))
    }
}

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
pub struct ToolPattern(String);

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

/// Names of tools in other harnesses, and here.
const ALIASES: &[(&str, &str)] = &[
    ("bash", "shell"),
    ("multiedit", "edit"),
    ("notebookedit", "edit"),
    ("todowrite", "task"),
    ("agent", "spawnagent"),
];

/// Tools whose paths are covered by the rules of another.
const COVERED_BY_EDIT: [&str; 2] = ["write", "notebookedit"];
const COVERED_BY_READ: [&str; 3] = ["glob", "grep", "ls"];

/// A tool's name in one spelling: lower case, without the underscores and
/// hyphens that `WebFetch` and `web_fetch` differ in. The names of servers'
/// tools keep theirs, which separate their parts.
fn canonical_tool(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("mcp__") {
        return lower;
    }
    let plain: String = lower.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == plain);
    alias.map_or(plain, |(_, name)| (*name).to_owned())
}

impl ToolPattern {
    /// Whether a tool of that name is meant.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        let name = canonical_tool(tool);
        let whole_server = self.0.starts_with("mcp__") && self.0.matches("__").count() == 1;
        wildcard_matches(&self.0, &name)
            || (whole_server && wildcard_matches(&format!("{}__*", self.0), &name))
    }

    /// The name in one spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
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
        RuleReader {
            text,
            effect,
            suggests: true,
        }
        .read()
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

struct RuleReader<'a> {
    text: &'a str,
    effect: RuleEffect,
    /// Whether an error looks for the nearest rule, which is read in turn.
    suggests: bool,
}

impl RuleReader<'_> {
    fn error<T>(
        &self,
        byte: usize,
        problem: impl Into<String>,
        nearest: impl Into<Option<String>>,
    ) -> Result<T, RuleError> {
        let before = self.text.get(..byte).unwrap_or(self.text);
        let nearest: Option<String> = nearest.into();
        Err(RuleError {
            position: before.chars().count(),
            problem: problem.into(),
            nearest: nearest.filter(|it| self.suggests && self.is_rule(it)),
        })
    }

    fn is_rule(&self, text: &str) -> bool {
        let reader = RuleReader {
            text,
            effect: self.effect,
            suggests: false,
        };
        reader.read().is_ok()
    }

    fn read(&self) -> Result<PermissionRule, RuleError> {
        let text = self.text;
        if text.trim().is_empty() {
            return self.error(0, "the rule is blank", None);
        }
        if text.len() > MAX_RULE_BYTES {
            let problem = format!("the rule is longer than {MAX_RULE_BYTES} bytes");
            return self.error(MAX_RULE_BYTES, problem, None);
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return self.error(at, "the rule holds a control character", None);
        }
        let subject = match text.find('(') {
            None => RuleSubject::Tool(self.tool(text)?),
            Some(open) => self.specified(open)?,
        };
        Ok(PermissionRule {
            text: text.to_owned(),
            subject,
        })
    }

    /// `Tool(specifier)`.
    fn specified(&self, open: usize) -> Result<RuleSubject, RuleError> {
        let (name, rest) = self.text.split_at(open);
        let Some(close) = rest.rfind(')') else {
            let closed = format!("{})", self.text);
            return self.error(self.text.len(), "the parenthesis is not closed", closed);
        };
        let end = open + close + 1;
        if end != self.text.len() {
            let whole = self.text.get(..end).map(str::to_owned);
            return self.error(end, "something follows the closing parenthesis", whole);
        }
        let tool = self.tool(name)?;
        let at = open + 1;
        let specifier = self.text.get(at..end - 1).unwrap_or_default();
        if specifier.trim().is_empty() {
            return self.error(at, "the parentheses are empty", name.to_owned());
        }
        if specifier == "*" {
            return Ok(RuleSubject::Tool(tool));
        }
        let plain = name.to_ascii_lowercase();
        let instead = |other: &str| format!("{other}({specifier})");
        match tool.as_str() {
            "shell" => self.command(name, at, specifier),
            _ if COVERED_BY_EDIT.contains(&plain.as_str()) => {
                let problem = format!("paths of {name} are covered by rules of Edit");
                self.error(0, problem, instead("Edit"))
            }
            _ if COVERED_BY_READ.contains(&plain.as_str()) => {
                let problem = format!("paths of {name} are covered by rules of Read");
                self.error(0, problem, instead("Read"))
            }
            "read" => self.path(at, specifier).map(RuleSubject::Read),
            "edit" => self.path(at, specifier).map(RuleSubject::Edit),
            "webfetch" => self.domain(name, at, specifier),
            _ => self.argument(tool, name, at, specifier),
        }
    }

    /// The name before the parenthesis, or all there is.
    fn tool(&self, name: &str) -> Result<ToolPattern, RuleError> {
        if name.is_empty() {
            let nearest = format!("Bash{}", self.text);
            return self.error(0, "the rule names no tool", nearest);
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*');
        if let Some((at, found)) = name.char_indices().find(|(_, c)| !fits(*c)) {
            let nearest = format!("Bash({}:*)", self.text.trim());
            let problem = format!("{found:?} cannot be in the name of a tool");
            return self.error(at, problem, nearest);
        }
        let pattern = ToolPattern(canonical_tool(name));
        if self.effect == RuleEffect::Allow
            && let Some(star) = name.find('*')
        {
            let server = pattern.0.strip_prefix("mcp__").and_then(|rest| {
                let (server, _) = rest.split_once("__")?;
                (!server.is_empty() && !server.contains('*')).then_some(())
            });
            if server.is_none() {
                let problem = "an allow rule names its tool, or the server: `mcp__server__*`";
                return self.error(star, problem, None);
            }
        }
        Ok(pattern)
    }

    fn command(&self, name: &str, at: usize, specifier: &str) -> Result<RuleSubject, RuleError> {
        let (words, prefix) = match specifier
            .strip_suffix(":*")
            .or_else(|| specifier.strip_suffix(" *"))
        {
            Some(words) => (words, true),
            None => (specifier, false),
        };
        if let Some(colon) = words.find(":*") {
            let nearest = format!("{name}({})", specifier.replacen(":*", " *", 1));
            return self.error(at + colon, "`:*` stands at the end only", nearest);
        }
        let words = words.trim();
        if words.is_empty() {
            return self.error(at, "no command stands before the `*`", name.to_owned());
        }
        Ok(RuleSubject::Command(CommandPattern {
            words: words.split_whitespace().collect::<Vec<_>>().join(" "),
            prefix,
        }))
    }

    fn path(&self, at: usize, pattern: &str) -> Result<String, RuleError> {
        let name = self.text.get(..at).unwrap_or_default();
        if let Some(rest) = pattern.strip_prefix('!') {
            let nearest = format!("{name}{rest})");
            return self.error(at, "a pattern cannot be turned around with `!`", nearest);
        }
        let mut open: Option<usize> = None;
        let mut characters = pattern.char_indices();
        while let Some((place, character)) = characters.next() {
            match (character, open) {
                ('\\', _) if characters.next().is_none() => {
                    return self.error(at + place, "nothing follows the `\\`", None);
                }
                ('[', None) => open = Some(place),
                // `[]x]`: the first bracket belongs to the set.
                (']', Some(start)) if place > start + 1 => open = None,
                _ => {}
            }
        }
        if let Some(start) = open {
            let nearest = format!("{name}{})", pattern.replacen('[', "\\[", 1));
            return self.error(at + start, "the `[` is not closed", nearest);
        }
        let parts = pattern.split('/');
        if let Some(place) = pattern
            .find("..")
            .filter(|_| parts.clone().any(|it| it == ".."))
        {
            let problem = "`..` is not followed in a pattern; start it with `//` and a full path";
            return self.error(at + place, problem, None);
        }
        Ok(pattern.to_owned())
    }

    fn domain(&self, name: &str, at: usize, specifier: &str) -> Result<RuleSubject, RuleError> {
        let Some(host) = specifier.strip_prefix("domain:") else {
            let address = specifier.split_once("://").map_or(specifier, |(_, it)| it);
            let host = address
                .split(['/', ':', '?', '#'])
                .next()
                .unwrap_or(address);
            let nearest = format!("{name}(domain:{host})");
            return self.error(at, "a host is written as `domain:` and its name", nearest);
        };
        let at = at + "domain:".len();
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '*' | ':' | '[' | ']');
        if let Some((place, found)) = host.char_indices().find(|(_, c)| !fits(*c)) {
            let nearest = format!("{name}(domain:{})", host.get(..place).unwrap_or_default());
            let problem = format!("{found:?} cannot be in the name of a host");
            return self.error(at + place, problem, nearest);
        }
        if host.is_empty() {
            return self.error(at, "no host is named", name.to_owned());
        }
        Ok(RuleSubject::Domain(host.to_lowercase()))
    }

    /// `Tool(name:value)`.
    fn argument(
        &self,
        tool: ToolPattern,
        name: &str,
        at: usize,
        specifier: &str,
    ) -> Result<RuleSubject, RuleError> {
        if self.effect == RuleEffect::Allow {
            let problem = format!("an allow rule opens {name} as a whole");
            return self.error(at, problem, name.to_owned());
        }
        match specifier.split_once(':') {
            Some((argument, value)) if !argument.trim().is_empty() && !value.is_empty() => {
                Ok(RuleSubject::Argument {
                    tool,
                    name: argument.trim().to_owned(),
                    value: value.to_owned(),
                })
            }
            _ => {
                let problem = format!("an argument of {name} is written as `name:value`");
                self.error(at, problem, name.to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RuleEffect::{Allow, Ask, Deny};

    fn subject(text: &str, effect: RuleEffect) -> RuleSubject {
        match PermissionRule::parse(text, effect) {
            Ok(rule) => rule.subject,
            Err(error) => panic!("{text}: {error}"),
        }
    }

    #[test]
    fn modes_are_ordered_and_a_new_one_is_the_narrowest() {
        assert!(PermissionMode::ALL.is_sorted());
        for mode in PermissionMode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
            let text = serde_json::to_string(&mode).unwrap();
            assert_eq!(text, format!("\"{mode}\""));
            assert_eq!(serde_json::from_str::<PermissionMode>(&text).unwrap(), mode);
        }
        let later: PermissionMode = serde_json::from_str("\"everything\"").unwrap();
        assert_eq!(later, PermissionMode::ReadOnly);
        assert!("everything".parse::<PermissionMode>().is_err());
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
            ("TodoWrite", "task", true),
            ("WebFetch", "web_fetch", true),
            ("Agent", "spawn_agent", true),
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
                tool: ToolPattern("task".to_owned()),
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
