//! The built-in tools, and the names of those that are left out.

use crate::builtin;
use crate::deferred::DeferredTool;
use crate::tool::Tool;
use crate::web::WebSettings;
use std::sync::Arc;

/// The built-in tools of this build, in the order models see them. Those for
/// the web are not set up: see [`builtin_tools_with`].
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    builtin_tools_with(&WebSettings::default())
}

/// The built-in tools, with those for the web set up.
pub fn builtin_tools_with(web: &WebSettings) -> Vec<Arc<dyn Tool>> {
    builtin::all(web)
}

/// The tool that loads deferred tools, and tells of those that a session
/// starts with. A session that has any has it.
pub fn tool_search(deferred: &[DeferredTool]) -> Arc<dyn Tool> {
    builtin::tool_search(deferred)
}

/// A built-in tool that this build leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOutTool {
    /// The name a model would call it by.
    pub name: &'static str,
    /// The cargo feature that brings it.
    pub feature: &'static str,
}

/// The built-in tools whose cargo feature is off.
pub fn left_out_tools() -> Vec<LeftOutTool> {
    let optional = [
        (cfg!(feature = "ast-tools"), "ast_grep", "ast-tools"),
        (cfg!(feature = "browser-tools"), "browser", "browser-tools"),
        (cfg!(feature = "image-tools"), "image", "image-tools"),
        (cfg!(feature = "profiling"), "profile", "profiling"),
        (cfg!(feature = "pty"), "pty", "pty"),
    ];
    optional
        .into_iter()
        .filter(|(compiled, ..)| !compiled)
        .map(|(_, name, feature)| LeftOutTool { name, feature })
        .collect()
}
