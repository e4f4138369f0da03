//! Takes keys out of recorded traffic.

use crate::secrets::{REDACTED, Secrets};
use std::borrow::Cow;

/// How keys of known services begin.
const KEY_PREFIXES: [&str; 13] = [
    "sk-",
    "sess-",
    "AIza",
    "ya29.",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "hf_",
];

/// Bytes from which on a word that begins like a key is taken for one.
const SHORTEST_KEY_BYTES: usize = 16;

/// Takes known secrets and whatever looks like a key out of texts.
#[derive(Debug, Clone, Default)]
pub struct Scrubber {
    secrets: Secrets,
}

impl Scrubber {
    /// Takes out these secrets, besides what looks like a key.
    pub fn new(secrets: Secrets) -> Self {
        Self { secrets }
    }

    /// The text without keys.
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.secrets.scrub(text) {
            Cow::Borrowed(text) => scrub_keys(text),
            Cow::Owned(text) => Cow::Owned(scrub_keys(&text).into_owned()),
        }
    }
}

fn scrub_keys(text: &str) -> Cow<'_, str> {
    if !KEY_PREFIXES.iter().any(|prefix| text.contains(prefix)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.find(is_key_character).unwrap_or(rest.len());
        let (between, word) = rest.split_at_checked(start).unwrap_or((rest, ""));
        out.push_str(between);
        let end = word.find(|c| !is_key_character(c)).unwrap_or(word.len());
        let (word, after) = word.split_at_checked(end).unwrap_or((word, ""));
        out.push_str(if is_key(word) { REDACTED } else { word });
        rest = after;
    }
    Cow::Owned(out)
}

fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_key(word: &str) -> bool {
    word.len() >= SHORTEST_KEY_BYTES && KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_key_goes_and_the_rest_stays() {
        let scrubber = Scrubber::new(Secrets::new(["known-secret".to_owned()]));
        for (text, scrubbed) in [
            ("nothing here", "nothing here"),
            ("a known-secret b", "a [redacted] b"),
            ("key=sk-proj-abcdefghijklmnop.", "key=[redacted]"),
            ("\"ghp_0123456789abcdefABCDEF\"", "\"[redacted]\""),
            (
                "sk-short and task-sk-not-at-the-start",
                "sk-short and task-sk-not-at-the-start",
            ),
            ("ü sk-ant-api03-0123456789 ü", "ü [redacted] ü"),
        ] {
            assert_eq!(scrubber.scrub(text), scrubbed);
        }
    }
}
