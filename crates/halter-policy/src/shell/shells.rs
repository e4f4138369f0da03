//! `bash -c`, `sh -c`, and a shell with a here-document: the text is a command
//! line of its own, and judged like one. Everything else a shell can be told, a
//! script file or its input, cannot be read here.

use super::CommandRefusal;
use super::argument::Argument;
use super::programs::Programs;
use super::state::State;
use super::{read_script, walk};

/// What bash understands and other shells take for something else: `((x))`
/// runs `x` in a POSIX shell.
const NOT_POSIX: [&str; 12] = [
    "((", "[[", "<(", ">(", "$'", "<<<", "&>", "|&", "=(", "{", "function", "${!",
];

pub(super) fn check_bash(programs: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    let (options, text) = command_text(programs, words)?;
    check_options(options)?;
    check_text(programs, &text)
}

pub(super) fn check_posix(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    let (options, text) = command_text(programs, words)?;
    check_options(options)?;
    if let Some(part) = NOT_POSIX.iter().find(|part| text.contains(**part)) {
        return Err(CommandRefusal::new(
            part,
            "this means something else in bash and in other shells; use `bash -c`",
        ));
    }
    check_text(programs, &text)
}

fn check_text(programs: Programs<'_>, text: &str) -> Result<(), CommandRefusal> {
    let script = read_script(text)?;
    // Its variables are whatever the environment holds.
    walk::script(programs, &script, &mut State::starting_in(programs.here()))
}

/// The options before `-c`, and the text behind it, or a here-document.
fn command_text<'w>(
    programs: Programs<'_>,
    words: &'w [Argument],
) -> Result<(&'w [Argument], String), CommandRefusal> {
    if let Some(input) = programs.input().filter(|_| words.is_empty()) {
        return Ok((words, input.text));
    }
    let has_text = |word: &Argument| {
        let letters = word.text.strip_prefix('-').unwrap_or_default();
        word.is_literal() && letters.ends_with('c') && !letters.starts_with('-')
    };
    let at = words.iter().position(has_text);
    let text = at.and_then(|at| words.get(at + 1));
    let (Some(at), Some(text)) = (at, text) else {
        let shown = words.first().map_or("", |word| word.raw.as_str());
        return Err(CommandRefusal::of(
            "shell.opaque",
            shown,
            "what a shell reads from a file or its input cannot be checked; run the commands \
             themselves, or give them literally with `-c`",
        ));
    };
    if !text.is_literal() {
        return Err(CommandRefusal::of(
            "shell.opaque",
            &text.raw,
            "the command of a shell must be literal",
        ));
    }
    Ok((words.get(..=at).unwrap_or_default(), text.text.clone()))
}

/// Options that make the shell stricter or say more, and no start-up files.
fn check_options(options: &[Argument]) -> Result<(), CommandRefusal> {
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        let letters = text.strip_prefix('-').unwrap_or("?");
        let fine = ["--norc", "--noprofile"].contains(&text)
            || letters.chars().all(|letter| "eufxc".contains(letter));
        let named = letters.strip_suffix('o');
        if named.is_some_and(|flags| flags.chars().all(|letter| "euxf".contains(letter)))
            && rest.next().is_some_and(|it| it.text == "pipefail")
        {
            continue;
        }
        if !fine || !word.is_literal() {
            return Err(CommandRefusal::new(
                &word.raw,
                "this option of the shell is not accepted",
            ));
        }
    }
    Ok(())
}
