//! The shell judge: reads a command line before anything runs.
//!
//! With a list of programs, it accepts pipelines and lists of literal, listed
//! programs with literal arguments, and refuses every other construct. The
//! line is read twice, by `reader`'s small lexer and by a full bash parser
//! walked by `syntax`; both must see the same commands, so a trick has to
//! fool both in the same way. What each program does with its arguments is
//! then judged by `programs`.
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

mod anything;
mod arguments;
mod builtins;
mod cargo;
mod defaults;
mod find;
mod git;
mod interpreters;
mod parts;
mod programs;
mod reader;
mod sed;
mod syntax;
mod variables;
mod wrappers;

use crate::error::PolicyError;
use crate::limits::{MAX_COMMAND_BYTES, MAX_FRAGMENT_BYTES};
use crate::settings::ProgramList;

pub use defaults::default_programs;
pub use parts::{
    CommandPart, CommandParts, PartAssignment, PartRedirection, PartWord, PathAccess, PathUse,
    ShellDecision, ShellRefusal,
};
pub(crate) use variables::check_variable;

/// Takes a command line apart, without judging what it would run.
///
/// ```
/// let parts = halter_policy::shell::parts("cd src && git commit -m 'a b'").unwrap().parts;
/// assert_eq!(parts[1].program(), Some("git"));
/// assert_eq!(parts[1].line(), "git commit -m a b");
/// ```
///
/// # Errors
/// The line cannot be read, or runs text as code.
pub fn parts(command: &str) -> Result<CommandParts, ShellRefusal> {
    let read = || {
        check_text(command)?;
        reader::read(command)
    };
    let commands = read().map_err(|refusal| ShellRefusal {
        rule: "shell.syntax",
        fragment: shorten(&refusal.fragment),
        message: refusal.reason,
    })?;
    let part = |words: &Vec<reader::Word>| CommandPart {
        words: words
            .iter()
            .map(|word| PartWord {
                text: word.text.clone(),
                literal: word.is_literal(),
            })
            .collect(),
        ..CommandPart::default()
    };
    Ok(CommandParts {
        parts: commands.iter().map(part).collect(),
    })
}

/// Names that run text as code; refused always and in every spelling.
const CODE_RUNNERS: [&str; 4] = ["eval", "exec", "source", "."];

/// Decides whether a command line runs listed programs only.
///
/// ```
/// use halter_policy::ShellJudge;
///
/// let judge = ShellJudge::new(vec!["git".to_owned(), "ls".to_owned()]);
/// assert!(judge.check("git status && ls -l | ls").is_ok());
/// assert!(judge.check("git status; rm -rf /").is_err());
/// assert!(judge.check("git $(rm -rf /)").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct ShellJudge {
    allowed: Allowed,
}

/// The programs the user has listed.
#[derive(Debug, Clone)]
enum Allowed {
    Any,
    Listed(Vec<String>),
}

impl ShellJudge {
    /// A judge for a list of programs, each a name or an absolute path; `"*"`
    /// among them allows all.
    #[must_use]
    pub fn new(allowed: impl Into<ProgramList>) -> Self {
        let allowed = allowed.into().names().to_vec();
        let allowed = if allowed.iter().any(|entry| entry == "*") {
            Allowed::Any
        } else {
            Allowed::Listed(allowed)
        };
        Self { allowed }
    }

    /// Fails unless every program the command line would run is allowed.
    ///
    /// # Errors
    /// [`PolicyError::ShellCommandRejected`] with the fragment and the rule.
    pub fn check(&self, command: &str) -> Result<(), PolicyError> {
        self.judge(command).map_err(CommandRefusal::into_error)
    }

    /// Decides about a line: what it would run, not which files it names.
    #[must_use]
    pub fn decide(&self, command: &str) -> ShellDecision {
        match self.judge(command) {
            Ok(()) => ShellDecision::Allow,
            Err(refusal) => ShellDecision::Deny(ShellRefusal {
                rule: "shell.refused",
                fragment: shorten(&refusal.fragment),
                message: refusal.reason,
            }),
        }
    }

    fn judge(&self, command: &str) -> Result<(), CommandRefusal> {
        check_text(command)?;
        match &self.allowed {
            Allowed::Any => anything::check(command),
            Allowed::Listed(listed) => {
                let commands = reader::read(command)?;
                if syntax::flat_commands(command)? != reader::texts(&commands) {
                    return Err(CommandRefusal::new(
                        command,
                        "it can be read in more than one way; write it more plainly",
                    ));
                }
                let programs = programs::Programs::new(listed);
                commands.iter().try_for_each(|words| programs.check(words))
            }
        }
    }
}

/// A refusal on its way out.
#[derive(Debug)]
struct CommandRefusal {
    reason: String,
    fragment: String,
}

impl CommandRefusal {
    fn new(fragment: &str, reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            fragment: fragment.to_owned(),
        }
    }

    fn into_error(self) -> PolicyError {
        PolicyError::ShellCommandRejected {
            reason: self.reason,
            fragment: shorten(&self.fragment),
        }
    }
}

fn check_text(command: &str) -> Result<(), CommandRefusal> {
    if command.len() > MAX_COMMAND_BYTES {
        return Err(CommandRefusal::new(
            command,
            format!("the command is longer than {MAX_COMMAND_BYTES} bytes; write a script file"),
        ));
    }
    match command.chars().find(|character| is_control(*character)) {
        None => Ok(()),
        Some(character) => Err(CommandRefusal::new(
            &character.escape_default().to_string(),
            "the command holds a control character",
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
