//! A command line taken apart, for rules that name commands and paths.
//!
//! [`parts`] knows no list of programs: it says what a line would run, not
//! whether that is allowed.

use std::fmt;

use super::known_path::KnownPath;

/// The commands a line would run, in the order they are written. Commands
/// inside substitutions, function bodies and wrappers are among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandParts {
    /// One for each simple command. A wrapper such as `timeout 5 ls` is one
    /// part, the command inside it (`ls`) the next. Files that belong to no
    /// command, such as what a loop goes through, are in a part without words.
    pub parts: Vec<CommandPart>,
}

/// One simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandPart {
    /// The program and its arguments, quotes removed, braces expanded. Empty
    /// for a line that only assigns or redirects.
    pub words: Vec<PartWord>,
    /// The programs around this one that do nothing but run it, outermost
    /// first: `timeout` for the `ls` of `timeout 5 ls`.
    pub wrappers: Vec<String>,
    /// Assignments in front of the command, as in `A=1 make`.
    pub assignments: Vec<PartAssignment>,
    /// Files its streams are connected to. Here-documents and duplicated
    /// streams are none.
    pub redirections: Vec<PartRedirection>,
    /// The files its arguments name, as far as that is known of the program.
    /// Redirections are not repeated here.
    pub paths: Vec<PathUse>,
    /// Where it may run: paths from the directory the line starts in, which
    /// is the empty one. What starts with NUL and `~` lies in the home
    /// directory. Empty: nobody knows.
    pub directories: Vec<String>,
    /// Why its arguments are not fully understood, if so: it may run more than
    /// the parts show, and no rule should be made from it.
    pub unclear: Option<ShellRefusal>,
}

/// A word as far as it is known before the command runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartWord {
    /// The word without quotes. Where it is not literal, as it is written.
    pub text: String,
    /// Whether the word stands for exactly its text: no variable, no
    /// substitution, no file name pattern, no `~`.
    pub literal: bool,
    /// What it is as a path.
    pub(crate) path: KnownPath,
}

/// `NAME=value` in front of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartAssignment {
    /// The variable.
    pub name: String,
    /// What it is set to.
    pub value: PartWord,
}

/// A stream connected to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRedirection {
    /// The file.
    pub target: PartWord,
    /// What is done with it.
    pub access: PathAccess,
}

/// A file that an argument names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// The path as the program gets it; relative ones start where the command
    /// runs.
    pub path: PartWord,
    /// What the program does with it.
    pub access: PathAccess,
}

/// What a command does with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathAccess {
    /// Reads the file.
    Read,
    /// Creates or changes it.
    Write,
    /// Removes it.
    Delete,
    /// Looks into a directory, or works there.
    List,
}

impl CommandPart {
    /// The name of the program, if it is literal.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        let first = self.words.first()?;
        first.literal.then_some(first.text.as_str())
    }

    /// Whether every word is literal.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.words.iter().all(|word| word.literal)
    }

    /// The words joined by single spaces, to compare with a rule such as
    /// `git commit *`.
    #[must_use]
    pub fn line(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

impl fmt::Display for CommandPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.line())
    }
}

/// Why a line is refused, or asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRefusal {
    /// The rule; stable, for programs to match on.
    pub rule: &'static str,
    /// The part of the line the rule applies to.
    pub fragment: String,
    /// What is wrong and what to do instead.
    pub message: String,
}

/// What the judge says about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellDecision {
    /// It may run.
    Allow,
    /// A person has to decide.
    Ask(ShellRefusal),
    /// It must not run.
    Deny(ShellRefusal),
}

impl ShellDecision {
    /// `allow`, `ask` or `deny`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask(_) => "ask",
            Self::Deny(_) => "deny",
        }
    }
}
