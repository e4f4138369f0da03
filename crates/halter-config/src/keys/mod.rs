//! Every key: what it takes, which the Rust types say, what an untrusted file may do with it, and
//! whether anything reads it yet. Loading, narrowing and `validate` all go by this.

mod derive;

use std::fmt;
use std::sync::OnceLock;

use derive::ANY_NAME;
use halter_protocol::RuleEffect;

use crate::describe::schema_as_json_value;
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
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Version,
    Boolean,
    Integer {
        min: u64,
        max: u64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// The name of a model service.
    Provider,
    /// Any text.
    Text,
    /// Text that is not blank.
    Name,
    Url,
    /// A key or the value of a request header: never shown.
    Secret,
    Choice(Vec<String>),
    /// One of these words, or a list of names.
    WordOrNames(Vec<String>),
    Names,
    /// A path that starts at the file.
    FilePath,
    Loopback,
    /// Permission rules of this effect.
    Rules(RuleEffect),
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
    /// Lower it, where no value means no limit.
    LowerOrLimit,
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
    /// Choose a narrower permission mode.
    LowerMode,
    /// Add permission rules.
    MoreRules,
    /// Part of the file format, not a setting.
    Format,
}

/// One key.
#[derive(Debug)]
pub(crate) struct KeySpec {
    /// The dotted key; `<name>` stands for a name that people choose.
    pub(crate) pattern: String,
    pub(crate) kind: Kind,
    pub(crate) narrow: Narrow,
}

impl KeySpec {
    /// Whether no project file widens it, trusted or not.
    pub(crate) fn is_permission(&self) -> bool {
        self.pattern.starts_with("permissions.")
    }

    /// Whether its values add up over the layers.
    pub(crate) fn adds_up(&self) -> bool {
        let roots = self.pattern.starts_with("resources.") && self.pattern.ends_with(".roots");
        roots || self.pattern == "hooks.files" || matches!(self.kind, Kind::Rules(_))
    }
}

/// What an untrusted file may do with a key, or with all keys of a table; nothing with one that is
/// not listed.
const NARROW: &[(&str, Narrow)] = &[
    ("version", Narrow::Format),
    ("tools.enabled", Narrow::FewerEmptyIsAll),
    ("policy.allowed_write_roots", Narrow::FewerRoots),
    (
        "policy.allowed_read_roots",
        Narrow::FewerRootsEmptyIsBuiltIn,
    ),
    ("policy.sensitive_path_patterns", Narrow::MorePatterns),
    ("policy.max_read_bytes", Narrow::Lower),
    ("policy.max_subagent_depth", Narrow::Lower),
    ("policy.max_concurrent_subagents", Narrow::Lower),
    ("policy.sandbox", Narrow::Only("require")),
    ("policy.shell.enabled", Narrow::Only("false")),
    ("policy.shell.allow", Narrow::FewerStarIsAll),
    ("policy.shell.timeout_secs", Narrow::Lower),
    ("policy.network.enabled", Narrow::Only("false")),
    ("policy.network.allowed_hosts", Narrow::FewerStarIsAll),
    ("policy.network.allowed_loopback", Narrow::FewerLoopback),
    ("budget.*", Narrow::LowerOrLimit),
    ("permissions.mode", Narrow::LowerMode),
    ("permissions.ask", Narrow::MoreRules),
    ("permissions.deny", Narrow::MoreRules),
];

/// Other spellings of a key.
const ALIASES: &[(&str, &str)] = &[(
    "policy.network.allowed_loopback_services",
    "policy.network.allowed_loopback",
)];

/// Keys that older files may hold and that nothing reads any more.
const RETIRED: &[(&str, &str)] = &[
    (
        "policy.shell.mode",
        "there is one way to judge command lines now; remove the line",
    ),
    (
        "context.prune_signal_threshold",
        "outputs are shortened by age now, and can be read again; remove the line",
    ),
];

/// Why a key means nothing any more, and what to do about it.
pub(crate) fn retired(path: &KeyPath) -> Option<&'static str> {
    let spelled = path.to_string();
    RETIRED
        .iter()
        .find(|(key, _)| *key == spelled)
        .map(|(_, reason)| *reason)
}

/// Every key there is.
fn keys() -> &'static [KeySpec] {
    static KEYS: OnceLock<Vec<KeySpec>> = OnceLock::new();
    KEYS.get_or_init(|| derive::keys(&schema_as_json_value()))
}

/// The part of a pattern below a path, if the path fits it: empty for the whole.
fn rest<'a>(pattern: &'a str, path: &KeyPath) -> Option<Vec<&'a str>> {
    let mut segments = pattern.split('.');
    let fits = path.segments().iter().all(|name| {
        let segment = segments.next();
        segment.is_some_and(|segment| segment == ANY_NAME || segment == name)
    });
    fits.then(|| segments.collect())
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
    for spec in keys() {
        match rest(&spec.pattern, path) {
            Some(rest) if rest.is_empty() => return Found::Leaf(spec),
            Some(_) => is_table = true,
            None => {}
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
    if *table == KeyPath::plain("providers") {
        return KNOWN_SERVICES.iter().map(|service| service.name).collect();
    }
    let below = keys().iter().filter_map(|spec| rest(&spec.pattern, table));
    let mut names: Vec<&str> = below
        .filter_map(|rest| rest.first().copied())
        .filter(|name| *name != ANY_NAME)
        .collect();
    names.dedup();
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
    keys()
        .iter()
        .map(|spec| spec.pattern.as_str())
        .filter(|pattern| pattern.rsplit('.').next() == Some(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_pattern() {
        let kind = |key: &str| spec(&KeyPath::plain(key)).map(|spec| spec.kind.clone());
        let words = ["process", "power"].map(str::to_owned).to_vec();
        for (key, expected) in [
            ("version", Kind::Version),
            ("models.small.model", Kind::Name),
            ("models.small.provider", Kind::Provider),
            ("sessions.durability", Kind::Choice(words)),
            ("sessions.sqlite_path", Kind::FilePath),
            ("providers.groq.base_url", Kind::Url),
            ("providers.groq.api_key", Kind::Secret),
            ("providers.groq.headers.X-Team", Kind::Secret),
            (
                "providers.openai.temperature",
                Kind::Number { min: 0.0, max: 2.0 },
            ),
            (
                "providers.openai.resilience.request_retry.jitter_pct",
                Kind::Integer { min: 0, max: 100 },
            ),
            ("policy.network.allowed_loopback", Kind::Loopback),
            ("policy.allowed_write_roots", Kind::Names),
            ("prompts.system_prompt", Kind::Text),
            ("resources.instructions", Kind::Boolean),
            ("tools.enabled", Kind::Names),
        ] {
            assert_eq!(kind(key), Some(expected), "{key}");
        }
        for (key, is_table) in [
            ("models.small", true),
            ("providers.groq", true),
            ("models.medium", false),
            ("providers.openai.oauth", false),
        ] {
            let found = find(&KeyPath::plain(key));
            assert_eq!(matches!(found, Found::Table), is_table, "{key}");
            assert!(!matches!(found, Found::Leaf(_)), "{key}");
        }
    }

    #[test]
    fn every_exception_is_a_key() {
        for (key, _) in NARROW {
            let start = key.strip_suffix('*');
            let is_key = |key: &str| spec(&KeyPath::plain(key)).is_some();
            let starts = |start: &str| keys().iter().any(|it| it.pattern.starts_with(start));
            assert!(start.map_or_else(|| is_key(key), starts), "{key}");
        }
    }

    #[test]
    fn a_table_lists_its_names() {
        assert_eq!(
            children(&KeyPath::plain("policy.shell")),
            ["enabled", "allow", "timeout_secs", "env"]
        );
        let roles = ["default", "small", "subagent"];
        assert_eq!(children(&KeyPath::plain("models")), roles);
        assert!(children(&KeyPath::root()).contains(&"sessions"));
    }

    #[test]
    fn odd_segments_are_quoted() {
        let path = KeyPath::plain("providers.openai.headers").child("X.Team");
        assert_eq!(path.to_string(), "providers.openai.headers.\"X.Team\"");
    }
}
