//! Commands that are known to change nothing, for the modes in which changes
//! are denied or asked about.

use crate::shell::{CommandPart, PathAccess};

/// Programs that only read, whatever their arguments.
const READERS: &[&str] = &[
    "[",
    "basename",
    "cat",
    "cd",
    "cmp",
    "comm",
    "cut",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "file",
    "grep",
    "head",
    "ls",
    "md5sum",
    "nl",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "sha1sum",
    "sha256sum",
    "stat",
    "tail",
    "test",
    "tr",
    "true",
    "type",
    "uname",
    "wc",
    "which",
    "whoami",
];

/// Programs that do nothing but run the command inside them, which is judged
/// by itself.
pub(super) const TRANSPARENT: &[&str] = &[
    "builtin", "command", "nice", "noglob", "nohup", "stdbuf", "time", "timeout", "xargs",
];

const GIT_READERS: &[&str] = &[
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
];

/// Arguments of `find` that do more than look.
const FIND_ACTIONS: &[&str] = &[
    "-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir",
];

/// Whether a part is known to change nothing.
pub(super) fn only_reads(part: &CommandPart) -> bool {
    let writes = |access: PathAccess| matches!(access, PathAccess::Write | PathAccess::Delete);
    let discards = |text: &str| text == "/dev/null";
    if part
        .redirections
        .iter()
        .any(|it| writes(it.access) && !discards(&it.target.text))
        || part.paths.iter().any(|it| writes(it.access))
    {
        return false;
    }
    let Some(program) = part.program() else {
        // Only assignments and redirections.
        return part.words.is_empty();
    };
    let has = |options: &[&str]| {
        let options_of = |text: &str| options.contains(&text.split('=').next().unwrap_or(text));
        part.words
            .iter()
            .skip(1)
            .any(|it| !it.literal || options_of(&it.text))
    };
    match program {
        "find" => !has(FIND_ACTIONS),
        "rg" => !has(&["--pre", "--hostname-bin", "-z", "--search-zip"]),
        "sort" => {
            let output = |text: &str| text.starts_with("-o") || text.starts_with("--o");
            !part.words.iter().any(|it| !it.literal || output(&it.text))
                && !has(&["--compress-program"])
        }
        "git" => {
            let first = part.words.get(1);
            let subcommand = first.filter(|it| it.literal).map(|it| it.text.as_str());
            let opens = [
                "--output",
                "-O",
                "--open-files-in-pager",
                "--ext-diff",
                "--textconv",
            ];
            subcommand.is_some_and(|name| GIT_READERS.contains(&name))
                && !has(&opens)
                && !part.words.iter().any(|it| it.text.starts_with("-O"))
        }
        name => READERS.contains(&name) || TRANSPARENT.contains(&name),
    }
}
