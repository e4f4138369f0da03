//! What can go wrong with a language server.

use halter_exec::ExecError;
use std::sync::Arc;
use std::time::Duration;

/// A language server that cannot be used, and why.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LspError {
    /// The entry of a plugin does not describe a server.
    #[error("the language server '{name}' is described wrongly: {problem}")]
    Settings {
        /// The server.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// No server knows files of this kind.
    #[error("no language server of a plugin knows files like '{path}'")]
    NoServer {
        /// The file.
        path: String,
    },
    /// It could not be started.
    #[error("the language server '{name}' cannot be started: {source}")]
    Start {
        /// The server.
        name: String,
        /// Why.
        source: Arc<ExecError>,
    },
    /// It ended, or said nothing that can be understood.
    #[error("the language server '{name}' ended{}", words(.last_words))]
    Ended {
        /// The server.
        name: String,
        /// The end of what it wrote to standard error.
        last_words: String,
    },
    /// It took too long.
    #[error("the language server '{name}' did not answer {what} within {} s", .after.as_secs())]
    TimedOut {
        /// The server.
        name: String,
        /// The request.
        what: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// It refused a request.
    #[error("the language server '{name}' refused: {message}")]
    Refused {
        /// The server.
        name: String,
        /// What it said.
        message: String,
    },
    /// It failed again and again.
    #[error(
        "the language server '{name}' failed {failures} times in a row and is left alone: {last}"
    )]
    GivenUp {
        /// The server.
        name: String,
        /// How often.
        failures: u32,
        /// The last failure.
        last: String,
    },
    /// It failed and may be started again soon.
    #[error("the language server '{name}' failed and starts again in {} s: {last}", .after.as_secs() + 1)]
    Paused {
        /// The server.
        name: String,
        /// When.
        after: Duration,
        /// The failure.
        last: String,
    },
}

fn words(said: &str) -> String {
    match said.is_empty() {
        true => String::new(),
        false => format!("; its last words: {said}"),
    }
}

impl LspError {
    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settings { .. } => "lsp_invalid_settings",
            Self::NoServer { .. } => "lsp_no_server",
            Self::Start { .. } => "lsp_start_failed",
            Self::Ended { .. } => "lsp_ended",
            Self::TimedOut { .. } => "lsp_timed_out",
            Self::Refused { .. } => "lsp_refused",
            Self::GivenUp { .. } => "lsp_given_up",
            Self::Paused { .. } => "lsp_paused",
        }
    }
}
