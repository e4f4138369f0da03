//! Error codes, and the object that carries one.

use serde::{Deserialize, Serialize};

/// Why a request was not fulfilled. The names on the wire are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ErrorCode {
    /// No such session, or it has been destroyed.
    SessionNotFound,
    /// Something runs in the session.
    SessionBusy,
    /// No such command, or it is no longer kept.
    ExecNotFound,
    /// The command could not be started.
    CommandFailed,
    /// A file could not be read or changed; `reason` says why.
    FileFailed,
    /// The request is malformed, or names something that does not exist.
    InvalidParams,
    /// The runtime failed.
    InternalError,
    /// Token, host, origin or peer are not accepted.
    AuthFailed,
    /// There are as many sessions as there may be.
    MaxSessionsReached,
    /// The session has run as many commands as it may.
    SessionLimitExceeded,
    /// The runtime is short of memory or has too much to do.
    ResourcePressure,
    /// The runtime is about to end and starts nothing new.
    ShuttingDown,
}

/// The `error` of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct WireError {
    /// Why, for programs.
    pub code: ErrorCode,
    /// What happened, to what, and what to do next, for people.
    pub message: String,
    /// Which step failed, where a code has several reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl WireError {
    /// An error with this code and message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            reason: None,
        }
    }

    /// A request that cannot be understood.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    /// The same error with the step that failed.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}
