//! The error that callers of the runtime can match on.

use halter_protocol::TurnError;
use halter_session::StoreError;

/// Why the harness could not do something. Found by downcasting the
/// `anyhow::Error` that the facade's methods return.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HalterError {
    code: String,
    message: String,
    hint: Option<String>,
}

impl HalterError {
    /// An error without a hint.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Stable, for programs to match on.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What to do next.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<TurnError> for HalterError {
    fn from(error: TurnError) -> Self {
        Self {
            code: error.code,
            message: error.message,
            hint: error.hint,
        }
    }
}

/// A store's failure as callers see it: ours on top, below it the store's own
/// error, or [`SessionCommitConflict`](halter_session::SessionCommitConflict)
/// itself, to downcast to.
pub fn store_failure(error: StoreError) -> anyhow::Error {
    let summary = HalterError::from(&error);
    match error.into_conflict() {
        Ok(conflict) => anyhow::Error::new(conflict).context(summary),
        Err(error) => anyhow::Error::new(error).context(summary),
    }
}

impl From<&StoreError> for HalterError {
    fn from(error: &StoreError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
