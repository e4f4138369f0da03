//! Why a command could not do what it was asked to.

use crate::exit::Exit;
use halter::HalterError;
use halter_config::ConfigError;
use halter_session::StoreError;
use serde_json::{Value, json};
use std::io;

const FREE_SPACE: &str = "free some space on the disk";

/// The end of a command that did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The reader of our output has gone; there is nobody to tell.
    BrokenPipe,
    /// An error to show, and how the program ends.
    Error(HalterError, Exit),
    /// The caller has seen why, in the output.
    Told(Exit),
}

/// An error as JSON output has it.
pub fn error_json(error: &HalterError) -> Value {
    let mut fields = json!({ "code": error.code(), "message": error.to_string() });
    if let (Some(hint), Some(fields)) = (error.hint(), fields.as_object_mut()) {
        fields.insert("hint".to_owned(), Value::from(hint));
    }
    json!({ "error": fields })
}

/// The command line cannot be followed.
pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    HalterError::new("usage", message).with_hint(hint).into()
}

/// A file or directory is not as it should be.
pub fn file_problem(action: &str, path: &std::path::Path, error: &io::Error) -> Failure {
    let message = format!("could not {action} {}: {error}", path.display());
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check its permissions",
        io::ErrorKind::StorageFull => {
            return HalterError::new("disk_full", message)
                .with_hint(FREE_SPACE)
                .into();
        }
        _ => "choose another path",
    };
    usage(message, hint)
}

/// The program ends as the code of the error says.
impl From<HalterError> for Failure {
    fn from(error: HalterError) -> Self {
        let exit = Exit::for_error(error.code());
        Self::Error(error, exit)
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
        HalterError::new("output_failed", message)
            .with_hint(hint)
            .into()
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        halter::config_failure(error).into()
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        HalterError::from(&error).into()
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        if let Some(known) = error.downcast_ref::<HalterError>() {
            return known.clone().into();
        }
        match error.downcast::<ConfigError>() {
            Ok(known) => known.into(),
            Err(other) => match other.downcast_ref::<StoreError>() {
                Some(known) => HalterError::from(known).into(),
                None => HalterError::new("failed", format!("{other:#}")).into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_code_and_hint_on_their_way_up() {
        let inner = HalterError::new("working_dir_missing", "it is gone").with_hint("make it");
        let failure = Failure::from(anyhow::Error::new(inner));
        let Failure::Error(error, exit) = failure else {
            panic!("{failure:?}");
        };
        assert_eq!(exit, Exit::Usage);
        assert_eq!(
            error_json(&error),
            json!({"error": {"code": "working_dir_missing", "message": "it is gone", "hint": "make it"}})
        );
    }

    #[test]
    fn a_broken_pipe_is_no_problem() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(broken), Failure::BrokenPipe));
    }
}
