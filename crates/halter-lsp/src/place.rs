//! Where something is: files as servers name them, and columns as they count.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use url::Url;

/// The name of a file in the protocol.
pub(crate) fn uri_of(path: &Path) -> Option<String> {
    Url::from_file_path(path).ok().map(String::from)
}

/// The file of a name; none if it is no file.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok()?.to_file_path().ok()
}

/// How a server counts within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    Utf8,
    Utf16,
}

impl Columns {
    /// What a server chose; the protocol's own way if it says nothing.
    pub fn chosen(capabilities: &Value) -> Self {
        match capabilities.get("positionEncoding").and_then(Value::as_str) {
            Some("utf-8") => Self::Utf8,
            _ => Self::Utf16,
        }
    }

    /// A character of a line, counted from 1, as the server counts it.
    pub fn of_character(self, line: &str, character: usize) -> usize {
        let before = line.chars().take(character.saturating_sub(1));
        match self {
            Self::Utf8 => before.map(char::len_utf8).sum(),
            Self::Utf16 => before.map(char::len_utf16).sum(),
        }
    }
}

/// A position as the protocol has it, from a line and a character counted from
/// 1.
pub(crate) fn position(text: &str, line: usize, character: usize, columns: Columns) -> Value {
    let content = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    json!({
        "line": line.saturating_sub(1),
        "character": columns.of_character(content, character),
    })
}

/// The character of a line, counted from 1, at which a word begins.
pub(crate) fn character_of(line: &str, word: &str) -> Option<usize> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let whole = |at: usize| {
        let before = line.get(..at).and_then(|it| it.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|it| it.chars().next());
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    };
    let mut found = line.match_indices(word).map(|(at, _)| at);
    let at = found
        .clone()
        .find(|at| whole(*at))
        .or_else(|| found.next())?;
    Some(line.get(..at)?.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_as_the_server_does() {
        let line = "let é = 🦀x;";
        assert_eq!(Columns::Utf16.of_character(line, 10), 10);
        assert_eq!(Columns::Utf8.of_character(line, 10), 13);
        assert_eq!(
            position(line, 1, 1, Columns::Utf16),
            json!({"line": 0, "character": 0})
        );
        assert_eq!(
            Columns::chosen(&json!({"positionEncoding": "utf-8"})),
            Columns::Utf8
        );
        assert_eq!(Columns::chosen(&json!({})), Columns::Utf16);
    }

    #[test]
    fn a_word_is_found_whole_if_it_can_be() {
        assert_eq!(character_of("format(form)", "form"), Some(8));
        assert_eq!(character_of("formatting", "form"), Some(1));
        assert_eq!(character_of("é form", "form"), Some(3));
        assert_eq!(character_of("nothing", "form"), None);
    }

    #[test]
    fn files_have_the_same_name_both_ways() {
        let path = Path::new("/a b/é#.py");
        assert_eq!(path_of(&uri_of(path).unwrap()).unwrap(), path);
        assert_eq!(path_of("https://example.com/x"), None);
        assert_eq!(uri_of(Path::new("relative")), None);
    }
}
