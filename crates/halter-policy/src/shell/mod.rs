//! The shell judge: reads a command line before anything runs.

use crate::error::PolicyError;

/// Decides whether a command line runs listed programs only.
#[derive(Debug)]
pub struct ShellJudge {
    allowed: Vec<String>,
}

impl ShellJudge {
    /// A judge for a list of programs, each a name or an absolute path.
    #[must_use]
    pub fn new(allowed: Vec<String>) -> Self {
        Self { allowed }
    }

    /// Fails unless every program the command line would run is listed.
    ///
    /// # Errors
    /// [`PolicyError::ShellCommandRejected`].
    pub fn check(&self, command: &str) -> Result<(), PolicyError> {
        let _ = &self.allowed;
        Err(PolicyError::ShellCommandRejected {
            reason: "not judged".to_owned(),
            fragment: command.to_owned(),
        })
    }
}
