//! Why the pool or a session of it refuses.

use super::ids::SessionId;
use crate::limits::MAX_QUEUED;

/// Why the pool does not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// There are as many sessions as there may be.
    #[error(
        "there are {limit} sessions already, as many as there may be; destroy one or raise TRL_MAX_SESSIONS"
    )]
    Full {
        /// The limit.
        limit: usize,
    },
    /// No such session.
    #[error("session `{id}` does not exist; session.list shows those that do")]
    NotFound {
        /// The name asked for.
        id: String,
    },
    /// Something runs in the session.
    #[error("session {id} is busy; wait for its command, cancel it, or send `queue: true`")]
    Busy {
        /// The session.
        id: SessionId,
    },
    /// Too many commands wait for the session.
    #[error("{MAX_QUEUED} commands wait for session {id} already; wait for one of them")]
    QueueFull {
        /// The session.
        id: SessionId,
    },
    /// The session has run as many commands as it may.
    #[error(
        "session {id} has run {limit} commands, as many as it may (TRL_SESSION_MAX_COMMANDS); create another one"
    )]
    Exhausted {
        /// The session.
        id: SessionId,
        /// The limit.
        limit: u64,
    },
}

impl PoolError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "pool_full",
            Self::NotFound { .. } => "session_not_found",
            Self::Busy { .. } => "session_busy",
            Self::QueueFull { .. } => "queue_full",
            Self::Exhausted { .. } => "session_exhausted",
        }
    }
}
