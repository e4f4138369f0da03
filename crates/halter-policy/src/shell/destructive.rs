//! Forms that throw work away, or cannot be undone. They are asked about
//! whatever is listed; each has a rule of its own, which a permission rule can
//! name.

use super::CommandRefusal;
use super::argument::Argument;
use super::known_programs::family;

/// The question about a command, if it needs one.
pub(super) fn check(arguments: &[Argument]) -> Option<CommandRefusal> {
    let (program, rest) = arguments.split_first()?;
    let words: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    let found = match family(&program.text) {
        "git" => git(&words),
        "rm" => remove(&words),
        "find" => find(&words),
        "dd" => words
            .iter()
            .any(|word| word.starts_with("of=") && !word.starts_with("of=/dev/null"))
            .then_some(("shell.destructive.dd", "overwrites a file or a device")),
        "truncate" => Some(("shell.destructive.truncate", "cuts a file off")),
        "shred" => Some(("shell.destructive.shred", "overwrites a file for good")),
        "mkfs" | "wipefs" | "fdisk" | "parted" => {
            Some(("shell.destructive.device", "overwrites a device"))
        }
        "rsync" => long(&words, "--delete").then_some((
            "shell.destructive.rsync_delete",
            "removes files that the source does not have",
        )),
        _ => None,
    };
    let (rule, what) = found?;
    let fragment: Vec<&str> = arguments.iter().map(|word| word.raw.as_str()).collect();
    Some(CommandRefusal::of(
        rule,
        &fragment.join(" "),
        format!(
            "this {what}, which cannot be undone; do it without, or have it allowed \
             by a person or by a rule that names it"
        ),
    ))
}

type Form = (&'static str, &'static str);

/// A long option or the start of it that counts for it.
fn long(words: &[&str], option: &str) -> bool {
    words
        .iter()
        .take_while(|word| **word != "--")
        .any(|word| word.len() > 3 && option.starts_with(*word) || word.starts_with(option))
}

/// A letter among short options.
fn short(words: &[&str], letter: char) -> bool {
    words
        .iter()
        .take_while(|word| **word != "--")
        .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
}

/// `rm` with what removes directories or does not ask.
fn remove(words: &[&str]) -> Option<Form> {
    let recursive = short(words, 'r') || short(words, 'R') || long(words, "--recursive");
    recursive.then_some((
        "shell.destructive.rm",
        "removes directories with all in them",
    ))
}

fn find(words: &[&str]) -> Option<Form> {
    words.contains(&"-delete").then_some((
        "shell.destructive.find_delete",
        "removes every file it finds",
    ))
}

fn git(words: &[&str]) -> Option<Form> {
    let mut rest = words;
    while let [first, after @ ..] = rest {
        match *first {
            "-C" | "-c" | "--git-dir" | "--work-tree" => rest = after.get(1..).unwrap_or_default(),
            option if option.starts_with('-') => rest = after,
            _ => break,
        }
    }
    let (subcommand, words) = rest.split_first()?;
    let force = short(words, 'f') || long(words, "--force");
    match *subcommand {
        "reset" if long(words, "--hard") || long(words, "--merge") => Some((
            "shell.destructive.git_reset_hard",
            "throws away changes that are not committed",
        )),
        "clean" if force => Some((
            "shell.destructive.git_clean",
            "removes files that git does not know",
        )),
        "push"
            if force
                || long(words, "--force-with-lease")
                || long(words, "--mirror")
                || long(words, "--delete")
                || long(words, "--prune")
                || short(words, 'd')
                || words
                    .iter()
                    .any(|word| word.starts_with('+') || word.starts_with(':')) =>
        {
            Some((
                "shell.destructive.git_push_force",
                "replaces or removes what others may have",
            ))
        }
        "checkout" if discards(words) || force => Some((
            "shell.destructive.git_checkout",
            "throws away changes that are not committed",
        )),
        "restore" if !long(words, "--staged") || long(words, "--worktree") => Some((
            "shell.destructive.git_restore",
            "throws away changes that are not committed",
        )),
        "switch" if force || long(words, "--discard-changes") => Some((
            "shell.destructive.git_switch",
            "throws away changes that are not committed",
        )),
        "branch" if short(words, 'D') || (long(words, "--delete") && force) => Some((
            "shell.destructive.git_branch_delete",
            "removes a branch with commits that may be nowhere else",
        )),
        "stash" if matches!(words.first(), Some(&"drop" | &"clear")) => Some((
            "shell.destructive.git_stash",
            "removes changes that are nowhere else",
        )),
        "rm" if force => Some((
            "shell.destructive.git_rm",
            "removes files with changes that are not committed",
        )),
        "worktree" if words.first() == Some(&"remove") && force => Some((
            "shell.destructive.git_worktree",
            "removes a directory with changes that are not committed",
        )),
        "reflog" if matches!(words.first(), Some(&"expire" | &"delete")) => Some((
            "shell.destructive.git_reflog",
            "removes the way back to lost commits",
        )),
        "update-ref" if short(words, 'd') => {
            Some(("shell.destructive.git_update_ref", "removes a reference"))
        }
        "gc" | "prune" if long(words, "--prune") || *subcommand == "prune" => Some((
            "shell.destructive.git_prune",
            "removes commits that nothing refers to",
        )),
        _ => None,
    }
}

/// `git checkout -- file` and `git checkout .`.
fn discards(words: &[&str]) -> bool {
    words.contains(&"--") || words.contains(&".")
}
