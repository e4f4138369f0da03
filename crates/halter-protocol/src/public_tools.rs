//! Tools as public files name them: agent files, permission rules and hook
//! files that were written for other harnesses.
//!
//! One table says how such a file calls a tool and the fields of its input.
//! Whoever adds a tool that has a public counterpart adds a row.

use serde_json::{Map, Value};
use std::path::Path;

/// A tool of ours with a counterpart in public files.
#[derive(Debug)]
#[non_exhaustive]
pub struct PublicTool {
    /// Its name here.
    pub name: &'static str,
    /// What public files call it, and hooks of such files are told.
    pub public: &'static str,
    /// What they also call it.
    pub aliases: &'static [&'static str],
    /// The tool whose permission rules cover it; itself in most cases.
    pub ruled_as: &'static str,
    /// Fields of the input that have another name there: ours, theirs.
    fields: &'static [(&'static str, &'static str)],
    /// The field, in our spelling, that holds a path. It is absolute there.
    path: Option<&'static str>,
    /// Fields that only exist there.
    only_public: &'static [&'static str],
}

const PLAIN: PublicTool = PublicTool {
    name: "",
    public: "",
    aliases: &[],
    ruled_as: "",
    fields: &[],
    path: None,
    only_public: &[],
};

const FILE_PATH: &[(&str, &str)] = &[("path", "file_path")];

/// Every tool that has a public counterpart.
pub const PUBLIC_TOOLS: &[PublicTool] = &[
    PublicTool {
        name: "shell",
        public: "Bash",
        ruled_as: "shell",
        fields: &[
            ("timeout_ms", "timeout"),
            ("background", "run_in_background"),
            ("outside_sandbox", "dangerouslyDisableSandbox"),
        ],
        only_public: &["description"],
        ..PLAIN
    },
    PublicTool {
        name: "read",
        public: "Read",
        aliases: &["NotebookRead"],
        ruled_as: "read",
        fields: FILE_PATH,
        path: Some("path"),
        only_public: &["pages"],
    },
    PublicTool {
        name: "write",
        public: "Write",
        ruled_as: "write",
        fields: FILE_PATH,
        path: Some("path"),
        ..PLAIN
    },
    PublicTool {
        name: "edit",
        public: "Edit",
        ruled_as: "edit",
        fields: FILE_PATH,
        path: Some("path"),
        ..PLAIN
    },
    PublicTool {
        name: "multi_edit",
        public: "MultiEdit",
        ruled_as: "edit",
        ..PLAIN
    },
    PublicTool {
        name: "notebook_edit",
        public: "NotebookEdit",
        ruled_as: "edit",
        fields: &[("path", "notebook_path")],
        path: Some("path"),
        ..PLAIN
    },
    PublicTool {
        name: "apply_patch",
        public: "apply_patch",
        aliases: &["ApplyPatch"],
        ruled_as: "edit",
        ..PLAIN
    },
    PublicTool {
        name: "glob",
        public: "Glob",
        ruled_as: "glob",
        ..PLAIN
    },
    PublicTool {
        name: "grep",
        public: "Grep",
        ruled_as: "grep",
        fields: &[
            ("ignore_case", "-i"),
            ("context_before", "-B"),
            ("context_after", "-A"),
            ("max_matches", "head_limit"),
        ],
        only_public: &["-n", "-C", "-o", "context"],
        ..PLAIN
    },
    PublicTool {
        name: "list",
        public: "LS",
        ruled_as: "list",
        only_public: &["ignore"],
        ..PLAIN
    },
    PublicTool {
        name: "web_fetch",
        public: "WebFetch",
        ruled_as: "web_fetch",
        only_public: &["prompt"],
        ..PLAIN
    },
    PublicTool {
        name: "web_search",
        public: "WebSearch",
        ruled_as: "web_search",
        only_public: &["allowed_domains", "blocked_domains"],
        ..PLAIN
    },
    PublicTool {
        name: "task",
        public: "TodoWrite",
        aliases: &["TaskCreate", "TaskUpdate", "TaskList"],
        ruled_as: "task",
        ..PLAIN
    },
    PublicTool {
        name: "process",
        public: "BashOutput",
        aliases: &["KillShell", "KillBash", "TaskOutput", "TaskStop"],
        ruled_as: "process",
        fields: &[("job_id", "bash_id")],
        ..PLAIN
    },
    PublicTool {
        name: "spawn_agent",
        public: "Agent",
        aliases: &["Task"],
        ruled_as: "spawn_agent",
        fields: &[("message", "prompt"), ("agent_type", "subagent_type")],
        only_public: &["description"],
        ..PLAIN
    },
    PublicTool {
        name: "ask_user",
        public: "AskUserQuestion",
        ruled_as: "ask_user",
        ..PLAIN
    },
    PublicTool {
        name: "skill",
        public: "Skill",
        ruled_as: "skill",
        ..PLAIN
    },
    PublicTool {
        name: "tool_search",
        public: "ToolSearch",
        ruled_as: "tool_search",
        ..PLAIN
    },
];

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

/// The input of a call as a public file expects it: its names of fields, and
/// paths that do not depend on a directory.
#[must_use]
pub fn public_input(tool: &str, input: &Value, cwd: &Path) -> Value {
    let Some(row) = PUBLIC_TOOLS.iter().find(|row| row.name == tool) else {
        return input.clone();
    };
    let Some(fields) = input.as_object() else {
        return input.clone();
    };
    if row.name == "multi_edit" {
        return lift_path(fields, cwd).unwrap_or_else(|| input.clone());
    }
    let mut public = Map::new();
    for (name, value) in fields {
        let theirs = row.fields.iter().find(|(ours, _)| ours == name);
        let value = match row.path == Some(name.as_str()) {
            true => absolute(value, cwd),
            false => value.clone(),
        };
        public.insert(theirs.map_or(name.as_str(), |it| it.1).to_owned(), value);
    }
    Value::Object(public)
}

/// The reverse of [`public_input`] for an input that somebody rewrote. What was
/// left as it was, is as it was in `given`; fields that no tool here has are
/// left out.
#[must_use]
pub fn our_input(tool: &str, rewritten: Value, given: &Value, cwd: &Path) -> Value {
    let Some(row) = PUBLIC_TOOLS.iter().find(|row| row.name == tool) else {
        return rewritten;
    };
    let Value::Object(fields) = rewritten else {
        return rewritten;
    };
    if row.name == "multi_edit" {
        return Value::Object(push_path_down(fields));
    }
    let mut ours = Map::new();
    for (name, value) in fields {
        if row.only_public.contains(&name.as_str()) && given.get(&name).is_none() {
            continue;
        }
        let own = row.fields.iter().find(|(_, theirs)| *theirs == name);
        let name = own.map_or(name.as_str(), |it| it.0).to_owned();
        let before = given.get(&name);
        let value = match before {
            Some(before) if row.path == Some(name.as_str()) && value == absolute(before, cwd) => {
                before.clone()
            }
            _ => value,
        };
        ours.insert(name, value);
    }
    Value::Object(ours)
}

/// Edits that all name one file, with that file named once.
fn lift_path(fields: &Map<String, Value>, cwd: &Path) -> Option<Value> {
    let edits = fields.get("edits")?.as_array()?;
    let path = edits.first()?.get("path")?;
    if edits.iter().any(|edit| edit.get("path") != Some(path)) {
        return None;
    }
    let mut public = fields.clone();
    let without_path = edits.iter().map(|edit| {
        let mut edit = edit.clone();
        if let Some(fields) = edit.as_object_mut() {
            fields.remove("path");
        }
        edit
    });
    public.insert("edits".to_owned(), without_path.collect());
    public.insert("file_path".to_owned(), absolute(path, cwd));
    Some(Value::Object(public))
}

fn push_path_down(mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(path) = fields.remove("file_path")
        && let Some(Value::Array(edits)) = fields.get_mut("edits")
    {
        for edit in edits.iter_mut().filter_map(Value::as_object_mut) {
            edit.entry("path").or_insert_with(|| path.clone());
        }
    }
    fields
}

fn absolute(path: &Value, cwd: &Path) -> Value {
    match path.as_str() {
        // Not files: content of the session, and the user's home, which the
        // tool finds.
        Some(text) if text.starts_with('~') || text.starts_with("blob:") => path.clone(),
        Some(text) => match cwd.join(text).to_str() {
            Some(joined) => Value::from(joined),
            None => path.clone(),
        },
        None => path.clone(),
    }
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
    use serde_json::json;

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

    #[test]
    fn an_input_survives_the_way_to_a_public_file_and_back() {
        let cwd = Path::new("/project");
        for (tool, ours, public) in [
            (
                "shell",
                json!({"command": "ls", "timeout_ms": 5, "background": true, "cwd": "x"}),
                json!({"command": "ls", "timeout": 5, "run_in_background": true, "cwd": "x"}),
            ),
            (
                "read",
                json!({"path": "src/a.rs", "limit": 3}),
                json!({"file_path": "/project/src/a.rs", "limit": 3}),
            ),
            (
                "write",
                json!({"path": "/tmp/x", "content": "y"}),
                json!({"file_path": "/tmp/x", "content": "y"}),
            ),
            (
                "read",
                json!({"path": "blob:abc"}),
                json!({"file_path": "blob:abc"}),
            ),
            (
                "notebook_edit",
                json!({"path": "n.ipynb", "new_source": "1"}),
                json!({"notebook_path": "/project/n.ipynb", "new_source": "1"}),
            ),
            (
                "grep",
                json!({"pattern": "x", "ignore_case": true, "context_before": 2}),
                json!({"pattern": "x", "-i": true, "-B": 2}),
            ),
            (
                "spawn_agent",
                json!({"message": "look", "agent_type": "reviewer"}),
                json!({"prompt": "look", "subagent_type": "reviewer"}),
            ),
            ("custom", json!({"path": "a"}), json!({"path": "a"})),
            ("read", json!("rubbish"), json!("rubbish")),
        ] {
            assert_eq!(public_input(tool, &ours, cwd), public, "{tool}");
            assert_eq!(our_input(tool, public, &ours, cwd), ours, "{tool}");
        }
    }

    #[test]
    fn edits_of_one_file_name_it_once() {
        let cwd = Path::new("/p");
        let ours = json!({"edits": [{"path": "/p/a", "old_string": "1", "new_string": "2"}]});
        let public = json!({
            "file_path": "/p/a",
            "edits": [{"old_string": "1", "new_string": "2"}],
        });
        assert_eq!(public_input("multi_edit", &ours, cwd), public);
        assert_eq!(our_input("multi_edit", public, &ours, cwd), ours);
        let two = json!({"edits": [{"path": "a"}, {"path": "b"}]});
        assert_eq!(public_input("multi_edit", &two, cwd), two);
    }

    #[test]
    fn what_only_public_files_know_is_left_out() {
        let given = json!({"command": "ls"});
        let rewritten = json!({"command": "ls -l", "description": "list"});
        let back = our_input("shell", rewritten, &given, Path::new("/"));
        assert_eq!(back, json!({"command": "ls -l"}));
    }
}
