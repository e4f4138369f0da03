//! Every tool name the harness knows, and the tools it has.

use crate::builtin;
use crate::tool::Tool;
use std::sync::Arc;

/// A tool name that has a meaning, whether or not this build has the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTool {
    /// The name.
    pub name: &'static str,
    /// Whether a configuration can enable it.
    pub status: ToolStatus,
}

/// Whether a known tool can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolStatus {
    /// It is here.
    Available,
    /// It belongs to a part of the harness that this version does not have.
    NotBuiltYet,
}

const fn known(name: &'static str, status: ToolStatus) -> KnownTool {
    KnownTool { name, status }
}

static KNOWN: [KnownTool; 17] = [
    known("read", ToolStatus::Available),
    known("glob", ToolStatus::Available),
    known("grep", ToolStatus::Available),
    known("write", ToolStatus::Available),
    known("edit", ToolStatus::Available),
    known("shell", ToolStatus::Available),
    known("process", ToolStatus::Available),
    known("task", ToolStatus::Available),
    known("spawn_agent", ToolStatus::NotBuiltYet),
    known("send_input", ToolStatus::NotBuiltYet),
    known("wait_agent", ToolStatus::NotBuiltYet),
    known("close_agent", ToolStatus::NotBuiltYet),
    known("pty", ToolStatus::NotBuiltYet),
    known("ast_grep", ToolStatus::NotBuiltYet),
    known("image", ToolStatus::NotBuiltYet),
    known("browser", ToolStatus::NotBuiltYet),
    known("profile", ToolStatus::NotBuiltYet),
];

/// All tool names with a meaning, for checking a configuration.
pub fn known_tools() -> &'static [KnownTool] {
    &KNOWN
}

/// The built-in tools, in the order models see them: `read`, `glob`, `grep`,
/// `write`, `edit`, `shell`, `process`, `task`.
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    builtin::all()
}
