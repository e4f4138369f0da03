//! Why a subcommand did not do what it was told, and its exit code.

use terminal_runtime::client::ClientError;
use terminal_runtime::discovery::DiscoveryError;
use terminal_runtime::protocol::WireError;
use terminal_runtime::settings::SettingsError;

/// The code of a failure of the runtime rather than of the command.
const RUNTIME_FAILED: u8 = 125;
/// The codes shells use.
const NOT_USABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Debug)]
pub struct Failure {
    pub message: String,
    pub code: u8,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: RUNTIME_FAILED,
        }
    }

    /// The user's mistake, in the words of the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: 2,
        }
    }

    pub fn refused(error: &WireError) -> Self {
        let code = match error.reason.as_deref() {
            Some("program_not_found") => NOT_FOUND,
            Some("program_unusable") => NOT_USABLE,
            _ => RUNTIME_FAILED,
        };
        Self {
            message: error.message.clone(),
            code,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused(refusal) => Self::refused(refusal),
            _ => Self::new(error.to_string()),
        }
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<DiscoveryError> for Failure {
    fn from(error: DiscoveryError) -> Self {
        Self::new(error.to_string())
    }
}
