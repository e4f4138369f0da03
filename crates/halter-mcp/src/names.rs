//! Names: of servers, and of their tools as models call them.
//!
//! A tool is `mcp__SERVER__TOOL`. The name of a server holds no `__`, so that
//! no server can give a tool the name of another server's.

use crate::error::McpError;
use crate::limits::{SERVER_NAME_BYTES, TOOL_NAME_BYTES};
use halter_protocol::public_tools::public_server_name;
use sha2::{Digest, Sha256};
use std::fmt;

/// What the name of every tool of a server begins with.
pub const PREFIX: &str = "mcp__";

/// The tool by which models find resources.
pub const LIST_RESOURCES: &str = "list_mcp_resources";

/// The tool by which models read resources.
pub const READ_RESOURCE: &str = "read_mcp_resource";

/// Whether a tool of this name comes with servers, and so joins late.
pub fn comes_with_servers(tool: &str) -> bool {
    tool.starts_with(PREFIX) || [LIST_RESOURCES, READ_RESOURCE].contains(&tool)
}

/// Hexadecimal digits that tell tools apart whose names had to be changed.
const MARK_DIGITS: usize = 6;

/// The name of a server, fit to be part of the name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(String);

impl ServerName {
    /// Checks a name.
    ///
    /// # Errors
    /// If it is empty, too long, holds `__`, ends in `_` or holds anything but
    /// ASCII letters, digits, `-` and `_`.
    pub fn new(name: impl Into<String>) -> Result<Self, McpError> {
        let name = name.into();
        let fits = (1..=SERVER_NAME_BYTES).contains(&name.len());
        // With a `_` at its end it would run into the `__` that follows it.
        let splits = name.contains("__") || name.ends_with('_') || name.starts_with('_');
        match fits && !splits && name.bytes().all(is_name_byte) {
            true => Ok(Self(name)),
            false => Err(McpError::InvalidName { name }),
        }
    }

    /// The name of a server that a file calls so, in whatever characters.
    ///
    /// # Errors
    /// If it cannot be made into one.
    pub fn public(name: &str) -> Result<Self, McpError> {
        Self::new(public_server_name(name)).map_err(|_| McpError::InvalidName {
            name: name.to_owned(),
        })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The name that a model calls a tool of a server by: at most
/// [`TOOL_NAME_BYTES`] of letters, digits, `-` and `_`. A tool whose own name is
/// longer or has other characters gets a mark made of its whole name, so that
/// two tools of a server never share one.
///
/// ```
/// use halter_mcp::{ServerName, tool_name};
///
/// let server = ServerName::new("files")?;
/// assert_eq!(tool_name(&server, "read_file"), "mcp__files__read_file");
/// assert_ne!(tool_name(&server, "a.b"), tool_name(&server, "a_b"));
/// # Ok::<(), halter_mcp::McpError>(())
/// ```
pub fn tool_name(server: &ServerName, tool: &str) -> String {
    let head = format!("{PREFIX}{server}__");
    let room = TOOL_NAME_BYTES.saturating_sub(head.len());
    if (1..=room).contains(&tool.len()) && tool.bytes().all(is_name_byte) {
        return head + tool;
    }
    let kept: String = tool
        .chars()
        .map(|c| match u8::try_from(c) {
            Ok(byte) if is_name_byte(byte) => c,
            _ => '_',
        })
        .take(room.saturating_sub(MARK_DIGITS + 1))
        .collect();
    let digest = Sha256::digest(tool.as_bytes());
    let mark: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let mark: String = mark.chars().take(MARK_DIGITS).collect();
    format!("{head}{kept}_{mark}")
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> ServerName {
        ServerName::new(name).unwrap()
    }

    #[test]
    fn names_of_servers_hold_at_their_edge() {
        let longest = "s".repeat(SERVER_NAME_BYTES);
        assert!(ServerName::new(longest.clone()).is_ok());
        let long = format!("{longest}s");
        for bad in ["", "a__b", "_a", "a_", "a b", "ä", "a/b", &long] {
            let error = ServerName::new(bad).unwrap_err();
            assert_eq!(error.code(), "mcp_invalid_name", "{bad}");
        }
    }

    #[test]
    fn what_a_file_calls_a_server_becomes_its_name() {
        for (written, name) in [
            ("git", "git"),
            ("acme.docs-core", "acme_docs-core"),
            ("@acme/files", "acme_files"),
            ("My  Server (2)", "My_Server_2"),
            ("a_.b", "a_b"),
        ] {
            assert_eq!(ServerName::public(written).unwrap().as_str(), name);
        }
        let long = "x.".repeat(SERVER_NAME_BYTES);
        for bad in ["", ".", "a__b", "_a", "ä", "a\u{1b}b", &long] {
            let error = ServerName::public(bad).unwrap_err();
            assert_eq!(error.code(), "mcp_invalid_name", "{bad}");
        }
    }

    #[test]
    fn names_of_tools_hold_at_their_edge() {
        let files = server("files");
        let room = TOOL_NAME_BYTES - "mcp__files__".len();
        let longest = "t".repeat(room);
        assert_eq!(
            tool_name(&files, &longest),
            format!("mcp__files__{longest}")
        );
        let longer = "t".repeat(room + 1);
        let name = tool_name(&files, &longer);
        assert_eq!(name.len(), TOOL_NAME_BYTES);
        assert_ne!(name, tool_name(&files, &"t".repeat(room + 2)));
        let long_server = server(&"s".repeat(SERVER_NAME_BYTES));
        let both = tool_name(&long_server, &longer);
        assert!(both.len() <= TOOL_NAME_BYTES, "{both}");
    }

    #[test]
    fn no_two_tools_share_a_name() {
        let spelled = ["a b", "a.b", "a/b", "a_b", "", "_", "ä", "ö", "a\0b"];
        let names: std::collections::BTreeSet<_> = spelled
            .iter()
            .map(|tool| tool_name(&server("x"), tool))
            .collect();
        assert_eq!(names.len(), spelled.len());
        for name in names {
            assert!(name.bytes().all(is_name_byte), "{name}");
        }
        // A tool cannot pass for one of another server.
        assert_ne!(
            tool_name(&server("a"), "b__c"),
            tool_name(&server("a-b"), "c")
        );
    }
}
