//! The built-in tools.

mod apply_patch;
mod ask_user;
#[cfg(feature = "ast-tools")]
mod ast_grep;
#[cfg(feature = "browser-tools")]
mod browser;
mod change;
mod current_time;
mod delete;
mod edit;
mod file_set;
mod file_views;
mod find_text;
mod glob;
mod grep;
#[cfg(feature = "image-tools")]
mod image;
mod jobs;
mod list;
mod multi_edit;
mod notebook_edit;
mod process;
#[cfg(feature = "profiling")]
mod profile;
#[cfg(feature = "pty")]
mod pty;
mod read;
mod refused;
mod rename;
mod shell;
mod skill;
mod support;
mod task;
#[cfg(test)]
mod testing;
mod tool_search;
mod walk;
mod web_fetch;
mod web_search;
mod write;

use crate::tool::Tool;
use crate::typed::typed;
use crate::web::WebSettings;
#[cfg(feature = "browser-tools")]
pub(crate) use browser::endpoint as browser_endpoint;
pub use skill::SKILL_TOOL;
use std::sync::Arc;
pub(crate) use support::{blocking, text_head};
pub(crate) use tool_search::tool_search;

/// All of them, in the order models see them.
pub(crate) fn all(web: &WebSettings) -> Vec<Arc<dyn Tool>> {
    vec![
        typed(read::ReadTool),
        typed(glob::GlobTool),
        typed(grep::GrepTool),
        typed(write::WriteTool),
        typed(edit::EditTool),
        typed(shell::ShellTool),
        typed(process::ProcessTool),
        typed(task::TaskTool),
        typed(apply_patch::ApplyPatchTool),
        typed(multi_edit::MultiEditTool),
        typed(delete::DeleteTool),
        typed(rename::RenameTool),
        typed(list::ListTool),
        typed(notebook_edit::NotebookEditTool),
        typed(current_time::CurrentTimeTool),
        typed(ask_user::AskUserTool),
        typed(skill::SkillTool),
        #[cfg(feature = "ast-tools")]
        typed(ast_grep::AstGrepTool),
        #[cfg(feature = "pty")]
        typed(pty::PtyTool),
        #[cfg(feature = "profiling")]
        typed(profile::ProfileTool),
        #[cfg(feature = "image-tools")]
        typed(image::ImageTool),
        typed(web_fetch::WebFetchTool::new(web)),
        typed(web_search::WebSearchTool::new(web)),
        #[cfg(feature = "browser-tools")]
        typed(browser::BrowserTool::new(web)),
    ]
}
