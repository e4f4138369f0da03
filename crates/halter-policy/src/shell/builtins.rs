//! Builtins that set variables or change the shell. Run by another program,
//! such as `command`, they are refused: what they set would not be seen.

use super::CommandRefusal;
use super::argument::{Argument, value};
use super::programs::Programs;
use super::state::{Shape, State};
use super::tree::{Assigned, Piece, Simple, Word};
use super::{changes, read_arithmetic, read_script, walk};

/// Builtins that may set variables.
pub(super) const SETTERS: [&str; 12] = [
    "read",
    "mapfile",
    "readarray",
    "printf",
    "getopts",
    "let",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
];

/// Everything that is built into bash.
pub(super) const NAMES: [&str; 61] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Judges a builtin that needs to know, or changes, what is known. `None`: it
/// is none of these.
pub(super) fn call(
    programs: Programs<'_>,
    arguments: &[Argument],
    simple: &Simple,
    state: &mut State,
) -> Option<Result<(), CommandRefusal>> {
    let (program, rest) = arguments.split_first()?;
    let judge = match program.text.as_str() {
        "read" => Call::read,
        "mapfile" | "readarray" => Call::mapfile,
        "printf" => Call::printf,
        "getopts" => Call::getopts,
        "let" => Call::compute,
        "declare" | "typeset" | "local" | "export" => Call::declare,
        "unset" => Call::unset,
        "trap" => Call::trap,
        "cd" => Call::cd,
        "pushd" => Call::pushd,
        "popd" => Call::popd,
        _ => return None,
    };
    let call = Call {
        programs,
        rest,
        simple,
        state,
    };
    Some(programs.allow(program).and_then(|()| judge(call)))
}

/// Builtins that change where the next command runs.
pub(super) const MOVERS: [&str; 3] = ["cd", "pushd", "popd"];

/// The home directory, as a [known path](super::known_path) spells it.
const HOME: &str = "\0~";

struct Call<'a> {
    programs: Programs<'a>,
    rest: &'a [Argument],
    simple: &'a Simple,
    state: &'a mut State,
}

impl Call<'_> {
    /// Sets the variables that follow the options.
    fn set_all(self, names: &[Argument]) -> Result<(), CommandRefusal> {
        for name in names {
            check_literal(name)?;
            walk::check_name(&name.text)?;
            self.state.forget_one(&name.text);
        }
        Ok(())
    }

    fn read(self) -> Result<(), CommandRefusal> {
        self.state.forget_one("REPLY");
        let rest = after_options(self.rest, "rs", "dnNptua")?;
        // `-a NAME` is a value, and a name as well.
        let arrays = self.rest.windows(2).filter_map(|pair| match pair {
            [option, name] if option.text.starts_with('-') && option.text.ends_with('a') => {
                Some(name.clone())
            }
            _ => None,
        });
        let names: Vec<Argument> = arrays.chain(rest.iter().cloned()).collect();
        self.set_all(&names)
    }

    fn mapfile(self) -> Result<(), CommandRefusal> {
        let rest = after_options(self.rest, "t", "dnsOu")?;
        self.state.forget_one("MAPFILE");
        self.set_all(rest)
    }

    fn getopts(self) -> Result<(), CommandRefusal> {
        for name in ["OPTARG", "OPTIND"] {
            self.state.forget_one(name);
        }
        let name = self.rest.get(1).cloned();
        self.set_all(name.as_slice())
    }

    fn printf(self) -> Result<(), CommandRefusal> {
        let Some(first) = self.rest.first() else {
            return Ok(());
        };
        if first.could_be_option() {
            return Err(dynamic(first));
        }
        if first.text == "-v" {
            let name = self.rest.get(1).cloned();
            return self.set_all(name.as_slice());
        }
        if first.text.starts_with("-v") {
            return Err(refuse(first, "write `-v NAME` as two words"));
        }
        Ok(())
    }

    fn compute(self) -> Result<(), CommandRefusal> {
        for expression in self.rest {
            check_literal(expression)?;
            let expression = read_arithmetic(&expression.text)?;
            walk::arithmetic(self.programs, &expression, self.state)?;
        }
        Ok(())
    }

    /// `declare`, `local`, `export`: names and values, and options that give a
    /// variable no other meaning.
    fn declare(self) -> Result<(), CommandRefusal> {
        let first = self.simple.words.first().and_then(Word::literal);
        let lists = self
            .rest
            .iter()
            .any(|word| word.text.starts_with(['-', '+']) && word.text.contains('a') && !word.open);
        // These take a value in parentheses for a list, and expand it once
        // more, if the variable is one.
        let expands = lists || matches!(first.as_deref(), Some("declare" | "typeset"));
        for (word, argument) in self.words() {
            if let Some(Piece::Array(assignment)) = word.pieces.first() {
                walk::check_name(&assignment.name)?;
                self.state.forget_one(&assignment.name);
                debug_assert!(matches!(assignment.value, Assigned::Array(_)));
                continue;
            }
            let text = argument.text.as_str();
            if text.starts_with('-') || text.starts_with('+') {
                let letters = text.get(1..).unwrap_or_default();
                if argument.is_literal() && letters.chars().all(|it| "xapg".contains(it)) {
                    continue;
                }
                let reason = "this kind of variable changes what an assignment does, so it is \
                              not accepted";
                return Err(refuse(&argument, reason));
            }
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            if value.is_none() && !argument.is_literal() {
                return Err(dynamic(&argument));
            }
            walk::check_name(name)?;
            if let Some(value) = value.filter(|_| expands) {
                let unknown = value.is_empty() && argument.open;
                if value.starts_with('(') || (unknown && !self.starts_plain(&word)) {
                    let reason = "a value in parentheses is expanded once more; assign it \
                                  without `declare`";
                    return Err(refuse(&argument, reason));
                }
            }
            // Outside of a function `local` is an error and sets nothing.
            let sets = self.state.in_function || first.as_deref() != Some("local");
            match value {
                Some(value) if argument.is_literal() && sets => {
                    let shape = Shape::Text(value.to_owned());
                    self.state.set(name, shape);
                }
                Some(_) | None => self.state.forget_one(name),
            }
        }
        Ok(())
    }

    /// Whether what stands right of the `=` is a number or a plain word.
    fn starts_plain(&self, word: &Word) -> bool {
        let written = |piece: &&Piece| match piece {
            Piece::Text(text) => !text.ends_with('='),
            Piece::Quoted(text) => !text.is_empty(),
            _ => true,
        };
        match word.pieces.iter().find(written) {
            Some(Piece::Arithmetic(_)) => true,
            Some(Piece::Parameter { parameter, .. }) => self.state.parameter(parameter).is_number(),
            Some(Piece::Substitution { script, .. }) => {
                matches!(self.state.output(script), Shape::Number | Shape::Token)
            }
            _ => false,
        }
    }

    /// The words behind the builtin, each with what it is known to be: they
    /// are not split.
    fn words(&self) -> Vec<(Word, Argument)> {
        let words = self.simple.words.iter().skip(1);
        words
            .map(|word| (word.clone(), value(word, self.state)))
            .collect()
    }

    fn unset(self) -> Result<(), CommandRefusal> {
        for name in self.rest {
            check_literal(name)?;
            if name.text == "-v" {
                continue;
            }
            if self.state.functions.contains(&name.text) {
                return Err(refuse(name, "a function must not be removed"));
            }
            walk::check_name(&name.text)?;
            self.state.forget_one(&name.text);
        }
        Ok(())
    }

    /// A trap runs at any time, so its code is judged and must not set
    /// anything.
    fn trap(self) -> Result<(), CommandRefusal> {
        const SIGNALS: [&str; 8] = ["EXIT", "INT", "TERM", "HUP", "QUIT", "ERR", "0", "PIPE"];
        let rest = match self.rest.split_first() {
            Some((first, rest)) if first.text == "--" => rest,
            _ => self.rest,
        };
        let Some((code, signals)) = rest.split_first() else {
            return Ok(());
        };
        for signal in signals {
            let name = signal.text.strip_prefix("SIG").unwrap_or(&signal.text);
            if !signal.is_literal() || !SIGNALS.contains(&name) {
                return Err(refuse(signal, "only signals and EXIT can be trapped"));
            }
        }
        check_literal(code)?;
        if code.text == "-" || code.text.is_empty() || (code.text == "-p" || code.text == "-l") {
            return Ok(());
        }
        // An error in it would end the line that it interrupts.
        if code.text.contains("((") || code.text.contains('[') {
            return Err(refuse(code, "a trap must not compute anything"));
        }
        let script = read_script(&code.text)?;
        if !changes::sets_nothing(&script) {
            return Err(refuse(code, "a trap must not set variables or functions"));
        }
        // It may run in another line, wherever the shell is then.
        let mut inside = self.state.inside_function();
        inside.go(None);
        walk::script(self.programs, &script, &mut inside)
    }

    fn cd(self) -> Result<(), CommandRefusal> {
        let option = |word: &&Argument| !["--", "-L", "-P"].contains(&word.text.as_str());
        let rest: Vec<&Argument> = self.rest.iter().filter(option).collect();
        match rest.as_slice() {
            [] => self.state.go(Some(HOME)),
            [target] if target.is_literal() && target.text == "-" => self.state.go_back(),
            [target] => self.state.go(target.path.directory().as_deref()),
            _ => self.state.go(None),
        }
        Ok(())
    }

    fn pushd(self) -> Result<(), CommandRefusal> {
        match self.rest {
            [target] if !target.text.starts_with(['-', '+']) => {
                let directory = target.path.directory();
                self.state.push_directory(directory.as_deref());
            }
            _ => self.state.go(None),
        }
        Ok(())
    }

    fn popd(self) -> Result<(), CommandRefusal> {
        match self.rest {
            [] => self.state.pop_directory(),
            _ => self.state.go(None),
        }
        Ok(())
    }
}

/// The words behind the options; fails on an option that is not known.
fn after_options<'w>(
    words: &'w [Argument],
    flags: &str,
    valued: &str,
) -> Result<&'w [Argument], CommandRefusal> {
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if word.could_be_option() {
            return Err(dynamic(word));
        }
        if word.text == "--" {
            return Ok(after);
        }
        let Some(letters) = word.text.strip_prefix('-').filter(|it| !it.is_empty()) else {
            return Ok(rest);
        };
        rest = after;
        for (at, letter) in letters.char_indices() {
            if valued.contains(letter) {
                // The value is attached, or the next word.
                if at + 1 == letters.len() && !word.open {
                    rest = rest.get(1..).unwrap_or_default();
                }
                break;
            }
            if !flags.contains(letter) {
                return Err(refuse(word, "this option of the builtin is not accepted"));
            }
        }
    }
    Ok(rest)
}

fn check_literal(word: &Argument) -> Result<(), CommandRefusal> {
    if word.is_literal() {
        Ok(())
    } else {
        Err(dynamic(word))
    }
}

fn dynamic(word: &Argument) -> CommandRefusal {
    CommandRefusal::of(
        "shell.builtin",
        &word.raw,
        "this argument of a builtin must be literal",
    )
}

pub(super) fn refuse(word: &Argument, reason: &str) -> CommandRefusal {
    CommandRefusal::of("shell.builtin", &word.raw, reason)
}
