//! Programs that run the program named in their arguments.

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::after_end_of_options;
use super::known_programs::{known, takes_any_operand};
use super::programs::Programs;
use super::walk;

/// How the arguments of a wrapper lead to the inner command.
struct Wrapper {
    flags: &'static [&'static str],
    /// Options that take a value, attached or as the next word.
    valued: &'static [&'static str],
    /// Words of its own between the options and the inner command.
    operands: usize,
}

impl Wrapper {
    /// The words of the inner command.
    fn inner<'w>(&self, words: &'w [Argument]) -> Result<&'w [Argument], CommandRefusal> {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let text = word.text.as_str();
            if !word.is_literal() {
                return Err(CommandRefusal::new(text, "this argument must be literal"));
            }
            if text == "--" {
                rest = after;
                break;
            }
            if !text.starts_with('-') {
                break;
            }
            rest = self.after_option(text, after)?;
        }
        Ok(rest.get(self.operands..).unwrap_or_default())
    }

    fn after_option<'w>(
        &self,
        text: &str,
        after: &'w [Argument],
    ) -> Result<&'w [Argument], CommandRefusal> {
        if self.flags.contains(&text) {
            return Ok(after);
        }
        if self.valued.contains(&text) {
            return Ok(after.get(1..).unwrap_or_default());
        }
        let attached = |option: &&&str| {
            let value = text.strip_prefix(**option);
            value.is_some_and(|value| value.starts_with('=') || !option.starts_with("--"))
        };
        match self.valued.iter().find(attached) {
            Some(_) => Ok(after),
            None => Err(CommandRefusal::new(
                text,
                "this option is not understood here, so what would run is unclear; leave it out",
            )),
        }
    }
}

/// Subcommands such as `uv run` and `bundle exec`.
pub(super) fn check_runner(
    programs: Programs<'_>,
    words: &[Argument],
    runs: &[&str],
) -> Result<(), CommandRefusal> {
    let Some(first) = words.first() else {
        return Ok(());
    };
    let text = first.text.as_str();
    if !first.is_literal() {
        return Err(CommandRefusal::new(&first.raw, "write the subcommand out"));
    }
    if runs.contains(&text) {
        return programs.check_inner(words.get(1..).unwrap_or_default());
    }
    match text.starts_with('-') {
        true => refuse_hidden(words, runs),
        false => Ok(()),
    }
}

/// Fails if one of the subcommands may stand behind options.
pub(super) fn refuse_hidden(words: &[Argument], runs: &[&str]) -> Result<(), CommandRefusal> {
    match words.iter().find(|word| runs.contains(&word.text.as_str())) {
        None => Ok(()),
        Some(word) => Err(CommandRefusal::new(
            &word.text,
            "what this runs is unclear after other words; put it first",
        )),
    }
}

/// Wrappers whose arguments are the inner command.
pub(super) fn check_plain(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    const PLAIN: Wrapper = Wrapper {
        flags: &[],
        valued: &[],
        operands: 0,
    };
    programs.check_inner(PLAIN.inner(words)?)
}

pub(super) fn check_command(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    const COMMAND: Wrapper = Wrapper {
        flags: &["-p"],
        valued: &[],
        operands: 0,
    };
    // `command -v` only tells what a name stands for.
    if let Some(first) = words.first()
        && (first.text == "-v" || first.text == "-V")
    {
        return Ok(());
    }
    programs.check_inner(COMMAND.inner(words)?)
}

pub(super) fn check_env(programs: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    const ENV: Wrapper = Wrapper {
        flags: &[
            "-i",
            "-",
            "-0",
            "-v",
            "--ignore-environment",
            "--null",
            "--debug",
        ],
        valued: &["-u", "--unset"],
        operands: 0,
    };
    let mut inner = ENV.inner(words)?;
    while let Some((first, rest)) = inner.split_first() {
        let Some((name, _)) = first.text.split_once('=') else {
            break;
        };
        walk::check_name(name)?;
        if first.many {
            return Err(CommandRefusal::new(&first.raw, "quote the value"));
        }
        inner = rest;
    }
    programs.check_inner(inner)
}

pub(super) fn check_nice(programs: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    const NICE: Wrapper = Wrapper {
        flags: &[],
        valued: &["-n", "--adjustment"],
        operands: 0,
    };
    // The old form: `nice -10 make`.
    let number = |word: &&Argument| {
        let digits = word.text.strip_prefix('-').unwrap_or_default();
        word.is_literal() && !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
    };
    let words = match words.split_first() {
        Some((_, rest)) if words.first().filter(number).is_some() => rest,
        _ => words,
    };
    programs.check_inner(NICE.inner(words)?)
}

pub(super) fn check_timeout(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    const TIMEOUT: Wrapper = Wrapper {
        flags: &["-v", "--verbose", "--foreground", "--preserve-status"],
        valued: &["-k", "-s", "--kill-after", "--signal"],
        operands: 1,
    };
    programs.check_inner(TIMEOUT.inner(words)?)
}

pub(super) fn check_stdbuf(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    const STDBUF: Wrapper = Wrapper {
        flags: &[],
        valued: &["-i", "-o", "-e", "--input", "--output", "--error"],
        operands: 0,
    };
    programs.check_inner(STDBUF.inner(words)?)
}

/// xargs adds words that nobody has seen yet. That is harmless for a program
/// whose options run nothing, or after `--`.
pub(super) fn check_xargs(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    const XARGS: Wrapper = Wrapper {
        flags: &[
            "-0",
            "-r",
            "-t",
            "-x",
            "--null",
            "--no-run-if-empty",
            "--verbose",
            "--exit",
        ],
        valued: &[
            "-n",
            "-L",
            "-P",
            "-s",
            "-d",
            "-I",
            "--max-args",
            "--max-lines",
            "--max-procs",
            "--max-chars",
            "--delimiter",
        ],
        operands: 0,
    };
    let inner = XARGS.inner(words)?;
    let Some(program) = inner.first() else {
        return Err(CommandRefusal::new(
            "xargs",
            "name the program that it shall run",
        ));
    };
    programs.check_inner(inner)?;
    let replaces = words.iter().any(|word| word.text.starts_with("-I"));
    if replaces && names_placeholder(words, &program.text) {
        return Err(CommandRefusal::new(
            &program.text,
            "the name of a program must be literal",
        ));
    }
    let arguments = inner.get(1..).unwrap_or_default();
    let bounded = !replaces
        && after_end_of_options(arguments, arguments.len())
        && takes_any_operand(program, arguments);
    if known(&program.text).is_some() && !bounded {
        return Err(CommandRefusal::new(
            &program.text,
            "a word that xargs adds could be taken for an option or for code; \
             end the arguments with `--`, or name the files",
        ));
    }
    Ok(())
}

/// Whether the text holds what `-I` replaces.
fn names_placeholder(words: &[Argument], text: &str) -> bool {
    words.iter().enumerate().any(|(index, word)| {
        let Some(attached) = word.text.strip_prefix("-I") else {
            return false;
        };
        let next = words.get(index + 1).map_or("", |next| next.text.as_str());
        let placeholder = if attached.is_empty() { next } else { attached };
        text.contains(placeholder)
    })
}
