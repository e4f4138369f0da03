//! The frontmatter of a file, read into a type.

use crate::frontmatter::{FrontmatterSplit, LINES_BEFORE_YAML, split};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Why a file is not what its place says it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub line: Option<u64>,
    pub reason: String,
}

impl Malformed {
    pub fn new(reason: impl ToString) -> Self {
        Self {
            line: None,
            reason: reason.to_string(),
        }
    }

    fn at(line: u64, reason: impl ToString) -> Self {
        Self {
            line: Some(line),
            reason: reason.to_string(),
        }
    }
}

/// A file's frontmatter and what follows it.
#[derive(Debug)]
pub(crate) struct Document<'a, T> {
    /// None if the file has no frontmatter.
    pub header: Option<T>,
    pub body: &'a str,
}

impl<'a, T: DeserializeOwned + Default> Document<'a, T> {
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        let (yaml, body) = match split(text) {
            FrontmatterSplit::Plain { body } => return Ok(Self { header: None, body }),
            FrontmatterSplit::WithFrontmatter { yaml, body } => (yaml, body),
            FrontmatterSplit::Unterminated => {
                let reason =
                    "the frontmatter that begins here has no end; close it with a line `---`";
                return Err(Malformed::at(1, reason));
            }
        };
        let header = match yaml.trim().is_empty() {
            true => T::default(),
            false => serde_saphyr::from_str(yaml).map_err(|error| {
                let line = error.location().map(|place| place.line());
                let words = error.without_snippet().to_string();
                let (words, _) = one_line(&words, usize::MAX);
                let reason = format!(
                    "the frontmatter is not the YAML expected: {words}; \
                     text with a colon needs quotes"
                );
                Malformed::at(line.unwrap_or(1) + LINES_BEFORE_YAML, reason)
            })?,
        };
        Ok(Self {
            header: Some(header),
            body,
        })
    }
}

/// Words of a list that is written as a YAML list, or as a text with commas or
/// spaces between them. What stands in parentheses belongs to its word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WordList(pub Vec<String>);

impl<'de> Deserialize<'de> for WordList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            List(Vec<String>),
            Nothing(()),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => Self(words(&text)),
            Written::List(items) => {
                let items = items.iter().map(|item| item.trim().to_owned());
                Self(items.filter(|item| !item.is_empty()).collect())
            }
            Written::Nothing(()) => Self::default(),
        })
    }
}

fn words(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let pieces = text.split(|character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (character == ',' || character.is_whitespace())
    });
    let pieces = pieces.filter(|piece| !piece.is_empty());
    pieces.map(str::to_owned).collect()
}

/// The text on one line, without control characters, cut to `max` characters;
/// and the length it had if it was cut.
pub(crate) fn one_line(text: &str, max: usize) -> (String, Option<usize>) {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    let chars = line.chars().count();
    if chars <= max {
        return (line, None);
    }
    let cut = line.chars().take(max.saturating_sub(1));
    (cut.chain(['…']).collect(), Some(chars))
}

/// The first lines of prose, without headings.
pub(crate) fn first_paragraph(body: &str) -> String {
    body.lines()
        .map(str::trim)
        .skip_while(|line| line.is_empty() || line.starts_with('#'))
        .take_while(|line| !line.is_empty() && !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Eq, Deserialize)]
    struct Header {
        tools: Option<WordList>,
    }

    fn tools(yaml: &str) -> Option<Vec<String>> {
        let text = format!("---\n{yaml}\n---\nbody");
        let document = Document::<Header>::parse(&text).unwrap();
        assert_eq!(document.body, "body");
        document.header.unwrap().tools.map(|list| list.0)
    }

    #[test]
    fn a_list_may_be_written_in_each_public_way() {
        let expected = Some(vec!["Read".to_owned(), "Bash(git add:*, -A)".to_owned()]);
        for yaml in [
            "tools: Read, Bash(git add:*, -A)",
            "tools: Read Bash(git add:*, -A)",
            "tools: [Read, \"Bash(git add:*, -A)\"]",
            "tools:\n  - Read\n  - Bash(git add:*, -A)",
        ] {
            assert_eq!(tools(yaml), expected, "{yaml}");
        }
        assert_eq!(tools("tools: []"), Some(Vec::new()));
        assert_eq!(tools("tools: ''"), Some(Vec::new()));
        assert_eq!(tools("tools:"), None);
        assert_eq!(tools("other: 1"), None);
    }

    #[test]
    fn a_file_without_frontmatter_has_none() {
        let document = Document::<Header>::parse("# Title\n").unwrap();
        assert_eq!(document.header, None);
        let empty = Document::<Header>::parse("---\n---\nx").unwrap();
        assert_eq!(empty.header, Some(Header::default()));
        let open = Document::<Header>::parse("---\nx: 1\n").unwrap_err();
        assert_eq!(open.line, Some(1));
    }
}
