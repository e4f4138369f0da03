//! Where a rule is kept that a person wants to hold from now on.

use std::fmt::Debug;

use halter_protocol::RuleError;

/// Keeps the allow rules of answers that hold for good. The policy writes
/// nothing by itself: a program that asks people brings one.
pub trait RuleStore: Send + Sync + Debug {
    /// Saves an allow rule, and says where, for people. One that is there
    /// already is not saved twice. Blocking.
    ///
    /// # Errors
    /// The text is no allow rule, or it could not be written; then nothing has
    /// changed.
    fn save_allow(&self, rule: &str) -> Result<String, RuleStoreError>;
}

/// Why a rule could not be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleStoreError {
    /// The text is no allow rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// It could not be written.
    #[error("the rule could not be saved in {place}: {reason}")]
    Unwritable {
        /// Where it was to be saved.
        place: String,
        /// What went wrong, and what to do.
        reason: String,
    },
}
