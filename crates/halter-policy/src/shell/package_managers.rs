//! `npm` and its kin. A script of the project and the programs of its packages
//! are what listing them accepts; a command line for a shell, and settings that
//! name programs, are not.

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::{NOTHING, Options, runs_another};
use super::programs::Programs;
use super::wrappers;

pub(super) fn check_npm(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    check_options(words)?;
    let operands = operands(words);
    match operands.first().map(|first| first.text.as_str()) {
        Some("explore") => Err(runs_another("explore")),
        Some(_) | None => check_settings(&operands),
    }
}

/// Programs of the packages are found before others, but others as well.
pub(super) fn check_other(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    check_options(words)?;
    check_settings(&operands(words))?;
    match words.first().map(|first| first.text.as_str()) {
        Some("exec") => wrappers::check_plain(programs, words.get(1..).unwrap_or_default()),
        Some("node") => programs.check_inner(words),
        Some(first) if first.starts_with('-') || first.starts_with("workspace") => {
            wrappers::refuse_hidden(words, &["exec", "node"])
        }
        Some(_) | None => Ok(()),
    }
}

fn check_options(words: &[Argument]) -> Result<(), CommandRefusal> {
    const ANY: Options = Options {
        long: &["--call", "--script-shell", "--shell", "--shell-mode"],
        ..NOTHING
    };
    const EXEC: Options = Options {
        short: "c",
        valued: "pw",
        ..NOTHING
    };
    const FLAGS: [&str; 6] = ["-s", "--silent", "-q", "--quiet", "-r", "--recursive"];
    ANY.check(words)?;
    let first = words
        .iter()
        .find(|word| !FLAGS.contains(&word.text.as_str()));
    let runs_script = first.is_some_and(|first| {
        ["run", "run-script", "test", "t", "start"].contains(&first.text.as_str())
    });
    if runs_script {
        return Ok(());
    }
    // Behind another option the script may have arguments of its own.
    let optional = first.is_some_and(|first| first.text.starts_with('-'));
    let end = words.iter().position(|word| optional && word.text == "--");
    EXEC.check(words.get(..end.unwrap_or(words.len())).unwrap_or_default())
}

/// Words that are no options, unless they are a script's; the value of an
/// option may be among them.
fn operands(words: &[Argument]) -> Vec<&Argument> {
    let first = words.first().map(|first| first.text.as_str());
    if first.is_some_and(|first| ["run", "run-script"].contains(&first)) {
        return Vec::new();
    }
    let words = words.iter().take_while(|word| word.text != "--");
    words.filter(|word| !word.text.starts_with('-')).collect()
}

/// Settings can name the shell that runs every script.
fn check_settings(operands: &[&Argument]) -> Result<(), CommandRefusal> {
    const CHANGES: [&str; 4] = ["set", "edit", "delete", "unset"];
    let pairs = operands.windows(2).take(4);
    let mut texts = pairs.filter_map(|pair| match pair {
        [first, second] => Some((first.text.as_str(), second.text.as_str())),
        _ => None,
    });
    let changes =
        texts.any(|(first, second)| ["config", "c"].contains(&first) && CHANGES.contains(&second));
    let first = operands.first().map(|first| first.text.as_str());
    match changes || first == Some("set") {
        false => Ok(()),
        true => Err(CommandRefusal::new(
            "config",
            "settings of a package manager can name programs to run, so they are only read here; \
             edit the project's own file",
        )),
    }
}
