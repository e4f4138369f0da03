//! What can go wrong with a server.

use crate::limits::SERVER_NAME_BYTES;

/// A server that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The name cannot be part of the name of a tool.
    #[error(
        "`{name}` is no name for an MCP server: use 1 to {SERVER_NAME_BYTES} letters, digits, \
         `-` and `_`, without `__`"
    )]
    InvalidName {
        /// What was given.
        name: String,
    },
}

impl McpError {
    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "mcp_invalid_name",
        }
    }
}
