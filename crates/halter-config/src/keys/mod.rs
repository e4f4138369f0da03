//! The table of every key: what it takes, what an untrusted file may do with it, and whether
//! anything reads it yet. Loading, narrowing and `validate` all go by this one table; a test
//! holds it against the Rust types.

mod table;

use std::fmt;

use table::KEYS;

use crate::services::KNOWN_SERVICES;

/// A key as its segments. Displays dotted, with segments quoted where TOML needs it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    pub(crate) fn root() -> Self {
        Self(Vec::new())
    }

    /// Splits a dotted key of the table, which never needs quotes.
    pub(crate) fn plain(dotted: &str) -> Self {
        Self(dotted.split('.').map(str::to_owned).collect())
    }

    pub(crate) fn child(&self, segment: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment.to_owned());
        Self(segments)
    }

    pub(crate) fn segments(&self) -> &[String] {
        &self.0
    }

    pub(crate) fn starts_with(&self, prefix: &KeyPath) -> bool {
        self.0.starts_with(&prefix.0)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(".")?;
            }
            let bare = !segment.is_empty()
                && segment
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            if bare {
                formatter.write_str(segment)?;
            } else {
                write!(formatter, "{segment:?}")?;
            }
        }
        Ok(())
    }
}

/// A key as [`LoadedConfig::origins`](crate::LoadedConfig::origins) spells it: its segments with
/// dots between them, quoted where TOML needs it.
///
/// ```
/// let key = ["providers", "openai", "models", "gpt-5.1", "max_input_tokens"];
/// assert_eq!(
///     halter_config::dotted_key(key),
///     r#"providers.openai.models."gpt-5.1".max_input_tokens"#
/// );
/// ```
pub fn dotted_key<S: Into<String>>(segments: impl IntoIterator<Item = S>) -> String {
    KeyPath(segments.into_iter().map(Into::into).collect()).to_string()
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Version,
    Boolean,
    Integer {
        min: u64,
        max: u64,
    },
    Temperature,
    /// US dollars per million tokens.
    Price,
    /// The name of a model service.
    Provider,
    /// Any text.
    Text,
    /// Text that is not blank.
    Name,
    Url,
    /// A credential: never shown.
    Secret,
    /// The value of a request header: never shown.
    Header,
    Choice(&'static [&'static str]),
    Names,
    /// Directories that start at the session's directory.
    PolicyRoots,
    /// Directories that start at the file, and add up over the layers.
    ResourceRoots,
    /// A path that starts at the file.
    FilePath,
    Loopback,
}

impl Kind {
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Self::Secret | Self::Header)
    }
}

/// What an untrusted project file may do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrow {
    /// Nothing: the key is not one where less can be told from more, or it is never the
    /// repository's to set.
    Never,
    /// Set it to this text or boolean only.
    Only(&'static str),
    /// Lower it.
    Lower,
    /// Take names out, where an empty list means all names.
    FewerEmptyIsAll,
    /// Take names out, where an empty list means none and `"*"` means all.
    FewerStarIsAll,
    /// Take roots out, where an empty list means none.
    FewerRoots,
    /// Take roots out, where an empty list means the built-in ones.
    FewerRootsEmptyIsBuiltIn,
    /// Take loopback services out, or pin their ports.
    FewerLoopback,
    /// Add patterns to a list that the user wrote.
    MorePatterns,
    /// Part of the file format, not a setting.
    Format,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySpec {
    /// The dotted key; `<provider>`, `<model>`, `<role>` and `<header>` stand for names.
    pub(crate) pattern: &'static str,
    pub(crate) kind: Kind,
    pub(crate) narrow: Narrow,
    /// The later part of Halter without which the key has no effect.
    pub(crate) waits_for: Option<&'static str>,
}

/// Other spellings of a key.
const ALIASES: &[(&str, &str)] = &[(
    "policy.network.allowed_loopback_services",
    "policy.network.allowed_loopback",
)];

const ROLE_TABLES: &[&str] = &["default", "small", "subagent"];

/// The names a pattern segment stands for; `None`: any name.
fn names_of(segment: &'static str) -> Option<Vec<&'static str>> {
    match segment {
        "<role>" => Some(ROLE_TABLES.to_vec()),
        "<provider>" | "<model>" | "<header>" => None,
        plain => Some(vec![plain]),
    }
}

/// Names that people most likely mean where any name may stand.
fn examples_of(segment: &str) -> Vec<&'static str> {
    match segment {
        "<provider>" => KNOWN_SERVICES.iter().map(|service| service.name).collect(),
        _ => Vec::new(),
    }
}

fn matches(segment: &'static str, name: &str) -> bool {
    names_of(segment).is_none_or(|names| names.contains(&name))
}

/// What a path leads to.
pub(crate) enum Found {
    Leaf(&'static KeySpec),
    Table,
    Nothing,
}

/// Looks a path up, whole or as the beginning of other keys.
pub(crate) fn find(path: &KeyPath) -> Found {
    let mut is_table = false;
    for spec in KEYS {
        let mut pattern = spec.pattern.split('.');
        let fits = path
            .segments()
            .iter()
            .all(|name| pattern.next().is_some_and(|segment| matches(segment, name)));
        match (fits, pattern.next()) {
            (true, None) => return Found::Leaf(spec),
            (true, Some(_)) => is_table = true,
            (false, _) => {}
        }
    }
    if is_table {
        Found::Table
    } else {
        Found::Nothing
    }
}

/// The row of a key that is known to be there.
pub(crate) fn spec(path: &KeyPath) -> Option<&'static KeySpec> {
    match find(path) {
        Found::Leaf(spec) => Some(spec),
        Found::Table | Found::Nothing => None,
    }
}

/// The names that may stand in a table; of names that people choose, the known ones.
pub(crate) fn children(table: &KeyPath) -> Vec<&'static str> {
    let mut names = Vec::new();
    for spec in KEYS {
        let mut pattern = spec.pattern.split('.');
        let fits = table
            .segments()
            .iter()
            .all(|name| pattern.next().is_some_and(|segment| matches(segment, name)));
        if let (true, Some(next)) = (fits, pattern.next()) {
            for name in names_of(next).unwrap_or_else(|| examples_of(next)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// The key under its first name.
pub(crate) fn canonical(path: KeyPath) -> KeyPath {
    let spelled = path.to_string();
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == spelled)
        .map_or(path, |(_, name)| KeyPath::plain(name))
}

/// Whole keys of which a misspelt name is the last segment, so that a key written in the wrong
/// table is found too.
pub(crate) fn homes_of(name: &str) -> Vec<&'static str> {
    KEYS.iter()
        .map(|spec| spec.pattern)
        .filter(|pattern| pattern.rsplit('.').next() == Some(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_pattern() {
        assert!(matches!(
            find(&KeyPath::plain("models.small.reasoning")),
            Found::Leaf(KeySpec {
                pattern: "models.<role>.reasoning",
                ..
            })
        ));
        assert!(matches!(
            find(&KeyPath::plain("models.small")),
            Found::Table
        ));
        assert!(matches!(
            find(&KeyPath::plain("models.medium")),
            Found::Nothing
        ));
        assert!(matches!(
            find(&KeyPath::plain("providers.openai.oauth")),
            Found::Nothing
        ));
        assert!(matches!(
            find(&KeyPath::plain("providers.groq")),
            Found::Table
        ));
    }

    #[test]
    fn a_table_lists_its_names() {
        assert_eq!(
            children(&KeyPath::plain("policy.shell")),
            ["enabled", "allow", "mode", "timeout_secs", "env"]
        );
        assert_eq!(children(&KeyPath::plain("models")), ROLE_TABLES);
        assert!(children(&KeyPath::root()).contains(&"sessions"));
    }

    #[test]
    fn odd_segments_are_quoted() {
        let path = KeyPath::plain("providers.openai.headers").child("X.Team");
        assert_eq!(path.to_string(), "providers.openai.headers.\"X.Team\"");
    }
}
