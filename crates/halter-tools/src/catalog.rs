//! The built-in tools, and the names kept for those that are not built yet.

use crate::builtin;
use crate::tool::Tool;
use std::sync::Arc;

/// The built-in tools, in the order models see them: `read`, `glob`, `grep`,
/// `write`, `edit`, `shell`, `process`, `task`.
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    builtin::all()
}

/// Names of tools that belong to parts of the harness this version does not
/// have, so that a configuration that asks for one gets a fitting answer.
pub fn planned_tools() -> &'static [&'static str] {
    &[
        "spawn_agent",
        "send_input",
        "wait_agent",
        "close_agent",
        "pty",
        "ast_grep",
        "image",
        "browser",
        "profile",
    ]
}
