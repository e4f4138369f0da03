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
    /// A file, a value or a variable that cannot be used; the code tells which.
    #[error("{}", self.whole())]
    Refused {
        /// Stable, for programs to match on.
        code: &'static str,
        /// Where it is written; absent for a configuration made by a program.
        location: Option<Location>,
        /// What is wrong.
        problem: String,
        /// What to do about it.
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
    /// A selected provider has no key.
    #[error("{}", self.whole())]
    MissingApiKey {
        /// The provider.
        provider: String,
        /// The environment variable that can hold the key.
        variable: String,
    },
    /// The configuration could not be converted to or from JSON.
    #[error("{}", self.whole())]
    Json {
        /// What the converter said.
        source: serde_json::Error,
    },
}

impl ConfigError {
    pub(crate) fn refused(
        code: &'static str,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Refused {
            code,
            location: None,
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// A value that its key does not accept.
    pub(crate) fn value(
        key: impl fmt::Display,
        problem: impl fmt::Display,
        hint: impl Into<String>,
    ) -> Self {
        Self::refused("config_invalid_value", format!("`{key}` {problem}"), hint)
    }

    /// A value of another type than its key takes.
    pub(crate) fn wrong_type(
        key: impl fmt::Display,
        expected: &'static str,
        found: &'static str,
    ) -> Self {
        let problem = format!("`{key}` takes {expected}, found {found}");
        Self::refused("config_wrong_type", problem, format!("write {expected}"))
    }

    /// The same error with a place, where it can have one and has none.
    pub(crate) fn at(mut self, place: Option<Location>) -> Self {
        if let Self::Refused { location, .. } = &mut self
            && location.is_none()
        {
            *location = place;
        }
        self
    }

    /// A name for the kind of error that never changes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "config_read",
            Self::Refused { code, .. } => code,
            Self::MissingDefaultModel => "config_missing_default_model",
            Self::UnknownModel { .. } => "config_unknown_model",
            Self::MissingApiKey { .. } => "config_missing_api_key",
            Self::Json { .. } => "config_json",
        }
    }

    /// Where in which file, when the error has such a place.
    pub fn location(&self) -> Option<&Location> {
        match self {
            Self::Refused { location, .. } => location.as_ref(),
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
            Self::Refused { hint, .. } => hint.clone(),
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
            Self::Refused { problem, .. } => problem.clone(),
            Self::MissingDefaultModel => {
                "invalid configuration: [models.default] is required".to_owned()
            }
            Self::UnknownModel { id } => format!("unknown model '{id}'"),
            Self::MissingApiKey { provider, .. } => {
                format!("missing api key for provider '{provider}'")
            }
            Self::Json { source } => {
                format!("cannot convert the configuration to or from JSON: {source}")
            }
        }
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
