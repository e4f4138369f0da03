//! Why a command could not do what it was asked to.

use crate::exit::Exit;
use halter::HalterError;
use halter_config::ConfigError;
use halter_protocol::TurnError;
use halter_session::StoreError;
use serde_json::{Value, json};
use std::io;

const FREE_SPACE: &str = "free some space on the disk";

/// The end of a command that did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The reader of our output has gone; there is nobody to tell.
    BrokenPipe,
    /// An error to show.
    Problem(Problem),
    /// The caller has seen why, in the output.
    Told(Exit),
}

/// An error as people and programs see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How the program ends.
    pub exit: Exit,
    /// Stable, for programs to match on.
    pub code: String,
    /// What happened, and to what.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem that ends the program as its code says.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let code = code.into();
        Self {
            exit: Exit::for_error(&code),
            code,
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

    /// Ends the program otherwise than the code says.
    #[must_use]
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// The problem as JSON output has it.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let (Some(hint), Some(fields)) = (&self.hint, error.as_object_mut()) {
            fields.insert("hint".to_owned(), Value::from(hint.as_str()));
        }
        json!({ "error": error })
    }
}

/// The command line cannot be followed.
pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::Problem(Problem::new("usage", message).with_hint(hint))
}

/// A file or directory is not as it should be.
pub fn file_problem(action: &str, path: &std::path::Path, error: &io::Error) -> Failure {
    let message = format!("could not {action} {}: {error}", path.display());
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check its permissions",
        io::ErrorKind::StorageFull => {
            return Problem::new("disk_full", message)
                .with_hint(FREE_SPACE)
                .into();
        }
        _ => "choose another path",
    };
    usage(message, hint)
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        let message = format!("could not write the output: {error}");
        let hint = match error.kind() {
            io::ErrorKind::StorageFull => FREE_SPACE,
            _ => "check where the output goes",
        };
        Self::Problem(Problem::new("output_failed", message).with_hint(hint))
    }
}

impl From<&ConfigError> for Problem {
    fn from(error: &ConfigError) -> Self {
        let place = error.location().map(|place| format!("{place}: "));
        let message = format!("{}{}", place.unwrap_or_default(), error.problem());
        Self {
            hint: error.hint(),
            ..Self::new(error.code(), message)
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Problem(Problem::from(&error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Problem(Problem::new(error.code(), error.to_string()))
    }
}

impl From<&TurnError> for Problem {
    fn from(error: &TurnError) -> Self {
        Self {
            hint: error.hint.clone(),
            ..Self::new(error.code.clone(), error.message.clone())
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        if let Some(known) = error.downcast_ref::<HalterError>() {
            return Self::Problem(Problem {
                hint: known.hint().map(str::to_owned),
                ..Problem::new(known.code(), known.to_string())
            });
        }
        if let Some(known) = error.downcast_ref::<ConfigError>() {
            return Self::Problem(Problem::from(known));
        }
        if let Some(known) = error.downcast_ref::<StoreError>() {
            return Self::Problem(Problem::new(known.code(), known.to_string()));
        }
        Self::Problem(Problem::new("failed", format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_code_and_hint_on_their_way_up() {
        let inner = HalterError::new("working_dir_missing", "it is gone").with_hint("make it");
        let failure = Failure::from(anyhow::Error::new(inner));
        let Failure::Problem(problem) = failure else {
            panic!("{failure:?}");
        };
        assert_eq!(problem.exit, Exit::Usage);
        assert_eq!(
            problem.to_json(),
            json!({"error": {"code": "working_dir_missing", "message": "it is gone", "hint": "make it"}})
        );
    }

    #[test]
    fn a_broken_pipe_is_no_problem() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(broken), Failure::BrokenPipe));
    }
}
