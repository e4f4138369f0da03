//! Which programs are listed, and what a line was found to run.

use std::cell::RefCell;
use std::ops::Range;

use super::argument::{Argument, value};
use super::known_programs::{KnownProgram, family, known};
use super::parts::{CommandPart, PartRedirection, PathAccess, PathUse};
use super::state::State;
use super::tree::{HereBody, RedirectKind, Simple};
use super::{
    CODE_RUNNERS, CommandRefusal, IN_PLACE, UNLISTED, destructive, open_arguments, paths, sed,
};
use crate::limits::MAX_WRAPPED_PROGRAMS;

/// The programs that may run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listed<'a> {
    /// Every program: nothing is refused that can be read.
    Any,
    /// The user's list.
    Set(&'a [String]),
    /// The built-in list, beyond which is asked.
    Soft(&'a [String]),
}

/// What a walk has found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) parts: Vec<CommandPart>,
    /// What a person has to decide.
    pub(super) asks: Vec<CommandRefusal>,
    /// Which of the parts are in the bodies of functions.
    functions: Vec<Range<usize>>,
    /// The line changes the directory somewhere.
    moves: bool,
    /// Files of the command being read.
    redirections: Vec<PartRedirection>,
    /// The programs around the command being checked.
    wrappers: Vec<String>,
    /// What the command being checked reads, where that is written in the
    /// line.
    input: Option<String>,
}

impl Findings {
    /// The findings of a whole line. A function may be called wherever the
    /// line goes.
    pub(super) fn finish(mut self) -> Self {
        if self.moves {
            for range in std::mem::take(&mut self.functions) {
                let parts = self.parts.get_mut(range).unwrap_or_default();
                parts.iter_mut().for_each(|part| part.directories.clear());
            }
        }
        self
    }
}

/// The judge of single commands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programs<'a> {
    listed: Listed<'a>,
    findings: &'a RefCell<Findings>,
}

impl<'a> Programs<'a> {
    pub(super) fn new(listed: Listed<'a>, findings: &'a RefCell<Findings>) -> Self {
        Self { listed, findings }
    }

    /// Notes a file that a stream of the next command is connected to.
    pub(super) fn redirection(self, kind: &RedirectKind, target: &Argument) {
        let access = match kind {
            RedirectKind::Read => PathAccess::Read,
            RedirectKind::Write
            | RedirectKind::Append
            | RedirectKind::Clobber
            | RedirectKind::ReadWrite
            | RedirectKind::Both
            | RedirectKind::BothAppend => PathAccess::Write,
            RedirectKind::DuplicateInput
            | RedirectKind::DuplicateOutput
            | RedirectKind::HereString
            | RedirectKind::HereDocument { .. } => return,
        };
        let target = target.as_part();
        let noted = PartRedirection { target, access };
        self.findings.borrow_mut().redirections.push(noted);
    }

    /// Notes redirections that belong to no simple command.
    pub(super) fn record_redirections(self, state: &State) {
        let mut findings = self.findings.borrow_mut();
        let redirections = std::mem::take(&mut findings.redirections);
        if !redirections.is_empty() {
            findings.parts.push(CommandPart {
                redirections,
                directories: state.directories.clone(),
                ..CommandPart::default()
            });
        }
    }

    /// Notes a command of the line.
    pub(super) fn record(self, simple: &Simple, arguments: &[Argument], state: &State) {
        let mut findings = self.findings.borrow_mut();
        findings.wrappers.clear();
        findings.input = input_text(simple, state);
        let redirections = std::mem::take(&mut findings.redirections);
        let assignments = simple.assignments.iter().map(|it| it.as_part(state));
        let part = CommandPart {
            words: arguments.iter().map(Argument::as_part).collect(),
            wrappers: Vec::new(),
            assignments: assignments.collect(),
            redirections,
            paths: paths::of(arguments),
            directories: state.directories.clone(),
            unclear: None,
        };
        findings.parts.push(part);
        findings.asks.extend(destructive::check(arguments));
    }

    /// Where the command that was noted last runs.
    pub(super) fn here(self) -> Vec<String> {
        let findings = self.findings.borrow();
        let last = findings.parts.last();
        last.map(|part| part.directories.clone())
            .unwrap_or_default()
    }

    /// Notes files that are named outside of a command.
    pub(super) fn record_paths(self, words: &[Argument], state: &State) {
        let paths = words.iter().map(|word| PathUse {
            path: word.as_part(),
            access: PathAccess::Read,
        });
        self.findings.borrow_mut().parts.push(CommandPart {
            paths: paths.collect(),
            directories: state.directories.clone(),
            ..CommandPart::default()
        });
    }

    /// How many commands have been noted so far.
    pub(super) fn recorded(self) -> usize {
        self.findings.borrow().parts.len()
    }

    /// The commands noted since are those of a function.
    pub(super) fn record_function(self, start: usize) {
        let end = self.recorded();
        self.findings.borrow_mut().functions.push(start..end);
    }

    /// The commands noted since run in directories that are found, so what
    /// they name could be anywhere; what is inserted for `{}` is there.
    pub(super) fn record_elsewhere(self, start: usize) {
        let mut findings = self.findings.borrow_mut();
        for part in findings.parts.get_mut(start..).unwrap_or_default() {
            let elsewhere = |used: &PathUse| !used.path.text.contains("{}");
            if part.paths.iter().any(elsewhere) {
                part.directories.clear();
            }
        }
    }

    /// Whether the line has changed its directory so far.
    pub(super) fn moves(self) -> bool {
        self.findings.borrow().moves
    }

    /// Notes that the shell changes its directory.
    pub(super) fn record_move(self) {
        self.findings.borrow_mut().moves = true;
    }

    /// Notes the command inside a wrapper.
    fn record_inner(self, arguments: &[Argument]) {
        let directories = self.here();
        let mut findings = self.findings.borrow_mut();
        let part = CommandPart {
            words: arguments.iter().map(Argument::as_part).collect(),
            wrappers: findings.wrappers.clone(),
            paths: paths::of(arguments),
            directories,
            ..CommandPart::default()
        };
        findings.parts.push(part);
        findings.asks.extend(destructive::check(arguments));
    }

    /// What the command being checked reads, if that is written in the line.
    pub(super) fn input(self) -> Option<Argument> {
        let text = self.findings.borrow().input.clone()?;
        Some(Argument {
            raw: text.clone(),
            text,
            ..Argument::default()
        })
    }

    /// The outcome of a check: where everything may run, a refusal is noted
    /// with the command.
    pub(super) fn settle(self, outcome: Result<(), CommandRefusal>) -> Result<(), CommandRefusal> {
        match (self.listed, outcome) {
            (Listed::Any, Err(refusal)) => {
                let refusal = refusal.into_public();
                if let Some(part) = self.findings.borrow_mut().parts.last_mut() {
                    part.unclear = Some(refusal);
                }
                Ok(())
            }
            (_, outcome) => outcome,
        }
    }

    /// Fails unless the command runs listed programs only.
    pub(super) fn check(self, words: &[Argument]) -> Result<(), CommandRefusal> {
        let Some((program, rest)) = words.split_first() else {
            return Ok(());
        };
        self.allow(program)?;
        if matches!(self.listed, Listed::Soft(_))
            && family(&program.text) == "sed"
            && sed::writes(rest)
        {
            let reason = "this writes files in place, while the built-in list allows sed to read; \
                          use the edit tool, or add sed to policy.shell.allow";
            let ask = CommandRefusal::of(IN_PLACE, "sed -i", reason);
            self.findings.borrow_mut().asks.push(ask);
        }
        let Some(known) = known(&program.text) else {
            return Ok(());
        };
        self.findings
            .borrow_mut()
            .wrappers
            .push(program.text.clone());
        let outcome = open_arguments::check(program, rest).and_then(|()| match known {
            KnownProgram::Opaque(reason) => {
                Err(CommandRefusal::of("shell.opaque", &program.text, reason))
            }
            KnownProgram::Options(options) => options.check(rest),
            KnownProgram::Checked(check) => check(self, rest),
        });
        self.findings.borrow_mut().wrappers.pop();
        match outcome {
            // Somebody is asked about this program, and sees what it is given.
            Err(refusal) if self.asks_about(&program.text) && is_about_arguments(&refusal) => {
                self.findings.borrow_mut().asks.push(refusal);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn asks_about(self, program: &str) -> bool {
        matches!(self.listed, Listed::Soft(_)) && !self.lists(program)
    }

    /// Checks the command inside a wrapper.
    pub(super) fn check_inner(self, words: &[Argument]) -> Result<(), CommandRefusal> {
        let depth = self.findings.borrow().wrappers.len();
        if depth > MAX_WRAPPED_PROGRAMS {
            let outermost = words.first().map_or("", |word| word.text.as_str());
            return Err(CommandRefusal::of(
                "shell.too_deep",
                outermost,
                "too many programs run one another",
            ));
        }
        self.record_inner(words);
        self.check(words)
    }

    /// Whether the list has exactly this name.
    pub(super) fn lists(self, name: &str) -> bool {
        match self.listed {
            Listed::Any => true,
            Listed::Set(names) | Listed::Soft(names) => names.iter().any(|entry| entry == name),
        }
    }

    /// Whether the list has this name, and not just every name.
    pub(super) fn names(self, name: &str) -> bool {
        !matches!(self.listed, Listed::Any) && self.lists(name)
    }

    /// Fails unless the program is listed; beyond the built-in list, asks.
    pub(super) fn allow(self, program: &Argument) -> Result<(), CommandRefusal> {
        let name = program.text.as_str();
        if !program.is_literal() {
            return Err(CommandRefusal::of(
                "shell.program_not_literal",
                &program.raw,
                "the name of a program must be literal; write it out",
            ));
        }
        if CODE_RUNNERS.contains(&name) {
            return Err(CommandRefusal::of(
                "shell.code",
                name,
                "`eval`, `exec`, `source` and `.` are never accepted; run the command itself",
            ));
        }
        let is_path = name.contains('/');
        match self.listed {
            Listed::Any => Ok(()),
            _ if self.lists(name) && (!is_path || name.starts_with('/')) => Ok(()),
            Listed::Set(names) => Err(unlisted(name, names)),
            Listed::Soft(_) => {
                let reason = "this program is not on the built-in list, so a person decides; \
                              permissions.allow or policy.shell.allow can name it";
                let question = CommandRefusal::of(UNLISTED, name, reason);
                self.findings.borrow_mut().asks.push(question);
                Ok(())
            }
        }
    }
}

/// Whether it is the arguments of a known program that are refused, and not
/// code, an unreadable line or a variable.
fn is_about_arguments(refusal: &CommandRefusal) -> bool {
    ["shell.argument", "shell.opaque", "shell.open_argument"].contains(&refusal.rule)
}

/// The text of the one here-document or here-string a command reads.
fn input_text(simple: &Simple, state: &State) -> Option<String> {
    let inputs = simple.redirects.iter().filter(|it| {
        let writes = matches!(
            it.kind,
            RedirectKind::Write
                | RedirectKind::Append
                | RedirectKind::Clobber
                | RedirectKind::Both
                | RedirectKind::BothAppend
                | RedirectKind::DuplicateOutput
        );
        it.stream == Some(0) || (it.stream.is_none() && !writes)
    });
    let [input] = inputs.collect::<Vec<_>>()[..] else {
        return None;
    };
    let word = match &input.kind {
        RedirectKind::HereDocument { body, .. } => match body {
            HereBody::Literal(text) => return Some(text.clone()),
            HereBody::Expanded(word) => word,
        },
        RedirectKind::HereString => &input.target,
        _ => return None,
    };
    let text = value(word, state);
    text.is_literal().then_some(text.text)
}

fn unlisted(name: &str, names: &[String]) -> CommandRefusal {
    let allowed = match names {
        [] => "no program is allowed".to_owned(),
        names if names.len() > 12 => "it is not on your list".to_owned(),
        names => format!("allowed are {}", names.join(", ")),
    };
    let remedy = if name.contains('/') {
        "a program named by a path must be listed by that absolute path in policy.shell.allow"
    } else {
        "add it to policy.shell.allow to allow it"
    };
    let reason = format!("this program is not allowed ({allowed}); {remedy}");
    CommandRefusal::of(UNLISTED, name, reason)
}
