//! The table of every key: what it takes, what an untrusted file may do with it, and whether
//! anything reads it yet. Loading, narrowing and `validate` all go by this one table; a test
//! holds it against the Rust types.

use std::fmt;

use crate::limits::{MAX_INTEGER, MAX_RETRY_ATTEMPTS, MAX_TIMEOUT_SECS};

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
    /// The dotted key; `<provider>`, `<role>` and `<header>` stand for names.
    pub(crate) pattern: &'static str,
    pub(crate) kind: Kind,
    pub(crate) narrow: Narrow,
    /// The later part of Halter without which the key has no effect.
    pub(crate) waits_for: Option<&'static str>,
}

const fn active(pattern: &'static str, kind: Kind, narrow: Narrow) -> KeySpec {
    KeySpec {
        pattern,
        kind,
        narrow,
        waits_for: None,
    }
}

const fn later(
    pattern: &'static str,
    kind: Kind,
    narrow: Narrow,
    waits_for: &'static str,
) -> KeySpec {
    KeySpec {
        pattern,
        kind,
        narrow,
        waits_for: Some(waits_for),
    }
}

const COUNT: Kind = Kind::Integer {
    min: 1,
    max: MAX_INTEGER,
};
const COUNT_OR_ZERO: Kind = Kind::Integer {
    min: 0,
    max: MAX_INTEGER,
};
const SMALL_COUNT: Kind = Kind::Integer {
    min: 1,
    max: u32::MAX as u64,
};
const SMALL_COUNT_OR_ZERO: Kind = Kind::Integer {
    min: 0,
    max: u32::MAX as u64,
};
const SECONDS: Kind = Kind::Integer {
    min: 1,
    max: MAX_TIMEOUT_SECS,
};
const MILLISECONDS: Kind = Kind::Integer {
    min: 1,
    max: MAX_TIMEOUT_SECS * 1000,
};
const ATTEMPTS: Kind = Kind::Integer {
    min: 1,
    max: MAX_RETRY_ATTEMPTS,
};
const PERCENT: Kind = Kind::Integer { min: 0, max: 100 };

const REASONING: Kind = Kind::Choice(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]);
const PROVIDER: Kind = Kind::Choice(&["openai", "anthropic", "openrouter", "offline"]);

const SERVICES: &str = "the model services";
const COMPACTION: &str = "compaction";
const SUBAGENTS: &str = "subagents";
const NETWORK: &str = "the network tools";
const PLUGINS: &str = "plugins";
const SHELL_POLICY: &str = "the full shell policy";

use Narrow::{Format, Lower, MorePatterns, Never, Only};

/// Every key there is.
pub(crate) const KEYS: &[KeySpec] = &[
    active("version", Kind::Version, Format),
    later("providers.<provider>.base_url", Kind::Url, Never, SERVICES),
    later(
        "providers.<provider>.api_key",
        Kind::Secret,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.headers.<header>",
        Kind::Header,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.temperature",
        Kind::Temperature,
        Never,
        SERVICES,
    ),
    later(
        "providers.openrouter.routing.order",
        Kind::Names,
        Never,
        SERVICES,
    ),
    later(
        "providers.openrouter.routing.allow_fallbacks",
        Kind::Boolean,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.timeouts.connect_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.timeouts.request_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.timeouts.stream_idle_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.request_retry.max_attempts",
        ATTEMPTS,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.request_retry.deadline_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.request_retry.base_backoff_ms",
        MILLISECONDS,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.request_retry.max_backoff_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "providers.<provider>.resilience.request_retry.jitter_pct",
        PERCENT,
        Never,
        SERVICES,
    ),
    active("models.<role>.provider", PROVIDER, Never),
    active("models.<role>.model", Kind::Name, Never),
    later(
        "models.<role>.max_input_tokens",
        SMALL_COUNT,
        Never,
        SERVICES,
    ),
    later(
        "models.<role>.max_output_tokens",
        SMALL_COUNT,
        Never,
        SERVICES,
    ),
    later("models.<role>.reasoning", REASONING, Never, SERVICES),
    later(
        "models.<role>.tokens_per_minute",
        SMALL_COUNT,
        Never,
        SERVICES,
    ),
    active("resources.skills.roots", Kind::ResourceRoots, Never),
    later(
        "resources.plugins.roots",
        Kind::ResourceRoots,
        Never,
        PLUGINS,
    ),
    active(
        "prompts.preset",
        Kind::Choice(&["general", "coding"]),
        Never,
    ),
    active("prompts.system_prompt", Kind::Text, Never),
    active("prompts.append_system_prompt", Kind::Text, Never),
    later("context.compaction_threshold", COUNT, Never, COMPACTION),
    later("context.pre_compaction_target", COUNT, Never, COMPACTION),
    later(
        "context.prune_signal_threshold",
        Kind::Choice(&["very_low", "low", "normal", "high"]),
        Never,
        COMPACTION,
    ),
    active("tools.enabled", Kind::Names, Narrow::FewerEmptyIsAll),
    active(
        "policy.allowed_write_roots",
        Kind::PolicyRoots,
        Narrow::FewerRoots,
    ),
    active(
        "policy.allowed_read_roots",
        Kind::PolicyRoots,
        Narrow::FewerRootsEmptyIsBuiltIn,
    ),
    active("policy.sensitive_path_patterns", Kind::Names, MorePatterns),
    active("policy.max_read_bytes", COUNT, Lower),
    later(
        "policy.max_subagent_depth",
        SMALL_COUNT_OR_ZERO,
        Lower,
        SUBAGENTS,
    ),
    later(
        "policy.max_concurrent_subagents",
        SMALL_COUNT,
        Lower,
        SUBAGENTS,
    ),
    active("policy.shell.enabled", Kind::Boolean, Only("false")),
    active("policy.shell.allow", Kind::Names, Narrow::FewerStarIsAll),
    later(
        "policy.shell.mode",
        Kind::Choice(&["strict", "relaxed"]),
        Only("strict"),
        SHELL_POLICY,
    ),
    active("policy.shell.timeout_secs", SECONDS, Lower),
    later(
        "policy.network.enabled",
        Kind::Boolean,
        Only("false"),
        NETWORK,
    ),
    later(
        "policy.network.allowed_hosts",
        Kind::Names,
        Narrow::FewerStarIsAll,
        NETWORK,
    ),
    later(
        "policy.network.allowed_loopback",
        Kind::Loopback,
        Narrow::FewerLoopback,
        NETWORK,
    ),
    active(
        "sessions.backend",
        Kind::Choice(&["memory", "sqlite"]),
        Never,
    ),
    active("sessions.sqlite_path", Kind::FilePath, Never),
    active(
        "sessions.durability",
        Kind::Choice(&["process", "power"]),
        Never,
    ),
    active("runtime.working_dir", Kind::FilePath, Never),
    active("runtime.traces_dir", Kind::FilePath, Never),
    later(
        "runtime.subagent_event_forwarding",
        Kind::Choice(&["off", "all"]),
        Never,
        SUBAGENTS,
    ),
    later(
        "runtime.subagent_event_forwarding_cap",
        COUNT_OR_ZERO,
        Never,
        SUBAGENTS,
    ),
    later("resilience.timeouts.connect_secs", SECONDS, Never, SERVICES),
    later("resilience.timeouts.request_secs", SECONDS, Never, SERVICES),
    later(
        "resilience.timeouts.stream_idle_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "resilience.request_retry.max_attempts",
        ATTEMPTS,
        Never,
        SERVICES,
    ),
    later(
        "resilience.request_retry.deadline_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "resilience.request_retry.base_backoff_ms",
        MILLISECONDS,
        Never,
        SERVICES,
    ),
    later(
        "resilience.request_retry.max_backoff_secs",
        SECONDS,
        Never,
        SERVICES,
    ),
    later(
        "resilience.request_retry.jitter_pct",
        PERCENT,
        Never,
        SERVICES,
    ),
];

/// Other spellings of a key.
const ALIASES: &[(&str, &str)] = &[(
    "policy.network.allowed_loopback_services",
    "policy.network.allowed_loopback",
)];

const PROVIDER_TABLES: &[&str] = &["openai", "anthropic", "openrouter"];
const ROLE_TABLES: &[&str] = &["default", "small", "subagent"];

/// The names a pattern segment stands for; `None`: any name.
fn names_of(segment: &'static str) -> Option<Vec<&'static str>> {
    match segment {
        "<provider>" => Some(PROVIDER_TABLES.to_vec()),
        "<role>" => Some(ROLE_TABLES.to_vec()),
        "<header>" => None,
        plain => Some(vec![plain]),
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

/// The names that may stand in a table.
pub(crate) fn children(table: &KeyPath) -> Vec<&'static str> {
    let mut names = Vec::new();
    for spec in KEYS {
        let mut pattern = spec.pattern.split('.');
        let fits = table
            .segments()
            .iter()
            .all(|name| pattern.next().is_some_and(|segment| matches(segment, name)));
        if let (true, Some(next)) = (fits, pattern.next()) {
            for name in names_of(next).unwrap_or_default() {
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
            find(&KeyPath::plain("providers.openai.routing.order")),
            Found::Nothing
        ));
    }

    #[test]
    fn a_table_lists_its_names() {
        assert_eq!(
            children(&KeyPath::plain("policy.shell")),
            ["enabled", "allow", "mode", "timeout_secs"]
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
