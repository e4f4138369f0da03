//! The shell judge: reads a command line before anything runs.
//!
//! A line is read twice, by our own `reader` and by a full bash parser, and
//! both readings must agree (`agreement`), so a trick has to fool both in the
//! same way. `walk` then goes through everything the line would run: pipelines,
//! loops, functions, substitutions, here-documents, arithmetic. It carries
//! along what is known of variables (`state`), because the shell lives across
//! lines and a variable that this line has not set may hold anything. What
//! each program does with its arguments is judged by `programs`.
//!
//! With `"*"` the user has allowed every program. The judge then only refuses
//! what does not parse, NUL bytes, program names that are not literal, and
//! `eval`, `exec`, `source` and `.`. It does not look at arguments, options,
//! assignments or redirections, nor at scripts handed to another shell; inside
//! an expansion or a here-document it refuses those four names where they are
//! spelled out, and cannot know what a variable there would expand to.
//!
//! Programs that are listed and unknown to `programs` are trusted with any
//! argument: listing a program is saying yes to what it does.

mod agreement;
mod anything;
mod argument;
mod arguments;
mod awk;
mod builtin_options;
mod builtins;
mod cargo;
mod changes;
mod defaults;
mod destructive;
mod find;
mod git;
mod git_environment;
mod interpreters;
mod known_path;
mod known_programs;
mod open_arguments;
mod package_managers;
mod parts;
mod paths;
mod programs;
mod reader;
mod sed;
mod shells;
mod state;
mod syntax;
mod tree;
mod variables;
mod walk;
mod wrappers;

use std::cell::RefCell;

use crate::error::PolicyError;
use crate::limits::{MAX_COMMAND_BYTES, MAX_FRAGMENT_BYTES};
use crate::settings::ProgramList;

pub use defaults::default_programs;
pub use git_environment::{
    git_environment, git_environment_without, repository_environment,
    repository_environment_elsewhere,
};
pub(crate) use known_path::{Spelling, with_home};
pub use parts::{
    CommandPart, CommandParts, PartAssignment, PartRedirection, PartWord, PathAccess, PathUse,
    ShellDecision, ShellRefusal,
};
pub(crate) use variables::check_variable;
pub use variables::decides_what_runs;

use programs::{Findings, Listed, Programs};
use state::State;
use tree::{Arithmetic, Script};

/// Takes a command line apart, without judging what it would run.
///
/// ```
/// let parts = halter_policy::shell::parts("cd src && git commit -m 'a b'").unwrap().parts;
/// assert_eq!(parts[1].program(), Some("git"));
/// assert_eq!(parts[1].line(), "git commit -m a b");
/// ```
///
/// # Errors
/// The line cannot be read, names a program by anything but a literal, or runs
/// text as code.
pub fn parts(command: &str) -> Result<CommandParts, ShellRefusal> {
    let findings = examine(Listed::Any, command).map_err(CommandRefusal::into_public)?;
    Ok(CommandParts {
        parts: findings.parts,
    })
}

/// Walks through a command line.
fn examine(listed: Listed<'_>, command: &str) -> Result<Findings, CommandRefusal> {
    check_text(command)?;
    let script = read_script(command)?;
    let findings = RefCell::default();
    let mut state = State::starting_in(vec![String::new()]);
    walk::script(Programs::new(listed, &findings), &script, &mut state)?;
    Ok(findings.into_inner().finish())
}

/// Reads a script in both ways.
fn read_script(source: &str) -> Result<Script, CommandRefusal> {
    let script = reader::read(source)?;
    agreement::check(&script)?;
    Ok(script)
}

/// Reads an arithmetic expression that a builtin is given.
fn read_arithmetic(source: &str) -> Result<Arithmetic, CommandRefusal> {
    reader::read_arithmetic(source)
}

/// Names that run text as code; refused always and in every spelling.
const CODE_RUNNERS: [&str; 4] = ["eval", "exec", "source", "."];

/// Decides whether a command line runs listed programs only.
///
/// ```
/// use halter_policy::ShellJudge;
///
/// let judge = ShellJudge::new(vec!["git".to_owned(), "ls".to_owned()]);
/// assert!(judge.check("for f in src/*; do ls \"$f\"; done").is_ok());
/// assert!(judge.check("git status; rm -rf /").is_err());
/// assert!(judge.check("git $(rm -rf /)").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct ShellJudge {
    allowed: ProgramList,
}

impl ShellJudge {
    /// A judge for a list of programs, each a name or an absolute path; `"*"`
    /// among them allows all.
    #[must_use]
    pub fn new(allowed: impl Into<ProgramList>) -> Self {
        Self {
            allowed: allowed.into(),
        }
    }

    /// Fails unless every program the command line would run is allowed, or
    /// could be by asking.
    ///
    /// # Errors
    /// [`PolicyError::ShellCommandRejected`] with the fragment and the rule.
    pub fn check(&self, command: &str) -> Result<(), PolicyError> {
        self.check_line(command).map_err(ShellRefusal::into_error)
    }

    /// Why a line is refused, if it is: for what it would run.
    pub(crate) fn check_line(&self, command: &str) -> Result<(), ShellRefusal> {
        match self.decide(command) {
            ShellDecision::Allow | ShellDecision::Ask(_) => Ok(()),
            ShellDecision::Deny(refusal) => Err(refusal),
        }
    }

    /// Decides about a line: what it would run, not which files it names.
    #[must_use]
    pub fn decide(&self, command: &str) -> ShellDecision {
        self.examine(command, |_| None)
    }

    /// Decides about a line, with a further look at its parts where it may
    /// run.
    pub(crate) fn examine(
        &self,
        command: &str,
        look: impl FnOnce(&[CommandPart]) -> Option<ShellDecision>,
    ) -> ShellDecision {
        let findings = match self.findings(command) {
            Ok(findings) => findings,
            Err(refusal) => return ShellDecision::Deny(refusal.into_public()),
        };
        // A question about a file first: no rule about the programs of a line
        // answers it.
        if let Some(looked) = look(&findings.parts) {
            return looked;
        }
        let in_place = |ask: &&CommandRefusal| ask.rule == IN_PLACE;
        let ask = findings.asks.iter().find(in_place);
        let ask = ask.or(findings.asks.first()).cloned();
        ask.map_or(ShellDecision::Allow, |ask| {
            ShellDecision::Ask(ask.into_public())
        })
    }

    fn findings(&self, command: &str) -> Result<Findings, CommandRefusal> {
        match &self.allowed {
            ProgramList::Set(names) if names.iter().any(|name| name == "*") => {
                check_text(command)?;
                anything::check(command)?;
                // What our own reader does not know cannot be looked into, but
                // every program is allowed.
                Ok(examine(Listed::Any, command).unwrap_or_default())
            }
            ProgramList::Set(names) => examine(Listed::Set(names), command),
            ProgramList::Default => examine(Listed::Soft(self.allowed.names()), command),
        }
    }
}

/// The rule of a program that no list names.
pub(crate) const UNLISTED: &str = "shell.unlisted";

/// The rule of a question about a program that is listed to read, and writes.
pub(crate) const IN_PLACE: &str = "shell.in_place";

/// A refusal on its way out.
#[derive(Debug, Clone)]
struct CommandRefusal {
    rule: &'static str,
    reason: String,
    fragment: String,
}

impl CommandRefusal {
    /// What is wrong with an argument of a program.
    fn new(fragment: &str, reason: impl Into<String>) -> Self {
        Self::of("shell.argument", fragment, reason)
    }

    fn of(rule: &'static str, fragment: &str, reason: impl Into<String>) -> Self {
        Self {
            rule,
            reason: reason.into(),
            fragment: fragment.to_owned(),
        }
    }

    fn into_public(self) -> ShellRefusal {
        ShellRefusal {
            rule: self.rule,
            fragment: shorten(&self.fragment),
            message: self.reason,
        }
    }
}

impl ShellRefusal {
    pub(crate) fn into_error(self) -> PolicyError {
        PolicyError::ShellCommandRejected {
            rule: self.rule,
            reason: self.message,
            fragment: self.fragment,
        }
    }
}

fn check_text(command: &str) -> Result<(), CommandRefusal> {
    if command.len() > MAX_COMMAND_BYTES {
        return Err(CommandRefusal::of(
            "shell.too_long",
            command,
            format!("the command is longer than {MAX_COMMAND_BYTES} bytes; write a script file"),
        ));
    }
    match command.chars().find(|character| is_control(*character)) {
        None => Ok(()),
        Some(character) => Err(CommandRefusal::of(
            "shell.control_character",
            &character.escape_default().to_string(),
            "the command holds a control character; write it as an escape in `$'…'`",
        )),
    }
}

fn is_control(character: char) -> bool {
    character.is_control() && character != '\n' && character != '\t'
}

/// The beginning of a text, cut at a character boundary.
fn shorten(text: &str) -> String {
    if text.len() <= MAX_FRAGMENT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_FRAGMENT_BYTES);
    let mut short = text.get(..end).unwrap_or_default().to_owned();
    short.push('…');
    short
}
