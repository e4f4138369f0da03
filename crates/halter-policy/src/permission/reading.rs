//! Commands that are known to change nothing, for the modes in which changes
//! are denied or asked about.

use crate::shell::{CommandPart, PartWord, PathAccess};

/// Programs that only read, whatever their arguments; `awk` and `sed` unless
/// their text is unclear, and those that write a file they name unless they do.
const READERS: &[&str] = &[
    "[",
    "awk",
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "column",
    "comm",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "fold",
    "grep",
    "head",
    "hexdump",
    "id",
    "join",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sleep",
    "stat",
    "strings",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "type",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
    "xxd",
];

/// Programs that do nothing but run the command inside them, which is judged
/// by itself.
pub(super) const TRANSPARENT: &[&str] = &[
    "builtin", "command", "nice", "noglob", "nohup", "stdbuf", "time", "timeout", "xargs",
];

const GIT_READERS: &[&str] = &[
    "blame",
    "cat-file",
    "check-ignore",
    "count-objects",
    "describe",
    "diff",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
];

/// Forms of other subcommands: what follows may be one of these words, and
/// nothing else unless the form takes names.
const GIT_FORMS: &[(&str, &[&str], TakesNames)] = &[
    (
        "branch",
        &[
            "-a",
            "-r",
            "-v",
            "-vv",
            "--all",
            "--list",
            "--remotes",
            "--show-current",
        ],
        TakesNames::No,
    ),
    ("tag", &["-l", "--list", "-n"], TakesNames::No),
    ("remote", &["-v", "--verbose"], TakesNames::No),
    ("remote", &["get-url"], TakesNames::AfterFirst),
    ("stash", &["list", "show"], TakesNames::AfterFirst),
    ("worktree", &["list"], TakesNames::AfterFirst),
    ("reflog", &["show"], TakesNames::AfterFirst),
    ("reflog", &[], TakesNames::No),
    (
        "config",
        &["--get", "--get-all", "--list", "-l", "get", "list"],
        TakesNames::AfterFirst,
    ),
];

#[derive(Clone, Copy)]
enum TakesNames {
    No,
    /// The first word is one of those, and others that are no options follow.
    AfterFirst,
}

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
    // It may do more than can be read.
    if part.unclear.is_some() {
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
        "sed" => !has(&["-i", "--in-place"]) && !has_letter(part, 'i'),
        "file" => !has(&["--compile"]) && !has_letter(part, 'C'),
        "tree" => !has_letter(part, 'o') && !has_letter(part, 'R'),
        "git" => {
            let words = git_words(&part.words);
            let first = words.first();
            let subcommand = first.filter(|it| it.literal).map(|it| it.text.as_str());
            let rest = words.get(1..).unwrap_or_default();
            if GIT_FORMS.iter().any(|form| is_form(form, subcommand, rest)) {
                return true;
            }
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

/// Whether a letter may be among the short options.
fn has_letter(part: &CommandPart, letter: char) -> bool {
    let short = |text: &str| text.starts_with('-') && !text.starts_with("--");
    let words = part.words.iter().skip(1);
    words
        .filter(|it| !it.literal || short(&it.text))
        .any(|it| !it.literal || it.text.contains(letter))
}

fn is_form(
    (name, words, names): &(&str, &[&str], TakesNames),
    subcommand: Option<&str>,
    rest: &[PartWord],
) -> bool {
    let listed = |word: &PartWord| word.literal && words.contains(&word.text.as_str());
    let is_name = |word: &PartWord| word.literal && !word.text.starts_with('-');
    let fits = match names {
        TakesNames::No => rest.iter().all(listed),
        TakesNames::AfterFirst => {
            rest.first().is_some_and(listed) && rest.iter().skip(1).all(is_name)
        }
    };
    subcommand == Some(*name) && fits
}

/// The subcommand of git and what follows it, behind the options that change
/// where git works and how it prints.
pub(super) fn git_words(words: &[PartWord]) -> &[PartWord] {
    let mut rest = words.get(1..).unwrap_or_default();
    while let [first, after @ ..] = rest {
        rest = match first.text.as_str() {
            _ if !first.literal => break,
            "-C" | "-c" => after.get(1..).unwrap_or_default(),
            option if option.starts_with('-') => after,
            _ => break,
        };
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::only_reads;
    use crate::shell::parts;

    fn reads(command: &str) -> bool {
        parts(command).unwrap().parts.iter().all(only_reads)
    }

    #[test]
    fn what_is_known_to_read_is_no_change() {
        for command in [
            "sed -n 1,5p f | uniq -c",
            "awk '{print $1}' f",
            "jq . f",
            "xxd f",
            "tree -L 2",
            "git -C sub --no-pager log",
            "git branch -a",
            "git branch",
            "git tag -l",
            "git remote -v",
            "git remote get-url origin",
            "git stash list",
            "git config --get user.name",
            "git worktree list",
        ] {
            assert!(reads(command), "{command}");
        }
    }

    #[test]
    fn what_may_write_is_a_change() {
        for command in [
            "sed -i s/a/b/ f",
            "sed -ni p f",
            "sed 'w out' f",
            "awk '{print > \"x\"}' f",
            "uniq a b",
            "xxd -r a b",
            "tree -ao x",
            "file -Cm x",
            "git branch x",
            "git branch -D x",
            "git branch --list -D x",
            "git tag v1",
            "git tag -l -d x",
            "git remote add x y",
            "git stash",
            "git stash show -p --output=x",
            "git config user.name x",
            "git config --get x --unset",
            "git -C sub push",
            "git $x",
        ] {
            assert!(!reads(command), "{command}");
        }
    }
}
