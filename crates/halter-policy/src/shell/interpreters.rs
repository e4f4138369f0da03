//! Interpreters. A script file runs what the project says, which listing the
//! interpreter accepts; code on the command line is read where that is
//! possible, code from a pipe is refused.

use super::CommandRefusal;
use super::argument::Argument;
use super::arguments::{is_stream, runs_another};
use super::programs::Programs;

/// Options that only ask for information.
const ASKS: [&str; 4] = ["--version", "-V", "--help", "-h"];

pub(super) fn check_python(
    programs: Programs<'_>,
    words: &[Argument],
) -> Result<(), CommandRefusal> {
    const FLAGS: [&str; 8] = ["-u", "-B", "-s", "-S", "-E", "-I", "-O", "-OO"];
    const MODULES: [&str; 17] = [
        "venv",
        "ensurepip",
        "py_compile",
        "pytest",
        "unittest",
        "mypy",
        "ruff",
        "black",
        "flake8",
        "pylint",
        "isort",
        "pip",
        "build",
        "compileall",
        "coverage",
        "tox",
        "json.tool",
    ];
    let mut rest = words
        .iter()
        .skip_while(|word| FLAGS.contains(&word.text.as_str()));
    let first = rest.next();
    // A here-document is code like that of `-c`.
    let reads_input = first.is_none_or(|first| first.is_literal() && first.text == "-");
    if let Some(code) = programs.input().filter(|_| reads_input) {
        return check_python_code(&code);
    }
    match (first, rest.next()) {
        (Some(flag), Some(code)) if flag.text == "-c" && flag.is_literal() => {
            check_python_code(code)
        }
        (Some(flag), Some(module)) if flag.text == "-m" => {
            if module.is_literal() && MODULES.contains(&module.text.as_str()) {
                return Ok(());
            }
            Err(CommandRefusal::new(
                &module.text,
                "this module may run code from its arguments; write a script file and run that",
            ))
        }
        _ => check_script(first, words),
    }
}

/// A line of Python is what listing it accepts, as a script file is, unless it
/// plainly starts programs or hides what it does: that belongs into a file,
/// where people can read it.
fn check_python_code(code: &Argument) -> Result<(), CommandRefusal> {
    const STARTS_PROGRAMS: [&str; 22] = [
        "os",
        "posix",
        "subprocess",
        "pty",
        "ctypes",
        "cffi",
        "importlib",
        "runpy",
        "builtins",
        "multiprocessing",
        "asyncio",
        "webbrowser",
        "pdb",
        "eval",
        "exec",
        "compile",
        "getattr",
        "globals",
        "locals",
        "vars",
        "modules",
        "system",
    ];
    let names = code
        .text
        .split(|next: char| !(next.is_alphanumeric() || next == '_'));
    let found = names
        .into_iter()
        .find(|name| STARTS_PROGRAMS.contains(name) || reaches_inside(name));
    match found {
        _ if !code.is_literal() => Err(CommandRefusal::new(
            &code.raw,
            "code given to an interpreter must be literal; pass values as arguments",
        )),
        Some(name) => Err(CommandRefusal::new(
            name,
            "in a line of Python this could start a program; write a script file and run that",
        )),
        None => Ok(()),
    }
}

/// Whether a name leads to what Python keeps inside, such as `__import__`.
fn reaches_inside(name: &str) -> bool {
    const TOLD: [&str; 4] = ["__version__", "__file__", "__name__", "__doc__"];
    name.starts_with("__") && !TOLD.contains(&name)
}

pub(super) fn check_other(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    check_script(words.first(), words)
}

/// Runtimes with subcommands of their own.
pub(super) fn check_toolkit(_: Programs<'_>, words: &[Argument]) -> Result<(), CommandRefusal> {
    let first = words.first();
    match first {
        Some(word) if ["eval", "repl", "exec", "x", "-"].contains(&word.text.as_str()) => {
            Err(runs_another(&word.text))
        }
        Some(_) | None => check_script(first, words),
    }
}

fn check_script(first: Option<&Argument>, words: &[Argument]) -> Result<(), CommandRefusal> {
    let Some(word) = first else {
        return Err(CommandRefusal::new(
            "",
            "without a script file the interpreter would run its input; name a script file",
        ));
    };
    let text = word.text.as_str();
    let is_file = (word.open || !text.is_empty()) && !text.starts_with('-');
    let asks = words.len() == 1 && ASKS.contains(&text);
    let others = words.get(1..).unwrap_or_default();
    let tests = text == "--test" && others.iter().all(|word| !word.text.starts_with('-'));
    let named = word.is_literal() || (word.open && !word.many && !word.could_be_option());
    if asks || tests || (is_file && !is_stream(text) && named) {
        return Ok(());
    }
    Err(CommandRefusal::new(
        text,
        "code or options given to an interpreter cannot be checked; \
         write a script file and run that",
    ))
}
