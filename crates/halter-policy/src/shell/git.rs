//! `git`: subcommands that are known, and options of theirs that run programs.

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::{may_abbreviate, runs_another};
use super::programs::Programs;

pub(super) fn check(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    let mut rest = words.iter();
    let subcommand = loop {
        let Some(word) = rest.next() else {
            return Ok(());
        };
        if !word.is_literal() {
            return Err(CommandRefusal::new(&word.raw, "write the git command out"));
        }
        match word.text.as_str() {
            "-C" => {
                rest.next();
            }
            "-c" if rest.as_slice().first().is_some_and(is_harmless) => {
                rest.next();
            }
            "--help" if words.len() == 1 => return Ok(()),
            text if QUIET_OPTIONS.contains(&text) => {}
            text if text.starts_with('-') => {
                return Err(CommandRefusal::new(
                    text,
                    "this option of git can change what it runs; use git without it",
                ));
            }
            text => break text,
        }
    };
    let arguments = rest.as_slice();
    if !SUBCOMMANDS.contains(&subcommand) {
        return Err(CommandRefusal::new(
            subcommand,
            "this is not a known git command; an alias could run any program",
        ));
    }
    check_subcommand(subcommand, arguments)
}

/// Settings for one command that name no program.
fn is_harmless(setting: &Argument) -> bool {
    const KEYS: [&str; 9] = [
        "user.name",
        "user.email",
        "color.ui",
        "core.quotepath",
        "core.autocrlf",
        "commit.gpgsign",
        "init.defaultbranch",
        "advice.detachedhead",
        "core.abbrev",
    ];
    let key = setting.text.split_once('=').map(|(key, _)| key);
    let key = key.unwrap_or_default().to_ascii_lowercase();
    !setting.many && KEYS.contains(&key.as_str())
}

/// Whether operands may follow that nobody has seen: files and revisions, but
/// no addresses.
pub(super) fn takes_any_operand(arguments: &[Argument]) -> bool {
    arguments
        .first()
        .map(|word| word.text.as_str())
        .is_some_and(|first| {
            SUBCOMMANDS.contains(&first)
                && !TRANSPORTS.contains(&first)
                && !["config", "bisect"].contains(&first)
        })
}

fn check_subcommand(subcommand: &str, arguments: &[Argument]) -> Result<(), CommandRefusal> {
    let texts = || arguments.iter().map(|word| word.text.as_str());
    // The configuration can name the program that shows it.
    if texts().next() == Some("--help") {
        return Err(CommandRefusal::new(
            "--help",
            "this starts a program that shows manuals; use `-h` for the options",
        ));
    }
    if let Some(text) = texts().find(|text| runs_or_writes(subcommand, text)) {
        return Err(runs_another(text));
    }
    // An address whose start is unknown could name a helper.
    let hidden = |word: &&Argument| !word.is_literal() && !word.plain && word.glob.is_none();
    if TRANSPORTS.contains(&subcommand)
        && let Some(word) = arguments.iter().find(hidden)
        && !word.text.starts_with("https://")
    {
        return Err(CommandRefusal::new(&word.raw, "write the address out"));
    }
    if TRANSPORTS.contains(&subcommand)
        && let Some(text) = texts().find(|text| names_a_helper(text))
    {
        return Err(CommandRefusal::new(
            text,
            "this address makes git run a program",
        ));
    }
    match subcommand {
        "config" => check_config(arguments),
        "bisect" => refuse_words(arguments, &["run", "visualize", "view"]),
        "submodule" => refuse_words(arguments, &["foreach"]),
        _ => Ok(()),
    }
}

fn check_config(arguments: &[Argument]) -> Result<(), CommandRefusal> {
    let action = arguments
        .iter()
        .find(|word| !CONFIG_FILES.contains(&word.text.as_str()));
    match action {
        Some(word) if word.is_literal() && READS_CONFIG.contains(&word.text.as_str()) => Ok(()),
        Some(word) if word.is_literal() && IDENTITY.contains(&word.text.as_str()) => Ok(()),
        Some(_) | None => Err(CommandRefusal::new(
            "config",
            "git's configuration can name programs to run; only --get, --list, user.name and user.email are accepted",
        )),
    }
}

fn refuse_words(arguments: &[Argument], refused: &[&str]) -> Result<(), CommandRefusal> {
    match arguments
        .iter()
        .find(|word| refused.contains(&word.text.as_str()))
    {
        None => Ok(()),
        Some(word) => Err(runs_another(&word.text)),
    }
}

fn runs_or_writes(subcommand: &str, text: &str) -> bool {
    const LONG: [&str; 11] = [
        "--upload-pack",
        "--receive-pack",
        "--exec",
        "--open-files-in-pager",
        "--ext-diff",
        "--config",
        "--template",
        "--output",
        "--output-directory",
        "--extcmd",
        "--tool",
    ];
    if text.starts_with("--") {
        return LONG.iter().any(|long| may_abbreviate(text, long));
    }
    let letters = match subcommand {
        "rebase" => "x",
        "grep" => "O",
        "clone" => "uc",
        "archive" => "o",
        _ => "",
    };
    let cluster = text.strip_prefix('-').unwrap_or_default();
    cluster.contains(|letter| letters.contains(letter))
}

/// `ext::program` and kin, and host names that ssh would take for options.
fn names_a_helper(text: &str) -> bool {
    // The address may be the value of an option.
    let address = text.rsplit('=').next().unwrap_or_default();
    let scheme = address.split("::").next().unwrap_or_default();
    let is_helper = scheme.len() < address.len()
        && scheme
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    is_helper || text.contains("://-") || text.contains("{}")
}

const QUIET_OPTIONS: &[&str] = &[
    "--no-pager",
    "-P",
    "--no-optional-locks",
    "--no-replace-objects",
    "--no-lazy-fetch",
    "--literal-pathspecs",
    "--icase-pathspecs",
    "--version",
    "-v",
    "-h",
];

const CONFIG_FILES: &[&str] = &["--global", "--local", "--system", "--worktree"];

/// Settings that name a person, not a program.
const IDENTITY: &[&str] = &["user.name", "user.email"];

const READS_CONFIG: &[&str] = &[
    "--get",
    "--get-all",
    "--get-regexp",
    "--list",
    "-l",
    "get",
    "list",
];

/// Subcommands that take the address of a repository.
const TRANSPORTS: &[&str] = &[
    "clone",
    "fetch",
    "pull",
    "push",
    "ls-remote",
    "remote",
    "submodule",
    "archive",
];

/// Subcommands of git itself that run nothing but git and the repository's own
/// hooks.
const SUBCOMMANDS: &[&str] = &[
    "add",
    "am",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-ref-format",
    "checkout",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "merge-tree",
    "mv",
    "name-rev",
    "notes",
    "prune",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "verify-commit",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];
