//! What can go wrong with a server.

use crate::limits::SERVER_NAME_BYTES;
use crate::names::ServerName;
use std::path::PathBuf;
use std::time::Duration;

/// A server that cannot be used, and why.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The name cannot be part of the name of a tool.
    #[error(
        "`{}` is no name for an MCP server: use 1 to {SERVER_NAME_BYTES} letters, digits, \
         `-` and `_`, without `__`", shown_name(.name)
    )]
    InvalidName {
        /// What was given.
        name: String,
    },
    /// Its address is none.
    #[error("the `url` of MCP server `{server}` cannot be used: {reason}")]
    Address {
        /// The server.
        server: ServerName,
        /// What is wrong with it.
        reason: String,
    },
    /// A header of its entry cannot be sent.
    #[error("the header `{name}` of MCP server `{server}` cannot be sent: {reason}")]
    Header {
        /// The server.
        server: ServerName,
        /// The header.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It wants its user to log in.
    #[error("MCP server `{server}` needs a login: run `halter mcp login {server}{}`", scoped(.scope))]
    LoginNeeded {
        /// The server.
        server: ServerName,
        /// The rights that the token lacks, where it lacks only some.
        scope: Option<String>,
    },
    /// One request to it failed.
    #[error("MCP server `{server}` could not be asked: {reason}")]
    Http {
        /// The server.
        server: ServerName,
        /// What went wrong.
        reason: String,
    },
    /// Its program could not be started.
    #[error("MCP server `{server}` could not be started: {reason}; check its command")]
    Start {
        /// The server.
        server: ServerName,
        /// What the system said.
        reason: String,
    },
    /// It does not speak as it should, or does not answer.
    #[error("MCP server `{server}` cannot be used: {reason}{}", last_words(.words))]
    Connect {
        /// The server.
        server: ServerName,
        /// What went wrong.
        reason: String,
        /// The end of what it wrote to standard error.
        words: String,
    },
    /// It was not ready in time.
    #[error(
        "MCP server `{server}` was not ready after {}: {step}{}; give it longer by \
         `start_timeout_secs`", seconds(.after), last_words(.words)
    )]
    StartDeadline {
        /// The server.
        server: ServerName,
        /// What was waited for.
        step: &'static str,
        /// How long it had.
        after: Duration,
        /// The end of what it wrote to standard error.
        words: String,
    },
    /// It ended while it was used.
    #[error(
        "MCP server `{server}` was disconnected: {}{}",
        .reason.as_deref().unwrap_or("it ended"), last_words(.words)
    )]
    Ended {
        /// The server.
        server: ServerName,
        /// Why it was ended; none where it ended by itself.
        reason: Option<String>,
        /// The end of what it wrote to standard error.
        words: String,
    },
    /// It is not running, and will not be.
    #[error("MCP server `{server}` is stopped")]
    Stopped {
        /// The server.
        server: ServerName,
    },
    /// It cannot be used for sessions in a directory.
    #[error("MCP server `{server}` cannot be used in {}: {reason}", .directory.display())]
    Elsewhere {
        /// The server.
        server: ServerName,
        /// The directory.
        directory: PathBuf,
        /// Why.
        reason: String,
    },
    /// A tool is not the one that was approved.
    #[error(
        "the tool `{}` of MCP server `{server}` has changed since it was approved, and was not \
         called; call it again", shown_name(.tool)
    )]
    Changed {
        /// The server.
        server: ServerName,
        /// The tool, as the server names it.
        tool: String,
    },
    /// A call took too long.
    #[error(
        "MCP server `{server}` did not answer within {}; it was asked to stop, and may or may not \
         have done what it was asked; give calls longer by `timeout_secs`", seconds(.after)
    )]
    CallDeadline {
        /// The server.
        server: ServerName,
        /// How long it had.
        after: Duration,
    },
    /// It refused a request.
    #[error("MCP server `{server}` refused: {message} (code {code})")]
    Refused {
        /// The server.
        server: ServerName,
        /// The code of the protocol.
        code: i32,
        /// What it says.
        message: String,
    },
    /// It answered with something else than what was asked for.
    #[error("MCP server `{server}` gave an answer that is not understood: {reason}")]
    Answer {
        /// The server.
        server: ServerName,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such server.
    #[error("there is no MCP server `{}`{}", shown_name(.name), known_servers(.known))]
    NoServer {
        /// What was named.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// What was asked for cannot be sent to a server.
    #[error("{reason}")]
    BadRequest {
        /// What is wrong with it.
        reason: String,
    },
    /// The call was cancelled.
    #[error("the call of MCP server `{server}` was cancelled")]
    Cancelled {
        /// The server.
        server: ServerName,
    },
}

/// A name that may be anything, in one short line.
pub fn shown_name(name: &str) -> String {
    let mut shown: String = name.chars().take(SERVER_NAME_BYTES).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

fn known_servers(known: &[String]) -> String {
    match known {
        [] => String::new(),
        known => format!("; there are: {}", known.join(", ")),
    }
}

fn scoped(scope: &Option<String>) -> String {
    match scope {
        Some(scope) => format!(" --scope '{}'", shown_name(scope)),
        None => String::new(),
    }
}

fn last_words(words: &str) -> String {
    match words {
        "" => String::new(),
        words => format!("; it said last: {words}"),
    }
}

fn seconds(duration: &Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds => format!("{seconds} s"),
    }
}

impl McpError {
    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "mcp_invalid_name",
            Self::Address { .. } => "mcp_address",
            Self::Header { .. } => "mcp_header",
            Self::LoginNeeded { .. } => "mcp_login_needed",
            Self::Http { .. } => "mcp_http",
            Self::Start { .. } => "mcp_not_started",
            Self::Connect { .. } => "mcp_not_connected",
            Self::StartDeadline { .. } => "mcp_start_deadline",
            Self::Ended { .. } => "mcp_ended",
            Self::Stopped { .. } => "mcp_stopped",
            Self::Elsewhere { .. } => "mcp_elsewhere",
            Self::Changed { .. } => "mcp_changed",
            Self::CallDeadline { .. } => "mcp_call_deadline",
            Self::Refused { .. } => "mcp_refused",
            Self::Answer { .. } => "mcp_answer",
            Self::NoServer { .. } => "mcp_no_server",
            Self::BadRequest { .. } => "mcp_bad_request",
            Self::Cancelled { .. } => "mcp_cancelled",
        }
    }
}
