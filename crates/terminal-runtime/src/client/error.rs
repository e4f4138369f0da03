//! What a client can meet.

use std::io;

use super::Target;
use super::demux::DemuxError;
use crate::protocol::WireError;

/// Why a call did not get what it asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing is there.
    #[error("no runtime at {target}: start one with `terminal-runtime`, or choose another")]
    NotRunning {
        /// Where it was looked for.
        target: String,
    },
    /// There is a socket, and nobody behind it.
    #[error(
        "the runtime at {target} has died and left its socket behind: start it again with `terminal-runtime`"
    )]
    Stale {
        /// Where it was looked for.
        target: String,
    },
    /// The system does not let us in.
    #[error("the runtime at {target} belongs to another user: its socket may not be opened")]
    Forbidden {
        /// Where it was looked for.
        target: String,
    },
    /// Somebody else listens there.
    #[error(
        "who listens at {target} is user {owner}, neither root nor you: nothing was sent; \
         choose another runtime"
    )]
    Stranger {
        /// Where it was looked for.
        target: String,
        /// The number of that user.
        owner: u32,
    },
    /// It could not be reached for another reason.
    #[error("the runtime at {target} cannot be reached: {source}")]
    Unreachable {
        /// Where it was looked for.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// The connection ended before the answer came.
    #[error("the connection to the runtime at {target} was lost before it answered")]
    Lost {
        /// Where it was.
        target: String,
    },
    /// The runtime was lost while it took a command, and does not know it any
    /// more.
    #[error(
        "the runtime at {target} was lost while it had the command, and does not know it any more: \
         whether and how far it ran is unknown; look before you run it again"
    )]
    OutcomeUnknown {
        /// Where it was.
        target: String,
    },
    /// The runtime refused.
    #[error("{0}")]
    Refused(WireError),
    /// What the runtime sent is not the protocol.
    #[error("the runtime cannot be understood: {0}; are both of the same version?")]
    Unreadable(String),
}

impl ClientError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotRunning { .. } => "not_running",
            Self::Stale { .. } => "stale_socket",
            Self::Forbidden { .. } => "forbidden",
            Self::Stranger { .. } => "stranger",
            Self::Unreachable { .. } => "unreachable",
            Self::Lost { .. } => "connection_lost",
            Self::OutcomeUnknown { .. } => "outcome_unknown",
            Self::Refused(_) => "refused",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Whether trying again may help: the runtime may be about to come back.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::NotRunning { .. }
                | Self::Stale { .. }
                | Self::Unreachable { .. }
                | Self::Lost { .. }
        )
    }

    pub(super) fn connecting(target: &Target, source: io::Error) -> Self {
        let target = target.to_string();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotRunning { target },
            io::ErrorKind::ConnectionRefused if target.starts_with("http") => {
                Self::NotRunning { target }
            }
            io::ErrorKind::ConnectionRefused => Self::Stale { target },
            io::ErrorKind::PermissionDenied => Self::Forbidden { target },
            _ => Self::Unreachable { target, source },
        }
    }

    pub(super) fn lost(target: &Target) -> Self {
        Self::Lost {
            target: target.to_string(),
        }
    }
}

impl From<DemuxError> for ClientError {
    fn from(error: DemuxError) -> Self {
        Self::Unreadable(error.to_string())
    }
}
