//! The files a command line names, judged by the file door.
//!
//! What a variable holds cannot be known here, and neither can what a program
//! opens on its own: the sandbox is the wall behind this.

mod pattern;

use std::cell::{Cell, RefCell};
use std::path::{Component, Path, PathBuf};

use crate::door::FileDoor;
use crate::error::{Access, PolicyError};
use crate::limits::{MAX_NAMED_FILES, MAX_PATTERN_LINKS, MAX_PATTERN_NAMES};
use crate::permission::BEYOND_ROOTS;
use crate::policy::{BeyondRoots, beyond_message};
use crate::settings::SoftRoots;
use crate::shell::{
    CommandPart, PartWord, PathAccess, ShellDecision, ShellRefusal, Spelling, with_home,
};

use pattern::{Matching, NoMatches};

/// Streams and devices that hold nothing.
const STREAMS: [&str; 7] = [
    "/dev/null",
    "/dev/zero",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/dev/urandom",
];

/// What the files of a command line are judged by.
pub(crate) struct NamedFiles<'a> {
    pub(crate) door: &'a FileDoor,
    /// What `~` stands for.
    pub(crate) home: Option<&'a Path>,
    /// Where the line starts: the shell's directory, absolute or seen from the
    /// session's, which is the empty one.
    pub(crate) start: &'a Path,
    pub(crate) soft_roots: SoftRoots,
    /// Files beyond these roots that the line was found to change.
    pub(crate) changed_beyond: RefCell<Vec<ChangedBeyond>>,
}

/// A file beyond roots that nobody has set, which a command line changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedBeyond {
    pub(crate) file: BeyondRoots,
    /// Whether the file itself goes away, so that its directory changes.
    pub(crate) goes: bool,
}

impl ChangedBeyond {
    /// The directory that has to be open for that; never the root of all.
    pub(crate) fn directory(&self) -> Option<&Path> {
        let real = self.file.real.as_path();
        let from = if self.goes { real.parent()? } else { real };
        let directory = from.ancestors().find(|it| it.is_dir())?;
        directory.parent().map(|_| directory)
    }
}

/// What may still be looked at for one line.
struct Bounds {
    names_left: Cell<usize>,
    files_left: Cell<usize>,
}

/// An objection to a file.
type Objected = Result<(), ShellDecision>;

impl NamedFiles<'_> {
    /// The objection to a file, if there is one: a denial before a question.
    pub(crate) fn check(&self, parts: &[CommandPart]) -> Option<ShellDecision> {
        let bounds = Bounds {
            names_left: Cell::new(MAX_PATTERN_NAMES),
            files_left: Cell::new(MAX_NAMED_FILES),
        };
        let mut question = None;
        for part in parts {
            let named = part.paths.iter().map(|it| (&it.path, it.access));
            let redirected = part.redirections.iter().map(|it| (&it.target, it.access));
            let written = redirected
                .clone()
                .filter(|(_, access)| *access == PathAccess::Write)
                .filter_map(|(target, _)| self.check_target(target).err());
            let objections = named
                .chain(redirected)
                .filter_map(|(word, access)| self.check_word(part, word, access, &bounds).err());
            for objection in objections.chain(written) {
                match objection {
                    ShellDecision::Deny(_) => return Some(objection),
                    other => question = question.or(Some(other)),
                }
            }
        }
        question
    }

    /// What is written to has to be known.
    fn check_target(&self, target: &PartWord) -> Objected {
        match target.path.spelling(self.home) {
            Spelling::Partly(start, _) if !start.starts_with("/dev/fd/") => {
                let message = "which file this writes is not known before it runs; write the \
                               path out";
                Err(ask("shell.redirection_target", target, message))
            }
            _ => Ok(()),
        }
    }

    fn check_word(
        &self,
        part: &CommandPart,
        word: &PartWord,
        access: PathAccess,
        bounds: &Bounds,
    ) -> Objected {
        let spelling = word.path.spelling(self.home);
        let (text, relative) = match &spelling {
            Spelling::UnknownHome => {
                let message = "whose directory this is, is not known here; write the path out";
                return Err(ShellDecision::Deny(refusal("shell.home", word, message)));
            }
            Spelling::Exact(text) | Spelling::Pattern(text) | Spelling::Partly(text, _) => {
                (text.as_str(), !text.starts_with('/'))
            }
        };
        if STREAMS.contains(&text) || text.starts_with("/dev/fd/") {
            return Ok(());
        }
        let matching = Matching {
            door: self.door,
            names_left: &bounds.names_left,
        };
        for directory in self.directories(part) {
            let Some(left) = bounds.files_left.get().checked_sub(1) else {
                let message = "the line names more files than are looked up; name fewer at once";
                return Err(ask("shell.too_many_files", word, message));
            };
            bounds.files_left.set(left);
            let base = directory.as_path();
            match &spelling {
                Spelling::Exact(text) => self.judge(&base.join(text), access, word)?,
                Spelling::Pattern(text) => {
                    self.judge_pattern(&matching, base, text, access, word)?;
                }
                // Whatever follows, it starts in this directory; whatever
                // comes before, it may be a secret by its name.
                Spelling::Partly(start, end) => {
                    if let Some((directory, _)) = start.rsplit_once('/') {
                        let directory = base.join(format!("{directory}/"));
                        self.judge(&directory, PathAccess::List, word)?;
                    }
                    if let Some((_, name)) = end.split_once('/') {
                        self.judge_name(name, access, word)?;
                    }
                }
                Spelling::UnknownHome => {}
            }
        }
        let known = matches!(spelling, Spelling::Exact(_) | Spelling::Pattern(_));
        if part.directories.is_empty() && relative && (known || text.contains('/')) {
            let message = "in which directory this runs is not known before; write the path \
                           out, or `cd` to a directory that is written out";
            return Err(ask("shell.unknown_directory", word, message));
        }
        Ok(())
    }

    /// Where a part may run; where nobody knows, it is judged from the start.
    fn directories(&self, part: &CommandPart) -> Vec<PathBuf> {
        let known = part
            .directories
            .iter()
            .filter_map(|directory| with_home(directory, self.home))
            .map(|directory| self.start.join(directory));
        match part.directories.as_slice() {
            [] => vec![self.start.to_path_buf()],
            _ => known.collect(),
        }
    }

    fn judge_pattern(
        &self,
        matching: &Matching<'_>,
        base: &Path,
        pattern: &str,
        access: PathAccess,
        word: &PartWord,
    ) -> Objected {
        let too_many = || {
            let message = "it would have to be looked for among too many files; name a directory";
            ask("shell.pattern_too_wide", word, message)
        };
        let found = matching
            .files(base, pattern)
            .map_err(|reason| match reason {
                NoMatches::Closed(error) => self.refused(&error, access, word),
                NoMatches::TooMany => too_many(),
            })?;
        let mut links = 0;
        for file in found {
            if file.is_plain() {
                admitted(self.door, &file.path, access)
                    .map_err(|error| self.refused(&error, access, word))?;
                continue;
            }
            links += 1;
            if links > MAX_PATTERN_LINKS {
                return Err(too_many());
            }
            self.judge(&file.path, access, word)?;
        }
        Ok(())
    }

    /// A name in a directory that is not known.
    fn judge_name(&self, name: &str, access: PathAccess, word: &PartWord) -> Objected {
        let name = name.rsplit("../").next().unwrap_or(name);
        match admitted(self.door, Path::new(name), access) {
            Err(error @ PolicyError::SensitivePathDenied { .. }) => {
                Err(self.refused(&error, access, word))
            }
            _ => Ok(()),
        }
    }

    /// The path as spelled, and where its links lead.
    fn judge(&self, path: &Path, access: PathAccess, word: &PartWord) -> Objected {
        opened(self.door, path, access).or_else(|error| self.objection(&error, access, word))?;
        // The shell takes `..` for the parent of its name, programs for that of
        // the place a link leads to.
        if path.components().any(|part| part == Component::ParentDir) {
            let whole = self.door.working_dir().join(path);
            let real = self.door.leads_to(&whole);
            opened(self.door, &real, access)
                .or_else(|error| self.objection(&error, access, word))?;
        }
        Ok(())
    }
}

impl NamedFiles<'_> {
    /// A file that is missing, or that the system keeps closed, is the
    /// program's to report.
    fn objection(&self, error: &PolicyError, access: PathAccess, word: &PartWord) -> Objected {
        match error.is_denial() {
            true => Err(self.refused(error, access, word)),
            false => Ok(()),
        }
    }

    /// Beyond roots that nobody has set, a person is asked.
    fn refused(&self, error: &PolicyError, named: PathAccess, word: &PartWord) -> ShellDecision {
        let denied = |error: &PolicyError| {
            ShellDecision::Deny(refusal(error.rule(), word, error.to_string()))
        };
        match self.door.outside_roots(error) {
            Some((path, access)) if self.soft_roots.include(access) => {
                match self.door.beyond_roots(&path, access) {
                    Ok(real) => {
                        let message = beyond_message(&path, access);
                        let question = ask(BEYOND_ROOTS, word, &message);
                        if access == Access::Write {
                            let goes = named == PathAccess::Delete;
                            let file = BeyondRoots {
                                path,
                                access,
                                real,
                                message,
                            };
                            let changed = ChangedBeyond { file, goes };
                            self.changed_beyond.borrow_mut().push(changed);
                        }
                        question
                    }
                    Err(closed) => denied(&closed),
                }
            }
            _ => denied(error),
        }
    }
}

/// What the door says to a path as it is spelled.
fn admitted(door: &FileDoor, path: &Path, access: PathAccess) -> Result<(), PolicyError> {
    match access {
        PathAccess::Read | PathAccess::List => door.may_read(path),
        PathAccess::Write | PathAccess::Delete => door.may_write(path),
    }
}

/// What it says to the file there.
fn opened(door: &FileDoor, path: &Path, access: PathAccess) -> Result<(), PolicyError> {
    admitted(door, path, access)?;
    match access {
        PathAccess::Read => door.open_read(path).map(drop),
        PathAccess::List => door.open_dir(path).map(drop),
        PathAccess::Write => door.prepare_write(path).map(drop),
        PathAccess::Delete => door.prepare_delete(path).map(drop),
    }
}

fn ask(rule: &'static str, word: &PartWord, message: &str) -> ShellDecision {
    ShellDecision::Ask(refusal(rule, word, message))
}

fn refusal(rule: &'static str, word: &PartWord, message: impl Into<String>) -> ShellRefusal {
    ShellRefusal {
        rule,
        fragment: word.text.clone(),
        message: message.into(),
    }
}
