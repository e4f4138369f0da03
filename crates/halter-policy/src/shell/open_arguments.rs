//! Arguments that are not known in full, given to programs that can be told
//! to run others. What could be an option is refused; what can only be a file,
//! a value or a revision is not.

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::after_end_of_options;
use super::known_programs::{KnownProgram, family, known};
use super::state::file_pattern;

/// Fails if an argument could become an option of a known program.
pub(super) fn check(program: &Argument, words: &[Argument]) -> Result<(), CommandRefusal> {
    let name = family(&program.text);
    if READ_ELSEWHERE.contains(&name) {
        return Ok(());
    }
    let values = values(name, words);
    let free = takes_anything(name, words);
    for (index, word) in words.iter().enumerate() {
        let ended = name != "find" && after_end_of_options(words, index);
        let is_value = values.get(index).copied().unwrap_or_default() && !word.many;
        if word.is_literal() || ended || is_value || free {
            continue;
        }
        let fixed_option = word.text.contains('=') || (word.numeric && !word.many);
        if word.open && word.text.starts_with('-') && !fixed_option {
            return Err(refuse(word));
        }
        let matched = word.file || (word.glob == Some(0) && file_pattern(word));
        let unanchored = word.glob.is_some_and(|glob| {
            let fixed = word.text.get(..glob).unwrap_or_default();
            !fixed.contains('/') || fixed.starts_with('-')
        });
        if (unanchored || word.could_be_option()) && !(matched && takes_files(name)) {
            return Err(refuse(word));
        }
    }
    Ok(())
}

/// Wrappers, whose own words must be literal and whose inner command is judged
/// by itself, and builtins with rules of their own.
const READ_ELSEWHERE: &[&str] = &[
    "command", "builtin", "nohup", "setsid", "env", "nice", "timeout", "stdbuf", "xargs", "rustup",
    "bundle", "mise", "asdf", "direnv", "poetry", "uv", "pdm", "pipx", "pipenv", "hatch", "test",
    "[", "bash", "sh", "dash", "ash", "printf", "set", "shopt", "jobs", "wait", "hash",
];

fn refuse(word: &Argument) -> CommandRefusal {
    let reason = if word.glob.is_some() {
        "a file name matched here could be taken for an option; put `./` in front of the \
         pattern, or quote it"
    } else {
        "what this expands to could be taken for an option; write it out, quote it and put \
         text or `./` in front of it, or put it behind `--`"
    };
    CommandRefusal::of("shell.open_argument", &word.raw, reason)
}

/// Whether a file name such as `--pre=x.rs` does no harm: the program it would
/// name is none that exists.
fn takes_files(name: &str) -> bool {
    matches!(known(name), Some(KnownProgram::Options(_))) || name == "sed"
}

/// Subcommands of git without an option that runs or writes something.
fn takes_anything(name: &str, words: &[Argument]) -> bool {
    const SUBCOMMANDS: [&str; 9] = [
        "add",
        "commit",
        "mv",
        "merge-base",
        "ls-files",
        "cat-file",
        "describe",
        "blame",
        "status",
    ];
    let first = words.first();
    name == "git"
        && first.is_some_and(|it| it.is_literal() && SUBCOMMANDS.contains(&it.text.as_str()))
}

/// Which words are the value of the option before them.
fn values(name: &str, words: &[Argument]) -> Vec<bool> {
    let valued = valued_options(name);
    let mut found = vec![false; words.len()];
    // After an option that is not known, the next word may be its value.
    let mut certain = true;
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let text = word.text.as_str();
        if certain && word.is_literal() && valued.contains(&text) {
            if let Some(next) = found.get_mut(index + 1) {
                *next = true;
            }
            index += 2;
            continue;
        }
        let flag = FLAGS.contains(&text) || text.contains('=');
        certain = word.is_literal() && (flag || !text.starts_with('-'));
        index += 1;
    }
    found
}

/// Options without a value in every program below.
const FLAGS: &[&str] = &[
    "--release",
    "--quiet",
    "--verbose",
    "--locked",
    "--offline",
    "--all-targets",
    "--all-features",
    "--workspace",
    "--lib",
    "--files",
    "--hidden",
    "--json",
    "-not",
    "-o",
    "-a",
    "-print",
    "!",
];

fn valued_options(name: &str) -> &'static [&'static str] {
    match name {
        "rg" => &[
            "-e", "-g", "-t", "-T", "-A", "-B", "-C", "-m", "--glob", "--type",
        ],
        "find" => &[
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-regex",
            "-iregex",
            "-maxdepth",
            "-mindepth",
            "-type",
            "-size",
            "-mtime",
            "-mmin",
            "-newer",
            "-perm",
        ],
        "cargo" => &[
            "-p",
            "--package",
            "--test",
            "--bin",
            "--example",
            "--bench",
            "--features",
            "--manifest-path",
            "--target-dir",
            "--target",
            "--profile",
            "--jobs",
        ],
        "sort" => &["-k", "-t", "-T", "-S"],
        "npm" | "pnpm" | "yarn" => &["--prefix", "--workspace"],
        _ => &[],
    }
}
