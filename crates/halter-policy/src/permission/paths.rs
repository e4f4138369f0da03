//! Path patterns of rules, in the manner of `.gitignore`.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use halter_protocol::RuleEffect;

use super::SourcedRule;
use crate::door::{fold, without_dots};
use crate::error::PolicyError;

/// Where paths and patterns start.
#[derive(Debug, Clone)]
pub(crate) struct RuleAnchors {
    working_dir: PathBuf,
    /// The session's directory, free of links.
    real_dir: PathBuf,
    home: Option<PathBuf>,
}

impl RuleAnchors {
    pub(crate) fn new(working_dir: &Path, home: Option<PathBuf>) -> Self {
        Self {
            working_dir: working_dir.to_path_buf(),
            real_dir: resolved(working_dir),
            home,
        }
    }

    /// A path as a call spells it, made absolute.
    pub(crate) fn spelled(&self, path: &Path) -> PathBuf {
        without_dots(&self.working_dir.join(path))
    }

    /// What `~` stands for.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// A path as people read it: from the session's directory where it lies
    /// there.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.working_dir);
        below.unwrap_or(path).display().to_string()
    }
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct PathPattern {
    globs: GlobSet,
    effect: RuleEffect,
}

impl PathPattern {
    /// Compiles the pattern of a rule. One that opens starts at the session's
    /// directory and is taken exactly; one that closes also holds further down
    /// and in any case.
    pub(crate) fn compile(
        pattern: &str,
        rule: &SourcedRule,
        anchors: &RuleAnchors,
    ) -> Result<Self, PolicyError> {
        let invalid = |reason: String| PolicyError::InvalidRule {
            rule: rule.described(),
            reason,
        };
        let closes = rule.effect != RuleEffect::Allow;
        let mut globs = GlobSetBuilder::new();
        for whole in starts(pattern, rule, anchors, closes).map_err(|it| invalid(it.to_owned()))? {
            let whole = match closes {
                true => fold(Path::new(&whole)).to_string_lossy().into_owned(),
                false => whole,
            };
            // A directory stands for everything below it.
            for text in [whole.clone(), format!("{}/**", whole.trim_end_matches('/'))] {
                let glob = GlobBuilder::new(&text)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build()
                    .map_err(|error| invalid(error.kind().to_string()))?;
                globs.add(glob);
            }
        }
        Ok(Self {
            globs: globs
                .build()
                .map_err(|error| invalid(error.kind().to_string()))?,
            effect: rule.effect,
        })
    }

    /// Whether it covers a path, given as spelled and as resolved: what opens
    /// has to cover both, what closes one of them.
    pub(crate) fn covers(&self, spelled: &Path, real: &Path) -> bool {
        match self.effect {
            RuleEffect::Allow => self.globs.is_match(spelled) && self.globs.is_match(real),
            RuleEffect::Ask | RuleEffect::Deny => {
                self.globs.is_match(fold(spelled)) || self.globs.is_match(fold(real))
            }
        }
    }

    /// Whether it closes a path whose case is folded already.
    pub(crate) fn closes_folded(&self, folded: &Path) -> bool {
        self.globs.is_match(folded)
    }
}

/// The pattern as absolute globs.
fn starts(
    pattern: &str,
    rule: &SourcedRule,
    anchors: &RuleAnchors,
    closes: bool,
) -> Result<Vec<String>, &'static str> {
    let below = |directory: &Path, rest: &str| {
        let directory = directory.to_string_lossy();
        format!(
            "{}/{rest}",
            globset::escape(directory.trim_end_matches('/'))
        )
    };
    let here = |rest: &str| {
        [&anchors.working_dir, &anchors.real_dir].map(|directory| below(directory, rest))
    };
    let pattern = without_braces(pattern);
    let pattern = match pattern.as_str() {
        "/" | "//" => return Err("it names the whole file system; write the tool alone"),
        pattern => pattern.trim_end_matches('/'),
    };
    if let Some(absolute) = pattern.strip_prefix("//") {
        return Ok(vec![format!("/{absolute}")]);
    }
    if let Some(rest) = pattern.strip_prefix("~/") {
        let home = anchors.home.as_ref();
        let home = home.ok_or("it starts with `~/`, and the home directory is unknown")?;
        return Ok(vec![below(home, rest), below(&resolved(home), rest)]);
    }
    if let Some(rest) = pattern.strip_prefix('/') {
        let Some(base) = &rule.base else {
            return Ok(here(rest).to_vec());
        };
        return Ok(vec![below(base, rest), below(&resolved(base), rest)]);
    }
    if let Some(rest) = pattern.strip_prefix("./") {
        return Ok(here(rest).to_vec());
    }
    if pattern == "." {
        return Ok(here("**").to_vec());
    }
    let anywhere = format!("/**/{pattern}");
    Ok(match (closes, pattern.contains('/')) {
        (true, _) => vec![anywhere],
        (false, true) => here(pattern).to_vec(),
        (false, false) => here(&format!("**/{pattern}")).to_vec(),
    })
}

/// Braces are ordinary characters in these patterns.
fn without_braces(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut escaped = false;
    for character in pattern.chars() {
        match character {
            '{' | '}' if !escaped => {
                text.push('\\');
                text.push(character);
            }
            _ => text.push(character),
        }
        escaped = character == '\\' && !escaped;
    }
    text
}

/// Where a path leads; the part that does not exist is kept as spelled.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|ancestor| {
        let real = std::fs::canonicalize(ancestor).ok()?;
        let rest = path.strip_prefix(ancestor).ok()?;
        Some(match rest.as_os_str().is_empty() {
            true => real,
            false => real.join(rest),
        })
    });
    found.unwrap_or_else(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{RuleSource, RuleSubject};

    fn covers(effect: RuleEffect, text: &str, path: &str) -> bool {
        let mut rule = SourcedRule::new(effect, text, RuleSource::User).unwrap();
        rule.base = Some("/conf".into());
        let anchors = RuleAnchors {
            working_dir: "/w".into(),
            real_dir: "/real".into(),
            home: Some("/home/u".into()),
        };
        let RuleSubject::Read(pattern) = rule.rule.subject().clone() else {
            panic!("{text}");
        };
        let pattern = PathPattern::compile(&pattern, &rule, &anchors).unwrap();
        pattern.covers(Path::new(path), Path::new(path))
    }

    #[test]
    fn what_opens_starts_here_and_what_closes_also_holds_further_down() {
        for (rule, path, opens, closes) in [
            ("Read(src/**)", "/w/src/a/b.rs", true, true),
            ("Read(src/**)", "/w/x/src/a.rs", false, true),
            ("Read(src/**)", "/elsewhere/src/a.rs", false, true),
            ("Read(./src/**)", "/w/src/a.rs", true, true),
            ("Read(./src/**)", "/w/x/src/a.rs", false, false),
            ("Read(./src)", "/w/src/a.rs", true, true),
            ("Read(src/)", "/w/src/a.rs", true, true),
            ("Read(*.md)", "/w/x/y.md", true, true),
            ("Read(*.md)", "/x/y.md", false, true),
            ("Read(*.md)", "/w/x/Y.MD", false, true),
            ("Read(src/*.rs)", "/w/src/a.rs", true, true),
            ("Read(src/*.rs)", "/w/src/x/a.rs", false, false),
            ("Read(/x)", "/conf/x", true, true),
            ("Read(/x)", "/w/x", false, false),
            ("Read(//etc/hosts)", "/etc/hosts", true, true),
            ("Read(~/notes)", "/home/u/notes/a", true, true),
            ("Read(.)", "/w/any/thing", true, true),
            ("Read(**)", "/w/any/thing", true, true),
            ("Read(**)", "/any/thing", false, true),
            ("Read(./a{b}c)", "/w/a{b}c", true, true),
            ("Read(./a{b,c})", "/w/ab", false, false),
            ("Read(./[ab].rs)", "/w/b.rs", true, true),
        ] {
            assert_eq!(
                covers(RuleEffect::Allow, rule, path),
                opens,
                "{rule} {path}"
            );
            assert_eq!(
                covers(RuleEffect::Deny, rule, path),
                closes,
                "{rule} {path}"
            );
            assert_eq!(covers(RuleEffect::Ask, rule, path), closes, "{rule} {path}");
        }
    }
}
