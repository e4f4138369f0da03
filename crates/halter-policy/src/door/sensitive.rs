//! Patterns of files that hold secrets.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::PolicyError;

/// Files and directories closed by default: where keys, passwords and tokens
/// usually lie.
pub const BUILTIN_SENSITIVE_PATTERNS: &[&str] = &[
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".ssh/",
    ".aws/",
    ".gnupg/",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".docker/config.json",
    ".kube/config",
    ".config/gh/hosts.yml",
    "/etc/shadow",
    "/etc/shadow-",
    "/proc/*/environ",
];

/// Readable, but closed to writing by default: git runs what its own files
/// name (hooks, aliases, filters), so a write there would run a program that
/// no list allows.
pub const BUILTIN_WRITE_PROTECTED_PATTERNS: &[&str] = &[".git"];

/// Compiled patterns. A pattern closes what it matches and everything below.
#[derive(Debug)]
pub(super) struct Patterns {
    /// Matches whatever any closing pattern matches, or lies below it: the
    /// quick answer for nearly every path.
    reach: GlobSet,
    closing: GlobSet,
    closing_text: Vec<String>,
    excepted: GlobSet,
}

impl Patterns {
    pub(super) fn none() -> Self {
        Self {
            reach: GlobSet::empty(),
            closing: GlobSet::empty(),
            closing_text: Vec::new(),
            excepted: GlobSet::empty(),
        }
    }

    pub(super) fn builtin_sensitive(working_dir: &Path) -> Result<Self, PolicyError> {
        Self::compile(BUILTIN_SENSITIVE_PATTERNS.iter().copied(), working_dir)
    }

    pub(super) fn builtin_write_protected(working_dir: &Path) -> Result<Self, PolicyError> {
        Self::compile(
            BUILTIN_WRITE_PROTECTED_PATTERNS.iter().copied(),
            working_dir,
        )
    }

    pub(super) fn compile<'a>(
        patterns: impl Iterator<Item = &'a str>,
        working_dir: &Path,
    ) -> Result<Self, PolicyError> {
        let mut reach = GlobSetBuilder::new();
        let mut closing = GlobSetBuilder::new();
        let mut excepted = GlobSetBuilder::new();
        let mut closing_text = Vec::new();
        for text in patterns {
            let (body, is_exception) = match text.strip_prefix('!') {
                Some(body) => (body, true),
                None => (text, false),
            };
            let anchored = anchor(body, working_dir);
            let matcher = glob(text, &anchored)?;
            if is_exception {
                excepted.add(matcher);
                continue;
            }
            reach.add(matcher.clone());
            reach.add(glob(
                text,
                &format!("{}/**", anchored.trim_end_matches('/')),
            )?);
            closing.add(matcher);
            closing_text.push(text.to_owned());
        }
        let invalid = |error: globset::Error| PolicyError::InvalidPattern {
            pattern: error.glob().unwrap_or_default().to_owned(),
            reason: error.kind().to_string(),
        };
        Ok(Self {
            reach: reach.build().map_err(invalid)?,
            closing: closing.build().map_err(invalid)?,
            closing_text,
            excepted: excepted.build().map_err(invalid)?,
        })
    }

    /// The pattern that closes a [folded](fold) path, if one does. Each
    /// directory on the way is judged by itself: an exception for a file does
    /// not open the closed directory it lies in.
    pub(super) fn matching(&self, folded: &Path) -> Option<&str> {
        if !self.reach.is_match(folded) {
            return None;
        }
        folded.ancestors().find_map(|part| {
            let index = self.closing.matches(part).first().copied()?;
            if self.excepted.is_match(part) {
                return None;
            }
            self.closing_text.get(index).map(String::as_str)
        })
    }
}

/// Spells out where a pattern starts.
fn anchor(pattern: &str, working_dir: &Path) -> String {
    let pattern = fold(Path::new(pattern));
    let pattern = pattern.to_string_lossy();
    let body = pattern.strip_suffix("/**").unwrap_or(&pattern);
    let body = body.trim_end_matches('/');
    if let Some(below) = body.strip_prefix("./") {
        let here = fold(working_dir);
        return format!("{}/{below}", globset::escape(&here.to_string_lossy()));
    }
    if body.is_empty() || body.starts_with('/') || body.starts_with("**/") {
        body.to_owned()
    } else {
        format!("**/{body}")
    }
}

fn glob(text: &str, anchored: &str) -> Result<Glob, PolicyError> {
    let invalid = |reason: String| PolicyError::InvalidPattern {
        pattern: text.to_owned(),
        reason,
    };
    if anchored.is_empty() {
        return Err(invalid("it is empty".to_owned()));
    }
    GlobBuilder::new(anchored)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| invalid(error.kind().to_string()))
}

/// A path for comparison: lower case, and without the invisible characters
/// that some filesystems ignore in names. Bytes that are not UTF-8 become
/// replacement characters, which no pattern spells.
pub(crate) fn fold(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    if text.is_ascii() {
        return PathBuf::from(text.to_ascii_lowercase());
    }
    // Upper, then lower case: `ſ` and `K` reach `s` and `k` only that way.
    let folded: String = text
        .chars()
        .filter(|character| !is_ignorable(*character))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    PathBuf::from(folded)
}

fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed_by(path: &str) -> Option<String> {
        let patterns = Patterns::builtin_sensitive(Path::new("/w")).ok()?;
        patterns.matching(&fold(Path::new(path))).map(str::to_owned)
    }

    #[test]
    fn secrets_are_closed_at_any_depth_and_in_any_case() {
        for path in [
            "/w/.env",
            "/w/a/b/.ENV",
            "/w/.env.local",
            "/w/.Env.Production",
            "/w/id_rsa",
            "/w/keys/ID_ED25519",
            "/home/u/.ssh",
            "/home/u/.SSH/config",
            "/home/u/.aws/credentials",
            "/home/u/.gnupg/x/y",
            "/home/u/.netrc",
            "/home/u/.git-credentials",
            "/home/u/.pypirc",
            "/home/u/.docker/config.json",
            "/home/u/.kube/Config",
            "/home/u/.config/gh/hosts.yml",
            "/etc/shadow",
            "/proc/1/environ",
            "/w/.\u{17f}sh/key",
            "/w/.e\u{200c}nv",
        ] {
            assert!(closed_by(path).is_some(), "{path} should be closed");
        }
    }

    #[test]
    fn look_alikes_are_open() {
        for path in [
            "/w/.env.example",
            "/w/.env.SAMPLE",
            "/w/.env.template",
            "/w/.env.dist",
            "/w/env",
            "/w/.environment",
            "/w/id_rsa.pub",
            "/w/.sshrc",
            "/w/src/aws/mod.rs",
            "/w/.docker/other.json",
            "/etc/shadow.d",
        ] {
            assert_eq!(closed_by(path), None, "{path} should be open");
        }
    }

    #[test]
    fn an_exception_does_not_open_the_directory_around_it() {
        assert_eq!(closed_by("/w/.ssh/.env.example").as_deref(), Some(".ssh/"));
        assert_eq!(
            closed_by("/w/.env.d/.env.example").as_deref(),
            Some(".env.*")
        );
    }

    #[test]
    fn configured_patterns_take_directories_globs_anchors_and_exceptions() {
        let texts = [
            "**/secret/**",
            "*.pem",
            "./local[1]",
            "/srv/key/",
            "!pub.pem",
        ];
        let patterns = Patterns::compile(texts.into_iter(), Path::new("/w[x]")).unwrap();
        let closed = |path: &str| patterns.matching(&fold(Path::new(path))).is_some();
        assert!(closed("/a/secret"));
        assert!(closed("/a/secret/b/c"));
        assert!(closed("/a/B.PEM"));
        assert!(!closed("/a/pub.pem"));
        assert!(closed("/w[x]/local1"));
        assert!(!closed("/elsewhere/local1"));
        assert!(closed("/srv/key/x"));
        assert!(!closed("/other/srv/key/x"));
    }

    #[test]
    fn a_malformed_pattern_is_named() {
        let error = Patterns::compile(["a{b"].into_iter(), Path::new("/w")).unwrap_err();
        assert_eq!(error.code(), "invalid_pattern");
        assert!(error.to_string().contains("a{b"), "{error}");
        assert!(Patterns::compile(["!"].into_iter(), Path::new("/w")).is_err());
    }
}
