//! Small readings of a user's sentence: quotes, paths, words at its edges.

/// File names people write without an extension or a slash.
const BARE_NAMES: &[&str] = &[
    "README",
    "LICENSE",
    "CHANGELOG",
    "CONTRIBUTING",
    "Makefile",
    "Dockerfile",
    "Justfile",
    "justfile",
];

/// The text without these words at its start, repeatedly. Case is ignored, and
/// only whole words count.
pub fn skip_words<'a>(mut text: &'a str, phrases: &[&str]) -> &'a str {
    loop {
        text = text.trim_start();
        let Some(rest) = phrases.iter().find_map(|phrase| strip_phrase(text, phrase)) else {
            return text;
        };
        text = rest;
    }
}

/// What follows the phrase, if the text begins with it as whole words.
pub fn strip_phrase<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let head = text.get(..phrase.len())?;
    let rest = text.get(phrase.len()..)?;
    let next = rest.chars().next();
    let whole = next.is_none_or(|next| next.is_whitespace() || ",:;!?".contains(next));
    let skipped = |c: char| c.is_whitespace() || c == ',';
    (whole && head.eq_ignore_ascii_case(phrase)).then(|| rest.trim_start_matches(skipped))
}

/// What follows the first of these phrases the text begins with.
pub fn strip_any<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    phrases.iter().find_map(|phrase| strip_phrase(text, phrase))
}

/// The text before and after the last occurrence of any of these separators.
pub fn split_last<'a>(text: &'a str, separators: &[&str]) -> Option<(&'a str, &'a str)> {
    let lower = text.to_ascii_lowercase();
    let (at, separator) = separators
        .iter()
        .filter_map(|separator| Some((lower.rfind(separator)?, *separator)))
        .max_by_key(|(at, _)| *at)?;
    Some((
        text.get(..at)?.trim(),
        text.get(at + separator.len()..)?.trim(),
    ))
}

/// The text before and after the first occurrence of any of these separators.
pub fn split_first<'a>(text: &'a str, separators: &[&str]) -> Option<(&'a str, &'a str)> {
    let lower = text.to_ascii_lowercase();
    let (at, separator) = separators
        .iter()
        .filter_map(|separator| Some((lower.find(separator)?, *separator)))
        .min_by_key(|(at, _)| *at)?;
    Some((
        text.get(..at)?.trim(),
        text.get(at + separator.len()..)?.trim(),
    ))
}

/// The first part of the text in backticks or quotation marks, without them.
pub fn quoted(text: &str) -> Option<&str> {
    let start = text.char_indices().find(|(at, mark)| match mark {
        '`' | '"' | '“' => true,
        // An apostrophe is a quotation mark only at the start of a word.
        '\'' => text
            .get(..*at)
            .and_then(|before| before.chars().next_back())
            .is_none_or(char::is_whitespace),
        _ => false,
    });
    let (at, mark) = start?;
    let inner = text.get(at + mark.len_utf8()..)?;
    let end = inner.find(if mark == '“' { '”' } else { mark })?;
    inner.get(..end).filter(|inner| !inner.is_empty())
}

/// The text without quotation marks and stray punctuation around it.
pub fn bare(text: &str) -> &str {
    text.trim()
        .trim_end_matches(['?', '!', ',', ';', ':'])
        .trim_end_matches('.')
        .trim_matches(['`', '"', '\'', '“', '”'])
        .trim()
}

/// The words that look like paths, without the punctuation around them.
pub fn paths(text: &str) -> Vec<String> {
    let words = text
        .split_whitespace()
        .map(|word| bare(word).trim_matches(['(', ')', ',']))
        .filter(|word| looks_like_path(word));
    let mut found: Vec<String> = Vec::new();
    for word in words {
        if !found.iter().any(|seen| seen == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// True for `src/main.rs`, `notes.txt`, `Makefile`; false for `3.5`, `e.g`,
/// `https://…`, `*.rs`.
pub fn looks_like_path(word: &str) -> bool {
    if word.contains("://") || word.contains('*') || word.len() > 300 {
        return false;
    }
    if BARE_NAMES.contains(&word) {
        return true;
    }
    if word.contains('/') {
        return word.chars().any(char::is_alphanumeric);
    }
    let Some((stem, extension)) = word.rsplit_once('.') else {
        return false;
    };
    let plain = |c: char| c.is_alphanumeric() || "_-.+".contains(c);
    let known_letter = matches!(extension, "c" | "h" | "d" | "r" | "m" | "s");
    (known_letter || (2..=8).contains(&extension.len()))
        && extension.chars().all(|c| c.is_ascii_alphanumeric())
        && extension.chars().any(|c| c.is_ascii_alphabetic())
        && stem.chars().all(plain)
}

/// The text as a regular expression that matches it literally.
pub fn regex_literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// The text as one word of a shell command.
pub fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// At most `limit` characters from the start, with a mark where text was left
/// out.
pub fn clip(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text).trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_other_words() {
        for path in [
            "src/main.rs",
            "notes.txt",
            "Makefile",
            ".env.example",
            "../up",
            "a.c",
            "x.tar.gz",
        ] {
            assert!(looks_like_path(path), "{path}");
        }
        for word in [
            "hello",
            "3.5",
            "e.g",
            "https://a.b/c",
            "*.rs",
            "/",
            "i.e",
            "...",
        ] {
            assert!(!looks_like_path(word), "{word}");
        }
        assert_eq!(
            paths("Read `a.txt`, src/b.rs and a.txt (see README)."),
            ["a.txt", "src/b.rs", "README"]
        );
    }

    #[test]
    fn quotes_are_found_and_apostrophes_are_not() {
        assert_eq!(quoted("write `a b` down"), Some("a b"));
        assert_eq!(quoted("what's in 'the box'?"), Some("the box"));
        assert_eq!(quoted("what's that"), None);
        assert_eq!(quoted("an open \"quote"), None);
    }

    #[test]
    fn words_are_stripped_whole_and_without_regard_to_case() {
        assert_eq!(
            skip_words("Please now show it", &["please", "now"]),
            "show it"
        );
        assert_eq!(skip_words("Please, show it", &["please"]), "show it");
        assert_eq!(strip_phrase("nowhere", "now"), None);
        assert_eq!(strip_phrase("a.b", "a"), None);
        assert_eq!(strip_phrase("Öl", "a"), None);
        assert_eq!(split_last("a to b to c", &[" to "]), Some(("a to b", "c")));
        assert_eq!(split_first("a to b to c", &[" to "]), Some(("a", "b to c")));
    }

    #[test]
    fn literal_patterns_and_shell_words_are_quoted() {
        assert_eq!(regex_literal("a.b(c)"), r"a\.b\(c\)");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(clip("häuser", 2), "hä…");
    }
}
