//! What can be wrong with a configuration, where, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::limits::MAX_SUGGESTION_DISTANCE;

/// A place in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The file.
    pub file: PathBuf,
    /// Its line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}:{}",
            self.file.display(),
            self.line,
            self.column
        )
    }
}

/// Why a configuration was refused. The message names the thing and the remedy; [`code`] is
/// stable; [`location`] and [`hint`] are for faces that lay them out on lines of their own, with
/// [`problem`] as the rest.
///
/// [`code`]: ConfigError::code
/// [`location`]: ConfigError::location
/// [`hint`]: ConfigError::hint
/// [`problem`]: ConfigError::problem
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{}", self.whole())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that was found rather than named is a device, a pipe or a directory.
    #[error("{}", self.whole())]
    NotAFile {
        /// The path.
        file: PathBuf,
    },
    /// A file is larger than [`MAX_CONFIG_FILE_BYTES`](crate::limits::MAX_CONFIG_FILE_BYTES).
    #[error("{}", self.whole())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// A file is not UTF-8.
    #[error("{}", self.whole())]
    NotUtf8 {
        /// The first byte that is not.
        location: Location,
    },
    /// A file is not TOML.
    #[error("{}", self.whole())]
    Syntax {
        /// Where it stops being TOML.
        location: Location,
        /// What the parser expected.
        message: String,
    },
    /// A key that does not exist.
    #[error("{}", self.whole())]
    UnknownKey {
        /// Where it is written.
        location: Location,
        /// The whole key, dotted.
        key: String,
        /// The key that was probably meant, or the keys that exist there.
        hint: String,
    },
    /// A value of the wrong type.
    #[error("{}", self.whole())]
    WrongType {
        /// Where it is written.
        location: Option<Location>,
        /// The whole key, dotted.
        key: String,
        /// What the key takes.
        expected: &'static str,
        /// What was written.
        found: &'static str,
    },
    /// A value that the key does not accept.
    #[error("{}", self.whole())]
    InvalidValue {
        /// Where it is written; absent for a configuration made by a program.
        location: Option<Location>,
        /// The whole key, dotted.
        key: String,
        /// What is wrong with the value.
        problem: String,
        /// What to write instead.
        hint: String,
    },
    /// No model for ordinary turns.
    #[error("invalid configuration: [models.default] is required")]
    MissingDefaultModel,
    /// A model id that is not registered.
    #[error("{}", self.whole())]
    UnknownModel {
        /// The id.
        id: String,
    },
    /// A model service that nobody described.
    #[error("{}", self.whole())]
    UnknownProvider {
        /// Where it is named; absent for a configuration made by a program.
        location: Option<Location>,
        /// Its name.
        name: String,
        /// The service that was probably meant, and the table to write.
        hint: String,
    },
    /// A selected provider has no key.
    #[error("{}", self.whole())]
    MissingApiKey {
        /// The provider.
        provider: String,
        /// The environment variable that can hold the key.
        variable: String,
    },
    /// An environment variable with a value it does not accept.
    #[error("{}", self.whole())]
    Variable {
        /// The variable.
        variable: String,
        /// What is wrong with its value.
        problem: String,
        /// What to set instead.
        hint: String,
    },
    /// A tool that does not exist.
    #[error("{}", self.whole())]
    UnknownTool {
        /// The name.
        name: String,
        /// The tool that was probably meant, or the tools that exist.
        hint: String,
    },
    /// A tool that this version does not have yet.
    #[error("{}", self.whole())]
    ToolNotBuiltYet {
        /// The name.
        name: String,
    },
    /// A session backend whose cargo feature is not compiled in.
    #[error("{}", self.whole())]
    BackendFeatureDisabled {
        /// The backend.
        backend: &'static str,
        /// The feature.
        feature: &'static str,
    },
    /// The record of trusted files could not be read or written.
    #[error("{}", self.whole())]
    TrustStore {
        /// The record.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// The configuration could not be converted to or from JSON.
    #[error("{}", self.whole())]
    Json {
        /// What the converter said.
        source: serde_json::Error,
    },
}

impl ConfigError {
    /// A name for the kind of error that never changes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "config_read",
            Self::NotAFile { .. } => "config_not_a_file",
            Self::TooLarge { .. } => "config_too_large",
            Self::NotUtf8 { .. } => "config_not_utf8",
            Self::Syntax { .. } => "config_syntax",
            Self::UnknownKey { .. } => "config_unknown_key",
            Self::WrongType { .. } => "config_wrong_type",
            Self::InvalidValue { .. } => "config_invalid_value",
            Self::MissingDefaultModel => "config_missing_default_model",
            Self::UnknownModel { .. } => "config_unknown_model",
            Self::UnknownProvider { .. } => "config_unknown_provider",
            Self::MissingApiKey { .. } => "config_missing_api_key",
            Self::Variable { .. } => "config_variable",
            Self::UnknownTool { .. } => "config_unknown_tool",
            Self::ToolNotBuiltYet { .. } => "config_tool_not_built_yet",
            Self::BackendFeatureDisabled { .. } => "config_backend_feature_disabled",
            Self::TrustStore { .. } => "config_trust_store",
            Self::Json { .. } => "config_json",
        }
    }

    /// Where in which file, when the error has such a place.
    pub fn location(&self) -> Option<&Location> {
        match self {
            Self::NotUtf8 { location }
            | Self::Syntax { location, .. }
            | Self::UnknownKey { location, .. } => Some(location),
            Self::WrongType { location, .. }
            | Self::InvalidValue { location, .. }
            | Self::UnknownProvider { location, .. } => location.as_ref(),
            _ => None,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "write one with `halter init`, or check the path".to_owned()
            }
            Self::Read { .. } => "check the file's permissions".to_owned(),
            Self::NotAFile { .. } => "replace it with a regular file".to_owned(),
            Self::TooLarge { .. } => "move long texts into skills".to_owned(),
            Self::NotUtf8 { .. } => "save the file as UTF-8".to_owned(),
            Self::Syntax { .. } => "correct the TOML at that place".to_owned(),
            Self::WrongType { expected, .. } => format!("write {expected}"),
            Self::MissingDefaultModel => {
                "add [models.default] with provider and model, or set HALTER_MODEL=offline"
                    .to_owned()
            }
            Self::UnknownModel { .. } => {
                "known models: default, small, subagent; any other is written provider/model, such \
                 as anthropic/claude-sonnet-5-5"
                    .to_owned()
            }
            Self::MissingApiKey { provider, variable } => {
                format!("set [providers.{provider}].api_key or {variable}")
            }
            Self::ToolNotBuiltYet { .. } => "take it out of the list".to_owned(),
            Self::BackendFeatureDisabled { feature, .. } => {
                format!("build with the cargo feature `{feature}`, or use backend = \"memory\"")
            }
            Self::UnknownKey { hint, .. }
            | Self::UnknownProvider { hint, .. }
            | Self::InvalidValue { hint, .. }
            | Self::Variable { hint, .. }
            | Self::UnknownTool { hint, .. }
            | Self::TrustStore { hint, .. } => hint.clone(),
            Self::Json { .. } => return None,
        };
        Some(hint)
    }

    /// What is wrong, without its place and its remedy.
    pub fn problem(&self) -> String {
        match self {
            Self::Read { file, source } => {
                format!("cannot read configuration {}: {source}", file.display())
            }
            Self::NotAFile { file } => {
                format!("configuration {} is not a regular file", file.display())
            }
            Self::TooLarge { file, limit } => format!(
                "configuration {} is larger than {limit} bytes",
                file.display()
            ),
            Self::NotUtf8 { .. } => "the file is not valid UTF-8".to_owned(),
            Self::Syntax { message, .. } => format!("not valid TOML: {message}"),
            Self::UnknownKey { key, .. } => format!("unknown key `{key}`"),
            Self::WrongType {
                key,
                expected,
                found,
                ..
            } => format!("`{key}` takes {expected}, found {found}"),
            Self::InvalidValue { key, problem, .. } => format!("`{key}` {problem}"),
            Self::MissingDefaultModel => {
                "invalid configuration: [models.default] is required".to_owned()
            }
            Self::UnknownModel { id } => format!("unknown model '{id}'"),
            Self::UnknownProvider { name, .. } => format!("unknown provider '{name}'"),
            Self::MissingApiKey { provider, .. } => {
                format!("missing api key for provider '{provider}'")
            }
            Self::Variable {
                variable, problem, ..
            } => format!("{variable} {problem}"),
            Self::UnknownTool { name, .. } => format!("tools.enabled: unknown tool '{name}'"),
            Self::ToolNotBuiltYet { name } => {
                format!("tools.enabled: tool '{name}' is not built yet in this version")
            }
            Self::BackendFeatureDisabled { backend, .. } => {
                format!("sessions.backend: '{backend}' is not compiled in")
            }
            Self::TrustStore { file, problem, .. } => {
                format!("record of trusted files {}: {problem}", file.display())
            }
            Self::Json { source } => {
                format!("cannot convert the configuration to or from JSON: {source}")
            }
        }
    }

    /// The same error with a place, where it can have one and has none.
    pub(crate) fn at(mut self, place: Option<Location>) -> Self {
        if let Self::InvalidValue { location, .. } | Self::UnknownProvider { location, .. } =
            &mut self
            && location.is_none()
        {
            *location = place;
        }
        self
    }

    fn whole(&self) -> String {
        let mut text = String::new();
        if let Some(location) = self.location() {
            text.push_str(&format!("{location}: "));
        }
        text.push_str(&self.problem());
        if let Some(hint) = self.hint() {
            text.push_str(&format!(": {hint}"));
        }
        text
    }
}

/// The known name that a misspelt one most likely meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = MAX_SUGGESTION_DISTANCE.min(name.chars().count().div_ceil(2));
    let spelled = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&spelled, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?", or the list of what exists.
pub(crate) fn suggestion(name: &str, what: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => format!("there are no {what}"),
        None => format!("known {what}: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_gets_the_nearest_known_one() {
        let known = ["policy", "prompts", "providers"];
        assert_eq!(nearest("polcy", known), Some("policy"));
        assert_eq!(nearest("Policy", known), Some("policy"));
        assert_eq!(nearest("prvoiders", known), Some("providers"));
        assert_eq!(nearest("weather", known), None);
        assert_eq!(nearest("x", ["a"]), Some("a"));
    }

    #[test]
    fn the_distance_limit_is_exact() {
        let name = "abcdefghijkl";
        let with_typos = |count: usize| "x".repeat(count) + name.get(count..).unwrap();
        let near = with_typos(MAX_SUGGESTION_DISTANCE);
        assert_eq!(nearest(name, [near.as_str()]), Some(near.as_str()));
        let far = with_typos(MAX_SUGGESTION_DISTANCE + 1);
        assert_eq!(nearest(name, [far.as_str()]), None);
    }

    #[test]
    fn messages_the_contract_spells_are_exact() {
        assert_eq!(
            ConfigError::MissingDefaultModel.to_string(),
            "invalid configuration: [models.default] is required"
        );
        assert_eq!(
            ConfigError::MissingApiKey {
                provider: "anthropic".into(),
                variable: "ANTHROPIC_API_KEY".into()
            }
            .to_string(),
            "missing api key for provider 'anthropic': set [providers.anthropic].api_key or ANTHROPIC_API_KEY"
        );
    }
}
