//! What is worth telling about a configuration that loads.

use std::fmt;

use crate::error::Location;

/// Something about a configuration that the user should know. Loading went on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigWarning {
    /// A project file that is not trusted tried to do more than narrow.
    Untrusted {
        /// The key, dotted.
        key: String,
        /// Where it is written.
        location: Location,
        /// What of it does not count, and why.
        reason: String,
    },
    /// A project file, trusted or not, tried to widen what is permitted.
    ProjectWidens {
        /// The key, dotted.
        key: String,
        /// Where it is written.
        location: Location,
        /// What of it does not count, and why.
        reason: String,
    },
    /// A key that older versions read and this one does not.
    Retired {
        /// The key, dotted.
        key: String,
        /// Where it is written.
        location: Location,
        /// Why, and what to do about it.
        reason: &'static str,
    },
    /// A `HALTER_*` variable that nobody reads.
    UnknownVariable {
        /// The variable.
        variable: String,
        /// The variable that was probably meant.
        hint: Option<String>,
    },
    /// The record of trusted files could not be used, so that the project file counts as
    /// untrusted.
    TrustRecord {
        /// What is wrong with it and what to do.
        problem: String,
    },
}

impl ConfigWarning {
    /// A name for the kind of warning that never changes.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Untrusted { .. } => "config_untrusted",
            Self::ProjectWidens { .. } => "config_project_widens",
            Self::Retired { .. } => "config_retired_key",
            Self::UnknownVariable { .. } => "config_unknown_variable",
            Self::TrustRecord { .. } => "config_trust_record",
        }
    }

    /// Where in which file, when the warning has such a place.
    pub fn location(&self) -> Option<&Location> {
        match self {
            Self::Untrusted { location, .. }
            | Self::Retired { location, .. }
            | Self::ProjectWidens { location, .. } => Some(location),
            Self::UnknownVariable { .. } | Self::TrustRecord { .. } => None,
        }
    }
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrusted {
                key,
                location,
                reason,
            } => write!(
                formatter,
                "{location}: `{key}` in a file that is not trusted: {reason}; \
                 trust the file with `halter trust`, or name it with `--config`"
            ),
            Self::ProjectWidens {
                key,
                location,
                reason,
            } => write!(
                formatter,
                "{location}: `{key}` in a project's file: {reason}; a project never widens what \
                 is permitted, so write it into your own configuration, or name the file with \
                 `--config`"
            ),
            Self::Retired {
                key,
                location,
                reason,
            } => write!(formatter, "{location}: `{key}` has no effect: {reason}"),
            Self::UnknownVariable { variable, hint } => {
                write!(formatter, "unknown environment variable {variable}")?;
                match hint {
                    Some(hint) => write!(formatter, ": {hint}"),
                    None => Ok(()),
                }
            }
            Self::TrustRecord { problem } => formatter.write_str(problem),
        }
    }
}
