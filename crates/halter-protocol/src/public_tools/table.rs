//! The table.

use serde_json::Value;

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
    /// Tools of public files whose work it does as well, by our names. Whoever
    /// guards those means it, too, and could not have known of it.
    pub stands_in_for: &'static [&'static str],
    /// Whether a call with this input does the work of one of them.
    does: fn(input: &Value, work_of: &str) -> bool,
    /// Fields of the input that have another name there: ours, theirs.
    pub(super) fields: &'static [(&'static str, &'static str)],
    /// The field, in our spelling, that holds a path. It is absolute there.
    pub(super) path: Option<&'static str>,
    /// Fields that only exist there.
    pub(super) only_public: &'static [&'static str],
}

impl PublicTool {
    /// The tools whose work a call does as well, by our names.
    pub fn work_of(&self, input: &Value) -> impl Iterator<Item = &'static str> {
        let all = self.stands_in_for.iter().copied();
        all.filter(|tool| (self.does)(input, tool))
    }
}

const PLAIN: PublicTool = PublicTool {
    name: "",
    public: "",
    aliases: &[],
    ruled_as: "",
    stands_in_for: &[],
    does: |_, _| true,
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
        ..PLAIN
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
        stands_in_for: &["edit"],
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
        stands_in_for: &["edit", "write"],
        only_public: &["file_path"],
        ..PLAIN
    },
    PublicTool {
        name: "glob",
        public: "Glob",
        ruled_as: "glob",
        path: Some("path"),
        ..PLAIN
    },
    PublicTool {
        name: "grep",
        public: "Grep",
        ruled_as: "grep",
        path: Some("path"),
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
        path: Some("path"),
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
        stands_in_for: &["shell"],
        does: |input, _| types_text(input),
        fields: &[("job_id", "bash_id")],
        ..PLAIN
    },
    PublicTool {
        name: "pty",
        public: "pty",
        ruled_as: "pty",
        stands_in_for: &["shell"],
        does: |input, _| action(input) == Some("start") || types_text(input),
        ..PLAIN
    },
    PublicTool {
        name: "profile",
        public: "profile",
        ruled_as: "profile",
        stands_in_for: &["shell", "write"],
        does: |input, work| match work {
            "shell" => has(input, "command"),
            _ => has(input, "output_path"),
        },
        only_public: &["file_path"],
        ..PLAIN
    },
    PublicTool {
        name: "rename",
        public: "rename",
        ruled_as: "rename",
        stands_in_for: &["edit", "write"],
        only_public: &["file_path"],
        ..PLAIN
    },
    PublicTool {
        name: "delete",
        public: "delete",
        ruled_as: "delete",
        stands_in_for: &["edit", "write"],
        fields: FILE_PATH,
        path: Some("path"),
        ..PLAIN
    },
    PublicTool {
        name: "ast_grep",
        public: "ast_grep",
        ruled_as: "ast_grep",
        stands_in_for: &["edit"],
        does: |input, _| rewrites(input),
        only_public: &["file_path"],
        ..PLAIN
    },
    PublicTool {
        name: "image",
        public: "image",
        ruled_as: "image",
        stands_in_for: &["write"],
        does: |input, _| has(input, "output_path"),
        only_public: &["file_path"],
        ..PLAIN
    },
    PublicTool {
        name: "browser",
        public: "browser",
        ruled_as: "browser",
        stands_in_for: &["write"],
        does: |input, _| has(input, "output_path"),
        only_public: &["file_path"],
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

fn action(input: &Value) -> Option<&str> {
    input.get("action")?.as_str()
}

/// Whether a call types text into a program that runs, which may be a shell.
pub(super) fn types_text(input: &Value) -> bool {
    action(input) == Some("write")
}

/// Whether a call of `ast_grep` changes the files that it finds.
pub(super) fn rewrites(input: &Value) -> bool {
    let only_shows = input.get("dry_run").is_none_or(|it| *it == true);
    action(input) == Some("replace") && !only_shows
}

fn has(input: &Value, field: &str) -> bool {
    input.get(field).is_some_and(|value| !value.is_null())
}
