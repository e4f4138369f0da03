//! The frontmatter of a file, read into a type.

use crate::frontmatter::{FrontmatterSplit, LINES_BEFORE_YAML, split};
use crate::warning::ResourceWarning;
use halter_protocol::ResourceKind;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::Path;

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
    /// The keys of the frontmatter, in alphabetical order.
    pub keys: Vec<String>,
}

impl<'a, T: DeserializeOwned + Default> Document<'a, T> {
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        let (yaml, body) = match split(text) {
            FrontmatterSplit::Plain { body } => {
                let (header, keys) = (None, Vec::new());
                return Ok(Self { header, body, keys });
            }
            FrontmatterSplit::WithFrontmatter { yaml, body } => (yaml, body),
            FrontmatterSplit::Unterminated => {
                let reason =
                    "the frontmatter that begins here has no end; close it with a line `---`";
                return Err(Malformed::at(1, reason));
            }
        };
        let header = match yaml.trim().is_empty() {
            true => T::default(),
            false => read_yaml(yaml).map_err(|error| {
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
        // What is a header is an object.
        let fields = read_yaml::<BTreeMap<String, IgnoredAny>>(yaml).unwrap_or_default();
        Ok(Self {
            header: Some(header),
            body,
            keys: fields.into_keys().collect(),
        })
    }
}

/// Keys of which none has an effect: those that nothing here reads, and those
/// that are one that is read but for how it is spelled.
pub(crate) struct UnreadKeys {
    pub unknown: Vec<String>,
    /// As written, and as it is read.
    pub misspelt: Vec<(String, &'static str)>,
}

impl UnreadKeys {
    pub fn of(keys: &[String], read: &[&'static str]) -> Self {
        let (mut unknown, mut misspelt) = (Vec::new(), Vec::new());
        for key in keys.iter().filter(|key| !read.contains(&key.as_str())) {
            let meant = read.iter().find(|it| bare_key(it) == bare_key(key));
            match meant {
                Some(meant) => misspelt.push((key.clone(), *meant)),
                None => unknown.push(key.clone()),
            }
        }
        Self { unknown, misspelt }
    }

    /// Says what keys have no effect: these, and those that are known and have
    /// none here.
    pub fn report(
        self,
        known: impl IntoIterator<Item = String>,
        kind: ResourceKind,
        path: &Path,
        warnings: &mut Vec<ResourceWarning>,
    ) {
        let keys: Vec<String> = known.into_iter().chain(self.unknown).collect();
        if !keys.is_empty() {
            let path = path.to_owned();
            warnings.push(ResourceWarning::KeysUnused { kind, path, keys });
        }
        for (key, meant) in self.misspelt {
            let (path, meant) = (path.to_owned(), meant.to_owned());
            warnings.push(ResourceWarning::KeyMisspelt {
                kind,
                path,
                key,
                meant,
            });
        }
    }
}

/// The key without what people mix up: case, hyphens, underscores, the plural.
fn bare_key(key: &str) -> String {
    let letters = key.chars().filter(|it| it.is_alphanumeric());
    let letters: String = letters.flat_map(char::to_lowercase).collect();
    letters.trim_end_matches('s').to_owned()
}

/// Reads YAML, or what it is meant to be: harnesses of the public formats take
/// `argument-hint: [file] [mode]` and `description: Use it so: often` for texts,
/// and people write them.
fn read_yaml<T: DeserializeOwned>(yaml: &str) -> Result<T, serde_saphyr::Error> {
    serde_saphyr::from_str(yaml).or_else(|error| match with_quotes(yaml) {
        Some(quoted) => serde_saphyr::from_str(&quoted).map_err(|_| error),
        None => Err(error),
    })
}

/// Keys whose text may begin with a bracket. Elsewhere a bracket begins a list,
/// and one that is broken is not to become a text: a tool that it withholds
/// would be there.
const TEXT_KEYS: [&str; 4] = ["description", "argument-hint", "when_to_use", "when-to-use"];

/// Keys whose value is never a text.
const STRUCTURED_KEYS: [&str; 3] = ["hooks", "mcpServers", "metadata"];

/// The YAML with quotes around those values of its own keys that are not YAML;
/// none if there is no such value.
fn with_quotes(yaml: &str) -> Option<String> {
    let mut quoted = String::with_capacity(yaml.len() + 2);
    let mut is_changed = false;
    for entry in entries(yaml) {
        match quoted_entry(&entry) {
            Some(line) => {
                is_changed = true;
                quoted.push_str(&line);
            }
            None => quoted.push_str(&entry),
        }
    }
    is_changed.then_some(quoted)
}

/// The lines of each key at the top, with those below it.
fn entries(yaml: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in yaml.split_inclusive('\n') {
        let is_key = line.starts_with(|first: char| first.is_ascii_alphabetic());
        match entries.last_mut() {
            Some(entry) if !is_key => entry.push_str(line),
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

/// The entry with its value in quotes; none if it is YAML, or its value is not
/// a text that began on the line of its key.
fn quoted_entry(entry: &str) -> Option<String> {
    let (key, value) = entry.split_once(':')?;
    let words: Vec<&str> = value.split_whitespace().collect();
    let first = words.first()?.chars().next()?;
    let is_bracket = matches!(first, '[' | '{');
    let is_block = matches!(first, '|' | '>');
    if !value.starts_with([' ', '\t'])
        || value.lines().next()?.trim().is_empty()
        || is_block
        || STRUCTURED_KEYS.contains(&key)
        || (is_bracket && !TEXT_KEYS.contains(&key))
        || serde_saphyr::from_str::<serde_json::Value>(entry).is_ok()
    {
        return None;
    }
    let text = words.join(" ").replace('\'', "''");
    Some(format!("{key}: '{text}'\n"))
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

    #[derive(Debug, Default, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Texts {
        description: Option<String>,
        argument_hint: Option<String>,
        tools: Option<WordList>,
        #[serde(rename = "disallowedTools")]
        disallowed: Option<WordList>,
        hooks: Option<serde_json::Value>,
    }

    fn texts(yaml: &str) -> Result<Texts, Malformed> {
        let text = format!("---\n{yaml}\n---\nbody");
        Document::<Texts>::parse(&text).map(|it| it.header.unwrap())
    }

    #[test]
    fn a_text_that_people_do_not_quote_is_read_as_it_is_meant() {
        for (yaml, expected) in [
            ("description: Use it so: often", "Use it so: often"),
            ("description: [WIP] Tries.", "[WIP] Tries."),
            ("description: {draft} Tries.", "{draft} Tries."),
            ("description: @all, it's for you", "@all, it's for you"),
            ("description: `ls` for people", "`ls` for people"),
            ("description: \"Quick\" and so on", "\"Quick\" and so on"),
            ("description: *bold* words", "*bold* words"),
            (
                "description: Use it.\\n\\n<example>\\nuser: \"Hi\"\\nassistant: 'Yes: #1'",
                "Use it.\\n\\n<example>\\nuser: \"Hi\"\\nassistant: 'Yes: #1'",
            ),
            (
                "description: Use it.\n  Context: a test.\n\n  user: \"Hi\"\ntools: Read",
                "Use it. Context: a test. user: \"Hi\"",
            ),
            (
                "description: Use it so: often\r\ntools: Read\r",
                "Use it so: often",
            ),
            // What is YAML is read as that, whatever stands beside it.
            (
                "argument-hint: [a] [b]\ndescription: |\n  Use: it.\n  Often.",
                "Use: it.\nOften.\n",
            ),
            ("argument-hint: [a] [b]\ndescription: 'It''s.'", "It's."),
        ] {
            let read = texts(yaml).unwrap();
            assert_eq!(read.description.as_deref(), Some(expected), "{yaml}");
        }
        let hint = texts("argument-hint: [file] [mode]").unwrap();
        assert_eq!(hint.argument_hint.as_deref(), Some("[file] [mode]"));
        let all = texts("tools: *").unwrap();
        assert_eq!(all.tools, Some(WordList(vec!["*".to_owned()])));
    }

    #[test]
    fn what_decides_something_is_never_read_by_guessing() {
        for yaml in [
            "disallowedTools: [Write, Edit",
            "disallowedTools: {Write",
            "hooks: {PreToolUse: [}",
            "hooks: on: everything",
            "description: |\n  a\n b: [",
            "- a\n- b",
        ] {
            let error = texts(yaml).unwrap_err();
            assert!(error.reason.contains("not the YAML expected"), "{yaml}");
        }
        // The line is that of the file.
        let error = texts("description: So: it is\ntools: {a: 1}").unwrap_err();
        assert_eq!(error.line, Some(2));
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
