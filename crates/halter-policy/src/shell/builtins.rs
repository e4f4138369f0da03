//! Builtins that may change the shell a little, but not what later commands
//! mean.

use super::CommandRefusal;
use super::programs::Programs;
use super::reader::Word;
use super::variables;

/// `export NAME` and `export NAME=value`.
pub(super) fn check_export(_: Programs<'_>, words: &[Word]) -> Result<(), CommandRefusal> {
    check_names(words, &["-p"])
}

pub(super) fn check_unset(_: Programs<'_>, words: &[Word]) -> Result<(), CommandRefusal> {
    check_names(words, &["-v"])
}

fn check_names(words: &[Word], flags: &[&str]) -> Result<(), CommandRefusal> {
    for word in words {
        let text = word.text.as_str();
        if flags.contains(&text) {
            continue;
        }
        let name = text.split('=').next().unwrap_or(text);
        if let Some(reason) = variables::refuse(name) {
            return Err(CommandRefusal::new(text, reason));
        }
    }
    Ok(())
}

/// `set` with options that make the shell stricter or more verbose.
pub(super) fn check_set(_: Programs<'_>, words: &[Word]) -> Result<(), CommandRefusal> {
    const NAMES: [&str; 5] = ["errexit", "nounset", "pipefail", "xtrace", "noglob"];
    let letters = |text: &str| text.chars().all(|letter| "euxfo".contains(letter));
    for word in words {
        let text = word.text.as_str();
        let flags = text.strip_prefix(['-', '+']);
        let fine =
            NAMES.contains(&text) || flags.is_some_and(|flags| !flags.is_empty() && letters(flags));
        if !fine {
            return Err(CommandRefusal::new(
                text,
                "this setting of the shell is not accepted",
            ));
        }
    }
    Ok(())
}

/// `printf` writes to a variable with `-v`, and evaluates its index.
pub(super) fn check_printf(_: Programs<'_>, words: &[Word]) -> Result<(), CommandRefusal> {
    match words.first() {
        Some(first) if first.text.starts_with("-v") => Err(CommandRefusal::new(
            &first.text,
            "assignments are not accepted",
        )),
        Some(_) | None => Ok(()),
    }
}

/// `test -v` evaluates the index of the variable it is asked about.
pub(super) fn check_test(_: Programs<'_>, words: &[Word]) -> Result<(), CommandRefusal> {
    match words
        .iter()
        .find(|word| word.text == "-v" || word.text == "-R")
    {
        None => Ok(()),
        Some(word) => Err(CommandRefusal::new(
            &word.text,
            "tests of variables evaluate their index, so they are not accepted",
        )),
    }
}
