//! Why settings are refused.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the settings cannot be used. Never shows a value of the environment
/// that could be a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file with variables cannot be read.
    #[error(
        "the file `{path}` with variables cannot be used: {problem}; correct it or choose another with --env-file"
    )]
    EnvFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file with the token cannot be read.
    #[error("the token file `{path}` cannot be used: {problem}")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// HTTP without a token.
    #[error(
        "HTTP needs a token: set TRL_AUTH_TOKEN or --auth-token-file to a long random text, \
             such as the output of `head -c 32 /dev/urandom | base64`"
    )]
    NoToken,
    /// HTTP on an address others can reach.
    #[error(
        "{address} can be reached from other machines and HTTP is not encrypted: \
             use 127.0.0.1, or --insecure-non-loopback if the network is trusted"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
}

impl SettingsError {
    /// The stable name of this error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::EnvFile { .. } => "bad_env_file",
            Self::TokenFile { .. } => "bad_token_file",
            Self::NoToken => "no_token",
            Self::NotLoopback { .. } => "not_loopback",
        }
    }
}
