//! Where a value came from.

use std::fmt;

use crate::error::Location;
use halter_protocol::RuleSource;

/// The layer that set a value. Later variants win over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The user's own file.
    User(Location),
    /// The file found in the project.
    Project(Location),
    /// The file that was named.
    Explicit(Location),
    /// An environment variable.
    Environment(String),
    /// A flag on the command line.
    Flag(String),
}

impl Origin {
    /// The place in a file, if a file set the value.
    pub fn location(&self) -> Option<&Location> {
        match self {
            Self::User(location) | Self::Project(location) | Self::Explicit(location) => {
                Some(location)
            }
            Self::Default | Self::Environment(_) | Self::Flag(_) => None,
        }
    }

    /// What the author of a permission rule is called.
    pub(crate) fn rule_source(&self) -> RuleSource {
        match self {
            Self::Default => RuleSource::Default,
            Self::User(_) | Self::Explicit(_) | Self::Environment(_) => RuleSource::User,
            Self::Project(_) => RuleSource::Project,
            Self::Flag(_) => RuleSource::Cli,
        }
    }

    /// The place of the layer in the order of layers.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::User(_) => 1,
            Self::Project(_) => 2,
            Self::Explicit(_) => 3,
            Self::Environment(_) => 4,
            Self::Flag(_) => 5,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layer, location) = match self {
            Self::Default => return formatter.write_str("default"),
            Self::Environment(variable) => return write!(formatter, "environment {variable}"),
            Self::Flag(flag) => return write!(formatter, "flag {flag}"),
            Self::User(location) => ("user", location),
            Self::Project(location) => ("project", location),
            Self::Explicit(location) => ("explicit", location),
        };
        write!(
            formatter,
            "{layer} {}:{}",
            location.file.display(),
            location.line
        )
    }
}

/// Which of the files a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileLayer {
    User,
    Project,
    Explicit,
}

impl FileLayer {
    pub(crate) fn origin(self, location: Location) -> Origin {
        match self {
            Self::User => Origin::User(location),
            Self::Project => Origin::Project(location),
            Self::Explicit => Origin::Explicit(location),
        }
    }
}
