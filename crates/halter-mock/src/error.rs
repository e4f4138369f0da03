//! What can go wrong on this side of the socket.

use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Why the service could not start, a script could not be used, or a wait ended
/// without its request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MockError {
    /// The address could not be bound.
    #[error("cannot listen on {address}: {source}; choose another port, or 0 for any free one")]
    Bind {
        /// What was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address is not one of this machine's loopback addresses.
    #[error(
        "{address} is not a loopback address; the mock serves this machine only: use 127.0.0.1"
    )]
    NotLoopback {
        /// What was asked for.
        address: SocketAddr,
    },
    /// A script file could not be read.
    #[error("cannot read the script {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A script is not what the schema says.
    #[error("the script is not valid: {reason}")]
    Script {
        /// What is wrong and where.
        reason: String,
    },
    /// A scenario breaks a rule that its types cannot say.
    #[error("scenario `{name}`: {reason}")]
    Scenario {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The default names no scenario.
    #[error("no scenario is called `{name}`; known: {known}")]
    UnknownScenario {
        /// What was asked for.
        name: String,
        /// All names, comma separated.
        known: String,
    },
    /// Too few requests arrived in time.
    #[error("waited {} ms for {wanted} requests and saw {seen}", waited.as_millis())]
    TimedOut {
        /// How many were waited for.
        wanted: usize,
        /// How many had arrived.
        seen: usize,
        /// How long the wait was.
        waited: Duration,
    },
    /// More gates were opened than the service keeps.
    #[error("the service remembers {max} gates at most; reuse a name")]
    TooManyGates {
        /// The bound.
        max: usize,
    },
}

impl MockError {
    /// A stable name for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "mock_bind",
            Self::NotLoopback { .. } => "mock_not_loopback",
            Self::Read { .. } => "mock_read",
            Self::Script { .. } => "mock_script",
            Self::Scenario { .. } => "mock_scenario",
            Self::UnknownScenario { .. } => "mock_unknown_scenario",
            Self::TimedOut { .. } => "mock_timed_out",
            Self::TooManyGates { .. } => "mock_too_many_gates",
        }
    }
}
