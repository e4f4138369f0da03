//! The bounds of servers and of what they send. Each is enforced where it is
//! named and tested at its edge.

/// Bytes of the name of a server: it is part of the name of each of its tools.
pub const SERVER_NAME_BYTES: usize = 48;

/// Bytes of the name of a tool, as models call it: no model service takes
/// longer ones.
pub const TOOL_NAME_BYTES: usize = 64;
