//! Builtins that are harmless but for some of their arguments.

use super::CommandRefusal;
use super::argument::Argument;
use super::builtins::refuse;
use super::programs::Programs;
use super::variables;

/// `set` with options that make the shell stricter or more verbose.
pub(super) fn check_set(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    const NAMES: [&str; 6] = [
        "errexit",
        "nounset",
        "pipefail",
        "xtrace",
        "noglob",
        "noclobber",
    ];
    let letters = |text: &str| text.chars().all(|letter| "euxfoC".contains(letter));
    for word in words {
        let text = word.text.as_str();
        let flags = text.strip_prefix(['-', '+']);
        let fine =
            NAMES.contains(&text) || flags.is_some_and(|flags| !flags.is_empty() && letters(flags));
        if !fine || !word.is_literal() {
            return Err(refuse(word, "this setting of the shell is not accepted"));
        }
    }
    Ok(())
}

/// `shopt` for what file name patterns match.
pub(super) fn check_shopt(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    // Not `dotglob`: which files a pattern matches has to be known.
    const FINE: [&str; 8] = [
        "-s",
        "-u",
        "-q",
        "-p",
        "nullglob",
        "globstar",
        "nocaseglob",
        "nocasematch",
    ];
    let fine = |word: &&Argument| !word.is_literal() || !FINE.contains(&word.text.as_str());
    match words.iter().find(fine) {
        None => Ok(()),
        Some(word) => Err(refuse(word, "this setting of the shell is not accepted")),
    }
}

/// Builtins that do one thing more with an option.
pub(super) fn check_without(words: &[Argument], refused: &[char]) -> Result<(), CommandRefusal> {
    let dangerous = |word: &&Argument| {
        word.could_be_option() || (word.text.starts_with('-') && word.text.contains(refused))
    };
    match words.iter().find(dangerous) {
        None => Ok(()),
        Some(word) => Err(refuse(word, "this option of the builtin is not accepted")),
    }
}

/// `printf` run by another program, where `-v` cannot be followed.
pub(super) fn check_printf(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    match words.first() {
        Some(first) if first.text.starts_with("-v") || first.could_be_option() => {
            Err(refuse(first, "assign the variable in a command of its own"))
        }
        Some(_) | None => Ok(()),
    }
}

/// `test -v` evaluates the index of the variable it is asked about, so no word
/// may become a `-v`, and none may bring words of its own.
pub(super) fn check_test(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    for (index, word) in words.iter().enumerate() {
        let operand = words.get(index + 1);
        let plain = operand.is_some_and(|it| it.is_literal() && variables::is_name(&it.text));
        if (word.text == "-v" || word.text == "-R") && !plain {
            let reason = "a test of a variable evaluates its index; name a plain variable";
            return Err(refuse(word, reason));
        }
        if word.many && !word.plain {
            return Err(refuse(word, "quote the variables in a test"));
        }
        let evaluated = operand.is_some_and(|it| it.open || it.text.contains('['));
        if word.open && !word.operand && ["", "-"].contains(&word.text.as_str()) && evaluated {
            let reason = "the first of these words could be `-v`; write the operator out";
            return Err(refuse(word, reason));
        }
    }
    Ok(())
}
