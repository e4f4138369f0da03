//! The programs that run where the user has set no list.

use std::sync::LazyLock;

/// The built-in list: git and cargo, programs that only read, wrappers whose
/// inner command is judged, and the builtins of a script. Everything else is
/// asked about, as the ordinary build programs are (`make`, `npm`, `python3`,
/// `go` …): they run what a project says.
#[must_use]
pub fn default_programs() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let groups = [PROJECT, READERS, SYSTEM, WRAPPERS, BUILTINS];
        let names = groups.into_iter().flatten();
        names.map(|&name| name.to_owned()).collect()
    });
    &NAMES
}

const PROJECT: &[&str] = &["git", "cargo", "rg", "ls", "find", "true", "cd"];

/// They write only what they are told to by an option or a redirection, which
/// the file policy judges.
const READERS: &[&str] = &[
    "cat",
    "head",
    "tail",
    "wc",
    "sort",
    "uniq",
    "grep",
    "egrep",
    "fgrep",
    "sed",
    "awk",
    "diff",
    "cmp",
    "comm",
    "cut",
    "tr",
    "nl",
    "tac",
    "rev",
    "paste",
    "join",
    "column",
    "fold",
    "stat",
    "file",
    "du",
    "tree",
    "jq",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "cksum",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "basename",
    "dirname",
    "realpath",
    "readlink",
];

/// They tell about the machine, or wait.
const SYSTEM: &[&str] = &[
    "date", "df", "uname", "nproc", "id", "whoami", "which", "seq", "expr", "sleep",
];

const WRAPPERS: &[&str] = &["command", "env", "nice", "timeout", "xargs"];

const BUILTINS: &[&str] = &[
    ":",
    "[",
    "test",
    "false",
    "echo",
    "printf",
    "pwd",
    "type",
    "read",
    "mapfile",
    "readarray",
    "export",
    "unset",
    "local",
    "declare",
    "set",
    "shopt",
    "let",
    "getopts",
    "shift",
    "break",
    "continue",
    "return",
    "exit",
    "trap",
    "wait",
    "jobs",
    "pushd",
    "popd",
    "dirs",
];
