//! Reads the text of a rule, and says what is wrong with one that is none.

use super::{
    CommandPattern, PermissionRule, RuleEffect, RuleError, RuleSubject, ToolPattern, canonical_tool,
};
use crate::limits::{DEFINITION_DIGITS, MAX_RULE_BYTES};

/// Tools whose paths are covered by the rules of another.
const COVERED_BY_EDIT: [&str; 4] = ["write", "notebookedit", "delete", "rename"];
const COVERED_BY_READ: [&str; 4] = ["glob", "grep", "ls", "list"];

/// A rule that is being read.
pub(super) struct RuleReader<'a> {
    text: &'a str,
    effect: RuleEffect,
    /// Whether an error looks for the nearest rule, which is read in turn.
    suggests: bool,
}

impl<'a> RuleReader<'a> {
    pub(super) const fn new(text: &'a str, effect: RuleEffect) -> Self {
        Self {
            text,
            effect,
            suggests: true,
        }
    }
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

    pub(super) fn read(&self) -> Result<PermissionRule, RuleError> {
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

    /// `mcp__server__tool@DIGEST`: the tool as its server defined it once.
    fn defined_tool(&self, name: &str, digest: &str) -> Result<ToolPattern, RuleError> {
        let at = name.len();
        let one_tool = name.matches("__").count() > 1 && !name.contains('*');
        if self.effect != RuleEffect::Allow || !one_tool {
            let problem = "`@` stands behind the name of one tool of a server, in an allow rule";
            return self.error(at, problem, name.to_owned());
        }
        let fits = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if digest.len() != DEFINITION_DIGITS || !digest.chars().all(fits) {
            let problem = format!("{DEFINITION_DIGITS} hexadecimal digits stand behind the `@`");
            return self.error(at + 1, problem, name.to_owned());
        }
        let mut pattern = self.tool(name)?;
        pattern.definition = Some(digest.to_owned());
        Ok(pattern)
    }

    /// The name before the parenthesis, or all there is.
    fn tool(&self, name: &str) -> Result<ToolPattern, RuleError> {
        if let Some((name, digest)) = name.split_once('@')
            && name.starts_with("mcp__")
        {
            return self.defined_tool(name, digest);
        }
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
        let pattern = ToolPattern {
            name: canonical_tool(name),
            definition: None,
        };
        if self.effect == RuleEffect::Allow
            && let Some(star) = name.find('*')
        {
            let server = pattern.name.strip_prefix("mcp__").and_then(|rest| {
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
