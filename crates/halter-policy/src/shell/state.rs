//! What is known of variables and functions at a point of a command line.
//!
//! The shell lives across command lines, so a variable that this line has not
//! set may hold anything, also text that an arithmetic expression would run.

use std::collections::{BTreeMap, BTreeSet};

use super::argument::{Argument, is_plain, value};
use super::tree::{
    Index, Operation, Parameter, ParameterName, Piece, Pipeline, ReadCommand, Script, Word,
};

/// What is known of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// It is this.
    Text(String),
    /// An integer, or nothing.
    Number,
    /// One word of plain characters that is no option.
    Token,
    /// It does not start with `-`.
    Operand,
    /// A file name that a pattern such as `*.rs` matched.
    File,
    /// Nothing is known.
    Any,
}

impl Shape {
    /// What holds for both.
    fn join(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        let rank = |shape: &Self| match shape {
            Self::Text(text) if is_number(text) => 0,
            Self::Number => 0,
            Self::Text(text) if is_token(text) => 1,
            Self::Token => 1,
            Self::Text(text) if !text.starts_with('-') => 2,
            Self::Operand => 2,
            Self::Text(_) | Self::File | Self::Any => 3,
        };
        match rank(self).max(rank(other)) {
            0 => Self::Number,
            1 => Self::Token,
            2 => Self::Operand,
            _ => Self::Any,
        }
    }

    /// Whether arithmetic can read it without running anything.
    pub(super) fn is_number(&self) -> bool {
        match self {
            Self::Number => true,
            Self::Text(text) => is_number(text),
            Self::Token | Self::Operand | Self::File | Self::Any => false,
        }
    }

    fn of(argument: &Argument) -> Self {
        if argument.is_literal() {
            return Self::Text(argument.text.clone());
        }
        if argument.many {
            return Self::Any;
        }
        let starts = argument.text.chars().next();
        match starts {
            Some('-') => Self::Any,
            Some(_) if argument.plain && argument.text.chars().all(is_plain) => Self::Token,
            Some(_) if argument.glob == Some(0) => match file_pattern(argument) {
                true => Self::File,
                false => Self::Any,
            },
            Some(_) => Self::Operand,
            None if argument.plain && argument.operand => Self::Token,
            None if argument.operand => Self::Operand,
            None => Self::Any,
        }
    }
}

/// Whether the pattern matches only names that end like `.rs`.
pub(super) fn file_pattern(argument: &Argument) -> bool {
    let Some(suffix) = argument.text.strip_prefix('*') else {
        return false;
    };
    let extension = suffix.strip_prefix('.').unwrap_or_default();
    !argument.open
        && extension.len() >= 2
        && extension
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || next == '.')
}

pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    // A leading zero makes it octal, and `08` an error.
    let octal = digits.len() > 1 && digits.starts_with('0');
    !digits.is_empty()
        && !octal
        && digits.len() < 19
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_token(text: &str) -> bool {
    !text.starts_with('-') && text.chars().all(is_plain)
}

/// Directories that are told apart; with more, it could be any.
const MAX_DIRECTORIES: usize = 4;

/// What is known here.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    variables: BTreeMap<String, Shape>,
    pub(super) functions: BTreeSet<String>,
    /// Where the command may run: paths from the directory the line starts
    /// in, which is the empty one. Empty: anywhere.
    pub(super) directories: Vec<String>,
    /// Where `cd -` and `popd` lead; empty: anywhere.
    previous: Vec<String>,
    pushed: Vec<Vec<String>>,
    /// An expansion of this line could fail, which ends the line and goes on
    /// with the next.
    pub(super) may_abort: bool,
    pub(super) in_function: bool,
    pub(super) in_substitution: bool,
}

/// Numbers that the shell itself keeps, and that no command can set.
const SHELL_NUMBERS: [&str; 8] = [
    "RANDOM",
    "SECONDS",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "EPOCHSECONDS",
    "BASHPID",
];

impl State {
    /// The state of a shell that starts in one of these directories.
    pub(super) fn starting_in(directories: Vec<String>) -> Self {
        Self {
            directories,
            ..Self::default()
        }
    }

    /// The state inside a function, which may be called whenever.
    pub(super) fn inside_function(&self) -> Self {
        Self {
            functions: self.functions.clone(),
            directories: self.directories.clone(),
            in_function: true,
            in_substitution: self.in_substitution,
            ..Self::default()
        }
    }

    /// The next command runs there; `None`: nobody knows where.
    pub(super) fn go(&mut self, target: Option<&str>) {
        let joined = |base: &String, target: &str| match base.as_str() {
            _ if target.starts_with('/') || target.starts_with('\0') => target.to_owned(),
            "" => target.to_owned(),
            base => format!("{base}/{target}"),
        };
        let there = target.map(|target| {
            let from = self.directories.iter();
            from.map(|base| joined(base, target)).collect()
        });
        self.previous = std::mem::replace(&mut self.directories, there.unwrap_or_default());
    }

    pub(super) fn go_back(&mut self) {
        std::mem::swap(&mut self.previous, &mut self.directories);
    }

    pub(super) fn push_directory(&mut self, target: Option<&str>) {
        self.pushed.push(self.directories.clone());
        self.go(target);
    }

    pub(super) fn pop_directory(&mut self) {
        self.previous = self.pushed.pop().unwrap_or_default();
        self.go_back();
    }

    pub(super) fn set(&mut self, name: &str, shape: Shape) {
        self.variables.insert(name.to_owned(), shape);
    }

    /// Forgets what variables hold.
    pub(super) fn forget(&mut self) {
        self.variables.clear();
    }

    pub(super) fn forget_one(&mut self, name: &str) {
        self.variables.remove(name);
    }

    /// What holds whichever way was taken. Functions count only if they were
    /// defined before.
    pub(super) fn join(&mut self, other: &Self) {
        let known = std::mem::take(&mut self.variables);
        for (name, shape) in known {
            if let Some(also) = other.variables.get(&name) {
                let both = shape.join(also);
                self.variables.insert(name, both);
            }
        }
        self.functions.retain(|name| other.functions.contains(name));
        self.may_abort |= other.may_abort;
        self.also_in(&other.directories);
        if self.previous != other.previous {
            self.previous.clear();
        }
        if self.pushed != other.pushed {
            self.pushed.clear();
        }
    }

    /// The next command may also run in these directories.
    pub(super) fn also_in(&mut self, directories: &[String]) {
        if self.directories.is_empty() || directories.is_empty() {
            self.directories.clear();
            return;
        }
        for directory in directories {
            if !self.directories.contains(directory) {
                self.directories.push(directory.clone());
            }
        }
        if self.directories.len() > MAX_DIRECTORIES {
            self.directories.clear();
        }
    }

    pub(super) fn variable(&self, name: &str) -> Shape {
        if SHELL_NUMBERS.contains(&name) {
            return Shape::Number;
        }
        match self.variables.get(name) {
            Some(shape) => shape.clone(),
            None if ["PWD", "OLDPWD", "HOME"].contains(&name) => Shape::Operand,
            None => Shape::Any,
        }
    }

    /// What a value assigned here is known to be.
    pub(super) fn shape(&self, word: &Word) -> Shape {
        let written = |piece: &&Piece| !matches!(piece, Piece::Quoted(text) if text.is_empty());
        let pieces: Vec<&Piece> = word.pieces.iter().filter(written).collect();
        match pieces.as_slice() {
            [Piece::Parameter { parameter, .. }] => self.parameter(parameter),
            [Piece::Substitution { script, .. }] => self.output(script),
            [Piece::Arithmetic(_)] => Shape::Number,
            _ => Shape::of(&value(word, self)),
        }
    }

    /// What all of these have in common, for the variable of a loop.
    pub(super) fn common(arguments: &[Argument]) -> Shape {
        let mut shapes = arguments.iter().map(Shape::of);
        let Some(first) = shapes.next() else {
            return Shape::Any;
        };
        shapes.fold(first, |found, next| match (&found, &next) {
            (Shape::File, Shape::File) => Shape::File,
            _ => found.join(&next),
        })
    }

    pub(super) fn parameter(&self, parameter: &Parameter) -> Shape {
        let base = match (&parameter.name, &parameter.index) {
            (ParameterName::Variable(name), None) => self.variable(name),
            (ParameterName::Status, None) => Shape::Number,
            _ => Shape::Any,
        };
        match &parameter.operation {
            Operation::None => base,
            Operation::Length => Shape::Number,
            Operation::Suffix(_) => match base {
                Shape::Number | Shape::Token => Shape::Token,
                Shape::Operand => Shape::Operand,
                Shape::File => Shape::File,
                Shape::Text(_) | Shape::Any => Shape::Any,
            },
            Operation::Keys
            | Operation::Alternative(_)
            | Operation::Assign(_)
            | Operation::Pattern(_)
            | Operation::Substring(..)
            | Operation::Transform(_) => Shape::Any,
        }
    }

    /// Whether the expansion yields several words even in quotes.
    pub(super) fn is_list(&self, parameter: &Parameter) -> bool {
        let all = matches!(parameter.index, Some(Index::All));
        let positional = matches!(parameter.name, ParameterName::Positional);
        (all || positional) && !matches!(parameter.operation, Operation::Length)
    }

    /// What a substitution puts out, from the program that ends it.
    pub(super) fn output(&self, script: &Script) -> Shape {
        let Some(words) = last_command(script) else {
            return Shape::Any;
        };
        let literals: Option<Vec<String>> = words.iter().map(Word::literal).collect();
        let first = words.first().and_then(Word::literal).unwrap_or_default();
        if self.functions.contains(&first) {
            return Shape::Any;
        }
        let texts: Vec<&str> = literals.iter().flatten().map(String::as_str).collect();
        match texts.as_slice() {
            ["nproc"] | ["wc", "-l" | "-c" | "-w"] | ["date", "+%s"] | ["id", "-u" | "-g"] => {
                Shape::Number
            }
            ["seq", numbers @ ..] if numbers.iter().all(|it| is_number(it)) => Shape::Number,
            ["git", "rev-list", "--count", rest @ ..] if no_options(rest) => Shape::Number,
            ["date", format] if is_date_token(format) => Shape::Token,
            ["git", "rev-parse", "--show-toplevel"] | ["pwd"] | ["realpath", "."] => Shape::Operand,
            // It repeats options that it does not know.
            ["git", "rev-parse", "HEAD"]
            | [
                "git",
                "rev-parse",
                "--verify" | "--short" | "--abbrev-ref",
                "HEAD",
            ]
            | ["git", "branch", "--show-current"]
            | ["git", "symbolic-ref", "--short", "HEAD"]
            | ["git", "describe", "--tags" | "--always"]
            | ["git", "describe", "--tags", "--abbrev=0" | "--always"]
            | ["uname"]
            | ["uname", "-m" | "-s" | "-r"]
            | ["mktemp"]
            | ["mktemp", "-d"] => Shape::Token,
            [
                "git",
                "merge-base" | "rev-list" | "describe" | "write-tree",
                rest @ ..,
            ] if no_options(rest) => Shape::Token,
            _ => Shape::Any,
        }
    }
}

/// `$(pwd)`.
pub(super) fn prints_directory(script: &Script) -> bool {
    last_command(script).is_some_and(|words| match words {
        [word] => word.literal().is_some_and(|name| name == "pwd"),
        _ => false,
    })
}

fn no_options(words: &[&str]) -> bool {
    words.iter().all(|word| !word.starts_with('-'))
}

/// `+%Y-%m-%d` and the like.
fn is_date_token(format: &str) -> bool {
    let Some(format) = format.strip_prefix('+') else {
        return false;
    };
    let mut rest = format.chars();
    let mut first = true;
    while let Some(next) = rest.next() {
        let fine = match next {
            '%' => rest.next().is_some_and(|it| "YmdHMSsFjyuwV".contains(it)),
            next => next.is_ascii_alphanumeric() || (!first && "._-".contains(next)),
        };
        first = false;
        if !fine {
            return false;
        }
    }
    true
}

/// The words of the command whose output a script ends with, if it is one
/// simple pipeline.
fn last_command(script: &Script) -> Option<&[Word]> {
    let [item] = script.items.as_slice() else {
        return None;
    };
    let [(_, Pipeline { commands, .. })] = item.chain.as_slice() else {
        return None;
    };
    match commands.last()? {
        ReadCommand::Simple(simple) if simple.assignments.is_empty() => Some(&simple.words),
        _ => None,
    }
}

/// Functions must not take the place of programs that something here relies
/// on.
pub(super) fn tells_shape(name: &str) -> bool {
    [
        "nproc", "wc", "date", "id", "seq", "git", "pwd", "realpath", "uname", "mktemp",
    ]
    .contains(&name)
}
