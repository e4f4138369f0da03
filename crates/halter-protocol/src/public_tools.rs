//! Tools as public files name them: agent files, permission rules and hook
//! files that were written for other harnesses.
//!
//! One table says how such a file calls a tool and the fields of its input.
//! Whoever adds a tool that has a public counterpart, or does the work of one
//! that has, adds a row.

mod input;
mod table;

pub use input::{changed_paths, our_input, public_changed_paths, public_input, public_path};
use std::borrow::Cow;
pub use table::{PUBLIC_TOOLS, PublicTool};

/// The tool that a name means, in any spelling: ours, or one of public files,
/// without regard to case, underscores and hyphens. `Task`, written so, means a
/// subagent; `task` is our list of tasks.
#[must_use]
pub fn public_tool(name: &str) -> Option<&'static PublicTool> {
    let is_named = |tool: &&PublicTool| {
        tool.name == name || tool.public == name || tool.aliases.contains(&name)
    };
    let fits = |tool: &&PublicTool| {
        let mut names = [tool.name, tool.public]
            .into_iter()
            .chain(tool.aliases.iter().copied());
        names.any(|it| same_name(it, name))
    };
    let mut tools = PUBLIC_TOOLS.iter();
    tools
        .find(is_named)
        .or_else(|| PUBLIC_TOOLS.iter().find(fits))
}

/// What a tool is called here. A name that is not in the table stays.
///
/// ```
/// use halter_protocol::public_tools::{our_tool_name, public_tool_name};
///
/// assert_eq!(our_tool_name("Bash"), "shell");
/// assert_eq!(our_tool_name("mcp__git__push"), "mcp__git__push");
/// assert_eq!(public_tool_name("shell"), "Bash");
/// ```
#[must_use]
pub fn our_tool_name(name: &str) -> &str {
    public_tool(name).map_or(name, |tool| tool.name)
}

/// What public files call a tool of ours. A name that is not in the table
/// stays.
#[must_use]
pub fn public_tool_name(name: &str) -> &str {
    let tool = PUBLIC_TOOLS.iter().find(|tool| tool.name == name);
    tool.map_or(name, |tool| tool.public)
}

/// The name of a server of tools as it stands in the names of these: letters,
/// digits, `-` and `_`. Whatever else a file calls it by becomes `_`. One that
/// would move a cursor stays, and is no name.
///
/// ```
/// use halter_protocol::public_tools::public_server_name;
///
/// assert_eq!(public_server_name("git"), "git");
/// assert_eq!(public_server_name("@acme/docs.core server"), "acme_docs_core_server");
/// ```
#[must_use]
pub fn public_server_name(name: &str) -> Cow<'_, str> {
    let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.chars().all(taken) || name.chars().any(char::is_control) {
        return Cow::Borrowed(name);
    }
    let mut public = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if taken(c) && c != '_' => public.push(c),
            // Two in a row end the name of a server.
            _ if public.is_empty() || public.ends_with('_') => {}
            _ => public.push('_'),
        }
    }
    public.truncate(public.trim_end_matches('_').len());
    Cow::Owned(public)
}

/// Whether two names differ in nothing but case, underscores and hyphens.
fn same_name(one: &str, other: &str) -> bool {
    let plain = |name: &str| -> Vec<u8> {
        let bytes = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
        bytes.map(|byte| byte.to_ascii_lowercase()).collect()
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_spelling_and_both_ways() {
        for (public, ours) in [
            ("Bash", "shell"),
            ("bash", "shell"),
            ("Shell", "shell"),
            ("Read", "read"),
            ("WebFetch", "web_fetch"),
            ("web-fetch", "web_fetch"),
            ("MULTIEDIT", "multi_edit"),
            ("NotebookEdit", "notebook_edit"),
            ("LS", "list"),
            ("Agent", "spawn_agent"),
            ("Task", "spawn_agent"),
            ("task", "task"),
            ("TodoWrite", "task"),
            ("KillShell", "process"),
            ("mcp__git__push", "mcp__git__push"),
            ("Unheard", "Unheard"),
        ] {
            assert_eq!(our_tool_name(public), ours, "{public}");
        }
        for tool in PUBLIC_TOOLS {
            assert_eq!(our_tool_name(public_tool_name(tool.name)), tool.name);
            assert!(PUBLIC_TOOLS.iter().any(|it| it.name == tool.ruled_as));
        }
        assert_eq!(public_tool_name("custom"), "custom");
    }
}
