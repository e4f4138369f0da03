//! What can go wrong between a session and its store.

use halter_protocol::SessionId;
use std::path::PathBuf;
use std::sync::Arc;

/// Somebody else wrote to the session: the append was based on an old head.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "session '{session_id}' was changed by another writer: expected its head at \
     {expected_head_sequence}, found {actual_head_sequence}; resume the session to go on from there"
)]
pub struct SessionCommitConflict {
    /// The session.
    pub session_id: SessionId,
    /// The head the writer knew.
    pub expected_head_sequence: u64,
    /// The head the store has.
    pub actual_head_sequence: u64,
}

/// A store did not do what was asked. Nothing of the request was stored.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The writer's head is old.
    #[error(transparent)]
    Conflict(#[from] SessionCommitConflict),
    /// The writer's token is old: somebody else acquired the session.
    #[error(
        "session '{}' was acquired by another writer (epoch {current_epoch}, this writer has \
         {token_epoch}); resume the session to take it back",
        conflict.session_id
    )]
    StaleWriter {
        /// The heads, for callers that treat both kinds of conflict alike.
        #[source]
        conflict: SessionCommitConflict,
        /// The epoch of the writer's token.
        token_epoch: u64,
        /// The epoch of the newest token.
        current_epoch: u64,
    },
    /// An earlier failure left this view of the session behind its store.
    #[error(
        "this handle of session '{session_id}' can no longer write because {reason}; \
         resume the session to get a new one"
    )]
    Poisoned {
        /// The session.
        session_id: SessionId,
        /// What happened before.
        reason: Arc<str>,
    },
    /// No session has this id.
    #[error("there is no session '{session_id}'; list the sessions to see which exist")]
    NotFound {
        /// The id asked for.
        session_id: SessionId,
    },
    /// The id of a new session is taken.
    #[error("session '{session_id}' exists already; resume it, or start one with another id")]
    AlreadyExists {
        /// The id.
        session_id: SessionId,
    },
    /// The request breaks a rule of the log.
    #[error("the append to session '{session_id}' was refused: {reason}")]
    InvalidBatch {
        /// The session.
        session_id: SessionId,
        /// Which rule.
        reason: String,
    },
    /// Something is larger than its limit.
    #[error("{what} has {bytes} bytes, more than the {max} a session may store; make it smaller")]
    TooLarge {
        /// What it is.
        what: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Stored data makes no sense.
    #[error("{what} is damaged: {why}; {remedy}")]
    Corrupt {
        /// What is damaged, with its path or id.
        what: String,
        /// How that shows.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// Stored data was written by a newer version.
    #[error(
        "{what} has version {found}, this program reads up to {supported}; \
         use the newer program, or another store"
    )]
    TooNew {
        /// What is too new, with its path or id.
        what: String,
        /// Its version.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// The path cannot hold a session store.
    #[error("'{}' cannot hold sessions: {why}; {remedy}", path.display())]
    Unusable {
        /// The path.
        path: PathBuf,
        /// Why not.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// There is no room.
    #[error(
        "no space is left to store sessions in '{}'; free some and try again, nothing stored \
         before is lost",
        path.display()
    )]
    DiskFull {
        /// The store.
        path: PathBuf,
    },
    /// The store cannot be written.
    #[error(
        "sessions cannot be stored in '{}': it is read-only; make it writable, or set \
         sessions.sqlite_path to another place",
        path.display()
    )]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// Another process holds the store for too long.
    #[error(
        "'{}' stayed locked by another process for {waited_millis} ms; try again when it is done",
        path.display()
    )]
    Busy {
        /// The store.
        path: PathBuf,
        /// How long this one waited.
        waited_millis: u64,
    },
    /// The store was closed.
    #[error("the session store is closed; open it again to go on")]
    Closed,
    /// The operating system refused something.
    #[error(
        "could not {action} '{}': {source}; check the disk and the permissions",
        path.display()
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// A backend failed in its own way.
    #[error("the session store failed to {action}: {message}")]
    Backend {
        /// What was tried.
        action: &'static str,
        /// What the backend said.
        message: String,
    },
}

impl StoreError {
    /// Stable, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "session_conflict",
            Self::StaleWriter { .. } => "session_stale_writer",
            Self::Poisoned { .. } => "session_poisoned",
            Self::NotFound { .. } => "session_not_found",
            Self::AlreadyExists { .. } => "session_exists",
            Self::InvalidBatch { .. } => "session_invalid_batch",
            Self::TooLarge { .. } => "session_too_large",
            Self::Corrupt { .. } => "store_corrupt",
            Self::TooNew { .. } => "store_too_new",
            Self::Unusable { .. } => "store_unusable",
            Self::DiskFull { .. } => "store_disk_full",
            Self::ReadOnly { .. } => "store_read_only",
            Self::Busy { .. } => "store_busy",
            Self::Closed => "store_closed",
            Self::Io { .. } => "store_io",
            Self::Backend { .. } => "store_backend",
        }
    }

    /// True if another writer took the session or wrote to it.
    pub fn is_conflict(&self) -> bool {
        self.conflict().is_some()
    }

    /// The conflict behind the error, whether by head or by token.
    pub fn conflict(&self) -> Option<&SessionCommitConflict> {
        match self {
            Self::Conflict(conflict) | Self::StaleWriter { conflict, .. } => Some(conflict),
            _ => None,
        }
    }

    /// The conflict by value, to hand on as an error callers can downcast to;
    /// any other error comes back.
    pub fn into_conflict(self) -> Result<SessionCommitConflict, Self> {
        match self {
            Self::Conflict(conflict) | Self::StaleWriter { conflict, .. } => Ok(conflict),
            other => Err(other),
        }
    }

    /// True if the same request may succeed later without any other change.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::DiskFull { .. } | Self::ReadOnly { .. } | Self::Busy { .. } | Self::Io { .. }
        )
    }

    pub(crate) fn not_found(session_id: &SessionId) -> Self {
        Self::NotFound {
            session_id: session_id.clone(),
        }
    }

    pub(crate) fn corrupt_event(session_id: &SessionId, sequence: u64, why: String) -> Self {
        Self::Corrupt {
            what: format!("event {sequence} of session '{session_id}'"),
            why,
            remedy: "export its trace to save what is readable, then delete the session".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_conflict_lead_to_the_heads() {
        let conflict = SessionCommitConflict {
            session_id: "ses_1".into(),
            expected_head_sequence: 3,
            actual_head_sequence: 4,
        };
        let stale = StoreError::StaleWriter {
            conflict: conflict.clone(),
            token_epoch: 1,
            current_epoch: 2,
        };
        for error in [StoreError::from(conflict.clone()), stale] {
            assert!(error.is_conflict());
            assert_eq!(error.into_conflict().unwrap(), conflict);
        }
        assert!(!StoreError::Closed.is_conflict());
        assert!(StoreError::Closed.into_conflict().is_err());
    }
}
